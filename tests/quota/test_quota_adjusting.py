"""What limit ranges and runtime classes make of what a template asks for, and which templates they forbid."""

import pytest
from builders import amounts
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.keys import Key, Kind
from headgate.model.objects import Bounds, LimitRange
from headgate.model.pod import PodShape
from headgate.model.queues import PodSet
from headgate.model.resources import ContainerNeeds, Resources, TemplateNeeds
from headgate.quota.requests import Adjustments, limits_of, problem_of, requests_of
from headgate.quota.requests import NamespaceLimits as Limits

SPEC = "spec.podSets[0].template.spec"
OVERHEADS = {"sandboxed": amounts(cpu=250)}
COMPLETES = Bounds(default=amounts(cpu=2000, memory=64), default_request=amounts(cpu=500))


def asking(cpu=0, limit=0, memory=0, is_sidecar=False):
    return ContainerNeeds(amounts(cpu, memory), amounts(limit), is_sidecar)


def pods(*containers, own=None, **fields):
    needs = TemplateNeeds(containers, **fields)
    return PodSet("main", PodShape(requests=own or amounts()), needs=needs)


def ranges(*containers, pods=(), name="limits"):
    return LimitRange(Key(Kind.LIMIT_RANGE, "default", name), f"uid-{name}", "1", containers, pods)


@pytest.mark.parametrize(
    "pod_set, limits, asked",
    [
        pytest.param(pods(own=amounts(cpu=7)), Limits(), amounts(cpu=7), id="without limit ranges it is as read"),
        pytest.param(pods(asking()), Limits(COMPLETES), amounts(500, 64), id="who says nothing gets the defaults"),
        pytest.param(pods(asking(cpu=100)), Limits(COMPLETES), amounts(100, 64), id="who asks keeps its request"),
        pytest.param(pods(asking(limit=900)), Limits(COMPLETES), amounts(500, 64), id="a default before a limit"),
        pytest.param(
            pods(asking(limit=900)),
            Limits(Bounds()),
            amounts(900),
            id="without a default as much as the limit",
        ),
        pytest.param(pods(asking(), asking()), Limits(COMPLETES), amounts(1000, 128), id="every container for itself"),
        pytest.param(
            pods(asking(cpu=100), init_containers=(asking(),)),
            Limits(COMPLETES),
            amounts(500, 64),
            id="init containers too",
        ),
        pytest.param(
            pods(asking(cpu=100), init_containers=(asking(is_sidecar=True),)),
            Limits(COMPLETES),
            amounts(600, 128),
            id="a sidecar runs beside",
        ),
        pytest.param(pods(asking()), Limits(pod=COMPLETES), amounts(), id="defaults for pods are not for containers"),
        pytest.param(
            pods(asking(cpu=100), whole_pod=ContainerNeeds()),
            Limits(pod=COMPLETES),
            amounts(500, 64),
            id="defaults for pods are for those that ask as a whole",
        ),
        pytest.param(
            pods(asking(cpu=100), own=amounts(cpu=100), runtime_class="sandboxed"),
            Limits(),
            amounts(cpu=350),
            id="the overhead of its runtime class",
        ),
        pytest.param(
            pods(own=amounts(cpu=130), overhead=amounts(cpu=30), runtime_class="sandboxed"),
            Limits(),
            amounts(cpu=130),
            id="an overhead it says itself",
        ),
        pytest.param(
            pods(own=amounts(cpu=100), runtime_class="unknown"),
            Limits(),
            amounts(cpu=100),
            id="a class not there",
        ),
    ],
)
def test_what_one_pod_asks_for(pod_set, limits, asked):
    assert requests_of(pod_set, Adjustments(limits, OVERHEADS)) == asked


