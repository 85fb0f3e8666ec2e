"""Which worker cluster may preempt for a workload: the six steps, the window, and what counts beyond a restart."""

import pytest
from fleet_builders import NO_WAY, costs, replica

from headgate.fleet.orchestrator import (
    Dispatched,
    GateRules,
    OpenGate,
    Promise,
    WaitUntil,
    is_hopeless,
    next_gate,
)

NOW = 10_000.0
FIRST_COME = GateRules(timeout=300.0, window=0.0)
PRICED = GateRules(timeout=300.0, window=1.0)


def decided(replicas, rules, promise=None, awaited=(), signalled=NOW - 5.0, now=NOW):
    match next_gate(Dispatched(tuple(replicas), tuple(awaited), promise, signalled), rules, now):
        case OpenGate(chosen, is_new):
            return f"{'promise' if is_new else 'open'} {chosen.cluster}"
        case WaitUntil(at):
            return f"wait {at - NOW:g}"
    return "nothing"


@pytest.mark.parametrize(
    "replicas, promise, decision",
    [
        pytest.param([], None, "nothing", id="no replica"),
        pytest.param([replica("a")], None, "nothing", id="nobody signalled"),
        pytest.param([replica("a", blocked=NOW)], None, "promise a", id="the first signal opens at once"),
        pytest.param(
            [replica("a", blocked=NOW - 1), replica("b", blocked=NOW - 3)], None, "promise b", id="who signalled first"
        ),
        pytest.param(
            [replica("b", blocked=5.0), replica("a", blocked=5.0)], None, "promise b", id="of equals the first in order"
        ),
        pytest.param(
            [replica("a", opened=NOW - 100), replica("b", blocked=NOW - 200)], None, "wait 200", id="within the timeout"
        ),
        pytest.param(
            [replica("a", opened=NOW - 300), replica("b", blocked=NOW - 200)], None, "promise b", id="after the timeout"
        ),
        pytest.param(
            [replica("a", opened=NOW - 900), replica("b", opened=NOW - 10), replica("c", blocked=1.0)],
            None,
            "wait 290",
            id="the last opening counts, not the first",
        ),
        pytest.param(
            [replica("a", opened=NOW - 900), replica("b", opened=NOW - 400)], None, "nothing", id="all gates are open"
        ),
        pytest.param(
            [replica("a", opened=NOW - 100, cut=True), replica("b", blocked=1.0)],
            None,
            "wait 200",
            id="a gate that is open on a cluster that was cut off counts",
        ),
        pytest.param(
            [replica("a", blocked=1.0, cut=True), replica("b", blocked=2.0)],
            None,
            "promise b",
            id="nothing can be opened on a cluster that is cut off",
        ),
        pytest.param(
            [replica("a", blocked=1.0), replica("b", blocked=2.0)],
            Promise("b", NOW - 10),
            "open b",
            id="what was promised is opened, whoever signalled first",
        ),
        pytest.param(
            [replica("a", blocked=1.0), replica("b", blocked=2.0, cut=True)],
            Promise("b", NOW - 10),
            "wait 290",
            id="what was promised to a cluster that is cut off keeps the others waiting",
        ),
        pytest.param(
            [replica("a", blocked=1.0)],
            Promise("b", NOW - 10),
            "wait 290",
            id="what was promised to a cluster that nothing is known of keeps the others waiting",
        ),
        pytest.param(
            [replica("a", blocked=1.0)], Promise("b", NOW - 300), "promise a", id="a promise holds for the timeout only"
        ),
        pytest.param(
            [replica("a", blocked=1.0), replica("b", opened=NOW - 9)],
            Promise("b", NOW - 10),
            "wait 291",
            id="the opening itself is later than its promise",
        ),
        pytest.param(
            [replica("a", blocked=1.0), replica("b", opened=NOW + 30)], None, "wait 330", id="by a clock that is ahead"
        ),
        pytest.param(
            [replica("a", blocked=1.0), replica("b", opened=NOW + 301)],
            Promise("b", NOW + 99_999),
            "promise a",
            id="times that cannot be do not block for ever",
        ),
    ],
)
@pytest.mark.parametrize("rules", [pytest.param(FIRST_COME, id="first come"), pytest.param(PRICED, id="priced")])
def test_at_most_one_gate_is_opened_within_the_timeout(replicas, promise, decision, rules):
    assert decided(replicas, rules, promise) == decision


