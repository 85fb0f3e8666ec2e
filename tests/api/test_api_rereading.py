"""The old object of a question is known again from when it was new, and is read as if it had not been."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.api.admission import read_once
from headgate.api.rereading import Rereading
from headgate.model.admission import Json
from headgate.model.keys import Kind
from headgate.model.queues import QueuedWorkload

KIND, AT = Kind.KUEUE_WORKLOAD, "2026-01-01T00:00:00Z"
SPEC: Json = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]}


def workload(status: Json, version: str = "1", spec: Json = SPEC, **metadata: Any) -> Json:
    named = {"name": "it", "namespace": "default", "uid": "u", "resourceVersion": version, **metadata}
    return {"metadata": named, "spec": spec, "status": status}


def pending(message: str) -> Json:
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    return {"conditions": [{**condition, "lastTransitionTime": AT}]}


def test_what_was_stored_is_the_very_same_but_for_its_version() -> None:
    reader, status = Rereading(), pending("first")
    new, old = reader.read(KIND, workload(status)), reader.read(KIND, workload(status, "7"))
    assert isinstance(new, QueuedWorkload) and isinstance(old, QueuedWorkload)
    assert (new.version, old.version) == ("1", "7")
    assert old.status.conditions is new.status.conditions
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


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"clusterName": "c", "conditions": []}, id="another"),
        pytest.param({}, id="an empty one"),
        pytest.param(
            {"admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main"}]}},
            id="one that needs the spec to be understood",
        ),
        pytest.param({"conditions": 1}, id="one that cannot be read"),
        pytest.param(None, id="one of null"),
    ],
)
@pytest.mark.parametrize(
    "version",
    [pytest.param("1", id="about to be stored"), pytest.param("2", id="stored")],
)
def test_a_write_of_the_status_leaves_the_rest_as_it_was_read(status: Any, version: str) -> None:
    reader, before = Rereading(), workload(pending("first"))
    was = reader.read(KIND, before)
    now = reader.read(KIND, workload(status, version))
    assert now == read_once(KIND, workload(status, version))
    assert isinstance(was, QueuedWorkload)
    assert now is None or (isinstance(now, QueuedWorkload) and now.pod_sets is was.pod_sets)
    assert reader.read(KIND, before) is was


def test_a_status_that_many_share_is_read_by_the_pod_sets_of_each() -> None:
    reader = Rereading(limit=2)
    shared = {"admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main"}]}}
    specs = [{**SPEC, "podSets": [{**SPEC["podSets"][0], "count": count}]} for count in (1, 2, 3, 1)]
    for place, spec in enumerate(specs):
        reader.read(KIND, workload({}, spec=spec, uid=f"u{place}"))
        stored = workload(shared, "2", spec=spec, uid=f"u{place}")
        assert reader.read(KIND, stored) == read_once(KIND, stored)


def test_a_status_that_is_not_there_any_more_says_nothing() -> None:
    reader, before = Rereading(), workload(pending("first"))
    reader.read(KIND, before)
    bare = {name: part for name, part in before.items() if name != "status"}
    assert reader.read(KIND, bare) == read_once(KIND, bare)


@pytest.mark.parametrize(
    "nameless",
    [
        pytest.param({"metadata": None, "spec": SPEC}, id="metadata of null"),
        pytest.param({"more": 1, "spec": SPEC}, id="no metadata but as many parts"),
        pytest.param({"metadata": {"name": "other"}, "spec": SPEC}, id="another name"),
    ],
)
def test_what_has_no_uid_is_read_as_what_it_is(nameless: Json) -> None:
    reader = Rereading()
    reader.read(KIND, {"metadata": {"name": "it"}, "spec": SPEC})
    assert reader.read(KIND, nameless) == read_once(KIND, nameless)


CLUSTER_QUEUE_SPEC: Json = {"cohortName": "all", "namespaceSelector": {}}
ACTIVE = {"type": "Active", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": AT}
OWED = {"name": "f", "resources": [{"name": "cpu", "total": "2"}]}
USED = {"consumedResources": {"cpu": "1500m"}, "lastUpdate": AT}


@pytest.mark.parametrize(
    "kind, status",
    [
        pytest.param(
            Kind.CLUSTER_QUEUE, {"conditions": [ACTIVE], "flavorsDebt": [OWED]}, id="all of a cluster queue's"
        ),
        pytest.param(Kind.CLUSTER_QUEUE, {"pendingWorkloads": 1}, id="what we do not read of a cluster queue's"),
        pytest.param(Kind.CLUSTER_QUEUE, {"conditions": 1}, id="a cluster queue's that cannot be read"),
        pytest.param(
            Kind.LOCAL_QUEUE,
            {"conditions": [ACTIVE], "fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": USED}},
            id="all of a local queue's",
        ),
        pytest.param(Kind.LOCAL_QUEUE, {"fairSharing": {"weightedShare": 0}}, id="a local queue's that used nothing"),
        pytest.param(Kind.LOCAL_QUEUE, None, id="a local queue's of null"),
    ],
)
def test_a_write_of_a_queues_status_is_read_as_at_the_door(kind: Kind, status: Any) -> None:
    reader, spec = Rereading(), CLUSTER_QUEUE_SPEC if kind is Kind.CLUSTER_QUEUE else {"clusterQueue": "q"}
    before, after = workload({"conditions": [ACTIVE]}, spec=spec), workload(status, "2", spec)
    was = reader.read(kind, before)
    assert was == read_once(kind, before)
    assert reader.read(kind, after) == read_once(kind, after)
    assert reader.read(kind, before) is was


@pytest.mark.parametrize("kind", [Kind.CLUSTER_QUEUE, Kind.LOCAL_QUEUE])
def test_a_queue_whose_spec_changed_is_read_anew(kind: Kind) -> None:
    reader, after = Rereading(), workload({}, "2", {"stopPolicy": "Hold", "clusterQueue": "other"})
    reader.read(kind, workload({}, spec={"clusterQueue": "q"}))
    assert reader.read(kind, after) == read_once(kind, after)


def test_what_checks_say_verbatim_is_kept() -> None:
    updates = [{"name": "main", "labels": {"a": "b"}}]
    check = {"name": "c", "state": "Ready", "message": "", "lastTransitionTime": AT, "podSetUpdates": updates}
    reader, checked = Rereading(), workload({"admissionChecks": [check]}, "2")
    reader.read(KIND, workload({}))
    seen = reader.read(KIND, checked)
    assert seen == read_once(KIND, checked)
    assert isinstance(seen, QueuedWorkload) and msgspec.json.decode(seen.status.checks[0].updates) == updates


def test_what_is_made_of_parts_is_made_once_for_the_very_same_ones() -> None:
    reader, asked = Rereading(limit=2), []

    def length(part: list[int]) -> int:
        asked.append(part)
        return len(part)

    part, equal, other = [1, 2], [1, 2], [3]
    assert [reader.memoize(length, each, each) for each in (part, part, equal, part)] == [2, 2, 2, 2]
    assert [each is part for each in asked] == [True, False]
    assert [reader.memoize(length, each, each) for each in (other, part)] == [1, 2], "when there is too much it forgets"
    assert len(asked) == 4


@pytest.mark.parametrize("other", [(1, 0), (0, 0), (0, 1, 0), (0,)], ids=str)
def test_what_is_made_depends_on_every_part_and_its_place(other: tuple[int, ...]) -> None:
    reader, parts = Rereading(), ([1], [2])
    assert reader.memoize(str, "first", parts[0], parts[1]) == "first"
    assert reader.memoize(str, "second", *(parts[index] for index in other)) == "second"
    assert reader.memoize(str, "third", parts[0], parts[1]) == "first"


def test_what_is_made_of_a_part_depends_on_what_makes_it() -> None:
    reader, part = Rereading(), [1, 2]
    assert (reader.memoize(len, part, part), reader.memoize(sum, part, part)) == (2, 3)


def test_a_change_that_was_refused_does_not_hide_what_is_stored() -> None:
    reader, stored, refused = Rereading(), pending("stored"), pending("refused")
    first = reader.read(KIND, workload(stored))
    reader.read(KIND, workload(refused))
    again = reader.read(KIND, workload(stored, "2"))
    assert isinstance(first, QueuedWorkload) and isinstance(again, QueuedWorkload)
    assert again.status.conditions is first.status.conditions
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


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"generation": True}, id="true is not the generation 1"),
        pytest.param({"generation": 1.5}, id="nor is a fraction"),
        pytest.param({"resourceVersion": {}}, id="a version is a string"),
    ],
)
def test_metadata_that_cannot_be_read_for_the_first_time_cannot_be_read_again(metadata: Json) -> None:
    reader, priority = Rereading(), Kind.WORKLOAD_PRIORITY_CLASS
    named = {"name": "c", "uid": "u", "resourceVersion": "1", "generation": 1}
    assert reader.read(priority, {"metadata": named, "value": 10}) is not None
    assert reader.read(priority, {"metadata": {**named, **metadata}, "value": 10}) is None
