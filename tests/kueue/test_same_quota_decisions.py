"""Beside Kueue's own scheduler: the same workloads get the same flavors, the same victims go, the same words are said.

Where Kueue leaves a choice to chance, ours must be one that it makes too. Two of its mistakes are not in the worlds
(`kueue_worlds.py`); those it may still make have names here, and are few.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, NamedTuple

import pytest
from kueue_oracle import their_answers
from kueue_worlds import Manifest, random_world, with_gates
from our_decisions import OurWorld, Told, without_overcommitment

from headgate.preemption.quota.search import VictimReason
from headgate.quota import messages
from headgate.quota.flavors import NoFit
from headgate.quota.pending_queue import Unreserved

pytestmark = pytest.mark.timeout(1200)  # their scheduler is asked about hundreds of worlds
WORLDS = 400
HISTORIES = 200
GATED_WORLDS = 100
ROUNDS = 4
MANY_ROUNDS = 24  # after which whatever comes to rest has
MOST_CYCLES = 60  # of a round
ASKED_AGAIN = 16  # times, where one answer was another than ours
SHOWN = 3  # worlds a failure prints
FEW = 0.08  # of all that is compared may have an excuse

Rounds = list[list[dict[str, Told]]]
"""What became of each head, by name, in each cycle of each round."""


@cache
def worlds(number: int) -> tuple[Manifest, ...]:
    """In every tenth world quota was taken away after it was given."""
    return tuple(
        random_world(seed, borrowing_limits=False) if seed % 10 == 9 else without_overcommitment(random_world(seed))
        for seed in range(number)
    )


class Question(NamedTuple):
    """So many of the worlds, for so many rounds of at most so many cycles."""

    worlds: int
    rounds: int
    cycles: int

    def ask(self, asked: Sequence[Manifest]) -> list[Rounds]:
        answers = their_answers(asked, self.rounds, self.cycles)
        return [[[by_name(cycle) for cycle in cycles] for cycles in answer] for answer in answers]


ONE_CYCLE = Question(WORLDS, 1, 1)
HISTORY = Question(HISTORIES, ROUNDS, MOST_CYCLES)


@cache
def answers(question: Question) -> list[Rounds]:
    return question.ask(worlds(question.worlds))


def by_name(cycle: dict[str, Any]) -> dict[str, Told]:
    return {outcome["workload"]: told(outcome) for outcome in cycle["outcomes"]}


def told(outcome: dict[str, Any]) -> Told:
    names = ("admitted", "flavors", "counts") if outcome["admitted"] else ("admitted", "reason", "message", "victims")
    return {name: outcome.get(name, {}) for name in names}


class Difference(NamedTuple):
    ours: Any
    theirs: Any
    excuse: str = ""  # the name of what makes it theirs to mend


Comparison = Callable[[Manifest, Rounds], list[Difference]]


def compared(question: Question, compare: Comparison) -> list[Difference]:
    return compared_in(worlds(question.worlds), answers(question), question, compare)


def compared_in(
    asked: Sequence[Manifest], answered: Sequence[Rounds], question: Question, compare: Comparison
) -> list[Difference]:
    """All differences with an excuse, and those without that Kueue makes however often it is asked."""
    found = []
    for world, answer in zip(asked, answered, strict=True):
        differences = compare(world, answer)
        if any(not each.excuse for each in differences):
            again = (compare(world, each) for each in question.ask([world] * ASKED_AGAIN))
            differences = next((each for each in again if all(one.excuse for one in each)), differences)
        found += differences
    return found


def assert_only_excused(differences: Sequence[Difference], of: int) -> None:
    assert [each for each in differences if not each.excuse][:SHOWN] == []
    excuses = Counter(each.excuse for each in differences)
    assert excuses.total() <= FEW * of, excuses


# --- one cycle, in all detail


def first_cycles() -> Iterator[tuple[Manifest, dict[str, Told]]]:
    for world, (cycles,) in zip(worlds(WORLDS), answers(ONE_CYCLE), strict=True):
        for cycle in cycles:
            yield world, cycle


def test_every_head_is_told_what_kueue_tells_it():
    heads = sum(len(cycle) for _, cycle in first_cycles())
    assert_only_excused(compared(ONE_CYCLE, differences_of_heads), of=heads)
    assert heads > 2 * WORLDS, "the worlds are full of work"


def differences_of_heads(world: Manifest, answer: Rounds) -> list[Difference]:
    (cycles,) = answer
    ours = {name: without_the_resource(each) for name, each in OurWorld(world).cycle().items()}
    kueue = {name: without_the_resource(each) for cycle in cycles for name, each in cycle.items()}
    pairs = [(ours.get(name), kueue.get(name)) for name in sorted(ours.keys() | kueue.keys())]
    return [Difference(one, other, excuse_for(one, other)) for one, other in pairs if one != other]


def without_the_resource(outcome: Told) -> Told:
    """One resource stands for all of its group, in a message about the group. Kueue takes the one whose name has the
    smallest hash, we the first by name."""
    if outcome["admitted"]:
        return outcome
    return {**outcome, "message": re.sub(r"(nomination mapping for resource) [^,;]+", r"\1", outcome["message"])}


def excuse_for(ours: Told | None, kueue: Told | None) -> str:
    if ours is None or kueue is None:
        return ""
    return next((each.__name__ for each in (overcommits, blames_what_fits) if each(ours, kueue)), "")


def overcommits(ours: Told, kueue: Told) -> bool:
    """Kueue admits at once what fits only when others have left whom it has just told to leave: until they are gone,
    more is in use than there is."""
    start, _, _ = messages.pending_preemption(messages.NO_LONGER_FITS, 0).rpartition(" 0 ")
    return kueue["admitted"] and not ours["admitted"] and ours["message"].startswith(start)


def blames_what_fits(ours: Told, kueue: Told) -> bool:
    """One resource group has a flavor for the workload, after others that would not do. Kueue counts these among the
    reasons why another group has none."""
    if ours["admitted"] or {**kueue, "reason": ours.get("reason")} != ours:
        return False
    severe = [NoFit(each["reason"]).severity for each in (ours, kueue) if each["reason"] in set(NoFit)]
    return len(severe) == 2 and severe[0] < severe[1]


# --- cycle after cycle, until the evicted are gone, and on


@dataclass(frozen=True)
class Change:
    """What one cycle changed in one tree of queues: who was admitted with what, and who was told to leave for whom.

    In this cycle some are `waiting` for victims to leave, as others have `waited` before it in the round. Since the
    change before it, the tree has `repeated` itself.
    """

    round: int
    admitted: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    evicted: dict[str, dict[str, str]] = field(default_factory=dict)
    waiting: frozenset[str] = field(default=frozenset(), compare=False)
    waited: frozenset[str] = field(default=frozenset(), compare=False)
    repeated: bool = field(default=False, compare=False)


def test_cycle_after_cycle_the_same_changes():
    assert_only_excused(compared(HISTORY, differences_of_trees), of=HISTORIES)


def differences_of_trees(world: Manifest, answer: Rounds) -> list[Difference]:
    ours = OurWorld(world)
    tree_of = trees_of(world, ours)
    rounds = list(our_rounds(ours))
    mine, kueue, withheld = changes(rounds, tree_of), changes(answer, tree_of), trees_withheld(rounds, tree_of)
    found = []
    for tree in mine:
        if mine[tree] != kueue[tree]:
            one, other = first_difference(mine[tree], kueue[tree])
            excuse = excuse_for_histories(one, other)
            if not excuse and tree in withheld and preempts_for_ever(world, tree, tree_of):
                excuse = preempts_for_ever.__name__
            found.append(Difference(one, other, excuse))
    return found


def trees_of(world: Manifest, ours: OurWorld) -> dict[str, str]:
    """The tree of each workload."""
    return {each["metadata"]["name"]: ours.tree_of(each["spec"]["queueName"]) for each in world["workloads"]}


def trees_withheld(rounds: Rounds, tree_of: dict[str, str]) -> set[str]:
    """Where ours withheld a preemption, as it would have led back to an earlier allocation."""
    text = messages.preemption_withheld("", 0).partition(" 0 ")[0]
    heads = (head for cycles in rounds for cycle in cycles for head in cycle.items())
    return {tree_of[name] for name, each in heads if text in each.get("message", "")}


def preempts_for_ever(world: Manifest, tree: str, tree_of: dict[str, str]) -> bool:
    """Workloads preempt each other in a circle, however many rounds there are."""
    (answer,) = Question(1, MANY_ROUNDS, MOST_CYCLES).ask([world])
    evicted = [any(each.evicted for each in changes([cycles], tree_of)[tree]) for cycles in answer]
    return any(evicted[-ROUNDS:])


def our_rounds(ours: OurWorld) -> Iterator[list[dict[str, Told]]]:
    for _ in range(ROUNDS):
        cycles = []
        while outcomes := ours.cycle():
            cycles.append(outcomes)
            assert len(cycles) < MOST_CYCLES, "there is always an end"
        yield cycles
        ours.next_round()


def changes(rounds: Rounds, tree_of: dict[str, str]) -> dict[str, list[Change]]:
    return {
        tree: [
            change
            for number, cycles in enumerate(rounds)
            for change in changes_of_tree(
                number, [{name: each for name, each in cycle.items() if tree_of[name] == tree} for cycle in cycles]
            )
        ]
        for tree in dict.fromkeys(tree_of.values())
    }


def changes_of_tree(number: int, cycles: Sequence[dict[str, Told]]) -> Iterator[Change]:
    waited, since_then, repeated = frozenset[str](), list[dict[str, Told]](), False
    for cycle in cycles:
        admitted = {name: (each["flavors"], each["counts"]) for name, each in cycle.items() if each["admitted"]}
        evicted = {name: each["victims"] for name, each in cycle.items() if each.get("victims")}
        waiting = frozenset(name for name, each in cycle.items() if each.get("reason") == Unreserved.PREEMPTING)
        repeated = repeated or cycle in since_then
        if admitted or evicted:
            yield Change(number, admitted, evicted, waiting, waited, repeated)
            since_then, repeated = [], False
        since_then.append(cycle)
        waited |= waiting


def first_difference(ours: Sequence[Change], kueue: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """What both did before in the round in which they first differ, and the rest of that round."""
    same = 0
    while same < min(len(ours), len(kueue)) and ours[same] == kueue[same]:
        same += 1
    number = min(story[same].round for story in (ours, kueue) if same < len(story))
    return [each for each in ours if each.round == number], [each for each in kueue if each.round == number]


def excuse_for_histories(ours: list[Change], kueue: list[Change]) -> str:
    """What happens after a difference is not compared."""
    excuses = (goes_in_circles, finds_a_way_out_of_a_circle, preempts_twice, forgets_a_promise, overcommits_and_goes_on)
    return next((each.__name__ for each in excuses if each(ours, kueue)), "")


def goes_in_circles(ours: list[Change], kueue: list[Change]) -> bool:
    """Kueue does what we do, and then nothing more in the round, but we go on. It circles with a workload whose pod
    sets try their flavors out of step; or it put one aside that was passed over with its first flavor and has none
    left, though the first would do. Behind them others wait that could be admitted."""
    return len(kueue) < len(ours) and ours[: len(kueue)] == kueue


def finds_a_way_out_of_a_circle(ours: list[Change], kueue: list[Change]) -> bool:
    """Several workloads try their flavors over and over, each keeping room in the one it is at. After they have been
    where they were before, which is where we stop, they may by chance be out of each other's way."""
    return len(ours) < len(kueue) and kueue[: len(ours)] == ours and kueue[len(ours)].repeated