@pytest.mark.parametrize(
    "pod_set, limits, problem",
    [
        pytest.param(pods(asking(cpu=100, limit=100)), Limits(), "", id="as much as the limit"),
        pytest.param(
            pods(asking(), asking(cpu=200, limit=100)),
            Limits(),
            "resources validation failed: "
            f'{SPEC}.containers[1]: Invalid value: ["cpu"]: requests must not exceed its limits',
            id="more than the limit",
        ),
        pytest.param(
            pods(whole_pod=asking(cpu=200, limit=100)),
            Limits(),
            f'resources validation failed: {SPEC}.resources: Invalid value: ["cpu"]: '
            "requests must not exceed its limits",
            id="a whole pod that asks for more than its limit",
        ),
        pytest.param(
            pods(asking(cpu=3000)),
            Limits(COMPLETES),
            f'resources validation failed: {SPEC}.containers[0]: Invalid value: ["cpu"]: '
            "requests must not exceed its limits",
            id="more than the limit it gets by default",
        ),
        pytest.param(pods(asking(cpu=500)), Limits(Bounds(amounts(500), amounts(500))), "", id="just within bounds"),
        pytest.param(
            pods(asking(cpu=501)),
            Limits(Bounds(max=amounts(500))),
            "resources didn't satisfy LimitRange constraints: "
            f'{SPEC}.containers[0]: Invalid value: ["cpu"]: requests must not be above the limitRange max',
            id="above the most a container may have",
        ),
        pytest.param(
            pods(asking(cpu=400, limit=501)),
            Limits(Bounds(max=amounts(500))),
            "resources didn't satisfy LimitRange constraints: "
            f'{SPEC}.containers[0]: Invalid value: ["cpu"]: requests must not be above the limitRange max',
            id="a limit above the most a container may have",
        ),
        pytest.param(
            pods(asking(cpu=100, memory=1), init_containers=(asking(cpu=400, memory=1),)),
            Limits(Bounds(min=amounts(200, 2))),
            "resources didn't satisfy LimitRange constraints: "
            f'[{SPEC}.initContainers[0]: Invalid value: ["memory"]: requests must not be below the limitRange min, '
            f'{SPEC}.containers[0]: Invalid value: ["cpu","memory"]: requests must not be below the limitRange min]',
            id="below the least, in several places",
        ),
        pytest.param(
            pods(asking(cpu=300), asking(cpu=300)),
            Limits(pod=Bounds(max=amounts(500))),
            f"resources didn't satisfy LimitRange constraints: {SPEC}: "
            'Invalid value: ["cpu"]: requests must not be above the limitRange max',
            id="containers that are too much together",
        ),
        pytest.param(
            pods(asking(cpu=300), runtime_class="sandboxed"),
            Limits(pod=Bounds(max=amounts(500))),
            f"resources didn't satisfy LimitRange constraints: {SPEC}: "
            'Invalid value: ["cpu"]: requests must not be above the limitRange max',
            id="too much with the overhead",
        ),
        pytest.param(pods(asking()), Limits(Bounds(min=amounts(200))), "", id="what is not asked for has no least"),
    ],
)
def test_what_is_wrong_with_it(pod_set, limits, problem):
    assert problem_of((pod_set,), Adjustments(limits, OVERHEADS)) == problem


def test_which_pod_set_is_wrong_is_told():
    too_much = pods(asking(cpu=501))
    assert "spec.podSets[1]." in problem_of((pods(), too_much), Adjustments(Limits(Bounds(max=amounts(500)))))


def test_of_several_limit_ranges_the_tightest_bounds_and_the_first_defaults_count():
    a = ranges(Bounds(amounts(9), amounts(1), amounts(5), amounts(4)), name="a")
    b = ranges(Bounds(amounts(8, 7), amounts(2), amounts(6, 7), amounts(3)), name="b")
    expected = Bounds(amounts(8, 7), amounts(2), amounts(5, 7), amounts(4))
    assert limits_of([b, a]) == Limits(container=expected)
    assert limits_of([ranges(pods=(Bounds(),))]) == Limits(pod=Bounds())
    assert limits_of([]) == Limits()


cpus = st.integers(0, 20).map(lambda cpu: Resources.of({"cpu": cpu}) if cpu else Resources())
containers = st.builds(ContainerNeeds, cpus, cpus, st.booleans())
templates = st.builds(TemplateNeeds, st.tuples(containers, containers), st.tuples(containers))
bounds = st.builds(Bounds, default=cpus, default_request=cpus)


@given(templates, bounds)
def test_defaults_never_make_a_container_ask_for_less_than_it_said(needs, defaults):
    def asked(given):
        return requests_of(PodSet("main", PodShape(), needs=given), Adjustments(Limits(defaults)))["cpu"]

    silent = TemplateNeeds(
        tuple(ContainerNeeds() for _ in needs.containers), tuple(ContainerNeeds() for _ in needs.init_containers)
    )
    said = sum(one.requests["cpu"] for one in needs.containers)
    assert asked(needs) >= said
    assert asked(silent) == 2 * (defaults.default_request["cpu"] or defaults.default["cpu"])
