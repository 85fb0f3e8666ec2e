"""Which workloads hold quota of which queues: the quota plane of the engine.

`plane` takes observations and yields writes. Where to change what:

* all that is known of a workload, with its in-flight write, refusal and deadline: `workload_records`
  (test_quota_workload_records.py);
* reservations, pending queues and usage as workloads change: `cache`, `queue_usage`;
* queues, flavors, checks, namespaces and limit ranges: `object_cache`, `activity` (test_quota_object_cache.py);
* one admission cycle, a pure function of a snapshot: `admission_cycle` (tests/quota/test_admission_cycle.py);
* what follows from its outcomes: `admission_loop`; journal entries and events: `events`;
* usage-based fair sharing: `consumption`; statuses of queues: `statuses`; finalizers: `finalizers`;
* counters and histograms: `metrics`; gauges, computed at scrape time: `gauges`.

The arithmetic of quota is in `headgate.quota`, the search for victims in `headgate.preemption.quota`, the transitions
of a workload's conditions in `headgate.lifecycle`. What is kept by name or shape goes with its last
user (test_quota_memory.py), but for `lru_cache`s of pure functions, which are bounded and name the benchmark that pays.
"""
