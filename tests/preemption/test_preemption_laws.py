"""Laws of preemption, on random clusters: who leaves, who never does, and that looking changes nothing."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import numpy as np
from builders import node, shape
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from preemption_scenes import NOW, Scene, apart, budget, group, lone, on, placements, victims

from headgate.model.keys import Key, Kind, Target
from headgate.model.node import HostPort
from headgate.placement.placer import NoPlacement
from headgate.placement.trial import PlacementTrial
from headgate.preemption.budgets import Coverage
from headgate.preemption.candidates import Candidates
from headgate.preemption.plain import PlainWorld
from headgate.preemption.policies import LEAST_LOSS, by_importance, only
from headgate.preemption.search import NoPlan, Plan
from headgate.preemption.solver.exact import HighsCertifier, SolverLimits
from headgate.preemption.steps import group_domains, solve
from headgate.preemption.units import Standing

MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
HOST = "kubernetes.io/hostname"
DEMANDS = [
    {},
    {},
    {"shape": shape(200, ports=(HostPort(80),))},
    {"shape": shape(100, peers=apart("app=a"))},
]
GANGS = {"whole": (2, True), "loose": (2, False), "large": (3, True)}
JOB = Target(Key(Kind.JOB, "default", "job"), "uid-job")


@st.composite
def running_pods(draw, nodes, gangs=True, checkpoints=True, deletions=True, demands=False):
    """Up to four pods a node, no two started at the same time."""
    pods = []
    for index, where in enumerate(each for each in nodes for _ in range(draw(st.integers(1, 4)))):
        gang = draw(st.sampled_from([None, None, *GANGS])) if gangs else None
        pods.append(
            on(
                where.name,
                f"p{index}",
                cpu=draw(st.sampled_from([100, 200, 300, 500])),
                priority={"whole": 1, "loose": 2, "large": 3}.get(gang) or draw(st.integers(0, 4)),
                gang=gang,
                start=float(100 * draw(st.integers(0, 50)) + index),
                checkpoint_every=draw(st.sampled_from([None, None, 300.0])) if checkpoints else None,
                deleted=draw(st.sampled_from([None, None, None, None, NOW])) if deletions else None,
                labels={"app": draw(st.sampled_from("ab"))},
                **(draw(st.sampled_from(DEMANDS)) if demands else {}),
            )
        )
    return pods


@st.composite
def scenes(draw, budgets=True, **kinds):
    names = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    nodes = [node(name, cpu=draw(st.sampled_from([500, 1000])), labels={HOST: name}) for name in names]
    allowed = [budget(app, f"app={app}", draw(st.integers(0, 2))) for app in "ab"] if budgets else []
    return Scene(nodes, draw(running_pods(nodes, **kinds)), GANGS, draw(st.sampled_from([allowed, []])), seed=7)


pods_alone = st.builds(lone, cpu=st.sampled_from([200, 400, 500, 1000]), priority=st.sampled_from([2, 4, 5, 5]))
groups = st.builds(
    lambda count, cpu, priority, spare: group(count, cpu=cpu, priority=priority, needed=max(1, count - spare)),
    st.integers(1, 5),
    st.sampled_from([200, 400, 500]),
    st.sampled_from([2, 4, 5, 5]),
    st.integers(0, 2),
)
mixed_groups = st.builds(
    lambda whole: replace(
        whole,
        pods=tuple(replace(one, shape=shape(300)) if index % 2 else one for index, one in enumerate(whole.pods)),
    ),
    groups,
)
preemptors = pods_alone | groups | mixed_groups


def waiting(scene, preemptor):
    """Only who finds no room asks for a plan."""
    with PlacementTrial(scene.table) as trial:
        for one in preemptor.pods[: preemptor.needed]:
            rows = [row for row in range(scene.table.extent) if scene.placer.fits(one, row)]
            if not rows:
                return True
            trial.take(one, scene.table.name_at(rows[0]))
    return False


def placed(scene, preemptor, plan):
    """Whether the placements hold in fact, by all rules, when the victims and those being deleted are gone."""
    with PlacementTrial(scene.table) as trial:
        for _, one in list(scene.table.placed()):
            if one.deleted is not None:
                trial.leave(one.key)
        for unit in plan.victims:
            for one in unit.pods:
                trial.leave(one.key)
        for one, name in plan.placements:
            if not scene.placer.fits(one, scene.table.row_of(name)):
                return False
            trial.take(one, name)
    return len(plan.placements) >= preemptor.needed


def everything(scene):
    """All that the table and its censuses know."""
    table = scene.table
    columns = {name: table.requested[name].tolist() for name in ("cpu", "pods")}
    return columns, sorted((row, one.key) for row, one in table.placed()), scene.running.rows.tolist()


def planned(scene, preemptor):
    plan = scene.plan(preemptor)
    assume(isinstance(plan, Plan))
    return plan


@MANY
@given(scenes(), preemptors)
def test_arithmetic_on_rows_and_all_rules_on_the_table_agree(scene, preemptor):
    assume(waiting(scene, preemptor))
    quick, careful = scene.plan(preemptor), scene.step_by_step(preemptor)
    if isinstance(quick, NoPlan):
        assert careful is None
        return
    assert careful is not None
    assert careful.receipt.criteria == quick.receipt.criteria
    assert careful.receipt.domains == quick.receipt.domains or not quick.victims
    assert [unit.key for unit in careful.victims] == [unit.key for unit in quick.victims]
    named = {preemptor.pods[index].key.name: scene.table.name_at(row) for index, row in careful.placements}
    assert named == placements(quick)


needy = st.builds(
    lone,
    priority=st.sampled_from([2, 4, 5]),
    labels=st.sampled_from([{"app": "a"}, {"app": "b"}]),
    shape=st.sampled_from(
        [
            shape(400),
            shape(400, ports=(HostPort(80),)),
            shape(400, peers=apart("app=b")),
            shape(900, peers=apart("app=a")),
        ]
    ),
)


@MANY
@given(scenes(demands=True), needy)
def test_all_nodes_at_once_and_one_by_one_agree_also_where_neighbours_matter(scene, preemptor):
    assume(isinstance(scene.placer.place(preemptor.pods[0]), NoPlacement))
    quick, careful = scene.plan(preemptor), scene.step_by_step(preemptor)
    if careful is None:
        assert isinstance(quick, NoPlan)
        return
    assert quick.receipt.criteria == careful.receipt.criteria
    assert [unit.key for unit in quick.victims] == [unit.key for unit in careful.victims]
    assert placed(scene, preemptor, quick)


@MANY
@given(scenes(), pods_alone | groups)
def test_there_is_a_plan_whenever_all_candidates_leaving_would_do(scene, preemptor):
    if isinstance(scene.plan(preemptor), Plan):
        return
    cpu, table = preemptor.pods[0].shape.requests["cpu"], scene.table
    staying = [(row, one) for row, one in table.placed() if one.deleted is None and one.priority >= preemptor.priority]
    room = 0
    for row in range(table.extent):
        taken = sum(one.shape.requests["cpu"] for at, one in staying if at == row)
        room += max(0, table.allocatable["cpu"][row] - taken) // cpu
    assert room < preemptor.needed


@MANY
@given(scenes(), mixed_groups)
def test_there_is_a_plan_for_unlike_pods_whenever_any_of_them_would_fit(scene, preemptor):
    """Every choice of as many pods as are needed on every choice of nodes, with all candidates gone."""
    if isinstance(scene.plan(preemptor), Plan):
        return
    staying = [
        (row, one) for row, one in scene.table.placed() if one.deleted is None and one.priority >= preemptor.priority
    ]
    free = [
        int(scene.table.allocatable["cpu"][row]) - sum(one.shape.requests["cpu"] for at, one in staying if at == row)
        for row in range(scene.table.extent)
    ]
    for chosen in combinations(preemptor.pods, preemptor.needed):
        for rows in product(range(len(free)), repeat=preemptor.needed):
            taken = Counter()
            for one, row in zip(chosen, rows, strict=True):
                taken[row] += one.shape.requests["cpu"]
            assert any(taken[row] > free[row] for row in taken)


@MANY
@given(scenes(), preemptors)
def test_the_placements_hold_and_no_victim_is_needless(scene, preemptor):
    plan = planned(scene, preemptor)
    assert placed(scene, preemptor, plan)
    for unit in plan.victims:
        fewer = replace(plan, victims=tuple(other for other in plan.victims if other is not unit))
        assert not placed(scene, preemptor, fewer)


@MANY
@given(scenes(budgets=False), preemptors)
def test_nobody_of_a_higher_priority_leaves_where_lower_ones_would_do(scene, preemptor):
    plan = planned(scene, preemptor)
    assume(plan.victims)
    highest = max(unit.priority for unit in plan.victims)
    lower = scene.plan(replace(preemptor, priority=highest))
    assert isinstance(lower, NoPlan)


@MANY
@given(scenes(), preemptors)
def test_gangs_leave_whole_and_only_lower_priorities_leave(scene, preemptor):
    plan = planned(scene, preemptor)
    gone = victims(plan)
    assert all(unit.priority < preemptor.priority for unit in plan.victims)
    assert all(one.deleted is None for unit in plan.victims for one in unit.pods)
    assert len(set(gone)) == len(gone)
    for name in ("whole", "large"):
        members = {one.key.name for one in members_of(scene, name)}
        assert not members & set(gone) or members <= set(gone)


def members_of(scene, name):
    running = (one for _, one in scene.table.placed() if one.group and one.deleted is None)
    return [one for one in running if one.group.workload.name == name]


@MANY
@given(scenes(), preemptors)
def test_planning_leaves_no_trace(scene, preemptor):
    scene.running.refresh()
    before = everything(scene)
    first = scene.plan(preemptor)
    scene.step_by_step(preemptor)
    scene.running.refresh()
    assert everything(scene) == before
    assert scene.plan(preemptor) == first


@MANY
@given(scenes(), groups)
def test_no_more_work_is_lost_than_by_the_published_order(scene, preemptor):
    plan = planned(scene, preemptor)
    published = _published(scene, preemptor)
    ours = dict(plan.receipt.criteria)
    assert tuple(ours.values()) <= published
    if (ours["budget violations"], ours["highest priority"], ours["gangs broken"]) == published[:3]:
        assert ours["work lost"] <= published[3]


def _published(scene, preemptor):
    """The outcome of sparing by priority, gangs, size and age alone, judged like ours."""
    among = Candidates(scene.running, preemptor.priority, NOW, preemptor.key)
    greedy = replace(LEAST_LOSS, orders=(by_importance,), weighs_work=False)
    (domain,) = group_domains(scene.table, scene.placer, preemptor.pods, preemptor.needed, "")
    world = PlainWorld(scene.placer.rules.rows, among, domain, {})
    (found,) = solve(world, domain, among, greedy, Coverage(among, scene.budgets))
    return found.judged


@MANY
@given(scenes(), st.integers(1, 2), st.integers(0, 1))
def test_budgets_are_used_up_at_once_as_they_are_pod_by_pod(scene, apps, disrupted):
    """Two sets of units, each leaving in order: one from the front of the line and one from its back."""
    for app in "ab"[:apps]:
        scene.budgets.put(budget(f"more-{app}", f"app={app}", 1, disrupted=["p0"] * disrupted))
    among = Candidates(scene.running, 9, NOW)
    order = by_importance(among, np.arange(among.count))
    beyond = Coverage(among, scene.budgets).beyond(
        np.concatenate([order, order[::-1]]), np.arange(2).repeat(len(order))
    )
    lines = [[among.pods_of(unit) for unit in one.tolist()] for one in (order, order[::-1])]
    assert beyond.tolist() == [count for line in lines for count in scene.budgets.violations(line)]


standings = st.tuples(st.integers(0, 4), st.integers(0, 3)).map(lambda both: (both[0], both[0] + both[1]))


@MANY
@given(st.lists(standings, min_size=1, max_size=6), standings)
def test_with_two_priorities_nobody_preempts_its_preemptor(owned, incoming):
    """Each has a priority to preempt with and one, no lower, to be preempted against."""
    nodes = [node(f"n{i}", cpu=100) for i in range(len(owned))]
    placed = [on(f"n{i}", f"p{i}", priority=own, owner=JOB) for i, (own, _) in enumerate(owned)]
    against = {f"p{i}": Standing(priority) for i, (_, priority) in enumerate(owned)}
    against["incoming"] = Standing(incoming[1])
    scene = Scene(nodes, placed, standings=against)
    plan = scene.plan(lone(priority=incoming[0]))
    assume(isinstance(plan, Plan))
    (victim,) = (one for unit in plan.victims for one in unit.pods)
    scene.table.release(victim.key)
    ((taken, name),) = plan.placements
    scene.table.charge(replace(taken, node=name), name)
    back = scene.plan(lone(victim.key.name, priority=victim.priority))
    assert isinstance(back, NoPlan) or "incoming" not in victims(back)


@MANY
@given(scenes(deletions=False) | scenes(gangs=False, checkpoints=False, deletions=False), pods_alone)
def test_a_pod_is_decided_as_kube_scheduler_does_whoever_runs_beside_it(scene, preemptor):
    """Gangs, checkpoints, controllers and budgets among the candidates do not change by which order they are chosen."""
    assume(waiting(scene, preemptor))
    plan, expected = scene.plan(preemptor), _kube_scheduler(scene, preemptor)
    if expected is None:
        assert isinstance(plan, NoPlan)
        return
    best, choices = expected
    assert plan.receipt.policy == "Kubernetes"
    (where,) = placements(plan).values()
    assert choices[where] == (best, victims(plan))


def _units(scene):
    """A gang that is preempted whole is one unit of all its pods, every other pod is one by itself."""
    whole = {}
    for row, one in scene.table.placed():
        together = one.group if scene.standing(one).whole else one.key
        whole.setdefault(together, []).append((row, one))
    return list(whole.values())


def _importance(unit):
    """Priority, then groups before pods, then the number of pods, then who started first."""
    (_, first), *_ = unit
    return -first.priority, first.group is None, -len(unit), min(one.started for _, one in unit)


def _kube_scheduler(scene, preemptor):
    """Node by node, one unit after the other, as kube-scheduler's default preemption goes about it."""
    choices = {}
    for row, there in enumerate(scene.table.nodes[: scene.table.extent]):
        here = [unit for unit in _units(scene) if any(at == row for at, _ in unit)]
        lower = sorted((unit for unit in here if unit[0][1].priority < preemptor.priority), key=_importance)

        def asked(unit, row=row):
            return sum(one.shape.requests["cpu"] for at, one in unit if at == row)

        free = there.allocatable["cpu"] - sum(asked(unit) for unit in here if unit not in lower)
        free -= preemptor.pods[0].shape.requests["cpu"]
        if free < 0 or not lower:
            continue
        beyond = scene.budgets.violations([[one for _, one in unit] for unit in lower])
        violating = [unit for unit, pods in zip(lower, beyond, strict=True) if pods]
        evicted = []
        for unit in (*violating, *(each for each in lower if each not in violating)):
            if asked(unit) <= free:
                free -= asked(unit)
            else:
                evicted.append(unit)
        choices[there.name] = (_judged(evicted, lower, beyond), sorted(one.key.name for u in evicted for _, one in u))
    return (min(judged for judged, _ in choices.values()), choices) if choices else None


