"""How does a job of any kind get its Workload, start, stop and end?

To support another kind: one adapter that implements `generic_job.GenericJob`, as `job`, `pod`, `pod_group` and
`stateful_set` do, and its place in `engine.integrations.job_index`. To change what happens to all kinds:
`reconciler` (which writes, in which order) and `job_workload` (the Workload that is created, and what its status says
of its job). `pod_writes` is what is written to a single pod, and what it is given when it starts. Tests:
tests/lifecycle/test_integration_*.py and tests/engine/test_integrations_*.py.
"""
