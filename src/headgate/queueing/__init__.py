"""Which pod is tried next? The scheduling queue, with kube-scheduler's four queues and event-driven wake-ups.

`queue` has the entries, their order, equivalence classes and moves between queues; `backoff` the delays. A change of
order is one of `QueuedPodInfo.order`; of what wakes whom, of `PodQueue.wake`. Look at tests/queueing/test_pod_queue.py.
"""
