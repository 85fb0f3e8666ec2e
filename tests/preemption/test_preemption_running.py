"""What runs, followed pod by pod, equals what the table says at the end; and budgets come and go."""

from builders import node, pod
from hypothesis import given, settings
from hypothesis import strategies as st
from preemption_scenes import Scene, budget, group_key, lone, on, victims

from headgate.placement.table import NodeTable
from headgate.placement.trial import PlacementTrial
from headgate.preemption.units import FIRST_LINES, Running, Standing

NAMES = [f"p{i}" for i in range(5)]
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES), st.sampled_from("nm"), st.sampled_from([None, "g", "h"])),
        st.tuples(st.just("go"), st.sampled_from(NAMES)),
        st.tuples(st.just("drop"), st.sampled_from("nm")),
        st.tuples(st.just("return"), st.sampled_from("nm")),
        st.just(("look",)),
        st.just(("try",)),
    ),
    max_size=20,
)


def standing(one):
    return Standing(one.priority, one.group, 2, whole=True)


def follow():
    table = NodeTable()
    return table, Running(table, standing)


def known(running):
    """Each pod that runs with its row and its gang."""
    running.refresh()
    gangs = [running.gang_list.key_of(number) if number >= 0 else None for number in running.gangs.tolist()]
    lines = zip(running.pods, running.rows.tolist(), gangs, strict=True)
    return sorted((one.key, row, one.group == gang) for one, row, gang in lines if one is not None)


@settings(max_examples=60, deadline=None)
@given(MOVES)
def test_following_every_change_comes_to_the_same_as_looking_at_the_end(moves):
    table, running = follow()
    for name in "nm":
        table.put(node(name))
    for move in moves:
        play(table, running, move)
    assert known(running) == sorted((one.key, row, True) for row, one in table.placed())


def play(table, running, move):
    match move:
        case "put", name, where, gang:
            table.charge(on(where, name, gang=gang, cpu=100 if gang else 200), where)
        case "go", name:
            table.release(pod(name).key)
        case "drop", name:
            table.drop(name)
        case "return", name:
            table.put(node(name))
        case ("look",):
            running.refresh()
        case ("try",):
            with PlacementTrial(table) as trial:
                for _, one in list(table.placed()):
                    trial.leave(one.key)


def test_there_is_room_for_any_number_of_pods():
    table, running = follow()
    table.put(node("n", pods=9999))
    for index in range(3 * FIRST_LINES):
        table.charge(on("n", f"p{index}", gang=f"g{index}"), "n")
    assert len(known(running)) == 3 * FIRST_LINES


def test_the_number_of_a_gang_that_is_gone_is_given_to_the_next():
    table, running = follow()
    table.put(node("n"))
    for index in range(50):
        table.charge(on("n", "only", gang=f"g{index}", cpu=100 + index), "n")
        running.refresh()
    assert len(running.gang_list.keys) <= 2
    assert running.gang_list.number_of(group_key("g49")) >= 0
    assert running.gang_list.number_of(group_key("g1")) < 0


def test_a_budget_that_is_gone_spares_nobody():
    older, newer = on("n", "older", 500, start=1.0), on("n", "newer", 500, start=9.0, labels={"app": "db"})
    protecting = budget("db", "app=db", 0)
    scene = Scene([node("n", cpu=1000)], [older, newer], budgets=[protecting])
    assert victims(scene.plan(lone(cpu=500))) == ["older"]
    scene.budgets.put(budget("db", "app=db", 1))
    assert victims(scene.plan(lone(cpu=500))) == ["newer"]
    scene.budgets.put(protecting)
    scene.budgets.drop(protecting.key)
    assert victims(scene.plan(lone(cpu=500))) == ["newer"]
    assert not scene.budgets
