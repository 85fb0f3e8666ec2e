"""What may change about a pod, and what may be reported about it."""

from __future__ import annotations

import pytest
from rules_builders import (
    TYPES,
    admitted,
    container,
    created,
    pod,
    status_errors,
    update_errors,
    with_metadata,
    with_spec,
)

from headgate.apiserver import Json

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
FIXED = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
TOLERATION = {"key": "a", "operator": "Exists"}


def zone(*values: str) -> Json:
    return {"key": "zone", "operator": "In", "values": list(values)}


def affinity(*terms: list[Json]) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}}}


def gated(**spec: object) -> Json:
    return pod(schedulingGates=[{"name": "a"}, {"name": "b"}], **spec)


@pytest.mark.parametrize(
    "before, change, expected",
    [
        pytest.param(pod(), {"containers": [container(image="registry.example/none:2")]}, [], id="an image may change"),
        pytest.param(pod(), {"nodeSelector": {"zone": "a"}}, [FIXED], id="a node selector may not"),
        pytest.param(pod(), {"priority": 5}, [FIXED], id="a priority may not"),
        pytest.param(pod(), {"nodeName": "n"}, [FIXED], id="a node comes by binding only"),
        pytest.param(
            pod(),
            {"containers": [container(), container("more")]},
            ["spec.containers: Forbidden: pod updates may not add or remove containers"],
            id="a container may not be added",
        ),
        pytest.param(pod(), {"activeDeadlineSeconds": 5}, [], id="a deadline may be set"),
        pytest.param(
            pod(activeDeadlineSeconds=5),
            {"activeDeadlineSeconds": 6},
            ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"],
            id="a deadline may not be put off",
        ),
        pytest.param(
            pod(activeDeadlineSeconds=5),
            {"activeDeadlineSeconds": None},
            ["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"],
            id="a deadline may not be dropped",
        ),
        pytest.param(pod(), {"tolerations": [TOLERATION]}, [], id="a toleration may be added"),
        pytest.param(
            pod(tolerations=[TOLERATION]),
            {"tolerations": []},
            ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
            id="a toleration may not be taken away",
        ),
        pytest.param(gated(), {"schedulingGates": [{"name": "b"}]}, [], id="a gate may go, in any order"),
        pytest.param(gated(), {"schedulingGates": []}, [], id="all gates may go"),
        pytest.param(
            gated(),
            {"schedulingGates": [{"name": "a"}, {"name": "x"}]},
            ["spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x'"],
            id="a gate may not be exchanged",
        ),
        pytest.param(
            pod(),
            {"schedulingGates": [{"name": "x"}]},
            ["spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x'"],
            id="a gate may not be added later",
        ),
        pytest.param(gated(), {"nodeSelector": {"zone": "a"}}, [], id="behind a gate a node selector may be added"),
        pytest.param(
            gated(nodeSelector={"zone": "a"}),
            {"nodeSelector": {"zone": "b"}},
            [
                'spec.nodeSelector: Invalid value: {"zone":"b"}: '
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            ],
            id="behind a gate a node selector may not be changed",
        ),
        pytest.param(
            gated(),
            {"schedulingGates": [], "nodeSelector": {"zone": "a"}},
            [],
            id="the update that removes the last gate may still add a node selector",
        ),
        pytest.param(gated(), {"affinity": affinity([zone("a")])}, [], id="behind a gate a node affinity may be set"),
        pytest.param(
            gated(affinity=affinity([zone("a", "b")])),
            {"affinity": affinity([zone("a", "b"), zone("a")])},
            [],
            id="behind a gate a term may be narrowed",
        ),
        pytest.param(
            gated(affinity=affinity([zone("a")])),
            {"affinity": affinity([zone("b")])},
            [
                f'{TERMS}[0]: Invalid value: {{"matchExpressions":[{{"key":"zone","operator":"In","values":["b"]}}]}}: '
                "only additions are allowed (no mutations or deletions)"
            ],
            id="behind a gate a term may not be changed",
        ),
        pytest.param(
            gated(affinity=affinity([zone("a")])),
            {"affinity": affinity([zone("a")], [zone("b")])},
            [
                f'{TERMS}: Invalid value: [{{"matchExpressions":[{{"key":"zone","operator":"In","values":["a"]}}]}},'
                '{"matchExpressions":[{"key":"zone","operator":"In","values":["b"]}]}]: '
                "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
            ],
            id="behind a gate a second term would widen the choice",
        ),
        pytest.param(
            gated(affinity=affinity([])),
            {"affinity": affinity([zone("a")])},
            [
                f'{TERMS}[0]: Invalid value: {{"matchExpressions":[{{"key":"zone","operator":"In","values":["a"]}}]}}: '
                "only additions are allowed (no mutations or deletions)"
            ],
            id="a term that matches nothing stays so",
        ),
        pytest.param(
            gated(),
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]
                    }
                }
            },
            [],
            id="behind a gate wishes are free",
        ),
        pytest.param(
            gated(),
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}}]}}},
            [FIXED],
            id="pod affinity never changes",
        ),
    ],
)
def test_what_may_change(before: Json, change: Json, expected: list[str]) -> None:
    old = created(before)
    assert update_errors(with_spec(old, **change), old) == expected


