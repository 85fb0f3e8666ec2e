"""Which flavors a workload gets, and what it is told when it gets none."""

import pytest
from quota_builders import CPU, applies, flavor, group, holds, ledger, pods, queue

from headgate.model.node import NodeTerm, Taint, TaintEffect, Toleration
from headgate.model.queues import (
    BorrowWithinCohort,
    FlavorPreference,
    FlavorQuotas,
    FlavorSearch,
    Fungibility,
    QueuePreemption,
    Quota,
    Reclaim,
    ResourceGroup,
)
from headgate.model.selectors import Operator, Requirement
from headgate.quota.flavors import Fitness, Granular, Mode, assign, is_preferred, most_pods, stops_search
from headgate.quota.flavors import FlavorAssigner as Search
from headgate.quota.pending_workload import Progress
from headgate.quota.requests import PodSetRequests
from headgate.quota.tree import FlavorResource

SPOT = Taint("instance", "spot", TaintEffect.NO_SCHEDULE)
TWO = (group(one=4, two=4),)


def nobody(of, amount):
    return Fitness(Granular.NO_CANDIDATES, 0)


def assigned(books, asks, *flavors, oracle=nobody, counts=None, **fields):
    known = {one.name: one for one in flavors or (flavor(), flavor("one"), flavor("two"))}
    return assign(Search(books.forest.queues["q"], known, oracle, **fields), asks, counts)


def asks(*pod_sets):
    return applies("w", "q", pod_sets=pod_sets or (pods(),)).pod_set_requests


def chosen(assignment):
    return [choice.flavor for pod_set in assignment.pod_sets for _, choice in pod_set.choices]


def test_the_first_flavor_with_room_is_chosen():
    books = ledger(queue("q", groups=TWO), holds("w", "q", 4, flavor="one"))
    found = assigned(books, asks(pods(cpu=2)))
    assert (chosen(found), found.mode, found.message) == (["two"], Mode.FIT, "")
    assert found.usage == ((FlavorResource("two", "cpu"), 2000),)


def test_pod_sets_before_it_count():
    books = ledger(queue("q", groups=TWO))
    assert chosen(assigned(books, asks(pods("a", cpu=3), pods("b", cpu=3)))) == ["one", "two"]


def test_all_resources_of_a_group_get_the_same_flavor():
    gpu, cpu = Quota(1), Quota(4000)
    both = ResourceGroup(
        ("cpu", "gpu"),
        (FlavorQuotas("one", (("cpu", cpu), ("gpu", Quota()))), FlavorQuotas("two", (("cpu", cpu), ("gpu", gpu)))),
    )
    books = ledger(queue("q", groups=(both,)))
    assert chosen(assigned(books, asks(pods(amounts={"gpu": 1})))) == ["two", "two"]


def test_resources_of_different_groups_get_flavors_of_their_own():
    gpus = ResourceGroup(("gpu",), (FlavorQuotas("two", (("gpu", Quota(1)),)),))
    books = ledger(queue("q", groups=(group(one=4), gpus)))
    assert chosen(assigned(books, asks(pods(amounts={"gpu": 1})))) == ["one", "two"]


def test_pods_are_counted_where_a_queue_has_quota_for_pods():
    counted = ResourceGroup(("pods",), (FlavorQuotas("two", (("pods", Quota(2)),)),))
    books = ledger(queue("q", groups=(group(one=9), counted)))
    assert assigned(books, asks(pods(count=2))).mode is Mode.FIT
    assert "insufficient quota for pods in flavor two" in assigned(books, asks(pods(count=3))).message


