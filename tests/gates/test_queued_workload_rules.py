"""What an admission webhook must refuse about queued workloads and how they change."""

from __future__ import annotations

from typing import Any

import pytest
from builders import kueue_workload

from headgate.gates.queues import (
    pod_set_change_errors,
    template_errors,
    workload_change_errors,
    workload_errors,
)
from headgate.model.keys import Condition, Key, Kind
from headgate.model.pod import PodShape
from headgate.model.queues import (
    Admission,
    CheckState,
    CheckStatus,
    PodSet,
    PodSetAssignment,
    QueuedWorkload,
)
from headgate.model.resources import Resources

BOOST, GATED = "kueue.x-k8s.io/priority-boost", "kueue.x-k8s.io/admission-gated-by"
RESERVED = (Condition("QuotaReserved", "True", "QuotaReserved", "", 0.0),)
EVICTED = (Condition("QuotaReserved", "False", "PendingEvaluation", "", 0.0),)
ASSIGNMENT = "status.admission.podSetAssignments[0]"
UPDATES = "status.admissionChecks[0].podSetUpdates"


def pod_set(name: str = "main", count: int = 4, min_count: int | None = None) -> PodSet:
    return PodSet(name, PodShape(), count, min_count)


def workload(*pod_sets: PodSet, **fields: Any) -> QueuedWorkload:
    return kueue_workload(Key(Kind.KUEUE_WORKLOAD, "d", "w"), "u", "1", 0.0, pod_sets or (pod_set(),), **fields)


def admitted(name: str = "main", count: int = 4, queue: str = "cq", **usage: int) -> dict[str, Any]:
    given = PodSetAssignment(name, (), Resources.of(usage), count)
    return {"admission": Admission(queue, (given,)), "conditions": RESERVED}


def check(updates: str, state: CheckState = CheckState.READY, name: str = "a") -> tuple[CheckStatus, ...]:
    return (CheckStatus(name, state, updates=updates.encode()),)


def annotated(**annotations: str) -> dict[str, Any]:
    names = {"boost": BOOST, "gated": GATED}
    gated = tuple(name for name in annotations.get("gated", "").split(",") if name)
    return {"annotations": {names[name]: text for name, text in annotations.items()}, "gated_by": gated}


@pytest.mark.parametrize(
    "given, errors",
    [
        pytest.param(workload(), [], id="a plain one"),
        pytest.param(workload(pod_set(min_count=2), pod_set("b")), [], id="one pod set that may start with fewer"),
        pytest.param(
            workload(pod_set(min_count=2), pod_set("b", min_count=1)),
            ["spec.podSets: Invalid value: 2: at most one podSet can use minCount"],
            id="two pod sets that may start with fewer",
        ),
        pytest.param(
            workload(conditions=RESERVED),
            ["status.admission: Required value: must be set while QuotaReserved is True"],
            id="quota that is reserved nowhere",
        ),
        pytest.param(workload(conditions=EVICTED), [], id="no quota, no admission"),
        pytest.param(workload(**admitted(cpu=4000)), [], id="quota for four pods"),
        pytest.param(
            workload(**admitted("other")), [f'{ASSIGNMENT}.name: Not found: "other"'], id="quota for unknown pods"
        ),
        pytest.param(
            workload(**admitted(cpu=1502, memory=8)),
            [f'{ASSIGNMENT}.resourceUsage[cpu]: Invalid value: "1502m": is not a multiple of 4'],
            id="quota for four pods that are not alike",
        ),
        pytest.param(workload(**admitted(count=0, cpu=1)), [], id="quota for no pods"),
        pytest.param(workload(reclaimable=(("main", 4),)), [], id="all pods are done"),
        pytest.param(
            workload(reclaimable=(("main", 5),)),
            ["status.reclaimablePods[main].count: Invalid value: 5: should be less or equal to 4"],
            id="more pods are done than there are",
        ),
        pytest.param(
            workload(pod_set("b"), pod_set("a"), reclaimable=(("c", 1),)),
            ['status.reclaimablePods[c].name: Unsupported value: "c": supported values: "a", "b"'],
            id="unknown pods are done",
        ),
        pytest.param(workload(checks=check('[{"name":"main"}]')), [], id="a check adds to pods"),
        pytest.param(
            workload(checks=check('[{"name":"main"},{"name":"other"}]')),
            [f'{UPDATES}[1].name: Unsupported value: "other": supported values: "main"'],
            id="a check adds to unknown pods",
        ),
        pytest.param(workload(**annotated(boost="-2147483648")), [], id="a boost of the lowest number"),
        pytest.param(
            workload(**annotated(boost="2147483648")),
            [f'metadata.annotations[{BOOST}]: Invalid value: "2147483648": must be a whole number of 32 bits'],
            id="a boost beyond all numbers",
        ),
        pytest.param(
            workload(**annotated(boost="")),
            [f'metadata.annotations[{BOOST}]: Invalid value: "": must be a whole number of 32 bits'],
            id="a boost of nothing",
        ),
        pytest.param(workload(**annotated(gated="a.b/c,x.y/z%20/1")), [], id="two controllers hold it back"),
        pytest.param(
            workload(**annotated(gated="a.b/c,plain")),
            [
                f'metadata.annotations[{GATED}]: Invalid value: "plain": must be a domain, a slash and a path, '
                "such as example.com/mygate"
            ],
            id="a controller without a domain",
        ),
        pytest.param(
            workload(**annotated(gated="a.b/c d")),
            [
                f'metadata.annotations[{GATED}]: Invalid value: "a.b/c d": must be a domain, a slash and a path, '
                "such as example.com/mygate"
            ],
            id="a controller with a blank",
        ),
    ],
)
def test_a_workload_as_it_is(given, errors):
    assert [str(error) for error in workload_errors(given)] == errors