def _judged(evicted, lower, beyond):
    pods = [one for unit in evicted for _, one in unit]
    highest = max(one.priority for one in pods)
    return (
        sum(pods for unit, pods in zip(lower, beyond, strict=True) if unit in evicted),
        highest,
        sum(one.priority + 2**31 for one in pods),
        len(pods),
        -min(one.started for one in pods if one.priority == highest),
    )


SOLVER = HighsCertifier(SolverLimits(seconds=None))


@st.composite
def small_scenes(draw):
    """Few enough pods to try all sets of victims; some are recreated by a controller."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 3)))]
    nodes = [node(name, cpu=draw(st.sampled_from([500, 600])), labels={HOST: name, "zone": name}) for name in names]
    placed = [
        on(
            where,
            f"{where}-{i}",
            cpu=draw(st.sampled_from([100, 200, 300])),
            priority=1 if gang else draw(st.integers(0, 3)),
            gang=gang,
            start=float(draw(st.integers(9000, 10_000))),
            checkpointed=draw(st.sampled_from([None, NOW - 5, NOW - 6])),
            labels={"app": draw(st.sampled_from("ab"))},
            owner=draw(st.sampled_from([None, None, JOB])),
        )
        for where in names
        for i in range(draw(st.integers(1, 2)))
        for gang in [draw(st.sampled_from([None, None, "whole", "loose"]))]
    ]
    budgets = [budget(app, f"app={app}", draw(st.integers(0, 1))) for app in "ab"]
    return nodes, placed, draw(st.sampled_from([budgets, []]))


small_groups = st.builds(
    lambda count, cpu, topology: group(count, cpu=cpu, priority=5, topology=topology),
    st.integers(1, 2),
    st.sampled_from([200, 300, 500]),
    st.sampled_from(["", "", "zone"]),
)


@MANY
@given(small_scenes(), small_groups)
def test_with_the_solver_a_choice_is_no_worse_and_no_further_budget_is_violated(world, preemptor):
    nodes, placed, budgets = world
    without = planned(Scene(nodes, placed, GANGS, budgets, seed=7), preemptor)
    checked = planned(Scene(nodes, placed, GANGS, budgets, certifier=SOLVER, seed=7), preemptor)
    assert judged(checked) <= judged(without)
    assert dict(checked.receipt.criteria)["budget violations"] <= dict(without.receipt.criteria)["budget violations"]


@settings(MANY, max_examples=150)
@given(small_scenes(), small_groups, st.sampled_from([None, SOLVER]), st.randoms(use_true_random=False))
def test_a_plan_depends_on_what_there_is_and_not_on_the_order_in_which_it_was_seen(world, preemptor, certifier, dice):
    nodes, placed, budgets = world
    placed = [replace(one, started=NOW - 60, checkpointed=None) for one in placed]  # so that much is equal
    first = planned(Scene(nodes, placed, GANGS, budgets, certifier=certifier, seed=7), preemptor)
    for each in (nodes, placed, budgets):
        dice.shuffle(each)
    again = planned(Scene(nodes, placed, GANGS, budgets, certifier=certifier, seed=7), preemptor)
    assert (victims(again), placements(again)) == (victims(first), placements(first))
    assert judged(again) == judged(first)


@MANY
@given(small_scenes(), small_groups)
def test_what_is_called_optimal_is_the_best_of_all_sets_of_victims(world, preemptor):
    """By the whole order, over all domains. What victims displace only makes a set worse, so the others go without."""
    nodes, placed, budgets = world
    scene = Scene(nodes, placed, GANGS, budgets, certifier=SOLVER, seed=7)
    assume(waiting(scene, preemptor))
    plan = planned(scene, preemptor)
    least = min(_costs_of_all_sets(scene, preemptor))
    assert judged(plan) >= least
    if plan.receipt.certificate == "optimal":
        assert judged(plan) == least
    else:
        assert plan.receipt.displaced, "without cascades so small a question is always decided"


def judged(plan):
    return tuple(value for _, value in plan.receipt.criteria)


def _costs_of_all_sets(scene, preemptor):
    """What every set of victims costs that makes the group fit."""
    among = Candidates(scene.running, preemptor.priority, NOW, preemptor.key)
    coverage = Coverage(among, scene.budgets)
    cpu, needed = preemptor.pods[0].shape.requests["cpu"], preemptor.needed
    for size in range(among.count + 1):
        for some in combinations(range(among.count), size):
            units = np.array(some, dtype=np.intp)
            gone = np.zeros(among.count, dtype=np.bool_)
            gone[units] = True
            free = scene.table.allocatable["cpu"] - among.after(gone).requested("cpu")
            fits = np.maximum(free[: scene.table.extent], 0) // cpu
            if (fits.max() if preemptor.topology else fits.sum()) >= needed:
                violations = int(coverage.violations(units, np.zeros(size, dtype=np.intp), 1)[0])
                yield LEAST_LOSS.judge_one(only(among, units, violations=violations))


def test_the_builders_make_worlds_that_preempt():
    """The laws above would say nothing of worlds in which nobody ever leaves."""
    scene = Scene([node("n", cpu=1000)], [on("n", f"p{i}", cpu=500, priority=i) for i in range(2)])
    assert victims(scene.plan(lone(cpu=500))) == ["p0"]
    assert np.array_equal(scene.running.rows[scene.running.rows >= 0], [0, 0])
