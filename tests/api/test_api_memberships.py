"""Which group a pod belongs to, when it was started, and when its work was saved."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.keys import Key, Kind
from headgate.model.pod import GroupKey, Pod

OURS = {"scheduling.headgate.dev/workload": "w", "scheduling.headgate.dev/pod-group": "workers"}
REPLICA = {"scheduling.headgate.dev/pod-group-replica-key": "3"}
REFERENCE = {"workloadRef": {"name": "r", "podGroup": "g", "podGroupReplicaKey": "1"}}
SCHEDULING_GROUP = {"schedulingGroup": {"podGroupName": "pg"}}
VOLCANO = {"scheduling.k8s.io/group-name": "v"}
VOLCANO_TOO = {"scheduling.volcano.sh/group-name": "other"}
KUEUE, TOTAL = {"kueue.x-k8s.io/pod-group-name": "k"}, {"kueue.x-k8s.io/pod-group-total-count": "5"}

BY_LABELS = GroupKey(Key(Kind.WORKLOAD, "d", "w"), "workers")
BY_REFERENCE = GroupKey(Key(Kind.WORKLOAD, "d", "r"), "g", "1")
BY_SCHEDULING_GROUP = GroupKey(Key(Kind.POD_GROUP, "d", "pg"))
BY_VOLCANO = GroupKey(Key(Kind.VOLCANO_POD_GROUP, "d", "v"))
BY_KUEUE = GroupKey(Key(Kind.KUEUE_WORKLOAD, "d", "k"))


def pod(labels=None, annotations=None, spec=None, status=None) -> Pod:
    metadata = {"name": "a", "namespace": "d", "labels": labels, "annotations": annotations}
    manifest = {"metadata": metadata, "spec": {"containers": [], **(spec or {})}, "status": status or {}}
    found = decode(Kind.POD, json.dumps(manifest).encode())
    assert isinstance(found, Pod)
    return found


@pytest.mark.parametrize(
    "labels, spec, annotations, expected",
    [
        pytest.param(None, None, None, None, id="a lone pod"),
        pytest.param({"app": "x"}, {}, {"note": "y"}, None, id="a lone pod with labels and annotations"),
        pytest.param(OURS, {}, {}, BY_LABELS, id="our labels"),
        pytest.param(
            {**OURS, **REPLICA},
            {},
            {},
            GroupKey(Key(Kind.WORKLOAD, "d", "w"), "workers", "3"),
            id="our labels with a replica",
        ),
        pytest.param(
            {"scheduling.headgate.dev/workload": "w"},
            {},
            {},
            GroupKey(Key(Kind.WORKLOAD, "d", "w")),
            id="our label without a group names the group of no name",
        ),
        pytest.param(REPLICA, {}, {}, None, id="a replica of no workload"),
        pytest.param({**OURS, "scheduling.headgate.dev/workload": ""}, {}, {}, None, id="a workload of no name"),
        pytest.param({}, REFERENCE, {}, BY_REFERENCE, id="a reference to a workload"),
        pytest.param(
            {},
            {"workloadRef": {"name": "r", "podGroup": "g"}},
            {},
            GroupKey(Key(Kind.WORKLOAD, "d", "r"), "g"),
            id="a reference without a replica",
        ),
        pytest.param({}, SCHEDULING_GROUP, {}, BY_SCHEDULING_GROUP, id="a scheduling group"),
        pytest.param({}, {"schedulingGroup": {}}, {}, None, id="a scheduling group of a form to come"),
        pytest.param({}, {}, VOLCANO, BY_VOLCANO, id="Volcano's annotation"),
        pytest.param(
            {},
            {},
            VOLCANO_TOO,
            GroupKey(Key(Kind.VOLCANO_POD_GROUP, "d", "other")),
            id="Volcano's other annotation",
        ),
        pytest.param({}, {}, {**VOLCANO_TOO, **VOLCANO}, BY_VOLCANO, id="both of Volcano's annotations"),
        pytest.param(OURS | KUEUE, REFERENCE | SCHEDULING_GROUP, VOLCANO | TOTAL, BY_LABELS, id="all: our labels"),
        pytest.param(KUEUE, REFERENCE | SCHEDULING_GROUP, VOLCANO | TOTAL, BY_REFERENCE, id="then the reference"),
        pytest.param(KUEUE, SCHEDULING_GROUP, VOLCANO | TOTAL, BY_SCHEDULING_GROUP, id="then the scheduling group"),
        pytest.param(KUEUE, {}, VOLCANO | TOTAL, BY_VOLCANO, id="then Volcano's annotation"),
    ],
)
def test_the_group_of_a_pod(labels, spec, annotations, expected):
    found = pod(labels, annotations, spec)
    assert (found.group, found.group_total) == (expected, 0)


@pytest.mark.parametrize(
    "labels, annotations, expected",
    [
        pytest.param(KUEUE, TOTAL, (BY_KUEUE, 5), id="a name and a total"),
        pytest.param({}, KUEUE | TOTAL, (BY_KUEUE, 5), id="a name in an annotation, and a total"),
        pytest.param(KUEUE, {}, (None, 0), id="a name alone is no group"),
        pytest.param(
            KUEUE, TOTAL | {"kueue.x-k8s.io/pod-group-serving": "true"}, (None, 0), id="pods that serve are no gang"
        ),
        pytest.param(
            KUEUE,
            TOTAL | {"kueue.x-k8s.io/pod-group-fast-admission": "true"},
            (None, 0),
            id="a driver does not wait for the executors it creates",
        ),
        pytest.param(
            KUEUE,
            TOTAL | {"kueue.x-k8s.io/pod-group-fast-admission": "false"},
            (BY_KUEUE, 5),
            id="a group without fast admission is a gang",
        ),
        pytest.param({}, TOTAL, (None, 0), id="a total alone is no group"),
        pytest.param(KUEUE, {"kueue.x-k8s.io/pod-group-total-count": "0"}, (None, 0), id="a group of none is none"),
        pytest.param(KUEUE, {"kueue.x-k8s.io/pod-group-total-count": "-1"}, (None, 0), id="nor of less"),
        pytest.param(KUEUE, {"kueue.x-k8s.io/pod-group-total-count": "many"}, (None, 0), id="nor of many"),
        pytest.param(KUEUE, {"kueue.x-k8s.io/pod-group-total-count": "9" * 5000}, (None, 0), id="nor of far too many"),
        pytest.param(KUEUE, {"kueue.x-k8s.io/pod-group-total-count": "²"}, (None, 0), id="nor of a digit of no use"),
    ],
)
def test_a_group_of_kueue_is_named_and_counted_by_its_pods(labels, annotations, expected):
    found = pod(labels, annotations)
    assert (found.group, found.group_total) == expected


@pytest.mark.parametrize(
    "spec, path, expected",
    [
        pytest.param(
            {"workloadRef": {"podGroup": "g"}},
            "$.spec.workloadRef",
            "Object missing required field name",
            id="a reference to no workload",
        ),
        pytest.param(
            {"workloadRef": {"name": "w"}},
            "$.spec.workloadRef",
            "Object missing required field podGroup",
            id="a reference to no group",
        ),
        pytest.param(
            {"schedulingGroup": {"podGroupName": 5}},
            "$.spec.schedulingGroup.podGroupName",
            "Expected str | null, got int",
            id="a scheduling group that is a number",
        ),
    ],
)
def test_a_malformed_link_in_the_spec(spec, path, expected):
    with pytest.raises(InvalidObject) as refused:
        pod(spec=spec)
    assert (refused.value.path, refused.value.expected) == (path, expected)


def test_when_a_pod_was_started():
    assert pod(status={"startTime": "2026-01-01T00:00:00Z"}).started == 1767225600.0
    assert pod().started is None


def test_a_pod_started_in_words():
    with pytest.raises(InvalidObject) as refused:
        pod(status={"startTime": "now"})
    assert refused.value.path == "$.status.startTime"


@pytest.mark.parametrize(
    "annotation, expected",
    [
        pytest.param("2026-01-01T00:00:00Z", 1767225600.0, id="a time"),
        pytest.param("2026-01-01T02:00:00.5+02:00", 1767225600.5, id="a time elsewhere, with a fraction"),
        pytest.param("yesterday", None, id="no time"),
        pytest.param("2026-01-01T00:00:00", None, id="a time nowhere"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_when_the_work_was_saved(annotation, expected):
    assert pod(annotations={"headgate.dev/checkpointed-at": annotation}).checkpointed == expected


@pytest.mark.parametrize(
    "annotation, expected",
    [
        pytest.param("10m", 600.0, id="a time span"),
        pytest.param("1h30m", 5400.0, id="hours and minutes"),
        pytest.param("0s", None, id="never stops saving"),
        pytest.param("-5m", None, id="saves before it begins"),
        pytest.param("often", None, id="no time span"),
        pytest.param("600", None, id="no unit"),
    ],
)
def test_how_often_the_work_is_saved(annotation, expected):
    assert pod(annotations={"headgate.dev/checkpoint-every": annotation}).checkpoint_every == expected


@given(st.text(), st.text(), st.text())
def test_no_annotation_makes_a_pod_unreadable(at, every, total):
    annotations = {"headgate.dev/checkpointed-at": at, "headgate.dev/checkpoint-every": every}
    found = pod(KUEUE, {**annotations, "kueue.x-k8s.io/pod-group-total-count": total})
    assert (found.group is None) is (found.group_total == 0)


@given(st.datetimes(timezones=st.timezones()), st.integers(1, 10**15))
def test_every_time_and_time_span_is_read(at, every):
    annotations = {"headgate.dev/checkpointed-at": at.isoformat(), "headgate.dev/checkpoint-every": f"{every}ms"}
    found = pod(annotations=annotations)
    assert found.checkpointed == pytest.approx(at.timestamp(), abs=1e-3)
    assert found.checkpoint_every == pytest.approx(every / 1000)
