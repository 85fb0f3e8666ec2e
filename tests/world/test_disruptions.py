"""The disruption controller: what a budget can spare, and when its status is written."""

from __future__ import annotations

import pytest
from builders import bound, pod
from msgspec.structs import replace

from headgate.api.decode import decode
from headgate.api.wire import InvalidObject
from headgate.model.effects import BudgetStatus, PatchStatus
from headgate.model.events import Gone, Observed, Outcome, WriteError
from headgate.model.keys import Key, Kind, Target
from headgate.model.objects import DisruptionBudget, PodCount
from headgate.model.pod import Phase
from headgate.model.selectors import Operator, Requirement
from headgate.world.disruptions import DisruptionController, budget_status

KEY = Key(Kind.DISRUPTION_BUDGET, "default", "web")
WEB = (Requirement("app", Operator.IN, ("web",)),)
ONE, HALF, THIRD, ALL = PodCount(1), PodCount(50, percent=True), PodCount(33, percent=True), PodCount(100, percent=True)


def budget(**fields):
    return DisruptionBudget(KEY, "budget-uid", "7", **{"selector": WEB, "generation": 3, **fields})


def web(name, phase=Phase.RUNNING, **fields):
    return bound(pod(name, labels={"app": "web"}), "n", phase=phase, **fields)


def running(count):
    return [web(f"web-{index}") for index in range(count)]


@pytest.mark.parametrize(
    "spec, pods, expected, desired, allowed",
    [
        pytest.param({"min_available": ONE}, 3, 3, 1, 2, id="all but those that must stay"),
        pytest.param({"min_available": PodCount(5)}, 3, 3, 5, 0, id="more must stay than there are"),
        pytest.param({"min_available": PodCount(0)}, 2, 2, 0, 2, id="none must stay"),
        pytest.param({"min_available": HALF}, 3, 3, 2, 1, id="half of three that must stay is two"),
        pytest.param({"min_available": ALL}, 3, 3, 3, 0, id="all must stay"),
        pytest.param({"max_unavailable": ONE}, 3, 3, 2, 1, id="one may be missing"),
        pytest.param({"max_unavailable": PodCount(5)}, 3, 3, 0, 3, id="more may be missing than there are"),
        pytest.param({"max_unavailable": PodCount(0)}, 3, 3, 3, 0, id="none may be missing"),
        pytest.param({"max_unavailable": THIRD}, 4, 4, 2, 2, id="a third of four that may be missing is two"),
        pytest.param({"min_available": PodCount(0)}, 0, 0, 0, 0, id="where no pod is, none can be spared"),
        pytest.param({"max_unavailable": ONE}, 0, 0, 0, 0, id="nor where one of none may be missing"),
        pytest.param({}, 3, 0, 0, 0, id="a budget that says nothing spares nothing"),
        pytest.param({"min_available": ONE, "selector": None}, 3, 0, 1, 0, id="without a selector it has no pods"),
        pytest.param({"min_available": ONE, "selector": ()}, 3, 3, 1, 2, id="an empty selector selects every pod"),
    ],
)
def test_how_many_healthy_pods_can_be_spared(spec, pods, expected, desired, allowed):
    found = budget_status(budget(**spec), running(pods))
    assert (found.expected, found.desired, found.allowed) == (expected, desired, allowed)
    assert (found.observed_generation, found.healthy) == (3, 0 if "selector" in spec and not expected else pods)


@pytest.mark.parametrize(
    "other, expected, healthy",
    [
        pytest.param(web("other"), 3, 3, id="one that runs"),
        pytest.param(web("other", Phase.PENDING), 3, 2, id="one that has not started is expected, not healthy"),
        pytest.param(web("other", deleted=9.0), 3, 2, id="one that is going is expected, not healthy"),
        pytest.param(web("evicted"), 3, 2, id="one whose eviction was granted is expected, not healthy"),
        pytest.param(web("other", Phase.SUCCEEDED), 2, 2, id="one that ended is neither"),
        pytest.param(replace(web("other"), labels={"app": "db"}), 2, 2, id="one of another app is neither"),
    ],
)
def test_which_pods_count(other, expected, healthy):
    one_may_miss = budget(max_unavailable=ONE, already_disrupted=frozenset({"evicted"}))
    found = budget_status(one_may_miss, [*running(2), other])
    assert (found.expected, found.healthy) == (expected, healthy)


