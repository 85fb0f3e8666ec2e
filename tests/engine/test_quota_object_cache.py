"""What surrounds workloads is worked out once for all who stand alike, and is never out of date."""

import pytest
from builders import amounts
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from quota_steps import PLAIN, check, flavor, local, namespace, queue, work

from headgate.engine.quota import object_cache
from headgate.engine.quota.object_cache import QuotaObjectCache
from headgate.model.keys import Key, Kind
from headgate.model.objects import Bounds, LimitRange, RuntimeClass
from headgate.model.pod import PodShape
from headgate.model.queues import PodSet, RequiredCheck, StopPolicy
from headgate.model.resources import ContainerNeeds, TemplateNeeds
from headgate.model.selectors import Operator, Requirement

FOR_TEAMS = (Requirement("team", Operator.EXISTS),)


def limits(cpu):
    return LimitRange(
        Key(Kind.LIMIT_RANGE, "default", "limits"), "uid-limits", "1", (Bounds(max=amounts(cpu), default=amounts(cpu)),)
    )


def sandbox(cpu):
    return RuntimeClass(Key(Kind.RUNTIME_CLASS, "", "sandbox"), "uid-sandbox", "1", amounts(cpu))


def of_template(name, cpu, **fields):
    asked = amounts(cpu)
    needs = TemplateNeeds((ContainerNeeds(asked),), runtime_class="sandbox")
    return work(name, pod_sets=(PodSet("main", PodShape(requests=asked), needs=needs),), **fields)


def around(*objects):
    made = QuotaObjectCache(PLAIN)
    for one in objects:
        made.observe(one)
    made.take_reshaped()
    return made


CHANGES = (
    namespace(),
    namespace(team="a"),
    flavor(),
    queue(),
    queue(namespaces=FOR_TEAMS),
    queue(stop_policy=StopPolicy.HOLD),
    queue(checks=(RequiredCheck("c"),)),
    queue("other"),
    check("c"),
    check("c", active=False),
    local(),
    local(of="other"),
    local(stop_policy=StopPolicy.HOLD),
    limits(1500),
    limits(500),
    sandbox(100),
    sandbox(700),
)
WORK = (of_template("a", 1000), of_template("b", 1000, priority=5), of_template("c", 400, queue="missing"))
happenings = st.one_of(
    st.tuples(st.just("observe"), st.sampled_from(CHANGES)),
    st.tuples(st.just("lose"), st.sampled_from(CHANGES)),
    st.tuples(st.just("settle")),
)


@given(st.lists(happenings, max_size=12))
def test_whoever_asks_again_and_again_is_told_the_same_as_one_who_asks_for_the_first_time(happenings):
    asked, told = QuotaObjectCache(PLAIN), []
    for happening in happenings:
        told.append(happening)
        _follow(asked, happening)
        unasked = QuotaObjectCache(PLAIN)
        for each in told:
            _follow(unasked, each)
        for one in WORK:
            assert asked.queue_snapshot(one) == unasked.queue_snapshot(one)
            assert asked.requests(one) == unasked.requests(one)


def _follow(made, happening):
    match happening:
        case "observe", changed:
            made.observe(changed)
        case "lose", gone:
            made.lose(gone.key, gone.uid)
        case _:
            made.take_reshaped()


@pytest.mark.parametrize(
    "other, alike",
    [
        pytest.param(of_template("b", 1000), True, id="another of the same look"),
        pytest.param(
            structs.replace(of_template("b", 1000), version="2", labels={"x": "y"}), True, id="of any version"
        ),
        pytest.param(of_template("b", 2000), False, id="one that asks for more"),
        pytest.param(of_template("b", 1000, priority=1), False, id="one of another priority"),
        pytest.param(of_template("b", 1000, reclaimable=(("main", 1),)), False, id="one whose pod is done"),
    ],
)
def test_who_looks_alike_wishes_for_one_and_the_same(other, alike):
    made = around(namespace(), flavor(), queue(), local())
    assert (made.requests(of_template("a", 1000)) is made.requests(other)) is alike


def test_who_stands_alike_stands_in_the_very_same_snapshots():
    made = around(namespace(), flavor(), queue(), local())
    first, second = made.queue_snapshot(of_template("a", 1000)), made.queue_snapshot(of_template("b", 2000))
    assert first is second
    assert first is not made.queue_snapshot(of_template("c", 1000, queue="missing"))


def test_a_queue_whose_flavor_is_gone_is_inactive_once_that_is_settled():
    made, one = around(namespace(), flavor(), queue(), local()), of_template("a", 1000)
    made.lose(flavor().key, flavor().uid)
    before, _, after = made.queue_snapshot(one), made.take_reshaped(), made.queue_snapshot(one)
    assert (before.queue_is_active, after.queue_is_active) == (True, False)


def test_what_is_kept_of_them_has_a_limit(monkeypatch):
    monkeypatch.setattr(object_cache, "MOST_SNAPSHOTS", 2)
    made = around(namespace(), flavor(), queue(), local())
    for cpu in range(1, 6):
        one = of_template("a", cpu, queue=f"missing-{cpu}")
        assert made.requests(one).kind.pod_set_requests[0].each == amounts(cpu)
        assert made.queue_snapshot(one).local is None
