"""Our Workload definition on the small Kubernetes: what its schema and rules complete and refuse."""

from __future__ import annotations

from typing import Any

import pytest
from apiserver_client import DEFINITIONS, Client, refused
from hypothesis import given
from hypothesis import strategies as st

from headgate.api.install_manifests import definitions
from headgate.apiserver import Json

WORKLOADS = "/apis/scheduling.headgate.dev/v1alpha1/namespaces/default/workloads"
THE_WORKLOAD = f"{WORKLOADS}/train"
WRONG = 'Workload.scheduling.headgate.dev "train" is invalid: '
UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@pytest.fixture
def client() -> Client:
    return a_client()


def a_client() -> Client:
    client = Client()
    for definition in definitions():
        client.create(DEFINITIONS, definition)
    return client


def group(name: str = "workers", **policy: Any) -> Json:
    return {"name": name, "policy": policy or {"gang": {"minCount": 4}}}


def workload(*groups: Json, name: str = "train", **spec: Any) -> Json:
    kind = {"apiVersion": "scheduling.headgate.dev/v1alpha1", "kind": "Workload"}
    return {**kind, "metadata": {"name": name}, "spec": {"podGroups": list(groups) or [group()], **spec}}


def test_the_definition_is_established(client: Client) -> None:
    found = client.get(f"{DEFINITIONS}/workloads.scheduling.headgate.dev")
    conditions = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_a_gang_is_preempted_pod_by_pod_unless_it_says_otherwise(client: Client) -> None:
    created = client.create(WORKLOADS, workload())
    assert created["spec"]["podGroups"][0]["policy"] == {"gang": {"minCount": 4, "preemptionMode": "Pod"}}


@pytest.mark.parametrize(
    "given, message",
    [
        pytest.param(
            workload({**group(), "priorityClassName": "high"}),
            'strict decoding error: unknown field "spec.podGroups[0].priorityClassName"',
            id="a priority of a group",
        ),
        pytest.param(
            workload(group(gang={"minCount": 4, "preemptionMode": "Workers"})),
            'spec.podGroups[0].policy.gang.preemptionMode: Unsupported value: "Workers"',
            id="workers that are preempted while their leader is kept",
        ),
    ],
)
def test_groups_of_which_not_all_pods_are_treated_alike_are_refused(client: Client, given: Json, message: str) -> None:
    """What the schema does not know kubectl has the server refuse; nobody has it and waits for it to count."""
    _, _, said = refused(client.ask("POST", f"{WORKLOADS}?fieldValidation=Strict", given))
    assert message in said