def preempts_twice(ours: list[Change], kueue: list[Change]) -> bool:
    """While a workload waits for victims to leave, Kueue chooses its flavors anew, this time from the first on, and
    finds other victims there; those it waited for leave for nothing."""
    more = kueue[len(ours) :]
    again = all(not each.admitted and each.waited >= each.evicted.keys() for each in more)
    return kueue[: len(ours)] == ours and bool(more) and again


def forgets_a_promise(ours: list[Change], kueue: list[Change]) -> bool:
    """As it chooses anew, the workload that waits for victims may be at a flavor that will not do. In that cycle
    nothing is kept for it, and others take what is being freed for it."""
    if not len(ours) < len(kueue) or kueue[: len(ours)] != ours:
        return False
    change = kueue[len(ours)]
    return bool(change.waited - change.waiting)


def overcommits_and_goes_on(ours: list[Change], kueue: list[Change]) -> bool:
    """As in one cycle: Kueue admits more while some are told to leave, or were before."""
    same = next((at for at, (one, other) in enumerate(zip(ours, kueue, strict=False)) if one != other), len(ours))
    if same == len(kueue):
        return False
    one, other = ours[same] if same < len(ours) else Change(0), kueue[same]
    leaving = bool(other.waiting or other.waited)
    return leaving and one.evicted == other.evicted and one.admitted.items() <= other.admitted.items()


