"""Deployments and stateful sets that name a queue: their pods wait in it, each for itself or all together."""

from __future__ import annotations

from typing import Any

import pytest
from handling import (
    PRIORITY_CLASS,
    QUEUE_NAME,
    job_of,
    labelled,
    local_queue,
    namespace,
    response_of,
    webhook_settings,
    workload_class,
)

from headgate.gates.pods import gated_if_managed, pods_wait, replicas_errors, stateful_set_errors
from headgate.model.admission import AdmissionAllowed, AdmissionRequest, Json
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import ReplicaOwner, StatefulSet
from headgate.model.pod import PodTemplate
from headgate.model.resources import ContainerNeeds, Resources, TemplateNeeds

PREFIX = "kueue.x-k8s.io"
PARENT, MANAGED = f"{PREFIX}/pod-suspending-parent", {f"{PREFIX}/managed": "true"}
GATED_BY = f"{PREFIX}/admission-gated-by"
GATES = [{"name": f"{PREFIX}/admission"}]
GROUP = "statefulset-web-778be"


def replicas(
    kind: str, labels: dict[str, str], of_pods: Json, annotations: dict[str, str] | None = None, **spec: Any
) -> Json:
    return labelled(kind, {"replicas": 3, "template": {"metadata": of_pods, "spec": {}}, **spec}, labels, annotations)


@pytest.mark.parametrize(
    "labels, of_pods, become",
    [
        pytest.param(
            {QUEUE_NAME: "q"}, {"app": "a"}, {"app": "a", **MANAGED, QUEUE_NAME: "q"}, id="its queue is theirs"
        ),
        pytest.param(
            {QUEUE_NAME: "q"}, {QUEUE_NAME: "x"}, {QUEUE_NAME: "q", **MANAGED}, id="whatever they named before"
        ),
        pytest.param(
            {QUEUE_NAME: "q", PRIORITY_CLASS: "high", "app": "a"},
            {},
            {**MANAGED, QUEUE_NAME: "q", PRIORITY_CLASS: "high"},
            id="and its class, and nothing else",
        ),
        pytest.param({PRIORITY_CLASS: "high"}, {"app": "a"}, None, id="without a queue they are left alone"),
    ],
)
def test_what_pods_of_a_deployment_are_told(
    labels: dict[str, str], of_pods: dict[str, str], become: dict[str, str] | None
) -> None:
    given = replicas("Deployment", labels, {"labels": of_pods})
    found = response_of(pods_wait("deployment")(AdmissionRequest("team", given), webhook_settings()), [namespace()])
    told = {"labels": become, "annotations": {PARENT: "deployment"}}
    assert found == AdmissionAllowed(None if become is None else replicas("Deployment", labels, told))


def test_what_pods_of_a_stateful_set_are_told() -> None:
    given = replicas("StatefulSet", {QUEUE_NAME: "q"}, {})
    found = response_of(pods_wait("statefulset")(AdmissionRequest("team", given), webhook_settings()), [namespace()])
    told = {"labels": {QUEUE_NAME: "q"}, "annotations": {PARENT: "statefulset"}}
    assert found == AdmissionAllowed(replicas("StatefulSet", {QUEUE_NAME: "q"}, told))


def test_one_that_names_no_queue_gets_the_default_ones() -> None:
    given = replicas("StatefulSet", {}, {})
    world = [namespace(), local_queue(), workload_class()]
    labels = {QUEUE_NAME: "default", PRIORITY_CLASS: "default"}
    found = response_of(pods_wait("statefulset")(AdmissionRequest("team", given), webhook_settings()), world)
    assert found == AdmissionAllowed(
        replicas("StatefulSet", labels, {"labels": labels, "annotations": {PARENT: "statefulset"}})
    )


@pytest.mark.parametrize(
    "given, settings",
    [
        pytest.param(replicas("D", {QUEUE_NAME: "q"}, {}), {"frameworks": ("pod",)}, id="the integration is off"),
        pytest.param(
            replicas("D", {QUEUE_NAME: "q"}, {"annotations": {PARENT: "lws"}}), {}, id="another holds its pods"
        ),
        pytest.param(
            {
                **replicas("D", {QUEUE_NAME: "q"}, {}),
                "metadata": {"labels": {QUEUE_NAME: "q"}, "deletionTimestamp": "now"},
            },
            {},
            id="it is being deleted",
        ),
    ],
)
def test_what_is_left_alone(given: Json, settings: Any) -> None:
    assert (
        response_of(
            pods_wait("deployment")(AdmissionRequest("team", given), webhook_settings(**settings)), [namespace()]
        )
        == AdmissionAllowed()
    )


