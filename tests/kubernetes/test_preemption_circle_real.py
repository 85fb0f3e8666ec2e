"""Workloads that would preempt each other in circles come to rest, on a real server as well."""

from __future__ import annotations

from children import eventually
from test_queues_real import Scene, config, scene

__all__ = ["config", "scene"]

QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NS-HOME}
spec:
  cohortName: NS-both
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: NS-flavor, resources: [{name: cpu, nominalQuota: 5}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: HOME, namespace: NS}
spec: {clusterQueue: NS-HOME}
"""
WORKLOAD = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: NAME, namespace: NS}
spec:
  queueName: HOME
  priority: RANK
  podSets:
  - name: main
    count: SIZE
    template:
      spec:
        restartPolicy: Never
        containers: [{name: c, image: registry.example/none, resources: {requests: {cpu: "1"}}}]
"""
ONE_BY_ONE = (
    ("big-left", "left", 1000, 4),
    ("big-right", "right", 1000, 4),
    ("grows", "right", 100, 2),
    ("small-right", "right", 10, 1),
    ("wants-more", "left", 100, 2),
    ("small-left", "left", 10, 1),
    ("alike", "right", 100, 2),
)
KIND = "workloads.kueue.x-k8s.io"


def holders(scene: Scene) -> set[str]:
    return set(scene.get(KIND, "--output=jsonpath={.items[?(@.status.admission)].metadata.name}").split())


def evictions(scene: Scene) -> list[int]:
    return list(map(int, scene.get(KIND, "--output=jsonpath={.items[*]..evictions[*].count}").split()))


async def test_they_come_to_rest_after_a_few_evictions(scene: Scene) -> None:
    for home in ("left", "right"):
        scene.apply(QUEUE, HOME=home)
    for name, home, priority, size in ONE_BY_ONE:
        scene.apply(WORKLOAD, NAME=name, HOME=home, RANK=str(priority), SIZE=str(size))
        eventually(
            f"{name} is decided about",
            lambda name=name: (
                "QuotaReserved" in scene.get(KIND, name, "--output=jsonpath={.status.conditions[*].type}")
            ),
        )
    at_rest = {"big-left", "big-right", "small-left", "small-right"}
    eventually("those hold quota who need not borrow", lambda: holders(scene) == at_rest)
    scene.apply(QUEUE.replace("NS-both", "NS-alone"), HOME="apart")
    scene.apply(WORKLOAD, NAME="apart", HOME="apart", RANK="0", SIZE="1")
    eventually("others are decided about", lambda: "apart" in holders(scene))
    assert holders(scene) == {*at_rest, "apart"}
    assert sum(evictions(scene)) <= 6, "each of the circle was evicted once or twice"
