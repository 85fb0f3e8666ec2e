"""Random worlds of queues as manifests: little is free and much is wanted, so most must borrow, preempt or wait."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

Manifest = dict[str, Any]

NAMESPACE = "default"
GPU = "amd.com/gpu"
UNKNOWN = "aa.example/nothing"  # to all queues
"""Kueue takes resources in the order of a hash of their names, we by name. It shows in what a workload is told that
fits in neither of two groups. These names are in the same order both ways."""
UNITS = {"cpu": "", "memory": "Gi", GPU: "", "pods": ""}
STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
FAIRNESS = (None, None, list(STRATEGIES), [STRATEGIES[0]], [STRATEGIES[1]])
COHORTS = ("a", "b", "c", "d", "e")
COLOR = "color"  # of nodes
SEARCHES = ("MayStopSearch", "TryNextFlavor")
EPOCH = 900_000  # seconds; all workloads are created after


def moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def random_world(seed: int, borrowing_limits: bool = True) -> Manifest:
    """A world for the oracle, in which no two workloads were created at the same time.

    Without `borrowing_limits`, quota may have been taken away after it was given: a queue that has more than its limit
    makes Kueue set less than nothing aside for it, which puts its sums in disorder.

    Where there are flavors to choose from it restarts between rounds: Kueue tries whoever waits again and again, each
    time with the next flavor, so that which one it is at when something changes is a matter of timing.
    """
    return _Maker(Random(seed), borrowing_limits).world()


class _Maker:
    def __init__(self, dice: Random, borrowing_limits: bool) -> None:
        self._dice = dice
        self._borrowing_limits = borrowing_limits
        self._peaceful = dice.random() < 0.1
        self._groups = self._resource_groups()
        self._cohorts = COHORTS[: dice.choice((0, 1, 2, 3, 5))]
        self._created = dice.sample(range(EPOCH, EPOCH + 200), 200)

    def world(self) -> Manifest:
        dice = self._dice
        cohorts = [self._cohort(index) for index in range(len(self._cohorts)) if dice.random() < 0.7]
        queues = [self._queue(f"q{index}") for index in range(dice.choice((1, 2, 3, 4, 5, 6)))]
        holders = [self._holder(f"held-{index}", dice.choice(queues)) for index in range(dice.choice((0, 12, 25, 40)))]
        waiting = [self._workload(f"wait-{index}", dice.choice(queues)) for index in range(dice.choice((3, 6, 12)))]
        return {
            "restarts": any(len(flavors) > 1 for _, flavors in self._groups),
            "fair": dice.choice(FAIRNESS),
            "flavors": [self._flavor(name) for _, flavors in self._groups for name in flavors],
            "cohorts": cohorts,
            "queues": queues,
            "workloads": [*(one for one in holders if one), *waiting],
        }

    def _resource_groups(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """What there is in any world: resources that go together, and the flavors they come in."""
        dice = self._dice
        first = ("cpu", "memory", "pods")[: dice.choice((1, 1, 1, 1, 2, 3))]
        groups = [(first, ("one", "two", "three")[: dice.choice((1, 2, 2, 3))])]
        if dice.random() < 0.25:
            groups.append(((GPU,), ("red", "blue")[: dice.choice((1, 2))]))
        return groups

    def _flavor(self, name: str) -> Manifest:
        spec: Manifest = {}
        if self._dice.random() < 0.3:
            spec["nodeLabels"] = {COLOR: name}
        if self._dice.random() < 0.1:
            spec["nodeTaints"] = [{"key": "reserved", "value": name, "effect": "NoSchedule"}]
        return {"metadata": {"name": name, "uid": name}, "spec": spec}

    def _cohort(self, index: int) -> Manifest:
        """It hangs below one before it in the alphabet, or is a root."""
        dice = self._dice
        parent = dice.choice(self._cohorts[:index]) if index and dice.random() < 0.7 else ""
        spec: Manifest = {"parentName": parent} if parent else {}
        if dice.random() < 0.3:
            spec["resourceGroups"] = [self._quotas(group, bool(parent), lends_more=True) for group in self._groups]
        self._weigh(spec)
        return {"metadata": {"name": self._cohorts[index], "uid": self._cohorts[index]}, "spec": spec}

    def _queue(self, name: str) -> Manifest:
        dice = self._dice
        above = dice.choice((*self._cohorts, *self._cohorts, ""))
        groups = [
            self._quotas(group, bool(above)) for group in self._groups if group[0][0] == "cpu" or dice.random() < 0.8
        ]
        spec: Manifest = {
            "resourceGroups": groups,
            "queueingStrategy": dice.choice(("StrictFIFO", "BestEffortFIFO", "BestEffortFIFO")),
            "namespaceSelector": {},
            "flavorFungibility": self._fungibility(alone=all(len(each["coveredResources"]) == 1 for each in groups)),
            "preemption": self._preemption(),
        }
        if above:
            spec["cohortName"] = above
        self._weigh(spec)
        return {"metadata": {"name": name, "uid": name}, "spec": spec}

    def _weigh(self, spec: Manifest) -> None:
        weight = self._dice.choice((None, None, "1", "0", "500m", "2"))
        if weight is not None:
            spec["fairSharing"] = {"weight": weight}

    def _fungibility(self, alone: bool) -> Manifest:
        """Kueue takes a flavor in which one resource borrows and another must preempt for one that fits, if preempting
        is preferred to borrowing; what got such a flavor never goes anywhere. So that preference is for resources that
        are `alone` in their groups.
        """
        borrow, preempt = self._dice.choice(SEARCHES), self._dice.choice(SEARCHES)
        chosen = {"whenCanBorrow": borrow, "whenCanPreempt": preempt}
        if borrow == preempt == "TryNextFlavor" and self._dice.random() < 0.8:
            chosen["preference"] = "PreemptionOverBorrowing" if alone else "BorrowingOverPreemption"
        return chosen

    def _preemption(self) -> Manifest:
        dice = self._dice
        if self._peaceful:
            return {
                "withinClusterQueue": "Never",
                "reclaimWithinCohort": "Never",
                "borrowWithinCohort": {"policy": "Never"},
            }
        reclaim = dice.choice(("Never", "LowerPriority", "Any", "Any"))
        borrow: Manifest = {"policy": "Never"}
        if reclaim != "Never" and dice.random() < 0.5:
            borrow = {"policy": "LowerPriority"}
            if dice.random() < 0.5:
                borrow["maxPriorityThreshold"] = dice.choice((0, 1, 2))
        within = dice.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority"))
        return {"withinClusterQueue": within, "reclaimWithinCohort": reclaim, "borrowWithinCohort": borrow}

    def _quotas(
        self, group: tuple[tuple[str, ...], tuple[str, ...]], limited: bool, lends_more: bool = False
    ) -> Manifest:
        resources, flavors = group
        chosen = flavors if self._dice.random() < 0.7 else flavors[: self._dice.randint(1, len(flavors))]
        return {
            "coveredResources": list(resources),
            "flavors": [
                {"name": name, "resources": [self._quota(resource, limited, lends_more) for resource in resources]}
                for name in chosen
            ],
        }

    def _quota(self, resource: str, limited: bool, lends_more: bool) -> Manifest:
        dice = self._dice
        # Kueue leaves the number of pods out when it looks for victims, and then has too few of them for ever.
        plenty = resource == "pods" and not self._peaceful
        nominal = 100 if plenty else dice.choice((0, 3, 4, 4, 6, 6, 8))
        quota: Manifest = {"name": resource, "nominalQuota": f"{nominal}{UNITS[resource]}"}
        if limited and self._borrowing_limits and dice.random() < 0.35:
            quota["borrowingLimit"] = f"{dice.choice((0, 1, 2, 4))}{UNITS[resource]}"
        if limited and dice.random() < 0.35:
            quota["lendingLimit"] = f"{dice.randint(0, nominal + 2 * lends_more)}{UNITS[resource]}"
        return quota

    def _workload(self, name: str, queue: Manifest) -> Manifest:
        dice = self._dice
        sets = [self._pod_set(f"set-{index}", queue) for index in range(dice.choice((1, 1, 1, 1, 2, 3)))]
        if dice.random() < 0.3:
            shrinking = dice.choice(sets)
            shrinking["minCount"] = dice.randint(1, shrinking["count"])
        return {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"{dice.randrange(10**6):06}-{name}",
                "creationTimestamp": moment(self._created.pop()),
                "generation": 1,
            },
            "spec": {
                "queueName": queue["metadata"]["name"],
                "priority": dice.randint(0, 3),
                "active": True,
                "podSets": sets,
            },
            "status": {},
        }

    def _pod_set(self, name: str, queue: Manifest) -> Manifest:
        dice = self._dice
        covered = [one for group in queue["spec"]["resourceGroups"] for one in group["coveredResources"]]
        asked = {one: f"{dice.choice((1, 1, 1, 1, 2, 3))}{UNITS[one]}" for one in covered if one != "pods"}
        if len(asked) > 1 and dice.random() < 0.2:
            del asked[dice.choice(sorted(asked))]
        if dice.random() < 0.02:
            asked[UNKNOWN] = dice.choice(("0", "1"))
        spec: Manifest = {"containers": [{"name": "main", "image": "none", "resources": {"requests": asked}}]}
        if dice.random() < 0.08:
            spec["nodeSelector"] = {COLOR: dice.choice(("one", "two", "red"))}
        if dice.random() < 0.04:
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": self._affinity()}}
        if dice.random() < 0.5:
            spec["tolerations"] = [{"key": "reserved", "operator": "Exists"}]
        return {"name": name, "count": dice.choice((1, 1, 1, 1, 2, 4)), "template": {"spec": spec}}

    def _affinity(self) -> Manifest:
        """Two alternatives, one of which may be about something that no flavor has."""
        key = self._dice.choice((COLOR, COLOR, "zone"))
        wanted = [
            {"key": COLOR, "operator": self._dice.choice(("In", "NotIn")), "values": ["one", "red"]},
            {"key": key, "operator": "In", "values": ["three"]},
        ]
        return {"nodeSelectorTerms": [{"matchExpressions": [each]} for each in wanted]}

    def _holder(self, name: str, queue: Manifest) -> Manifest:
        """It got its quota of one flavor in each group, whatever its pods say about nodes."""
        dice = self._dice
        held = self._workload(name, queue)
        flavors = {
            resource: flavor
            for group in queue["spec"]["resourceGroups"]
            for flavor in [dice.choice(group["flavors"])["name"]]
            for resource in group["coveredResources"]
        }
        assigned = [_assignment(each, flavors) for each in held["spec"]["podSets"]]
        at = moment(EPOCH + 300 + dice.randint(0, 5))
        held["status"] = {
            "admission": {"clusterQueue": queue["metadata"]["name"], "podSetAssignments": assigned},
            "conditions": [_condition("QuotaReserved", at), _condition("Admitted", at)],
        }
        if dice.random() < 0.06:
            done = dice.choice(held["spec"]["podSets"])
            held["status"]["reclaimablePods"] = [{"name": done["name"], "count": dice.randint(1, done["count"])}]
        if dice.random() < 0.12:
            held["status"]["conditions"].append(_condition("Evicted", moment(EPOCH + 400), "Preempted"))
        return held


def with_gates(world: Manifest, dice: Random) -> Manifest:
    """The world with preemption gates on most of the workloads that wait; some of them are open."""
    return {**world, "workloads": [_with_gates(each, dice) for each in world["workloads"]]}


def _with_gates(workload: Manifest, dice: Random) -> Manifest:
    if "admission" in workload.get("status", {}) or dice.random() < 0.2:
        return workload
    names = ["example.com/a", "example.com/b"][: dice.choice((1, 1, 2))]
    states = [
        {"name": name, "position": dice.choice(("Open", "Open", "Closed")), "lastTransitionTime": moment(0)}
        for name in names
        if dice.random() < 0.5
    ]
    spec = {**workload["spec"], "preemptionGates": [{"name": name} for name in names]}
    return {**workload, "spec": spec, "status": {**workload.get("status", {}), "preemptionGates": states}}


def _assignment(pod_set: Manifest, flavors: dict[str, str]) -> Manifest:
    asked = dict(pod_set["template"]["spec"]["containers"][0]["resources"]["requests"])
    if "pods" in flavors:
        asked["pods"] = "1"
    count = pod_set["count"]
    usage = {one: f"{int(amount.rstrip('Gi')) * count}{UNITS[one]}" for one, amount in asked.items() if one in flavors}
    return {
        "name": pod_set["name"],
        "count": count,
        "flavors": {one: flavors[one] for one in usage},
        "resourceUsage": usage,
    }


def _condition(kind: str, at: str, reason: str = "") -> Manifest:
    return {"type": kind, "status": "True", "reason": reason or kind, "message": "", "lastTransitionTime": at}