def stateful_set(count: int = 3, cpu: int = 0, **labels: str) -> StatefulSet:
    needs = TemplateNeeds((ContainerNeeds(Resources.of({"cpu": cpu})),))
    pods = PodTemplate(needs=needs)
    return StatefulSet(Key(Kind.STATEFUL_SET, "team", "web"), "u-web", "1", (), labels, replicas=count, pods=pods)


def pod_of(owner: Json, annotations: dict[str, str], **labels: str) -> Json:
    made = labelled("Pod", {}, labels, annotations)
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [{**owner, "controller": True}]}}


OF_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u-web"}


def test_pods_of_a_stateful_set_are_one_group() -> None:
    owner = stateful_set(**{QUEUE_NAME: "q", PRIORITY_CLASS: "high"})
    found = response_of(
        gated_if_managed(AdmissionRequest("team", pod_of(OF_SET, {PARENT: "statefulset"})), webhook_settings()), [owner]
    )
    assert isinstance(found, AdmissionAllowed) and found.changed is not None
    assert found.changed["metadata"]["labels"] == {**MANAGED, QUEUE_NAME: "q", PRIORITY_CLASS: "high"}
    assert found.changed["metadata"]["annotations"] == {
        PARENT: "statefulset",
        f"{PREFIX}/prebuilt-workload-name": GROUP,
        f"{PREFIX}/pod-group-name": GROUP,
        f"{PREFIX}/pod-group-total-count": "3",
        f"{PREFIX}/pod-group-fast-admission": "true",
        f"{PREFIX}/pod-group-serving": "true",
        f"{PREFIX}/role-hash": "main",
    }
    assert found.changed["spec"]["schedulingGates"] == GATES
    assert "finalizers" not in found.changed["metadata"]


@pytest.mark.parametrize(
    "world",
    [
        pytest.param([], id="the set is gone"),
        pytest.param([StatefulSet(Key(Kind.STATEFUL_SET, "team", "web"), "u-2", "1", ())], id="another has its name"),
    ],
)
def test_a_pod_of_no_set_is_only_gated(world: list[StatefulSet]) -> None:
    found = response_of(
        gated_if_managed(AdmissionRequest("team", pod_of(OF_SET, {PARENT: "statefulset"})), webhook_settings()), world
    )
    assert isinstance(found, AdmissionAllowed) and found.changed is not None
    assert (found.changed["metadata"]["labels"], found.changed["spec"]["schedulingGates"]) == ({}, GATES)


def replica_set(owner: Target | None = None, **labels: str) -> ReplicaOwner:
    return ReplicaOwner(Key(Kind.REPLICA_SET, "team", "rs"), "u-rs", "1", (), labels, owner)


def deployment(uid: str = "u-d", **labels: str) -> ReplicaOwner:
    return ReplicaOwner(Key(Kind.DEPLOYMENT, "team", "d"), uid, "1", (), labels)


OF_DEPLOYMENT = Target(Key(Kind.DEPLOYMENT, "team", "d"), "u-d")
OF_REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u-rs"}
OF_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}


