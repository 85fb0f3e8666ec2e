"""Does a workload fit the quota of its queue? The arithmetic of quota, without clock, objects or I/O.

Where to change what:

* the cohort tree, borrowing and lending: `tree` (tests/quota/test_quota_tree.py);
* ClusterQueues and Cohorts as such a tree, and who holds quota, with trials that are taken back: `ledger`;
* preemption without circles: `allocations`;
* what a workload requests, after limit ranges, overheads and transformations: `requests`;
* a pending workload, its order and equivalence class: `pending_workload`;
* the queue of one ClusterQueue, and requeueing: `pending_queue`; all of them: `pending_queues` (test_quota_queues.py);
* flavor assignment: `flavors` (test_quota_flavors.py); shares, turns and decay of usage: `fair_sharing`;
* what users read: `messages`.

`tests/quota/test_quota_oracle.py` compares decisions with a plain implementation, `tests/kueue` with Kueue itself.
"""