def test_a_controller_with_a_bad_domain():
    (error,) = workload_errors(workload(**annotated(gated="A.b/c")))
    assert error.path == f"metadata.annotations[{GATED}]"
    assert "a lowercase RFC 1123 subdomain must consist of" in error.message


DONE, UNDONE = {"reclaimable": (("main", 2),)}, {"reclaimable": (("main", 1),)}
ADDED = f'metadata.annotations[{GATED}]: Invalid value: "a.b/c": may not be added to an existing workload'


@pytest.mark.parametrize(
    "old, new, errors",
    [
        pytest.param({}, admitted(), [], id="quota is given"),
        pytest.param(admitted(), {"conditions": EVICTED}, [], id="quota is taken away"),
        pytest.param(admitted(cpu=4), admitted(cpu=4), [], id="quota stays"),
        pytest.param(
            admitted(cpu=4), admitted(cpu=8), ["status.admission: Invalid value: field is immutable"], id="quota grows"
        ),
        pytest.param(
            admitted(), admitted(queue="b"), ["status.admission: Invalid value: field is immutable"], id="it moves on"
        ),
        pytest.param({**admitted(), **UNDONE}, {**admitted(), **DONE}, [], id="more pods are done"),
        pytest.param(
            {**admitted(), **DONE},
            {**admitted(), **UNDONE},
            ["status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2"],
            id="fewer pods are done",
        ),
        pytest.param(
            {**admitted(), **DONE},
            admitted(),
            ["status.reclaimablePods[main]: Required value: cannot be removed"],
            id="no pods are done any more",
        ),
        pytest.param({**admitted(), **DONE}, {"conditions": EVICTED}, [], id="evicted pods are not done"),
        pytest.param(
            {"checks": check('[{"name":"main","labels":{"a":"b"}}]')},
            {"checks": check('[{"labels":{"a":"b"},"name":"main"}]')},
            [],
            id="a check says the same in another order",
        ),
        pytest.param(
            {"checks": check("")},
            {"checks": check('[{"name":"main"}]')},
            [f"{UPDATES}: Invalid value: field is immutable"],
            id="a check adds to pods that may run",
        ),
        pytest.param(
            {"checks": check("", CheckState.PENDING)},
            {"checks": check('[{"name":"main"}]')},
            [],
            id="a check adds to pods as it becomes ready",
        ),
        pytest.param(
            {"checks": check('[{"name":"main"}]')},
            {"checks": check("", CheckState.RETRY)},
            [],
            id="a check takes back what it said",
        ),
        pytest.param({"nominated_clusters": ("a", "b")}, {"cluster": "b"}, [], id="a nominated cluster takes it"),
        pytest.param(
            {"nominated_clusters": ("a",)},
            {"cluster": "b"},
            [
                'status.clusterName: Invalid value: "b": when setting clusterName it must be one of the '
                "nominatedClusterNames"
            ],
            id="another cluster takes it",
        ),
        pytest.param({"cluster": "b"}, {"cluster": "b"}, [], id="it stays in its cluster"),
        pytest.param({"cluster": "b"}, {}, [], id="it leaves its cluster"),
        pytest.param(annotated(gated="a.b/c,a.b/d"), annotated(gated="a.b/d"), [], id="a controller lets go"),
        pytest.param(annotated(gated="a.b/d"), annotated(gated="a.b/c,a.b/d"), [ADDED], id="a controller comes late"),
    ],
)
def test_a_change_of_a_workload(old, new, errors):
    assert [str(error) for error in workload_change_errors(workload(**new), workload(**old))] == errors


