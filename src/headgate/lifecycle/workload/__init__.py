"""What is the next step of a Kueue Workload, and which status does it write?

To add a reason for a step: a rule in `next_step` and its place in RULES
(tests/lifecycle/test_quota_transitions.py). To change what a reservation, an admission check or an eviction writes:
`admission`, `eviction`. To change what keeps a Workload out of its queue: `queue_snapshot`. To change
when time alone matters: `deadlines`. `conditions` names the conditions and builds every edit of a status.
"""