@pytest.mark.parametrize(
    "replicas, awaited, signalled, decision",
    [
        pytest.param(
            [replica("a", blocked=NOW), replica("b")], (), NOW, "wait 1", id="others have the window to answer"
        ),
        pytest.param([replica("a", blocked=NOW)], ("b",), NOW, "wait 1", id="also those that have no replica yet"),
        pytest.param(
            [replica("a", blocked=NOW), replica("b")],
            (),
            NOW - 1,
            "promise a",
            id="when it is over nobody is waited for",
        ),
        pytest.param(
            [replica("a", blocked=NOW), replica("b", refused="WaitingForQuota", offer=NO_WAY)],
            (),
            NOW,
            "promise a",
            id="when all have answered it is over",
        ),
        pytest.param(
            [replica("a", blocked=NOW), replica("b", cut=True)], (), NOW, "promise a", id="who is cut off cannot answer"
        ),
        pytest.param(
            [replica("a", blocked=NOW - 60), replica("b", reserved=NOW - 50)],
            (),
            NOW - 60,
            "wait 250",
            id="who needs no preemption wins, and is waited for",
        ),
        pytest.param(
            [replica("a", blocked=NOW - 60), replica("b", reserved=NOW - 300)],
            (),
            NOW - 60,
            "promise a",
            id="but not for longer than for one that preempts",
        ),
        pytest.param(
            [replica("a", blocked=NOW - 60), replica("b", reserved=NOW - 5, cut=True)],
            (),
            NOW - 60,
            "promise a",
            id="nor when it is cut off",
        ),
        pytest.param(
            [replica("a", blocked=NOW - 60), replica("b", reserved=NOW + 99_999)],
            (),
            NOW - 60,
            "promise a",
            id="nor by a time that cannot be",
        ),
    ],
)
def test_the_window(replicas, awaited, signalled, decision):
    assert decided(replicas, PRICED, awaited=awaited, signalled=signalled) == decision


@pytest.mark.parametrize(
    "offers, chosen",
    [
        pytest.param({"a": costs(5), "b": costs(3)}, "b", id="the least important victims"),
        pytest.param({"a": costs(5, total=9), "b": costs(5, total=7)}, "b", id="then the smaller sum of priorities"),
        pytest.param(
            {"a": costs(0, victims=3), "b": costs(0, victims=2)},
            "b",
            id="then fewer victims, where all are worth nothing",
        ),
        pytest.param(
            {"a": costs(5, pods=2, since=NOW - 90), "b": costs(5, pods=3, since=NOW - 10)},
            "b",
            id="then less work lost",
        ),
        pytest.param({"a": costs(5), "b": costs(5)}, "a", id="of equals the one that signalled first"),
        pytest.param({"a": None, "b": costs(9)}, "b", id="who names no price is the dearest"),
        pytest.param({"a": NO_WAY, "b": costs(9)}, "b", id="who cannot preempt after all too"),
        pytest.param({"a": None, "b": None}, "a", id="without any price the first signal counts"),
    ],
)
def test_the_cheapest_proposal_wins(offers, chosen):
    replicas = [replica(name, blocked=10.0 + place, offer=offer) for place, (name, offer) in enumerate(offers.items())]
    assert decided(replicas, PRICED) == f"promise {chosen}"
    assert decided(replicas, FIRST_COME) == "promise a"


@pytest.mark.parametrize(
    "replicas, hopeless",
    [
        pytest.param([], False, id="nobody was asked"),
        pytest.param([replica("a", refused="WaitingForQuota")], True, id="the only one refuses"),
        pytest.param([replica("a", refused="WaitingForQuota"), replica("b")], False, id="one has not answered"),
        pytest.param([replica("a", refused="ExceedsMaxQuota"), replica("b", cut=True)], True, id="one cannot be asked"),
        pytest.param(
            [replica("a", refused="ExceedsMaxQuota"), replica("b", blocked=1.0)], False, id="one would preempt"
        ),
        pytest.param([replica("a", refused="PendingEvaluation")], False, id="it was not considered yet"),
        pytest.param([replica("a", refused="WaitingForPreemptedWorkloads", opened=1.0)], False, id="it is preempting"),
    ],
)
def test_whether_any_cluster_could_admit_it(replicas, hopeless):
    assert is_hopeless(replicas) is hopeless


@pytest.mark.parametrize(
    "text, promise",
    [
        pytest.param("w-1.eu@9000", Promise("w-1.eu", 9000.0), id="as it is written"),
        pytest.param("", None, id="nothing"),
        pytest.param("w@8999", None, id="from before it got its quota"),
        pytest.param("w@99999999999999999999", None, id="no time at all"),
        pytest.param("@9000", None, id="no cluster"),
        pytest.param("w@-9000", None, id="a negative time"),
        pytest.param("w@9000\n", None, id="more than one line"),
    ],
)
def test_a_promise_is_read_only_if_we_can_have_made_it(text, promise):
    assert Promise.read(text, since=9_000.0) == promise
    if promise is not None:
        assert promise.text == text