@pytest.mark.parametrize(
    "shape, labels, taints, tolerations, why_not",
    [
        pytest.param({}, {}, (), (), "", id="nothing is asked and nothing refused"),
        pytest.param(
            {},
            {},
            (SPOT,),
            (),
            "untolerated taint {instance spot NoSchedule <nil>} in flavor default",
            id="a taint nobody tolerates",
        ),
        pytest.param(
            {"tolerations": (Toleration("instance", exists=True),)}, {}, (SPOT,), (), "", id="the pods tolerate it"
        ),
        pytest.param(
            {}, {}, (SPOT,), (Toleration("instance", value="spot"),), "", id="the flavor tolerates it for them"
        ),
        pytest.param(
            {}, {}, (Taint("a", "", TaintEffect.PREFER_NO_SCHEDULE),), (), "", id="a taint that only discourages"
        ),
        pytest.param({"node_selector": (("zone", "a"),)}, {"zone": "a"}, (), (), "", id="the selected label"),
        pytest.param(
            {"node_selector": (("zone", "a"),)},
            {"zone": "b"},
            (),
            (),
            "flavor default doesn't match node affinity",
            id="another value of the selected label",
        ),
        pytest.param(
            {"node_selector": (("zone", "a"),)}, {"type": "x"}, (), (), "", id="a label the flavor says nothing about"
        ),
        pytest.param(
            {"required_terms": (NodeTerm((Requirement("zone", Operator.IN, ("a",)),)),)},
            {"zone": "b"},
            (),
            (),
            "flavor default doesn't match node affinity",
            id="an affinity the flavor's labels contradict",
        ),
        pytest.param(
            {
                "required_terms": (
                    NodeTerm((Requirement("zone", Operator.IN, ("a",)),)),
                    NodeTerm((Requirement("rack", Operator.IN, ("r",)),)),
                )
            },
            {"zone": "b"},
            (),
            (),
            "",
            id="one alternative is about other labels only",
        ),
        pytest.param(
            {
                "required_terms": (
                    NodeTerm((Requirement("zone", Operator.IN, ("a",)), Requirement("rack", Operator.EXISTS))),
                )
            },
            {"zone": "a"},
            (),
            (),
            "",
            id="of one alternative only the flavor's own keys count",
        ),
    ],
)
def test_pods_must_be_able_to_run_there(shape, labels, taints, tolerations, why_not):
    books = ledger(queue("q", 4))
    known = flavor(node_labels=labels, node_taints=taints, tolerations=tolerations)
    found = assigned(books, asks(pods(**shape)), known)
    expected = f"couldn't assign flavors to pod set main: {why_not}" if why_not else ""
    assert found.message == expected


GPU = ResourceGroup(("gpu",), (FlavorQuotas("default", (("gpu", Quota(2)),)),))
MEMORY = ResourceGroup(("memory",), (FlavorQuotas("default", (("memory", Quota(1 << 30)),)),))
BUSY = queue("r", groups=(group(one=3),), cohort="c")
HALF_A_GIB = holds("w", "r", usage=((FlavorResource("default", "memory"), 1 << 29),))


@pytest.mark.parametrize(
    "parts, wanted, reason, message",
    [
        pytest.param(
            [queue("q", 1, "c"), queue("r", 3, "c"), holds("w", "r", 3)],
            pods(cpu=2),
            "WaitingForQuota",
            "insufficient unused quota for cpu in flavor default, 1 more needed",
            id="too little is free",
        ),
        pytest.param(
            [queue("q", groups=(MEMORY,), cohort="c"), queue("r", groups=(MEMORY,), cohort="c"), HALF_A_GIB],
            pods(cpu=0, amounts={"memory": 1 << 31}),
            "WaitingForQuota",
            "insufficient unused quota for memory in flavor default, 512Mi more needed",
            id="amounts are written as users write them",
        ),
        pytest.param(
            [queue("q", 4)],
            pods(cpu=5),
            "ExceedsMaxQuota",
            "insufficient quota for cpu in flavor default, previously considered podsets requests (0) + current podset "
            "request (5) > maximum capacity (4)",
            id="more than there ever is",
        ),
        pytest.param(
            [queue("q", groups=(GPU,))],
            pods(),
            "NoMatchingFlavor",
            "resource cpu unavailable in ClusterQueue",
            id="a resource the queue has no quota for",
        ),
        pytest.param(
            [queue("q", groups=(group(lost=4),))],
            pods(),
            "NoMatchingFlavor",
            "flavor lost not found",
            id="a flavor that does not exist",
        ),
        pytest.param(
            [queue("q", groups=(group(one=1, two=1),), cohort="c"), BUSY, holds("w", "r", 4, flavor="one")],
            pods(cpu=2),
            "WaitingForQuota",
            "insufficient quota for cpu in flavor two, previously considered podsets requests (0) + current podset "
            "request (2) > maximum capacity (1), insufficient unused quota for cpu in flavor one, 2 more needed",
            id="of alternatives the one nearest to fitting is the reason, and all are told in order",
        ),
        pytest.param(
            [queue("q", groups=(group(one=1), GPU), cohort="c"), BUSY, holds("w", "r", 4, flavor="one")],
            pods(cpu=2, amounts={"gpu": 3}),
            "WaitingForQuota",
            "insufficient unused quota for cpu in flavor one, 2 more needed",
            id="the first group that fits nowhere ends the search",
        ),
    ],
)
def test_what_is_told_when_nothing_fits(parts, wanted, reason, message):
    found = assigned(ledger(*parts), asks(wanted))
    assert found.mode is Mode.NO_FIT
    assert (found.no_fit, found.message) == (reason, f"couldn't assign flavors to pod set main: {message}")


