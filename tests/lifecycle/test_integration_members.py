"""Who of a group's pods counts."""

import pytest
from builders import bound, pod, shape
from hypothesis import given
from hypothesis import strategies as st

from headgate.lifecycle.jobframework.pod_group import members, newcomers, role_of
from headgate.model.kueue_names import GROUP_TOTAL, MANAGED, ROLE_HASH
from headgate.model.pod import HeldPod, Phase
from headgate.model.queues import PodSet
from headgate.model.settings import QuotaRelease

FAST = QuotaRelease.FAST
HELD, LET_GO = HeldPod(finalizers=(MANAGED,)), HeldPod()


def one(name, created=0.0, held=HELD, **fields):
    annotations = {GROUP_TOTAL: "2", ROLE_HASH: "r", **fields.pop("annotations", {})}
    gates = fields.pop("gates", ("kueue.x-k8s.io/admission",))
    return pod(name, created=created, held=held, annotations=annotations, gates=gates, **fields)


def failed(name, at=None, **fields):
    return one(name, phase=Phase.FAILED, held=HeldPod(finalizers=(MANAGED,), failed_at=at), **fields)


def names(found):
    return [each.key.name for each in found]


def places(count, role="r"):
    return [PodSet(role, shape(100), count)]


@pytest.mark.parametrize(
    "pods, kept",
    [
        pytest.param([one("a", 2.0), one("b", 1.0)], ["b"], id="the older stays"),
        pytest.param([one("a", 1.0), one("b", 2.0, gates=())], ["b"], id="one that may run stays before one gated"),
        pytest.param([one("a", 1.0, gates=(), held=LET_GO), one("b", 2.0)], ["b"], id="one we hold on to stays first"),
        pytest.param([one("b"), one("a")], ["a"], id="by name in the end"),
    ],
)
def test_who_stays_when_there_are_too_many(pods, kept):
    found = members(pods, places(1), FAST)
    assert names(found.kept) == kept
    assert len(found.excess) == 1


@pytest.mark.parametrize(
    "pods, kept, replaced",
    [
        pytest.param([failed("a"), one("b")], ["b"], ["a"], id="a failed pod with another in its place"),
        pytest.param([failed("a")], ["a"], [], id="without one it is remembered"),
        pytest.param([failed("old", 1.0), failed("new", 2.0)], ["new"], ["old"], id="the one that failed last is"),
        pytest.param([one("a", deleted=5.0)], ["a"], [], id="one that left is missed like one that failed"),
    ],
)
def test_who_is_replaced(pods, kept, replaced):
    found = members(pods, places(1), FAST)
    assert (names(found.kept), names(found.replaced)) == (kept, replaced)


@pytest.mark.parametrize(
    "release, missing", [(QuotaRelease.FAST, 1), (QuotaRelease.GRACE, 0), (QuotaRelease.ON_TERMINAL, 0)]
)
def test_a_pod_that_leaves_its_node_keeps_its_place_as_long_as_its_quota(release, missing):
    leaving = bound(one("a", gates=()), "n", phase=Phase.RUNNING, deleted=5.0)
    assert members([leaving], places(1), release).missing == missing


def test_pods_of_other_roles_are_passed_over():
    found = members([one("a"), one("b", annotations={ROLE_HASH: "other"})], places(2), FAST)
    assert (names(found.kept), found.missing) == (["a"], 1)


def test_newcomers_are_as_many_as_the_group_says():
    found = newcomers([one("c", 3.0), one("b", 2.0), one("a", 1.0), failed("d")], FAST)
    assert (names(found.kept), names(found.excess), names(found.replaced)) == (["a", "b"], ["c"], ["d"])


def test_pods_that_ask_for_the_same_have_one_role_whatever_they_run():
    asked = [shape(100, images=("a:1",)), shape(100, images=("b:2",)), shape(200)]
    roles = [role_of(pod(str(number), shape=each)) for number, each in enumerate(asked)]
    assert roles[0] == roles[1] != roles[2]
    assert role_of(pod("urgent", shape=asked[0], priority=5)) != roles[0]


groups = st.lists(
    st.builds(
        lambda number, created, phase, deleted, role: one(
            f"p{number}", float(created), phase=phase, deleted=deleted, annotations={ROLE_HASH: role}
        ),
        st.integers(0, 999),
        st.integers(0, 5),
        st.sampled_from(Phase),
        st.none() | st.just(5.0),
        st.sampled_from("rs"),
    ),
    max_size=8,
    unique_by=lambda each: each.key,
)


@given(groups, st.integers(1, 4), st.sampled_from(QuotaRelease))
def test_every_pod_of_a_role_has_one_fate_and_no_place_is_taken_twice(pods, count, release):
    found = members(pods, places(count), release)
    mine = sorted(names(each for each in pods if role_of(each) == "r"))
    assert sorted(names((*found.kept, *found.excess, *found.replaced))) == mine
    assert len(found.kept) <= count
    assert not (found.missing and found.excess), "nobody is sent away while someone is missed"