def test_a_number_that_must_stay_is_told_of_all_pods_there_are():
    found = budget_status(budget(min_available=ONE), [*running(2), web("ended", Phase.SUCCEEDED)])
    assert (found.expected, found.healthy, found.allowed) == (3, 2, 1)


class Bench:
    """The controller, and a budget that becomes what it writes."""

    def __init__(self) -> None:
        self.rule, self.budget = DisruptionController(), budget(max_unavailable=ONE)
        self.see(Observed(self.budget))

    def see(self, *events):
        """What is written because of these, as how many may be disrupted."""
        effects = self.rule.react(events, 0.0)
        for effect in effects:
            assert effect.target == Target(KEY, "budget-uid", self.budget.version)
            version = str(int(self.budget.version) + 1)
            self.budget = replace(self.budget, disruptions_allowed=effect.change.allowed, version=version)
            assert self.rule.react([Observed(self.budget)], 0.0) == [], "what was written needs no writing"
        return [effect.change.allowed for effect in effects]


A, B = web("a"), web("b", Phase.PENDING)
WRITTEN = PatchStatus(Target(KEY, "budget-uid", "7"), BudgetStatus(3, 1, 1, 0, 1))


@pytest.mark.parametrize(
    "batches, written",
    [
        pytest.param([[Observed(A)]], [1], id="a pod that runs can be spared"),
        pytest.param([[Observed(A), Observed(B)]], [0], id="a batch is counted once"),
        pytest.param([[Observed(A)], [Observed(A)]], [1], id="hearing it twice writes nothing"),
        pytest.param([[Observed(A)], [Observed(B)], [Gone(B.key, B.uid)]], [1, 0, 1], id="it follows its pods"),
        pytest.param(
            [[Observed(A)], [Observed(replace(A, uid="next", phase=Phase.PENDING))], [Gone(A.key, A.uid)]],
            [1, 0],
            id="a pod that came back under its name is not the one that went",
        ),
        pytest.param([[Observed(A)], [Outcome(WRITTEN, WriteError.CONFLICT)]], [1, 1], id="a lost write is made again"),
        pytest.param([[Observed(A)], [Outcome(WRITTEN, WriteError.REFUSED)]], [1], id="a refused one is not"),
        pytest.param([[Gone(KEY, "budget-uid")], [Observed(A)]], [], id="a budget that is gone is not written to"),
    ],
)
def test_when_a_status_is_written(batches, written):
    bench = Bench()
    assert [allowed for batch in batches for allowed in bench.see(*batch)] == written


def test_what_the_server_counted_is_counted_again():
    bench = Bench()
    bench.see(Observed(web("a")), Observed(web("b")))
    granted = replace(bench.budget, disruptions_allowed=0, already_disrupted=frozenset({"a"}))
    assert bench.rule.react([Observed(granted)], 0.0) == [
        PatchStatus(Target(KEY, "budget-uid", granted.version), BudgetStatus(3, 2, 1, 1, 0))
    ]


def test_pods_of_other_namespaces_are_of_no_concern():
    bench = Bench()
    assert bench.see(Observed(replace(A, key=Key(Kind.POD, "elsewhere", "a")))) == []


@pytest.mark.parametrize(
    "spec, least, most_missing",
    [
        pytest.param(b'{"minAvailable": 2}', PodCount(2), None, id="a number"),
        pytest.param(b'{"maxUnavailable": "33%"}', None, THIRD, id="a percentage"),
        pytest.param(b"{}", None, None, id="neither"),
    ],
)
def test_how_a_budget_says_it(spec, least, most_missing):
    raw = b'{"metadata": {"name": "a", "namespace": "d", "generation": 4}, "spec": %s}' % spec
    found = decode(Kind.DISRUPTION_BUDGET, raw)
    assert (found.min_available, found.max_unavailable, found.generation) == (least, most_missing, 4)


@pytest.mark.parametrize("said", ["half", "-5%", "50", "%"])
def test_what_is_neither_a_number_nor_a_percentage_is_refused(said):
    raw = b'{"metadata": {"name": "a"}, "spec": {"minAvailable": "%s"}}' % said.encode()
    with pytest.raises(InvalidObject, match=r"\$\.spec\.minAvailable: expected a number or a percentage such as 50%"):
        decode(Kind.DISRUPTION_BUDGET, raw)