@pytest.mark.parametrize(
    "given, message",
    [
        pytest.param(
            workload(group(gang={"minCount": 1}, basic={})),
            "spec.podGroups[0].policy: Invalid value: must have exactly one of gang and basic",
            id="two policies",
        ),
        pytest.param(
            {**workload(), "spec": {"podGroups": [{"name": "workers", "policy": {}}]}},
            "spec.podGroups[0].policy: Invalid value: must have exactly one of gang and basic",
            id="no policy",
        ),
        pytest.param(
            workload(group(gang={"minCount": 0})),
            "spec.podGroups[0].policy.gang.minCount: Invalid value: 0: spec.podGroups[0].policy.gang.minCount in body "
            "should be greater than or equal to 1",
            id="a gang of nobody",
        ),
        pytest.param(
            workload(group(gang={"minCount": 1, "preemptionMode": "Node"})),
            '[spec.podGroups[0].policy.gang.preemptionMode: Unsupported value: "Node": supported values: "Pod", '
            f'"PodGroup", {UNCHECKED}]',
            id="an unknown preemption mode",
        ),
        pytest.param(
            workload(group(), group()),
            'spec.podGroups[1]: Duplicate value: {"name":"workers"}',
            id="two groups of one name",
        ),
        pytest.param(
            {**workload(), "spec": {"podGroups": []}},
            "spec.podGroups: Invalid value: 0: spec.podGroups in body should have at least 1 items",
            id="no group",
        ),
        pytest.param(
            {**workload(), "spec": {}}, f"[spec.podGroups: Required value, {UNCHECKED}]", id="not even an empty list"
        ),
        pytest.param(
            workload(group("Workers")),
            'spec.podGroups[0].name: Invalid value: "Workers": spec.podGroups[0].name in body should match '
            "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
            id="a group no label can name",
        ),
        pytest.param(
            workload({**group(), "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}}),
            f"[spec.podGroups[0].schedulingConstraints.topology: Too many: 2: must have at most 1 item, {UNCHECKED}]",
            id="two topologies",
        ),
    ],
)
def test_a_new_workload_is_refused(client: Client, given: Json, message: str) -> None:
    assert refused(client.ask("POST", WORKLOADS, given)) == (422, "Invalid", WRONG + message)


def test_a_workload_has_a_name_that_a_label_can_hold(client: Client) -> None:
    code, _, message = refused(client.ask("POST", WORKLOADS, workload(name="a" * 64)))
    assert (code, message.partition("invalid: ")[2]) == (
        422,
        "<nil>: Invalid value: metadata.name must be no more than 63 characters, because pods name their workload in a "
        "label",
    )


IMMUTABLE = "Invalid value: field is immutable"


@pytest.mark.parametrize(
    "before, change, message",
    [
        pytest.param({"priorityClassName": "a"}, {"priorityClassName": "b"}, "spec.priorityClassName", id="changed"),
        pytest.param(
            {"priorityClassName": "a"}, {"priorityClassName": None}, "spec.priorityClassName", id="taken away"
        ),
        pytest.param({}, {"priorityClassName": "b"}, "spec.priorityClassName", id="set later"),
        pytest.param(
            {"preemptionPriorityClassName": "a"},
            {"preemptionPriorityClassName": "b"},
            "spec.preemptionPriorityClassName",
            id="the other one changed",
        ),
        pytest.param(
            {"preemptionPriorityClassName": "a"},
            {"preemptionPriorityClassName": None},
            "spec.preemptionPriorityClassName",
            id="the other one taken away",
        ),
        pytest.param(
            {}, {"preemptionPriorityClassName": "b"}, "spec.preemptionPriorityClassName", id="the other one set later"
        ),
    ],
)
def test_priority_classes_are_settled_at_creation(client: Client, before: Json, change: Json, message: str) -> None:
    client.create(WORKLOADS, workload(**before))
    answer = client.ask("PATCH", THE_WORKLOAD, {"spec": change}, "application/merge-patch+json")
    assert refused(answer) == (422, "Invalid", f"{WRONG}{message}: {IMMUTABLE}")


@pytest.mark.parametrize(
    "groups, message",
    [
        pytest.param(
            [group("other")], "spec.podGroups: Invalid value: groups may not be added, removed or renamed", id="renamed"
        ),
        pytest.param(
            [group(), group("other")],
            "spec.podGroups: Invalid value: groups may not be added, removed or renamed",
            id="added",
        ),
        pytest.param(
            [group(basic={})],
            "spec.podGroups[0].policy: Invalid value: may not change between gang and basic",
            id="of another policy",
        ),
        pytest.param(
            [group(gang={"minCount": 4, "preemptionMode": "PodGroup"})],
            'spec.podGroups[0].policy.gang.preemptionMode: Invalid value: "PodGroup": field is immutable',
            id="preempted otherwise",
        ),
        pytest.param(
            [{**group(), "schedulingConstraints": {"topology": [{"key": "zone"}]}}],
            f"spec.podGroups[0].schedulingConstraints: {IMMUTABLE}",
            id="placed otherwise",
        ),
    ],
)
def test_groups_stay_what_they_are(client: Client, groups: list[Json], message: str) -> None:
    client.create(WORKLOADS, workload())
    answer = client.ask("PATCH", THE_WORKLOAD, {"spec": {"podGroups": groups}}, "application/merge-patch+json")
    assert refused(answer) == (422, "Invalid", WRONG + message)


def test_the_size_of_a_gang_may_change_and_groups_may_be_named_in_any_order(client: Client) -> None:
    client.create(WORKLOADS, workload(group("a"), group("b")))
    swapped = [group("b", gang={"minCount": 2}), group("a")]
    changed = client.patch(THE_WORKLOAD, {"spec": {"podGroups": swapped}})
    assert [one["name"] for one in changed["spec"]["podGroups"]] == ["b", "a"]


def test_the_status_is_written_by_itself(client: Client) -> None:
    client.create(WORKLOADS, {**workload(), "status": {"priority": 7}})
    status = {"priority": 5, "preemptionPriority": 9}
    changed = client.patch(f"{THE_WORKLOAD}/status", {"status": status, "spec": {"priorityClassName": "x"}})
    assert (changed["status"], "priorityClassName" in changed["spec"]) == (status, False)


PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
FIELDS = st.sampled_from(
    ("podGroups", "name", "policy", "gang", "basic", "minCount", "preemptionMode", "priorityClassName", "topology")
)
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=12
)
GROUPS = st.lists(st.fixed_dictionaries({"name": PLAIN, "policy": ANYTHING}) | ANYTHING, max_size=3)


@given(before=GROUPS | ANYTHING, after=GROUPS | ANYTHING)
def test_whatever_comes_is_taken_or_refused(before: Any, after: Any) -> None:
    client = a_client()
    client.create(WORKLOADS, workload())
    for spec in ({"podGroups": before}, {"podGroups": after}, before):
        changed = client.ask("PATCH", THE_WORKLOAD, {"spec": spec}, "application/merge-patch+json")
        fresh = client.ask("POST", WORKLOADS, {**workload(name="other"), "spec": spec})
        assert changed.code in (200, 400, 422), changed.value
        assert fresh.code in (201, 400, 409, 422), fresh.value
