"""Which pods must wait for quota, what they then get, and what may not be said about them and their groups."""

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

from headgate.gates.pods import gated_if_managed, pod_errors
from headgate.model.admission import AdmissionAllowed, AdmissionRequest, Json
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.model.pod import Pod, PodShape

LABELS, ANNOTATIONS = "metadata.labels", "metadata.annotations"
MANAGED, GATE, ROLE = "kueue.x-k8s.io/managed", "kueue.x-k8s.io/admission", "kueue.x-k8s.io/role-hash"
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
RETRIABLE, PREBUILT = "kueue.x-k8s.io/retriable-in-group", "kueue.x-k8s.io/prebuilt-workload-name"
PARENT = "kueue.x-k8s.io/pod-suspending-parent"


def pod(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    return labelled("Pod", {"containers": [], **spec}, labels or {}, annotations)


def held(labels: dict[str, str] | None = None, gates: tuple[str, ...] = (GATE,), finalized: bool = True) -> Json:
    value = pod({**(labels or {}), MANAGED: "true"}, {ROLE: "role-5"}, schedulingGates=[{"name": one} for one in gates])
    if finalized:
        value["metadata"]["finalizers"] = [MANAGED]
    return value


def owned(value: Json, kind: str = "Job", version: str = "batch/v1") -> Json:
    owner = {"apiVersion": version, "kind": kind, "name": "boss", "uid": "u", "controller": True}
    return {**value, "metadata": {**value["metadata"], "ownerReferences": [owner]}}


def request(value: Json) -> AdmissionRequest:
    read = Pod(Key(Kind.POD, "team", "train"), "u", "1", {}, {}, PodShape(), 0.0, priority=5)
    return AdmissionRequest("team", value, None, lambda _: read)


QUEUED = {QUEUE_NAME: "q"}


@pytest.mark.parametrize(
    "given, world, settings, becomes",
    [
        pytest.param(pod(QUEUED), [namespace()], {}, held(QUEUED), id="one that names a queue is held"),
        pytest.param(pod(), [namespace()], {}, None, id="one that names none is left alone"),
        pytest.param(pod(), [namespace()], {"manages_all": True}, held(), id="unless all wait"),
        pytest.param(
            pod(), [namespace(), local_queue()], {}, held({QUEUE_NAME: "default"}), id="it gets the queue default"
        ),
        pytest.param(
            pod(QUEUED),
            [namespace(), workload_class()],
            {},
            held({**QUEUED, PRIORITY_CLASS: "default"}),
            id="it gets the class default",
        ),
        pytest.param(
            pod(QUEUED, schedulingGates=[{"name": "mine"}]),
            [namespace()],
            {},
            held(QUEUED, ("mine", GATE)),
            id="it keeps the gates it has",
        ),
        pytest.param(held(QUEUED), [namespace()], {}, held(QUEUED), id="one that is held already stays as it is"),
        pytest.param(pod(QUEUED), [namespace()], {"frameworks": ("batch/job",)}, None, id="none where pods are off"),
        pytest.param(pod(QUEUED), [namespace("other")], {}, None, id="none whose namespace is not there"),
        pytest.param(
            owned(pod(QUEUED)), [namespace(), job_of("boss", **QUEUED)], {}, None, id="not the pods of a job that waits"
        ),
        pytest.param(
            owned(pod()),
            [namespace(), job_of("boss")],
            {"manages_all": True},
            None,
            id="nor of one that waits without a queue",
        ),
        pytest.param(
            owned(pod(QUEUED)),
            [namespace(), job_of("boss")],
            {},
            owned(held(QUEUED)),
            id="those of a job that does not",
        ),
        pytest.param(
            owned(pod(QUEUED)),
            [namespace(), job_of("boss", **QUEUED)],
            {"frameworks": ("pod",)},
            owned(held(QUEUED)),
            id="those of a job where jobs are off",
        ),
        pytest.param(
            owned(pod(QUEUED), "ReplicaSet", "apps/v1"),
            [namespace()],
            {},
            owned(held(QUEUED), "ReplicaSet", "apps/v1"),
            id="those of a deployment",
        ),
        pytest.param(
            pod(annotations={PARENT: "x"}),
            [],
            {"frameworks": ()},
            {
                **(there := held(finalized=False)),
                "metadata": {**there["metadata"], "labels": {}, "annotations": {PARENT: "x", ROLE: "role-5"}},
            },
            id="one held by its parent is only gated",
        ),
    ],
)
def test_a_new_pod(given: Json, world: list[Object], settings: dict[str, Any], becomes: Json | None) -> None:
    assert response_of(gated_if_managed(request(given), webhook_settings(**settings)), world) == AdmissionAllowed(
        becomes
    )


def test_a_role_that_a_pod_claims_to_have_does_not_count() -> None:
    given = pod(QUEUED, {ROLE: "mine"})
    found = response_of(gated_if_managed(request(given), webhook_settings()), [namespace()])
    assert isinstance(found, AdmissionAllowed)
    assert found.changed is not None
    assert found.changed["metadata"]["annotations"] == {ROLE: "role-5"}


def test_the_pod_that_was_asked_about_is_not_touched() -> None:
    given = pod(QUEUED)
    response_of(gated_if_managed(request(given), webhook_settings()), [namespace()])
    assert given == pod(QUEUED)


def group(name: str = "g", total: str = "3", **labels: str) -> Json:
    return pod({GROUP: name, **labels}, {TOTAL: total})


BOTH = f"both the '{TOTAL}' annotation and the '{GROUP}' label should be set"


@pytest.mark.parametrize(
    "given, errors",
    [
        pytest.param(pod(QUEUED), [], id="a single pod"),
        pytest.param(group(), [], id="one of a group"),
        pytest.param(pod(annotations={GROUP: "g", TOTAL: "3"}), [], id="of a group named by annotation"),
        pytest.param(
            pod({GROUP: "g"}),
            [f"{ANNOTATIONS}[{TOTAL}]: Required value: {BOTH}"],
            id="a group of nobody knows how many",
        ),
        pytest.param(
            pod(annotations={TOTAL: "3"}), [f"{LABELS}[{GROUP}]: Required value: {BOTH}"], id="a total of no group"
        ),
        pytest.param(
            group(total="0"),
            [f'{ANNOTATIONS}[{TOTAL}]: Invalid value: "0": group total count should be greater than zero'],
            id="a group of none",
        ),
        pytest.param(
            group(total="3x"), [f'{ANNOTATIONS}[{TOTAL}]: Invalid value: "3x": must be a whole number'], id="no number"
        ),
        pytest.param(
            pod({MANAGED: "no"}),
            [f"{LABELS}[{MANAGED}]: Forbidden: managed label value can only be 'true'"],
            id="managed, but not true",
        ),
        pytest.param(
            group(**{PREBUILT: "other"}),
            [f'{LABELS}[{PREBUILT}]: Invalid value: "other": prebuilt workload and pod group should be equal'],
            id="a group whose workload is called otherwise",
        ),
        pytest.param(group(**{PREBUILT: "g"}), [], id="a group whose workload is called like it"),
    ],
)
def test_what_is_wrong_with_a_pod(given: Json, errors: list[str]) -> None:
    assert [str(error) for error in pod_errors(given)] == errors


def test_a_group_whose_name_no_workload_can_have() -> None:
    [error] = pod_errors(group(name="G"))
    assert str(error).startswith(f'{LABELS}[{GROUP}]: Invalid value: "G": a lowercase RFC 1123 subdomain must')


def gated(**labels: str) -> Json:
    return pod(labels, schedulingGates=[{"name": GATE}])


FIXED = "field is immutable"


@pytest.mark.parametrize(
    "new, old, errors",
    [
        pytest.param(gated(**{QUEUE_NAME: "b"}), gated(**{QUEUE_NAME: "a"}), [], id="another queue while it is gated"),
        pytest.param(
            pod({QUEUE_NAME: "b"}),
            pod({QUEUE_NAME: "a"}),
            [f'{LABELS}[{QUEUE_NAME}]: Invalid value: "b": {FIXED}'],
            id="no other queue once it is not",
        ),
        pytest.param(
            {**pod({QUEUE_NAME: "b"}), "status": {"phase": "Succeeded"}},
            {**pod({QUEUE_NAME: "a"}), "status": {"phase": "Succeeded"}},
            [],
            id="another queue when it has ended",
        ),
        pytest.param(group("b"), group("a"), [f'{LABELS}[{GROUP}]: Invalid value: "b": {FIXED}'], id="no other group"),
        pytest.param(group("b"), pod(), [], id="a group for one that had none"),
        pytest.param(
            pod({GROUP: "g"}, {TOTAL: "2"}),
            pod({GROUP: "g"}, {TOTAL: "2", RETRIABLE: "false"}),
            [f"{ANNOTATIONS}[{RETRIABLE}]: Forbidden: unretriable pod group can't be converted to retriable"],
            id="a last try stays the last",
        ),
        pytest.param(
            pod({GROUP: "g"}, {TOTAL: "2", RETRIABLE: "false"}), group(total="2"), [], id="a try may be made the last"
        ),
    ],
)
def test_how_a_pod_may_change(new: Json, old: Json, errors: list[str]) -> None:
    assert [str(error) for error in pod_errors(new, old)] == errors