def test_a_resource_nobody_declares_is_left_out_of_account_where_that_is_wished():
    books = ledger(queue("q", 4))
    wanted = asks(pods(amounts={"example.com/x": 1}))
    assert assigned(books, wanted).mode is Mode.NO_FIT
    assert assigned(books, wanted, ignore_undeclared=True).mode is Mode.FIT
    assert assigned(books, asks(pods(amounts={"example.com/x": 0}))).mode is Mode.FIT, "nor one of which it wants none"


@pytest.mark.parametrize(
    "parts, fair, asked_oracle",
    [
        pytest.param([queue("q", 4), holds("w", "q", 4)], False, True, id="within its own nominal quota"),
        pytest.param([queue("q", 1, "c"), queue("r", 4, "c"), holds("w", "r", 5)], False, False, id="not to borrow"),
        pytest.param(
            [
                queue("q", 1, "c", preemption=QueuePreemption(borrow=BorrowWithinCohort.LOWER_PRIORITY)),
                queue("r", 4, "c"),
                holds("w", "r", 5),
            ],
            False,
            True,
            id="to borrow, where the policy allows",
        ),
        pytest.param(
            [
                queue("q", 1, "c", preemption=QueuePreemption(reclaim=Reclaim.ANY)),
                queue("r", 4, "c"),
                holds("w", "r", 5),
            ],
            True,
            True,
            id="to borrow, where shares decide",
        ),
    ],
)
def test_when_preemption_is_considered(parts, fair, asked_oracle):
    questions = []

    def oracle(of, amount):
        questions.append((of, amount))
        return Fitness(Granular.RECLAIM, 0)

    found = assigned(ledger(*parts), asks(pods(cpu=2)), oracle=oracle, is_fair=fair)
    assert questions == ([(CPU, 2000)] if asked_oracle else [])
    assert found.mode is (Mode.PREEMPT if asked_oracle else Mode.NO_FIT)
    assert found.needing_preemption == ((CPU,) if asked_oracle else ())


FIT, BORROW = Fitness(Granular.FIT, 0), Fitness(Granular.FIT, 1)
RECLAIM, NONE, NO = Fitness(Granular.RECLAIM, 0), Fitness(Granular.NO_CANDIDATES, 0), Fitness(Granular.NO_FIT, 0)
OVER_PREEMPTION, OVER_BORROWING = FlavorPreference


@pytest.mark.parametrize(
    "better, worse, preference",
    [
        pytest.param(FIT, BORROW, OVER_PREEMPTION, id="not to borrow is better"),
        pytest.param(BORROW, Fitness(Granular.FIT, 2), OVER_PREEMPTION, id="to borrow nearer is better"),
        pytest.param(BORROW, RECLAIM, OVER_PREEMPTION, id="to borrow is better than to preempt"),
        pytest.param(RECLAIM, BORROW, OVER_BORROWING, id="unless preempting is preferred"),
        pytest.param(RECLAIM, Fitness(Granular.PREEMPT, 0), OVER_PREEMPTION, id="to take from others is better"),
        pytest.param(Fitness(Granular.PREEMPT, 9), NONE, OVER_BORROWING, id="anything is better than no candidates"),
        pytest.param(NONE, NO, OVER_BORROWING, id="no candidates are better than no fit"),
    ],
)
def test_which_flavor_does_better(better, worse, preference):
    assert is_preferred(better, worse, preference)
    assert not is_preferred(worse, better, preference)


NEXT, STOP = FlavorSearch.TRY_NEXT_FLAVOR, FlavorSearch.MAY_STOP_SEARCH