def test_a_negative_grace_of_old_may_become_one() -> None:
    old = with_spec(created(pod()), terminationGracePeriodSeconds=-5)
    assert update_errors(with_spec(old, terminationGracePeriodSeconds=1), old) == []


def test_an_update_keeps_the_status() -> None:
    old = created(pod())
    new = {**old, "status": {"phase": "Running"}}
    assert TYPES["Pod"].rules.prepare_update(new, old)["status"] == old["status"]


def test_an_update_without_a_priority_keeps_it() -> None:
    old = admitted("CREATE", created(pod()))
    new = {**old, "spec": {name: value for name, value in old["spec"].items() if name != "priority"}}
    assert admitted("UPDATE", new, old)["spec"]["priority"] == 0


@pytest.mark.parametrize(
    "fields, expected",
    [
        pytest.param({"labels": {"a": "b"}}, [], id="labels may change"),
        pytest.param(
            {"name": "other"}, ['metadata.name: Invalid value: "other": field is immutable'], id="not the name"
        ),
        pytest.param({"uid": "other"}, ['metadata.uid: Invalid value: "other": field is immutable'], id="not the uid"),
    ],
)
def test_what_may_change_about_metadata(fields: Json, expected: list[str]) -> None:
    old = created(pod())
    assert update_errors(with_metadata(old, **fields), old) == expected


def test_nothing_new_may_keep_an_object_that_is_going() -> None:
    old = with_metadata(created(pod()), deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a.b/c"])
    assert update_errors(with_metadata(old, finalizers=["a.b/c", "a.b/d"]), old) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a.b/d"}'
    ]
    assert update_errors(with_metadata(old, finalizers=[]), old) == []


@pytest.mark.parametrize(
    "status, expected",
    [
        pytest.param({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, [], id="a report"),
        pytest.param({"nominatedNodeName": "n-1"}, [], id="a nomination"),
        pytest.param(
            {"qosClass": "Guaranteed"},
            ['status.qosClass: Invalid value: "Guaranteed": field is immutable'],
            id="the quality of service is settled",
        ),
    ],
)
def test_what_may_be_reported(status: Json, expected: list[str]) -> None:
    assert status_errors(status, created(pod())) == expected


def test_a_bound_pod_is_not_nominated() -> None:
    assert status_errors({"nominatedNodeName": "n-2"}, created(pod(nodeName="n-1"))) == [
        "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
    ]


def test_a_report_changes_nothing_but_the_status() -> None:
    old = created(pod())
    written = TYPES["Pod"].rules.prepare_status({**with_spec(old, priority=7), "status": {"phase": "Running"}}, old)
    assert written == {**old, "status": {"phase": "Running", "qosClass": "BestEffort"}}