# --- preemption gates


@pytest.mark.parametrize(
    "question, compare",
    [
        pytest.param(Question(GATED_WORLDS, 1, 1), differences_of_heads, id="one cycle"),
        pytest.param(Question(GATED_WORLDS, ROUNDS, MOST_CYCLES), differences_of_trees, id="cycle after cycle"),
    ],
)
def test_gates_hold_back_the_preemptions_that_they_hold_back_in_kueue(question: Question, compare: Comparison):
    asked = [with_gates(world, Random(seed)) for seed, world in enumerate(worlds(WORLDS)[:GATED_WORLDS])]
    answered = question.ask(asked)
    heads = [each for rounds in answered for cycles in rounds for cycle in cycles for each in cycle.values()]
    gated = [each for each in heads if each.get("message") == messages.GATED]
    assert {each["reason"] for each in gated} == {Unreserved.GATED.value}
    assert len(gated) > GATED_WORLDS / 10
    assert_only_excused(compared_in(asked, answered, question, compare), of=len(heads))


# --- what the worlds are made of


def test_the_worlds_show_all_that_can_happen():
    waiting = [each for _, cycle in first_cycles() for each in cycle.values() if not each["admitted"]]
    assert {reason for each in waiting for reason in each["victims"].values()} == set(VictimReason)
    reasons = {NoFit.NO_FLAVOR, NoFit.TOO_LARGE, NoFit.WAITING, Unreserved.PREEMPTING}
    assert {each["reason"] for each in waiting} == reasons
    assert {messages.NO_LONGER_FITS, messages.WAITS_FOR_THE_SAME} <= {each["message"] for each in waiting}


def test_some_are_admitted_with_fewer_pods_than_they_asked_for():
    assert any(
        outcome["admitted"] and outcome["counts"] != pods_asked_for(world, name)
        for world, cycle in first_cycles()
        for name, outcome in cycle.items()
    )


def pods_asked_for(world: Manifest, name: str) -> dict[str, int]:
    workload = next(each for each in world["workloads"] if each["metadata"]["name"] == name)
    return {each["name"]: each["count"] for each in workload["spec"]["podSets"]}
