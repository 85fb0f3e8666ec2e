"""What do pods that are being deleted still hold?

`activity` says how long they hold quota, `debt` what they take on their nodes once their quota is released, `holds`
what an admitted Workload shows while it waits for them. Tests: tests/lifecycle/test_integration_activity.py,
test_integration_debt.py and test_holds.py.
"""
