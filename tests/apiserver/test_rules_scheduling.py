"""The rules on where a pod may go: selectors, affinity, tolerations, gates, spreading."""

from __future__ import annotations

import pytest
from rules_builders import create_errors, pod

from headgate.apiserver import Json

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_TERM = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"
POD_TERM = f"spec.affinity.podAffinity.{REQUIRED}[0]"


def on_nodes(**requirement: object) -> Json:
    terms = [{"matchExpressions": [requirement]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def near(**term: object) -> Json:
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def spread(**constraint: object) -> Json:
    whole = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **constraint}
    return {"topologySpreadConstraints": [whole]}


@pytest.mark.parametrize(
    "spec, expected",
    [
        pytest.param(on_nodes(key="zone", operator="In", values=["a"]), [], id="a node affinity is fine"),
        pytest.param(
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
            [
                f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: "
                "must have at least one node selector term"
            ],
            id="no term at all",
        ),
        pytest.param(
            on_nodes(key="zone", operator="In"),
            [
                f"{NODE_TERM}.matchExpressions[0].values: Required value: "
                "must be specified when `operator` is 'In' or 'NotIn'"
            ],
            id="In without values",
        ),
        pytest.param(
            on_nodes(key="zone", operator="Exists", values=["a"]),
            [
                f"{NODE_TERM}.matchExpressions[0].values: Forbidden: "
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            ],
            id="Exists with values",
        ),
        pytest.param(
            on_nodes(key="zone", operator="Gt", values=["1", "2"]),
            [
                f"{NODE_TERM}.matchExpressions[0].values: Required value: "
                "must be specified single value when `operator` is 'Lt' or 'Gt'"
            ],
            id="Gt with two values",
        ),
        pytest.param(
            on_nodes(key="zone", operator="Near", values=["a"]),
            [f'{NODE_TERM}.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator'],
            id="an unknown operator",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}}},
            [f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight: Invalid value: 101: must be in the range 1-100"],
            id="a weight beyond 100",
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}
                            ]
                        }
                    }
                }
            },
            [f'{NODE_TERM}.matchFields[0].key: Invalid value: "spec.x": not a valid field selector key'],
            id="a field that cannot be selected by",
        ),
        pytest.param(near(topologyKey="zone", labelSelector={}), [], id="a pod affinity is fine"),
        pytest.param(
            near(labelSelector={}),
            [
                f"{POD_TERM}.topologyKey: Required value: can not be empty",
                f'{POD_TERM}.topologyKey: Invalid value: "": name part must be non-empty',
                f'{POD_TERM}.topologyKey: Invalid value: "": name part must consist of',
            ],
            id="a pod affinity without a topology",
        ),
        pytest.param(
            near(topologyKey="zone", matchLabelKeys=["a"]),
            [f"{POD_TERM}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"],
            id="label keys without a selector",
        ),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists"}]}, [], id="a toleration is fine"),
        pytest.param(
            {"tolerations": [{"operator": "Equal"}]},
            [
                'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"'
            ],
            id="a toleration of one value of every key",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]},
            ["spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'"],
            id="a toleration that exists and has a value",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]},
            [
                'spec.tolerations[0].effect: Invalid value: "": '
                "effect must be 'NoExecute' when `tolerationSeconds` is set"
            ],
            id="seconds without NoExecute",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "effect": "Never"}]},
            [
                'spec.tolerations[0].effect: Unsupported value: "Never": '
                'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
            ],
            id="an unknown effect",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Like"}]},
            ['spec.tolerations[0].operator: Unsupported value: "Like": supported values: "Equal", "Exists"'],
            id="an unknown toleration operator",
        ),
        pytest.param({"schedulingGates": [{"name": "a.b/c"}, {"name": "d"}]}, [], id="two gates are fine"),
        pytest.param(
            {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
            ['spec.schedulingGates[1]: Duplicate value: "a"'],
            id="one gate twice",
        ),
        pytest.param(spread(), [], id="a spread constraint is fine"),
        pytest.param(
            spread(maxSkew=0),
            ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
            id="no skew allowed",
        ),
        pytest.param(
            spread(topologyKey=""),
            ["spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty"],
            id="a spread over nothing",
        ),
        pytest.param(
            spread(whenUnsatisfiable="Wait"),
            [
                'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Wait": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"'
            ],
            id="an unknown reaction",
        ),
        pytest.param(
            spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2),
            [
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: "
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
            ],
            id="domains demanded of a wish",
        ),
        pytest.param(
            {"topologySpreadConstraints": spread()["topologySpreadConstraints"] * 2},
            [
                "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: "
                'Duplicate value: "{zone, DoNotSchedule}"'
            ],
            id="one constraint twice",
        ),
        pytest.param(
            spread(nodeTaintsPolicy="Ask"),
            [
                'spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "Ask": '
                'supported values: "Honor", "Ignore"'
            ],
            id="an unknown policy on taints",
        ),
    ],
)
def test_where_a_pod_may_go(spec: Json, expected: list[str]) -> None:
    errors = create_errors(pod(**spec))
    assert len(errors) == len(expected), errors
    assert all(map(str.startswith, errors, expected)), errors


def test_a_gate_needs_a_qualified_name() -> None:
    (error,) = create_errors(pod(schedulingGates=[{"name": "not good"}]))
    assert error.startswith('spec.schedulingGates[0]: Invalid value: "not good": name part must consist of')
