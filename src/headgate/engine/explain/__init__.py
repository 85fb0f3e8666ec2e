"""Why is a workload pending, who holds the quota, and which minimal change would admit it?

`snapshot` is the cluster as it was read, `workload.explain` the answer about one workload (with the answers of worker
clusters). `state` covers all that
comes before quota (a new blocker is one more rule there), `what_if` decides as the engine would, also after a change,
`limits` finds the limiting quota and its holders, `minimal_changes` what would admit the workload (a new kind of change
is a value in `explanation` with its sentence, and a function in the list). Nothing here writes.

Tests: `tests/engine/test_explain_verdicts.py`, `tests/quota/test_explain_*.py`, `tests/scenarios/test_explain_*.py`.
"""
