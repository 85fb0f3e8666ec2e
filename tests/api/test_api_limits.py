"""Limit ranges and runtime classes from the wire."""

import json

import pytest
from builders import amounts

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.keys import Key, Kind
from headgate.model.objects import Bounds, LimitRange, RuntimeClass
from headgate.model.resources import ContainerNeeds, TemplateNeeds

META = {"name": "a", "namespace": "d", "uid": "u", "resourceVersion": "7"}


def read(kind, metadata=META, **manifest):
    return decode(kind, json.dumps({"metadata": metadata, **manifest}).encode())


def test_a_limit_range():
    container = {
        "type": "Container",
        "max": {"cpu": "2"},
        "min": {"cpu": "100m"},
        "default": {"cpu": 1},
        "defaultRequest": {"memory": "1Mi"},
        "maxLimitRequestRatio": {"cpu": "4"},
    }
    others = [{"type": "Pod", "max": {"memory": "4Mi"}}, {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}]
    assert read(Kind.LIMIT_RANGE, spec={"limits": [container, *others]}) == LimitRange(
        Key(Kind.LIMIT_RANGE, "d", "a"),
        "u",
        "7",
        (Bounds(amounts(2000), amounts(100), amounts(1000), amounts(memory=1)),),
        (Bounds(amounts(memory=4)),),
    )


def test_a_limit_range_that_says_nothing():
    assert read(Kind.LIMIT_RANGE, spec={}).containers == ()


def test_a_runtime_class():
    metadata = {"name": "sandboxed", "uid": "u", "resourceVersion": "7"}
    found = read(Kind.RUNTIME_CLASS, metadata, handler="runsc", overhead={"podFixed": {"cpu": "250m"}})
    assert found == RuntimeClass(Key(Kind.RUNTIME_CLASS, "", "sandboxed"), "u", "7", amounts(250))
    assert read(Kind.RUNTIME_CLASS, metadata, handler="runc").overhead == amounts()


@pytest.mark.parametrize(
    "kind, manifest, path",
    [
        pytest.param(
            Kind.LIMIT_RANGE,
            {"spec": {"limits": [{"type": "Pod"}, {"type": "Container", "default": {"cpu": "x"}}]}},
            "$.spec.limits[1].default.cpu",
            id="a default that is no amount",
        ),
        pytest.param(Kind.LIMIT_RANGE, {"spec": {"limits": [{}]}}, "$.spec.limits[0]", id="a limit of no type"),
        pytest.param(
            Kind.RUNTIME_CLASS,
            {"overhead": {"podFixed": {"cpu": "x"}}},
            "$.overhead.podFixed.cpu",
            id="an overhead that is no amount",
        ),
    ],
)
def test_what_is_wrong_is_told_precisely(kind, manifest, path):
    with pytest.raises(InvalidObject) as wrong:
        read(kind, **manifest)
    assert wrong.value.path == path


def test_what_a_template_says_is_kept_as_it_is_written():
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Mi"}}}],
        "initContainers": [{"name": "i", "restartPolicy": "Always"}],
        "resources": {"limits": {"cpu": "3"}},
        "overhead": {"cpu": "100m"},
        "runtimeClassName": "sandboxed",
    }
    found = read(Kind.KUEUE_WORKLOAD, spec={"podSets": [{"template": {"spec": spec}}]})
    assert found.pod_sets[0].needs == TemplateNeeds(
        containers=(ContainerNeeds(amounts(1000), amounts(2000, 1)),),
        init_containers=(ContainerNeeds(is_sidecar=True),),
        whole_pod=ContainerNeeds(limits=amounts(3000)),
        overhead=amounts(100),
        runtime_class="sandboxed",
    )
