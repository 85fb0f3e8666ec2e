"""Nodes, namespaces, priority classes, budgets, leases; the words in which errors are shown; the Priority plugin."""

from __future__ import annotations

import pytest
from rules_builders import (
    Stored,
    admitted,
    cluster_wide,
    create_errors,
    created,
    namespaced,
    pod,
    status_errors,
    update_errors,
)

from headgate.apiserver import INITIAL_OBJECTS, ApiError, Complaint, FieldError, Json
from headgate.apiserver.field_errors import OMITTED, render, same


@pytest.mark.parametrize(
    "error, text",
    [
        pytest.param(FieldError("a.b", Complaint.REQUIRED), "a.b: Required value", id="required without a detail"),
        pytest.param(FieldError("a", Complaint.INVALID, "x", "v"), 'a: Invalid value: "v": x', id="words in quotes"),
        pytest.param(FieldError("a", Complaint.INVALID, "x", 5), "a: Invalid value: 5: x", id="bare numbers"),
        pytest.param(FieldError("a", Complaint.INVALID, "x", True), "a: Invalid value: true: x", id="yes and no"),
        pytest.param(FieldError("a", Complaint.INVALID, "x", None), "a: Invalid value: null: x", id="nothing"),
        pytest.param(FieldError("a", Complaint.INVALID, "x", OMITTED), "a: Invalid value: x", id="no value shown"),
        pytest.param(
            FieldError("a", Complaint.INVALID, "x", {"b": 1, "a": [2]}),
            'a: Invalid value: {"a":[2],"b":1}: x',
            id="objects as sorted JSON",
        ),
        pytest.param(FieldError("a", Complaint.DUPLICATE, value="v"), 'a: Duplicate value: "v"', id="duplicates"),
        pytest.param(FieldError("a", Complaint.FORBIDDEN, "x", "v"), "a: Forbidden: x", id="forbidden hides the value"),
        pytest.param(
            FieldError("a", Complaint.TOO_MANY, "must have at most 1 item", 2),
            "a: Too many: 2: must have at most 1 item",
            id="too many",
        ),
    ],
)
def test_errors_read_as_on_a_real_server(error: FieldError, text: str) -> None:
    assert render(error) == text


@pytest.mark.parametrize(
    "one, other, alike",
    [
        pytest.param({"a": []}, {}, True, id="an empty list is not there"),
        pytest.param({"a": {"b": None}}, {}, True, id="an object of nulls is not there"),
        pytest.param({"a": 0}, {}, False, id="zero is there"),
        pytest.param({"a": False}, {}, False, id="no is there"),
        pytest.param([1], [1, 2], False, id="lists of other lengths differ"),
        pytest.param([{"a": ""}], [{}], True, id="in lists too"),
    ],
)
def test_what_means_the_same(one: object, other: object, alike: bool) -> None:
    assert same(one, other) is alike
    assert same(other, one) is alike


def test_allocatable_is_the_capacity_unless_said() -> None:
    node = created(cluster_wide("Node", status={"capacity": {"cpu": 4, "memory": "1024Mi"}}))
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "1Gi"}


def test_a_new_node_takes_no_pods_before_it_is_ready() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert admitted("CREATE", cluster_wide("Node", spec={}))["spec"] == {"taints": [taint]}
    ready = cluster_wide("Node", spec={}, status={"conditions": [{"type": "Ready", "status": "True"}]})
    assert admitted("CREATE", ready)["spec"] == {}


def test_a_namespace_carries_its_name_and_is_active() -> None:
    namespace = created(cluster_wide("Namespace", "team"))
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert namespace["status"] == {"phase": "Active"}
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}


def taints(*given: Json) -> Json:
    return cluster_wide("Node", spec={"taints": list(given)})


@pytest.mark.parametrize(
    "given, expected",
    [
        pytest.param(taints({"key": "a", "effect": "NoSchedule"}), [], id="a taint is fine"),
        pytest.param(taints({"key": "a"}), ["metadata.taints[0].effect: Required value"], id="a taint without effect"),
        pytest.param(
            taints({"key": "a", "effect": "No"}),
            [
                'metadata.taints[0].effect: Unsupported value: "No": '
                'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
            ],
            id="an unknown effect",
        ),
        pytest.param(
            taints({"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "x"}),
            [
                'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"x","Effect":"NoSchedule","TimeAdded":null}: '
                "taints must be unique by key and effect pair"
            ],
            id="one taint twice",
        ),
        pytest.param(
            cluster_wide("Node", status={"capacity": {"cpu": "-1"}}),
            [
                'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
                'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
            ],
            id="less than no room",
        ),
        pytest.param(
            {**cluster_wide("Node"), "metadata": {"name": "n", "namespace": "x"}},
            ["metadata.namespace: Forbidden: not allowed on this type"],
            id="a node in a namespace",
        ),
        pytest.param(
            cluster_wide("Namespace", "a.b"), ['metadata.name: Invalid value: "a.b": must not contain dots'], id="dots"
        ),
        pytest.param(cluster_wide("PriorityClass", value=1_000_000_000), [], id="the highest priority of users"),
        pytest.param(
            cluster_wide("PriorityClass", value=1_000_000_001),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
            id="a priority beyond it",
        ),
        pytest.param(
            cluster_wide("PriorityClass", "system-mine", value=1),
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only."
                " error: system-mine is not a known system priority class"
            ],
            id="a system class of one's own",
        ),
        pytest.param(
            cluster_wide("PriorityClass", "system-node-critical", value=1),
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only."
                " error: value of system-node-critical PriorityClass must be 2000001000"
            ],
            id="a system class of another value",
        ),
        pytest.param(
            cluster_wide("PriorityClass", value=1, preemptionPolicy="Maybe"),
            ['preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"'],
            id="an unknown preemption policy",
        ),
        pytest.param(namespaced("PodDisruptionBudget", spec={"minAvailable": "50%"}), [], id="a budget is fine"),
        pytest.param(
            namespaced("PodDisruptionBudget", spec={"minAvailable": "150%"}),
            ['spec.minAvailable: Invalid value: "150%": must not be greater than 100%'],
            id="more than all",
        ),
        pytest.param(
            namespaced("PodDisruptionBudget", spec={"minAvailable": -1}),
            ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
            id="fewer than none",
        ),
        pytest.param(
            namespaced("PodDisruptionBudget", spec={"minAvailable": 1, "maxUnavailable": 1}),
            [
                'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,'
                '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set'
            ],
            id="a budget with two numbers",
        ),
        pytest.param(
            namespaced("Lease", spec={"leaseDurationSeconds": 0}),
            ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
            id="a lease for no time",
        ),
        pytest.param(
            {"kind": "ConfigMap", "metadata": {"name": "x"}}, ["metadata.namespace: Required value"], id="no namespace"
        ),
    ],
)
def test_what_new_objects_may_not_be(given: Json, expected: list[str]) -> None:
    assert create_errors(given) == expected


