"""What the quota plane remembers of queues, namespaces, names and shapes goes with their last user."""

from collections import deque
from collections.abc import Mapping, Set

import pytest
from msgspec import Struct, structs
from quota_steps import QuotaSteps, cohort, local, namespace, queue, work

ROUNDS, MORE = 80, 240
TOLERATED = 150  # heaps are swept when half of them is stale


def parts(one):
    if isinstance(one, Mapping):
        return [*one.keys(), *one.values()]
    if isinstance(one, list | tuple | Set | deque):
        return list(one)
    if isinstance(one, Struct):
        return [getattr(one, name) for name in one.__struct_fields__]
    if type(one).__module__.startswith("headgate"):
        slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
        return [*vars(one).values()] if hasattr(one, "__dict__") else [getattr(one, name, None) for name in slots]
    return []


def entries(root):
    """The entries of all containers reachable from here."""
    seen, todo, total = {}, [root], 0
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        total += len(one) if isinstance(one, Mapping | list | Set | deque) else 0
        todo += parts(one)
    return total


def a_round(steps, number):
    """A tenant comes with queues, workloads and shapes of its own, is refused and admitted, and goes for good."""
    space, names = f"space-{number}", [f"{number}-{kind}" for kind in ("fits", "waits", "lost")]
    mine = namespace(space)
    cluster, above = queue(f"cq-{number}", cohort=f"co-{number}"), cohort(f"co-{number}")
    lines = [local(f"lq-{number}", "cq", space), local("own", f"cq-{number}", space)]
    steps.see(mine, above, cluster, *lines)
    fits = work(names[0], 1, "own", space=space, created=float(number), priority=number)
    waits = work(names[1], 2, f"lq-{number}", space=space, created=float(number), priority=-number)
    lost = work(names[2], 1, f"missing-{number}", space=space, created=float(number))
    steps.see(fits, waits, lost)
    assert steps.objects[fits.key].status.admission is not None
    assert steps.objects[waits.key].status.admission is None
    steps.later(2.0)
    for one in (*lines, fits, waits, lost):
        steps.lose(steps.objects[one.key])
    steps.later(2.0)
    for one in (cluster, above, mine):
        if one.key in steps.objects:
            steps.lose(steps.objects[one.key])
    steps.later(2.0)


@pytest.fixture
def steps():
    made = QuotaSteps(queue(cpu=2))
    made.see(work("stays", 1))
    return made


def test_tenants_who_come_and_go_leave_nothing_behind(steps):
    for number in range(ROUNDS):
        a_round(steps, number)
    steps.journal.take()
    before = entries(steps.plane)
    for number in range(ROUNDS, ROUNDS + MORE):
        a_round(steps, number)
    steps.journal.take()
    assert entries(steps.plane) - before < TOLERATED, "less than one entry for each who came"


def test_a_refused_class_is_forgotten_with_its_last_workload_and_evaluated_when_it_comes_back(steps):
    big = work("big", 5, created=1.0)
    steps.see(big, structs.replace(big, key=work("like-it").key, uid="uid-like-it"))
    refusal = steps.condition("big", "QuotaReserved")
    assert refusal[1] == "ExceedsMaxQuota"
    for name in ("big", "like-it"):
        steps.lose(steps[name])
    steps.see(big)
    assert steps.condition("big", "QuotaReserved") == refusal
