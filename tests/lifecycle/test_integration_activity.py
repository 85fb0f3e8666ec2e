"""When pods give their quota back after they were asked to leave: at once, after their grace, or when they end."""

import pytest
from builders import pod
from hypothesis import given
from hypothesis import strategies as st

from headgate.lifecycle.terminating import is_active, next_release
from headgate.model.pod import Phase
from headgate.model.settings import QuotaRelease

FAST, GRACE, ON_TERMINAL = QuotaRelease.FAST, QuotaRelease.GRACE, QuotaRelease.ON_TERMINAL
NOW, LENIENT = 1_000.0, 60


def running(name="a", **fields):
    return pod(name, **{"node": "n", "phase": Phase.RUNNING, "grace": LENIENT, **fields})


def leaving(name="a", deleted=NOW, **fields):
    """A pod that was asked to leave and still runs."""
    return running(name, deleted=deleted, **fields)


@pytest.mark.parametrize(
    "found, fast, grace, on_terminal",
    [
        pytest.param(running(), True, True, True, id="a pod that runs"),
        pytest.param(leaving(), False, True, True, id="a pod that was asked to leave, within its grace"),
        pytest.param(leaving(deleted=NOW - LENIENT + 1), False, True, True, id="just before its grace is over"),
        pytest.param(leaving(deleted=NOW - LENIENT), False, False, True, id="its grace is over"),
        pytest.param(leaving(deleted=NOW - 9_999), False, False, True, id="stuck long past its grace"),
        pytest.param(leaving(grace=0), False, False, True, id="it has no grace"),
        pytest.param(leaving(phase=Phase.SUCCEEDED), False, False, False, id="it ended well while it left"),
        pytest.param(leaving(phase=Phase.FAILED), False, False, False, id="it ended badly while it left"),
        pytest.param(running(phase=Phase.SUCCEEDED), False, False, False, id="it ended by itself"),
        pytest.param(running(phase=Phase.PENDING), True, True, True, id="it has a node and starts there"),
        pytest.param(leaving(phase=Phase.PENDING), False, True, True, id="asked to leave before it had started"),
        pytest.param(leaving(phase=Phase.UNKNOWN), False, True, True, id="its node is not heard of"),
        pytest.param(pod(), False, False, False, id="it has no node"),
        pytest.param(pod(gates=("kueue.x-k8s.io/admission",)), False, False, False, id="it waits behind its gate"),
    ],
)
def test_a_single_pod(found, fast, grace, on_terminal):
    assert [is_active([found], NOW, how) for how in (FAST, GRACE, ON_TERMINAL)] == [fast, grace, on_terminal]


@pytest.mark.parametrize(
    "group, fast, grace, on_terminal",
    [
        pytest.param([running("a"), running("b")], True, True, True, id="all run"),
        pytest.param([leaving("a"), running("b")], True, True, True, id="one leaves, one runs"),
        pytest.param([leaving("a"), leaving("b")], False, True, True, id="all leave, all within their grace"),
        pytest.param([leaving("a", deleted=0.0), leaving("b")], False, True, True, id="one is past its grace"),
        pytest.param([leaving("a", deleted=0.0), leaving("b", deleted=0.0)], False, False, True, id="all are past it"),
        pytest.param([leaving("a", phase=Phase.FAILED), leaving("b")], False, True, True, id="one ended, one leaves"),
        pytest.param([running("a", phase=Phase.FAILED), running("b")], True, True, True, id="one failed, one runs"),
        pytest.param([pod("a"), leaving("b")], False, True, True, id="one never started, one leaves"),
        pytest.param([running("a", phase=Phase.SUCCEEDED), pod("b")], False, False, False, id="one done, one gated"),
        pytest.param([], False, False, False, id="no pods at all"),
    ],
)
def test_a_group_holds_its_quota_as_long_as_any_of_its_pods_does(group, fast, grace, on_terminal):
    assert [is_active(group, NOW, how) for how in (FAST, GRACE, ON_TERMINAL)] == [fast, grace, on_terminal]


@pytest.mark.parametrize(
    "group, release, at",
    [
        pytest.param([leaving()], GRACE, NOW + LENIENT, id="when its grace is over"),
        pytest.param([leaving("a"), leaving("b", grace=10)], GRACE, NOW + 10, id="the first of several"),
        pytest.param([leaving()], FAST, None, id="it has been released already"),
        pytest.param([leaving()], ON_TERMINAL, None, id="time does not do it"),
        pytest.param([running()], GRACE, None, id="nobody asked it to leave"),
    ],
)
def test_when_time_alone_releases_quota(group, release, at):
    assert next_release(group, NOW, release) == at


pods = st.builds(
    lambda phase, deleted, grace, node: running(phase=phase, deleted=deleted, grace=grace, node=node),
    st.sampled_from(Phase),
    st.none() | st.floats(0, 2_000),
    st.integers(0, 600),
    st.sampled_from(["", "n"]),
)


@given(st.lists(pods, max_size=4), st.floats(0, 3_000))
def test_faster_never_holds_what_slower_has_released(group, now):
    held = [is_active(group, now, how) for how in (FAST, GRACE, ON_TERMINAL)]
    assert held == sorted(held)


@given(st.lists(pods, max_size=4), st.floats(0, 3_000), st.sampled_from(QuotaRelease))
def test_what_was_released_stays_released_as_time_goes_by(group, now, release):
    assert is_active(group, now, release) or not is_active(group, now + 1, release)
