"""The old object of a question is known again from when it was new, and is read as if it had not been."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.api.admission import Json, read_once
from headgate.api.rereading import Rereading
from headgate.model.keys import Kind
from headgate.model.queues import QueuedWorkload

KIND = Kind.KUEUE_WORKLOAD
SPEC: Json = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]}


def workload(status: Json, version: str = "1", spec: Json = SPEC, **metadata: Any) -> Json:
    named = {"name": "it", "namespace": "default", "uid": "u", "resourceVersion": version, **metadata}
    return {"metadata": named, "spec": spec, "status": status}


def pending(message: str) -> Json:
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    return {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}


def test_what_was_stored_is_the_very_same_but_for_its_version() -> None:
    reader, status = Rereading(), pending("first")
    new, old = reader.read(KIND, workload(status)), reader.read(KIND, workload(status, "7"))
    assert isinstance(new, QueuedWorkload) and isinstance(old, QueuedWorkload)
    assert (new.version, old.version) == ("1", "7")
    assert old.conditions is new.conditions
    assert old == read_once(KIND, workload(status, "7"))


@pytest.mark.parametrize(
    "another",
    [
        pytest.param(lambda status: workload(pending("second")), id="another status"),
        pytest.param(lambda status: workload({**status, "clusterName": "c"}), id="a status changed in part"),
        pytest.param(lambda status: workload(status, spec={**SPEC, "queueName": "r"}), id="another spec"),
        pytest.param(lambda status: workload(status, labels={"a": "b"}), id="other labels"),
        pytest.param(lambda status: workload(status, uid="v"), id="another object of that name"),
        pytest.param(lambda status: {**workload(status), "more": 1}, id="one part more"),
        pytest.param(lambda status: workload({**status}), id="an equal copy"),
    ],
)
def test_whatever_differs_is_read_anew(another: Any) -> None:
    reader, status = Rereading(), pending("first")
    reader.read(KIND, workload(status))
    assert reader.read(KIND, another(status)) == read_once(KIND, another(status))


def test_a_change_that_was_refused_does_not_hide_what_is_stored() -> None:
    reader, stored, refused = Rereading(), pending("stored"), pending("refused")
    first = reader.read(KIND, workload(stored))
    reader.read(KIND, workload(refused))
    again = reader.read(KIND, workload(stored, "2"))
    assert isinstance(first, QueuedWorkload) and isinstance(again, QueuedWorkload)
    assert again.conditions is first.conditions
    assert again == read_once(KIND, workload(stored, "2"))


def test_what_cannot_be_read_is_none_each_time() -> None:
    reader, broken = Rereading(), workload({"conditions": 1})
    assert [reader.read(KIND, broken), reader.read(KIND, broken)] == [None, None]


def test_it_forgets_when_there_is_too_much_to_know() -> None:
    reader, status = Rereading(limit=2), pending("it")
    seen = [reader.read(KIND, workload(status, uid=uid)) for uid in ("a", "b", "c", "a")]
    assert seen[0] == seen[3]
    assert isinstance(seen[0], QueuedWorkload) and isinstance(seen[3], QueuedWorkload)
    assert seen[3].uid == "a"


def test_objects_that_share_parts_are_read_as_if_they_did_not() -> None:
    reader, status = Rereading(), pending("it")
    namespaced = {"uid": "v", "name": "that", "namespace": "other"}
    again = [workload(status), workload(status, uid="w"), workload(status, **namespaced)]
    assert [reader.read(KIND, value) for value in again] == [read_once(KIND, value) for value in again]


def test_what_is_seen_again_is_the_very_same() -> None:
    reader, value = Rereading(), workload(pending("it"))
    first = reader.read(KIND, value)
    assert reader.read(KIND, value) is first


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"metadata": {"uid": "u"}, "spec": SPEC}, id="without a name or a status"),
        pytest.param({"metadata": {"uid": "u", "name": "it"}, "spec": SPEC, "status": None}, id="a status of null"),
        pytest.param({"metadata": {"uid": "u", "name": "it"}}, id="without a spec"),
        pytest.param({"metadata": None, "spec": SPEC}, id="without metadata"),
    ],
)
def test_what_lacks_something_is_read_as_at_the_door(value: Json) -> None:
    assert Rereading().read(KIND, value) == read_once(KIND, value)
