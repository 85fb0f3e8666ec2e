"""A circle of four preemptions: Kueue's own scheduler goes round for ever, ours comes to rest on the way."""

from __future__ import annotations

import pytest
from kueue_oracle import GATES, their_answers
from kueue_worlds import EPOCH, NAMESPACE, Manifest, moment
from our_decisions import OurWorld

ROUNDS, CYCLES = 20, 60
HELD = ("big-left", "big-right", "grows")
WORKLOADS = {
    "grows": ("right", 100, 2),
    "big-left": ("left", 1000, 4),
    "small-right": ("right", 10, 1),
    "wants-more": ("left", 100, 2),
    "big-right": ("right", 1000, 4),
    "small-left": ("left", 10, 1),
    "alike": ("right", 100, 2),
}


def queue(name: str) -> Manifest:
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "5"}]}
    spec = {
        "cohortName": "both",
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
    }
    return {"metadata": {"name": name, "uid": name}, "spec": spec}


def workload(name: str, created: int) -> Manifest:
    home, priority, count = WORKLOADS[name]
    asked = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pods = {"name": "main", "count": count, "template": {"spec": {"containers": [asked]}}}
    given = {"name": "main", "count": count, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": str(count)}}
    told = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
    held = {
        "admission": {"clusterQueue": home, "podSetAssignments": [given]},
        "conditions": [{**told, "lastTransitionTime": moment(created)}],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": name,
            "creationTimestamp": moment(created),
            "generation": 1,
        },
        "spec": {"queueName": home, "priority": priority, "active": True, "podSets": [pods]},
        "status": held if name in HELD else {},
    }


def world() -> Manifest:
    return {
        "restarts": False,
        "fair": None,
        "flavors": [{"metadata": {"name": "default", "uid": "default"}, "spec": {}}],
        "cohorts": [],
        "queues": [queue("left"), queue("right")],
        "workloads": [workload(name, EPOCH + index) for index, name in enumerate(WORKLOADS)],
    }


@pytest.mark.parametrize("preemptor_first", [True, False], ids=["preemptors first", "as Kueue is by default"])
def test_kueue_preempts_in_every_round_however_many_there_are(monkeypatch, preemptor_first):
    monkeypatch.setitem(GATES, "PrioritizePreemptorWorkloads", preemptor_first)
    (answer,) = their_answers([world()], ROUNDS, CYCLES)
    assert all(any(head.get("victims") for cycle in cycles for head in cycle["outcomes"]) for cycles in answer)


def test_ours_does_the_same_and_stops_before_the_circle_is_closed():
    ours, preempted, withheld = OurWorld(world()), [], []
    for _ in range(ROUNDS):
        while outcomes := ours.cycle():
            for name, told in outcomes.items():
                preempted += [(name, victim) for victim in told.get("victims", {})]
                withheld += [name] if "withheld" in told.get("message", "") else []
        ours.next_round()
    assert preempted == [
        ("small-left", "grows"),
        ("wants-more", "small-left"),
        ("small-right", "wants-more"),
    ]
    assert set(withheld) == {"grows"}
    held = sorted(one.key.name for name in ("left", "right") for one in ours.ledger.reservations(name))
    assert held == ["big-left", "big-right", "small-left", "small-right"]