@pytest.mark.parametrize(
    "owner, world, settings, waits",
    [
        pytest.param(OF_REPLICA_SET, [replica_set()], {}, True, id="of a replica set that nobody made"),
        pytest.param(
            OF_REPLICA_SET,
            [replica_set(OF_DEPLOYMENT), deployment(**{QUEUE_NAME: "q"})],
            {},
            False,
            id="of a replica set of a deployment that waits",
        ),
        pytest.param(
            OF_REPLICA_SET,
            [replica_set(OF_DEPLOYMENT), deployment()],
            {},
            True,
            id="of a replica set of a deployment that names no queue",
        ),
        pytest.param(
            OF_REPLICA_SET,
            [replica_set(OF_DEPLOYMENT), deployment()],
            {"manages_all": True},
            False,
            id="of one that waits like all",
        ),
        pytest.param(
            OF_REPLICA_SET,
            [replica_set(OF_DEPLOYMENT), deployment(**{QUEUE_NAME: "q"})],
            {"frameworks": ("batch/job", "pod")},
            True,
            id="where deployments do not wait",
        ),
        pytest.param(
            OF_REPLICA_SET,
            [replica_set(OF_DEPLOYMENT), deployment("u-2", **{QUEUE_NAME: "q"})],
            {},
            True,
            id="of a deployment that is gone, another having its name",
        ),
        pytest.param(
            OF_REPLICA_SET,
            [replica_set(**{QUEUE_NAME: "q"})],
            {},
            True,
            id="of a replica set that itself names a queue",
        ),
        pytest.param(OF_JOB, [job_of("j", **{QUEUE_NAME: "q"})], {}, False, id="of a job that waits"),
        pytest.param(OF_SET, [stateful_set(**{QUEUE_NAME: "q"})], {}, False, id="of a stateful set that waits"),
    ],
)
def test_a_pod_waits_by_itself_unless_who_made_it_does(owner: Json, world: Any, settings: Any, waits: bool) -> None:
    request = AdmissionRequest("team", pod_of(owner, {}, **{QUEUE_NAME: "q"}))
    found = response_of(gated_if_managed(request, webhook_settings(**settings)), [namespace(), *world])
    assert isinstance(found, AdmissionAllowed)
    assert (found.changed is not None) is waits


@pytest.mark.parametrize(
    "before, after, ready, error",
    [
        pytest.param({QUEUE_NAME: "q"}, {QUEUE_NAME: "r"}, 0, "", id="another queue while nothing runs"),
        pytest.param(
            {QUEUE_NAME: "q"},
            {QUEUE_NAME: "r"},
            1,
            f'metadata.labels[{QUEUE_NAME}]: Invalid value: "r": field is immutable',
            id="another queue while something runs",
        ),
        pytest.param(
            {QUEUE_NAME: "q"},
            {},
            0,
            f'metadata.labels[{QUEUE_NAME}]: Invalid value: "": field is immutable',
            id="no queue any more",
        ),
        pytest.param(
            {QUEUE_NAME: "q"},
            {QUEUE_NAME: "q", PRIORITY_CLASS: "high"},
            1,
            f'metadata.labels[{PRIORITY_CLASS}]: Invalid value: "high": '
            "WorkloadPriorityClass cannot be added to a non-suspended workload",
            id="a class while something runs",
        ),
        pytest.param({QUEUE_NAME: "a b"}, {QUEUE_NAME: "a b"}, 0, "RFC 1123", id="a queue that can have no such name"),
    ],
)
def test_what_may_change(before: dict[str, str], after: dict[str, str], ready: int, error: str) -> None:
    old = {**replicas("Deployment", before, {}), "status": {"readyReplicas": ready}}
    errors = [str(each) for each in replicas_errors(replicas("Deployment", after, {}), old)]
    assert (errors == []) if not error else (len(errors) == 1 and error in errors[0])


@pytest.mark.parametrize(
    "before, after, there, error",
    [
        pytest.param(3, 0, 3, "", id="to none"),
        pytest.param(0, 3, 0, "", id="from none"),
        pytest.param(3, 4, 3, "spec.replicas: Invalid value: field is immutable", id="to more"),
        pytest.param(
            0, 3, 1, "spec.replicas: Forbidden: scaling down is still in progress", id="while some still leave"
        ),
    ],
)
def test_how_a_stateful_set_is_scaled(before: int, after: int, there: int, error: str) -> None:
    old = replicas("StatefulSet", {QUEUE_NAME: "q"}, {}, replicas=before)
    new = {**replicas("StatefulSet", {QUEUE_NAME: "q"}, {}, replicas=after), "status": {"replicas": there}}
    assert [str(each) for each in stateful_set_errors(AdmissionRequest("team", new, old))] == ([error] if error else [])


def test_what_the_pods_of_a_stateful_set_ask_for_stays() -> None:
    old, new = (
        replicas("StatefulSet", {QUEUE_NAME: "q"}, {}),
        replicas("StatefulSet", {QUEUE_NAME: "q"}, {"labels": {}}),
    )
    other = AdmissionRequest("team", new, old, lambda value: stateful_set(cpu=1 if value is new else 2))
    same = AdmissionRequest("team", new, old, lambda value: stateful_set(cpu=1))
    assert [str(each) for each in stateful_set_errors(other)] == [
        "spec.template.spec: Invalid value: field is immutable"
    ]
    assert stateful_set_errors(same) == []
