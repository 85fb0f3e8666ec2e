"""A spec of a queued workload that stays is decoded once, and mistakes are named by their place all the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.keys import Kind
from headgate.model.queues import QueuedWorkload

SPEC = {"podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": []}}}]}
ASSIGNED = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "f"}}]}


def read(spec: Any = SPEC, **parts: Any) -> QueuedWorkload:
    metadata = {"name": "w", "namespace": "d", "uid": "u", **parts.pop("metadata", {})}
    found = decode(Kind.KUEUE_WORKLOAD, msgspec.json.encode({"metadata": metadata, "spec": spec, **parts}))
    assert isinstance(found, QueuedWorkload)
    return found


def test_pod_sets_that_stay_are_the_very_same():
    status = {"admission": ASSIGNED}
    one, other = (read(status=status, metadata={"resourceVersion": version}) for version in ("1", "2"))
    assert (one.version, other.version) == ("1", "2")
    assert one.pod_sets is other.pod_sets
    assert one.status == other.status


def test_a_status_means_what_it_says_beside_its_spec():
    more = {"podSets": [{**SPEC["podSets"][0], "count": 3}]}
    counts = [
        found.status.admission.pod_sets[0].count
        for found in (read(status={"admission": ASSIGNED}, spec=spec) for spec in (SPEC, more))
        if found.status.admission
    ]
    assert counts == [2, 3]


@pytest.mark.parametrize(
    "parts, path",
    [
        pytest.param({"spec": {}}, "$.spec", id="no pod sets"),
        pytest.param({"spec": {"podSets": [{"count": 1}]}}, "$.spec.podSets[0]", id="a pod set without a template"),
        pytest.param({"spec": {**SPEC, "priority": "high"}}, "$.spec.priority", id="a priority that is no number"),
        pytest.param({"status": None}, "$.status", id="no status where one must be"),
        pytest.param({"status": {"conditions": [{"type": "A"}]}}, "$.status.conditions[0]", id="half a condition"),
        pytest.param(
            {"status": {"admission": {}}, "spec": 1}, "$.status.admission", id="the first mistake in the text"
        ),
    ],
)
def test_a_mistake_is_named_by_its_place_in_the_object(parts: dict[str, Any], path: str):
    raw = msgspec.json.encode({"metadata": {"name": "w"}, **parts, **({} if "spec" in parts else {"spec": SPEC})})
    for _again in range(2):
        with pytest.raises(InvalidObject) as refused:
            decode(Kind.KUEUE_WORKLOAD, raw)
        assert refused.value.path == path


def pod_sets(spec: Any = None, **fields: Any) -> Any:
    return {"podSets": [{"name": "main", "template": {"spec": {"containers": [], **(spec or {})}}, **fields}]}


@pytest.mark.parametrize(
    "spec, annotations, unsupported",
    [
        pytest.param(pod_sets(), {}, (), id="nothing"),
        pytest.param(pod_sets(topologyRequest=None), {}, (), id="a topology that is null"),
        pytest.param(
            pod_sets(topologyRequest={"podIndexLabel": "a", "unconstrained": False, "required": ""}),
            {},
            (),
            id="a topology request that requests nothing",
        ),
        pytest.param(
            pod_sets(topologyRequest={"required": "rack", "podSetSliceSize": 2}),
            {},
            ("topologyRequest of pod set main (required: rack)",),
            id="a topology",
        ),
        pytest.param(
            pod_sets({"resourceClaims": [{"name": "a"}, {"name": "b", "resourceClaimName": "c"}]}),
            {},
            ("resourceClaims of pod set main (a, b)",),
            id="claims",
        ),
        pytest.param(pod_sets({"resourceClaims": []}), {"example.com/other": "x"}, (), id="no claims"),
        pytest.param(
            pod_sets(topologyRequest={"unconstrained": True}),
            {"kueue.x-k8s.io/elastic-job": "true"},
            ("topologyRequest of pod set main (unconstrained: true)", "annotation kueue.x-k8s.io/elastic-job"),
            id="several",
        ),
    ],
)
def test_what_a_workload_asks_for_that_is_not_built(spec, annotations, unsupported):
    assert read(spec, metadata={"annotations": annotations}).unsupported == unsupported
