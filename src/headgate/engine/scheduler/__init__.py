"""Which node does a pod get, and which pods are preempted for it? The scheduler plane, by stages.

A pod passes the stages in this order; `plane` owns them and holds nothing else:

* `absorb`: an observation brings `cache`, the queue (`queueing.queue`) and all assumptions up to date.
* `pre_enqueue`: a plugin gates the pod, or it enters the queue; members of a gang enter as one (`gangs`, `groups`).
* `choose`: takes the next gang, or equal pods, from the queue.
* `capacity`: stages that may say "not now, because", such as `queue_capacity` of Volcano's queues with `queue_gates`.
* `place`: finds nodes, after `resolving` what the pods name.
* `bind`: reserves, assumes and binds; or `post_filter` finds whom to preempt and `preempt` nominates, marks and evicts.

Every decision is a journal entry; conditions and events are rendered from it (`events`, with the metrics). `statuses`
writes what pod groups and queues of Volcano show.

To change it: a Filter, Score, Reserve or Bind plugin goes into the list in `plugins` (tests/placement); a limit that is
not a node's is a capacity stage, listed in `plane` (tests/engine/test_capacity_stages.py); what a binder does besides
binding, `plugins.Binder` (test_bind_stage.py); when failed writes are sent again, `engine.in_flight`
(test_preempting_in_trouble.py); a further kind of object, `cache` (test_pod_scheduling.py); the order of evictions,
`preempt` (test_preempting.py); what a group is, `groups` (test_gangs.py). Whatever changes, nothing may be kept of what
is gone (test_scheduler_memory.py) and the decision is that of a fresh process on the same state (test_histories.py).
"""
