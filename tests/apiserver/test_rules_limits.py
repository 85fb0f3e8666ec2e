"""Limit ranges and runtime classes on the small server: what they are completed to, and what pods get of them."""

import pytest
from rules_builders import (
    Stored,
    admitted,
    cluster_wide,
    container,
    create_errors,
    created,
    namespaced,
    pod,
    requesting,
    update_errors,
)

from headgate.apiserver import ApiError


def limits(**bounds):
    return namespaced("LimitRange", spec={"limits": [{"type": "Container", **bounds}]})


def of_pod(**bounds):
    return namespaced("LimitRange", spec={"limits": [{"type": "Pod", **bounds}]})


def sandbox(**fields):
    return cluster_wide("RuntimeClass", "sandbox", handler="runsc", **fields)


def admit(new, *, ranges=(), classes=()):
    return admitted("CREATE", created(new), catalog=Stored(limitranges=list(ranges), runtimeclasses=list(classes)))


@pytest.mark.parametrize(
    "given, default, asked",
    [
        pytest.param({"max": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}, id="the most is the default limit and request"),
        pytest.param({"default": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "1"}, id="the default limit is the request"),
        pytest.param({"min": {"cpu": "1"}}, None, {"cpu": "1"}, id="the least is the default request"),
        pytest.param(
            {"max": {"cpu": "2"}, "min": {"cpu": "1"}, "defaultRequest": {"cpu": "1500m"}},
            {"cpu": "2"},
            {"cpu": "1500m"},
            id="what is said stays",
        ),
    ],
)
def test_what_a_limit_range_leaves_unsaid(given, default, asked):
    (item,) = created(limits(**given))["spec"]["limits"]
    assert (item.get("default"), item.get("defaultRequest")) == (default, asked)


@pytest.mark.parametrize(
    "value, error",
    [
        pytest.param(limits(max={"cpu": "1"}), "", id="one that is in order"),
        pytest.param(
            limits(type="Bag"),
            'spec.limits[0].type: Invalid value: "Bag": must be a standard limit type or fully qualified',
            id="of an unknown type",
        ),
        pytest.param(
            limits(max={"cpu": "1"}, min={"cpu": "2"}),
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
            id="more at least than at most",
        ),
        pytest.param(
            limits(default={"cpu": "1"}, defaultRequest={"cpu": "2"}),
            'spec.limits[0].defaultRequest[cpu]: Invalid value: "2": '
            "default request value 2 is greater than default limit value 1",
            id="a default request above the default limit",
        ),
        pytest.param(
            of_pod(default={"cpu": "1"}),
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
            id="a default for pods",
        ),
        pytest.param(
            limits(maxLimitRequestRatio={"cpu": "500m"}),
            'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1',
            id="a ratio below one",
        ),
        pytest.param(
            namespaced("LimitRange", spec={"limits": [{"type": "Pod"}, {"type": "Pod"}]}),
            'spec.limits[1].type: Duplicate value: "Pod"',
            id="one type twice",
        ),
        pytest.param(
            cluster_wide("RuntimeClass", handler=""), "handler: Required value", id="a runtime class without a handler"
        ),
        pytest.param(
            cluster_wide("RuntimeClass", handler="Runc"), "a lowercase RFC 1123 label", id="a handler of a bad name"
        ),
    ],
)
def test_what_may_be_said(value, error):
    errors = create_errors(value)
    assert (errors == []) if not error else (error in errors[0])


def test_the_handler_of_a_runtime_class_stays():
    assert update_errors({**sandbox(), "handler": "runc"}, sandbox()) == [
        'handler: Invalid value: "runc": field is immutable'
    ]


def test_a_pod_gets_what_it_does_not_say():
    ranges = [created(limits(default={"cpu": "2"}, defaultRequest={"cpu": "1", "memory": "1Gi"}))]
    found = admit(pod(containers=[container(resources={"requests": {"cpu": "500m"}})]), ranges=ranges)
    assert found["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"cpu": "2"},
    }
    told = "LimitRanger plugin set: memory request for container main; cpu limit for container main"
    assert found["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": told}


def test_limit_ranges_of_another_namespace_do_not_matter():
    elsewhere = {**limits(default={"cpu": "2"}), "metadata": {"name": "it", "namespace": "elsewhere"}}
    assert "annotations" not in admit(pod(), ranges=[created(elsewhere)])["metadata"]


@pytest.mark.parametrize(
    "value, bounds, why",
    [
        pytest.param(
            requesting({"cpu": "3"}, {"cpu": "3"}),
            limits(max={"cpu": "2"}),
            "maximum cpu usage per Container is 2, but limit is 3",
            id="a limit that is too high",
        ),
        pytest.param(
            requesting({"cpu": "1"}),
            limits(min={"cpu": "2"}),
            "minimum cpu usage per Container is 2, but request is 1",
            id="a request that is too low",
        ),
        pytest.param(
            requesting({"cpu": "1"}),
            of_pod(max={"cpu": "2"}),
            "maximum cpu usage per Pod is 2.  No limit is specified",
            id="a pod without a limit where there must be one",
        ),
        pytest.param(
            requesting({"cpu": "1"}, {"cpu": "3"}),
            limits(maxLimitRequestRatio={"cpu": "2"}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            id="a limit too far from the request",
        ),
    ],
)
def test_a_pod_out_of_bounds_is_refused(value, bounds, why):
    with pytest.raises(ApiError) as refusal:
        admit(value, ranges=[created(bounds)])
    assert str(refusal.value).endswith(f'pods "it" is forbidden: {why}')


def test_a_pod_gets_the_overhead_of_its_runtime_class():
    known = [created(sandbox(overhead={"podFixed": {"cpu": "250m"}}))]
    assert admit(pod(runtimeClassName="sandbox"), classes=known)["spec"]["overhead"] == {"cpu": "250m"}
    assert "overhead" not in admit(pod(), classes=known)["spec"]


@pytest.mark.parametrize(
    "spec, why",
    [
        pytest.param({"runtimeClassName": "none"}, 'RuntimeClass "none" not found', id="a class that is not there"),
        pytest.param(
            {"runtimeClassName": "sandbox", "overhead": {"cpu": "1"}},
            "Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            id="another overhead than that of its class",
        ),
        pytest.param(
            {"overhead": {"cpu": "1"}},
            "Pod Overhead set without corresponding RuntimeClass defined Overhead",
            id="an overhead without a class",
        ),
    ],
)
def test_a_pod_whose_overhead_is_not_that_of_its_class_is_refused(spec, why):
    with pytest.raises(ApiError) as refusal:
        admit(pod(**spec), classes=[created(sandbox(overhead={"podFixed": {"cpu": "250m"}}))])
    assert str(refusal.value).endswith(f'pods "it" is forbidden: pod rejected: {why}')