@pytest.mark.parametrize(
    "fitness, borrow, preempt, stops",
    [
        pytest.param(FIT, NEXT, NEXT, True, id="a flavor that fits ends the search"),
        pytest.param(BORROW, STOP, NEXT, True, id="so does one that borrows"),
        pytest.param(BORROW, NEXT, NEXT, False, id="unless the next is to be tried then"),
        pytest.param(RECLAIM, NEXT, STOP, True, id="one that preempts ends it where that is wished"),
        pytest.param(RECLAIM, NEXT, NEXT, False, id="but not by default"),
        pytest.param(NONE, STOP, STOP, False, id="one without candidates never does"),
        pytest.param(NO, STOP, STOP, False, id="nor one that does not fit"),
    ],
)
def test_where_the_search_ends(fitness, borrow, preempt, stops):
    assert stops_search(fitness, Fungibility(borrow, preempt)) is stops


def test_the_search_goes_on_where_it_left_off():
    books = ledger(queue("q", groups=(group(one=4, two=4, three=4),)))
    known = [flavor(name) for name in ("one", "two", "three")]
    first = assigned(books, asks(), *known)
    assert (chosen(first), first.tried) == (["one"], ((("cpu", 0),),))
    second = assigned(books, asks(), *known, progress=Progress(first.tried, 0, 0, None))
    assert (chosen(second), second.began_midway) == (["two"], True)
    last = assigned(books, asks(), *known, progress=Progress((((("cpu", 1)),),), 0, 0, None))
    assert (chosen(last), last.tried) == (["three"], ((("cpu", -1),),))
    again = assigned(books, asks(), *known, progress=Progress(last.tried, 0, 0, None))
    assert (chosen(again), again.began_midway) == (["one"], False)


@pytest.mark.parametrize(
    "generation, cycle, kind, holds",
    [
        pytest.param(5, 99, "other", True, id="while nothing changed"),
        pytest.param(6, 8, "same", True, id="or it was found out in the cycle before, for the same demand"),
        pytest.param(6, 9, "same", False, id="not two cycles later"),
        pytest.param(6, 8, "other", False, id="not for another demand"),
    ],
)
def test_how_long_progress_counts(generation, cycle, kind, holds):
    assert Progress((), 5, 7, "same").holds(generation, cycle, kind) is holds


def test_a_search_that_comes_back_to_where_it_was_is_over():
    first, second = ((("cpu", 0),), (("cpu", -1),)), ((("cpu", -1),), (("cpu", 0),))
    assert Progress(second, 0, 0, None, earlier=(first,)).has_more
    assert not Progress(first, 0, 0, None, earlier=(first, second)).has_more


def test_pinned_flavors_leave_no_choice():
    books = ledger(queue("q", groups=TWO))
    found = assigned(books, asks(), pinned={("main", "cpu"): "two"})
    assert chosen(found) == ["two"]


def test_one_resource_that_is_short_is_never_hidden_by_another_that_borrows():
    """With preemption preferred to borrowing, the worse of the two resources is the one that borrows."""
    quotas = (("cpu", Quota(4000)), ("gpu", Quota(1)))
    both = ResourceGroup(("cpu", "gpu"), (FlavorQuotas("one", quotas),))
    rules = Fungibility(NEXT, NEXT, FlavorPreference.PREEMPTION_OVER_BORROWING)
    gpus, cpus = FlavorResource("one", "gpu"), FlavorResource("one", "cpu")
    books = ledger(
        queue("q", groups=(both,), cohort="c", fungibility=rules),
        queue("r", groups=(both,), cohort="c"),
        holds("w", "r", usage=((cpus, 8000),)),
        holds("v", "q", usage=((gpus, 1),)),
    )
    found = assigned(books, asks(pods(amounts={"gpu": 1})), oracle=lambda of, amount: RECLAIM)
    assert (found.mode, found.needing_preemption) == (Mode.PREEMPT, (cpus,))


@pytest.mark.parametrize(
    "counts, free, got",
    [
        pytest.param([(10, 2)], 6, [6], id="as many as there is room for"),
        pytest.param([(10, 2)], 1, None, id="not less than the least"),
        pytest.param([(10, None)], 6, None, id="all or none where no fewer will do"),
        pytest.param([(4, None), (10, 2)], 9, [4, 5], id="only from pod sets that can spare some"),
        pytest.param([(8, 4), (4, 2)], 9, [6, 3], id="from each in proportion to what it can spare"),
    ],
)
def test_fewer_pods_than_asked_for(counts, free, got):
    wanted = [PodSetRequests(f"set-{index}", count, PLAIN_CORE, least) for index, (count, least) in enumerate(counts)]
    assert most_pods(wanted, lambda tried: list(tried) if sum(tried) <= free else None) == got


PLAIN_CORE = asks()[0].each
