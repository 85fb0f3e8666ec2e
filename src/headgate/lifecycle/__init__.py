"""What becomes of a Workload, of the job it stands for, and of the pods that are being deleted.

* `workload`: the conditions of a Kueue Workload and the next step of its life.
* `jobframework`: one adapter for each kind of job, and the reconciler between a job and its Workload.
* `terminating`: what pods that are being deleted still hold: quota, capacity and whoever waits for it.

All are pure functions and values; `engine.quota` and `engine.integrations` keep the state.
"""