def template(**spec: Any) -> dict[str, Any]:
    return {"name": "main", "count": 3, "template": {"spec": spec}}


def handling(**amounts: Any) -> dict[str, Any]:
    return {"containers": [{"resources": amounts}]}


SPEC = "spec.podSets[0].template.spec"
RESERVED_KEY = 'Invalid value: "pods": the key is reserved for internal kueue use'
BELOW_ZERO = "must be greater than or equal to 0"


@pytest.mark.parametrize(
    "spec, errors",
    [
        pytest.param({}, [], id="nothing"),
        pytest.param(handling(requests={"cpu": 1, "memory": "0"}, limits=None), [], id="a plain container"),
        pytest.param(
            handling(requests={"pods": 1}),
            [f"{SPEC}.containers[0].resources.requests[pods]: {RESERVED_KEY}"],
            id="a container that asks for pods",
        ),
        pytest.param(
            {"initContainers": [{}, {"resources": {"limits": {"pods": 1}}}]},
            [f"{SPEC}.initContainers[1].resources.limits[pods]: {RESERVED_KEY}"],
            id="a first step limited to pods",
        ),
        pytest.param(
            handling(requests={"cpu": "-1m"}),
            [f'{SPEC}.containers[0].resources.requests[cpu]: Invalid value: "-1m": {BELOW_ZERO}'],
            id="less than nothing",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": -1}}, "overhead": {"memory": "-1Gi"}},
            [
                f'{SPEC}.resources.requests[cpu]: Invalid value: "-1": {BELOW_ZERO}',
                f'{SPEC}.overhead[memory]: Invalid value: "-1Gi": {BELOW_ZERO}',
            ],
            id="a pod that asks for less than nothing",
        ),
        pytest.param(
            handling(limits={"cpu": "1x"}),
            [
                f'{SPEC}.containers[0].resources.limits[cpu]: Invalid value: "1x": quantities must match the regular '
                "expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ],
            id="no amount at all",
        ),
    ],
)
def test_what_a_template_asks_for(spec, errors):
    assert [str(error) for error in template_errors([template(**spec)])] == errors


IMMUTABLE = "Invalid value: field is immutable"


@pytest.mark.parametrize(
    "new, may_shrink, errors",
    [
        pytest.param([template()], False, [], id="nothing changes"),
        pytest.param([template(), template()], False, [f"spec.podSets: {IMMUTABLE}"], id="pods are added"),
        pytest.param([template(a=1)], False, [f"spec.podSets[0]: {IMMUTABLE}"], id="other pods"),
        pytest.param([{**template(), "count": 2}], False, [f"spec.podSets[0]: {IMMUTABLE}"], id="fewer pods"),
        pytest.param([{**template(), "count": 2}], True, [], id="fewer pods of an elastic workload"),
        pytest.param([{**template(), "count": 4}], True, [f"spec.podSets[0]: {IMMUTABLE}"], id="more pods of one"),
        pytest.param([{**template(a=1), "count": 2}], True, [f"spec.podSets[0]: {IMMUTABLE}"], id="fewer, other pods"),
    ],
)
def test_pod_sets_cannot_change_while_quota_is_reserved(new, may_shrink, errors):
    found = pod_set_change_errors(new, [template()], may_shrink=may_shrink)
    assert [str(error) for error in found] == errors
