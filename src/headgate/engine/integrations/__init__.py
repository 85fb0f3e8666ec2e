"""Which jobs and pods wait for quota, and when do they start, stop and end as their Workloads say?

`plane` is the loop over jobs that something happened to; the rules are in `headgate.lifecycle.jobframework`. To
support another kind of job: its adapter there and its place in `job_index`. To change how writes are sent and
confirmed: `writes`. To change what terminating pods owe, and how a ClusterQueue shows it: `debt`. To change which
admitted jobs are held back for them: `hold_plan`, which places pods on `node_capacity`; `debt_and_holds` keeps both.
`failure_recovery` removes pods of unreachable nodes. Tests: tests/engine/test_integrations_*.py, test_hold_plan.py,
test_node_room.py, and tests/scenarios/test_quota_scenarios.py for whole stories.
"""