@pytest.mark.parametrize("given", INITIAL_OBJECTS, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_what_is_there_from_the_start_is_valid(given: Json) -> None:
    assert create_errors(given) == []


CLASS = created(cluster_wide("PriorityClass", "high", value=100))
NODE = created(cluster_wide("Node", spec={"providerID": "a"}))
FROZEN = created(namespaced("ConfigMap", data={"a": "b"}, immutable=True))


@pytest.mark.parametrize(
    "old, change, expected",
    [
        pytest.param(CLASS, {"description": "x"}, [], id="a description may change"),
        pytest.param(CLASS, {"value": 5}, ["value: Forbidden: may not be changed in an update."], id="a value may not"),
        pytest.param(
            CLASS,
            {"preemptionPolicy": "Never"},
            ['preemptionPolicy: Invalid value: "Never": field is immutable'],
            id="a preemption policy may not",
        ),
        pytest.param(NODE, {"spec": {"providerID": "a", "unschedulable": True}}, [], id="a node may be cordoned"),
        pytest.param(
            NODE,
            {"spec": {"providerID": "b"}},
            ['spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'],
            id="a node stays the same machine",
        ),
        pytest.param(
            FROZEN,
            {"data": {"a": "c"}},
            ["data: Forbidden: field is immutable when `immutable` is set"],
            id="a frozen map stays frozen",
        ),
    ],
)
def test_what_may_change(old: Json, change: Json, expected: list[str]) -> None:
    assert update_errors({**old, **change}, old) == expected


def test_an_active_namespace_is_not_terminating() -> None:
    assert status_errors({"phase": "Terminating"}, created(cluster_wide("Namespace", "team"))) == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]


CALM = created(cluster_wide("PriorityClass", "calm", value=7, preemptionPolicy="Never"))
USUAL = created(cluster_wide("PriorityClass", "usual", value=50, globalDefault=True))


@pytest.mark.parametrize(
    "classes, spec, expected",
    [
        pytest.param([], {}, (None, 0, "PreemptLowerPriority"), id="without classes the priority is zero"),
        pytest.param([CLASS], {"priorityClassName": "high"}, ("high", 100, "PreemptLowerPriority"), id="a named class"),
        pytest.param([CALM], {"priorityClassName": "calm"}, ("calm", 7, "Never"), id="a class that never preempts"),
        pytest.param([CLASS, USUAL], {}, ("usual", 50, "PreemptLowerPriority"), id="the global default"),
        pytest.param([USUAL], {"priority": 50}, ("usual", 50, "PreemptLowerPriority"), id="a priority that is right"),
    ],
)
def test_priority_comes_from_the_class(classes: list[Json], spec: Json, expected: tuple[str, int, str]) -> None:
    stored = admitted("CREATE", created(pod(**spec)), catalog=Stored(priorityclasses=classes))["spec"]
    assert (stored.get("priorityClassName"), stored["priority"], stored["preemptionPolicy"]) == expected


@pytest.mark.parametrize(
    "given, message",
    [
        pytest.param(
            pod(priorityClassName="none"),
            'pods "it" is forbidden: no PriorityClass with name none was found',
            id="an unknown class",
        ),
        pytest.param(
            pod(priorityClassName="calm", priority=9),
            'pods "it" is forbidden: the integer value of priority (9) must not be provided in pod spec; '
            "priority admission controller computed 7 from the given PriorityClass name",
            id="a priority of one's own",
        ),
        pytest.param(
            pod(priorityClassName="calm", preemptionPolicy="PreemptLowerPriority"),
            'pods "it" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided '
            "in pod spec; priority admission controller computed Never from the given PriorityClass name",
            id="a policy of one's own",
        ),
        pytest.param(
            cluster_wide("PriorityClass", "second", value=1, globalDefault=True),
            'priorityclasses.scheduling.k8s.io "second" is forbidden: '
            "PriorityClass usual is already marked as default. Only one default can exist",
            id="a second global default",
        ),
    ],
)
def test_what_the_priority_plugin_refuses(given: Json, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        admitted("CREATE", created(given), catalog=Stored(priorityclasses=[CALM, USUAL]))
    assert (refusal.value.code, refusal.value.reason, refusal.value.message) == (403, "Forbidden", message)


def test_the_global_default_may_be_updated() -> None:
    new = {**USUAL, "description": "x"}
    assert admitted("UPDATE", new, USUAL, Stored(priorityclasses=[USUAL])) == new
