"""Laws of the node table under random histories."""

from builders import amounts, node, pod, pod_key, shape
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.settings import Profile
from headgate.placement.neighbours import Neighbours
from headgate.placement.placer import Placement, Placer
from headgate.placement.ranking import bundles_with
from headgate.placement.table import KEPT_CHANGES, PODS, ChangeLog, NodeTable

NAMES = [f"n{i}" for i in range(4)]
PODS_IN_PLAY = [f"p{i}" for i in range(5)]
moves = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES), st.integers(1, 9)),
        st.tuples(st.just("drop"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("charge"), st.sampled_from(PODS_IN_PLAY), st.sampled_from(NAMES)),
        st.tuples(st.just("release"), st.sampled_from(PODS_IN_PLAY), st.just(0)),
    ),
    max_size=60,
)


def fresh(table):
    return Placer(plugins_for(Profile(), Neighbours(table)).rules)


def play(table, move):
    match move:
        case ("put", name, size):
            table.put(node(name, cpu=size * 100))
        case ("drop", name, _):
            table.drop(name)
        case ("charge", name, target):
            table.charge(pod(name, shape=shape(50, 7)), target)
        case ("release", name, _):
            table.release(pod_key(name))


@given(moves)
def test_what_is_charged_is_the_sum_of_the_pods_that_are_there(history):
    table, where = NodeTable(), {}
    for move in history:
        play(table, move)
        if move[0] == "charge":
            where[move[1]] = move[2]
        elif move[0] == "release":
            where.pop(move[1], None)
    for row, here in enumerate(table.nodes):
        count = 0 if here is None else sum(target == here.name for target in where.values())
        assert table.requested[PODS][row] == count
        assert table.requested["cpu"][row] == 50 * count
        assert table.scored["memory"][row] == amounts(memory=7)["memory"] * count


@given(moves, st.lists(st.integers(0, 60), max_size=6))
def test_a_placer_that_followed_every_change_agrees_with_one_that_starts_afresh(history, looks):
    """Keeping verdicts up to date by the rows that changed never differs from looking at everything."""
    table = NodeTable()
    following = fresh(table)
    for step, move in enumerate(history):
        play(table, move)
        if step in looks:
            following.place(pod(shape=shape(120, 5)))
    afresh = fresh(table)
    for asked in (shape(120, 5), shape(1)):
        assert following.place(pod(shape=asked)) == afresh.place(pod(shape=asked))


@given(st.integers(0, 400))
def test_a_table_of_any_size_finds_the_one_node_with_room(count):
    table = NodeTable()
    for index in range(count):
        table.put(node(f"small-{index}", cpu=1))
    table.put(node("large", cpu=5000))
    found = fresh(table).place(pod(shape=shape(2000)))
    assert isinstance(found, Placement)
    assert found.node == "large"


def test_a_reader_who_fell_too_far_behind_is_told_to_look_at_everything():
    log = ChangeLog()
    for row in range(KEPT_CHANGES + 1):
        log.append(row % 7)
    assert log.since(0) is None
    assert log.since(log.end) == []
    assert log.since(log.end - 2) == [(log.end - 2) % 7, (log.end - 1) % 7]


@given(moves, st.integers(1, 12), st.sampled_from([shape(30, 2), shape(250, 1), shape(1), shape(90, 200)]))
def test_a_plan_for_many_pods_is_what_one_by_one_would_give(history, count, asked):
    table = NodeTable()
    for move in history:
        play(table, move)
    placing, waiting = fresh(table), [pod(f"new{i}", shape=asked) for i in range(count)]
    planned = placing.plan(waiting[0], count)
    for index, one in enumerate(waiting):
        found = placing.place(one)
        assert found == (planned[index] if index < len(planned) else found)
        assert isinstance(found, Placement) == (index < len(planned))
        if isinstance(found, Placement):
            table.charge(one, found.node)


@given(st.integers(128, 700), st.lists(st.tuples(st.integers(1, 900), st.integers(1, 900)), min_size=1, max_size=32))
def test_different_pods_planned_together_get_different_nodes_with_room(count, wanted):
    table = NodeTable()
    for index in range(count):
        table.put(node(f"n{index}", cpu=500 + index % 7 * 100))
    placing = fresh(table)
    waiting = [pod(f"p{i}", shape=shape(cpu, memory)) for i, (cpu, memory) in enumerate(wanted)]
    found = placing.plan_each(waiting[: placing.most_together(waiting[0])])
    for one, placement in zip(waiting, found, strict=False):
        table.charge(one, placement.node)
        assert table.shortage(placement.node, one.shape) is None
    assert len({placement.node for placement in found}) == len(found)


def test_pods_that_differ_in_more_than_amounts_are_not_bundled():
    assert bundles_with(shape(1, 1), shape(2, 3))
    assert not bundles_with(shape(1, 1), shape(2, 3, node_selector=(("zone", "a"),)))
    assert not bundles_with(shape(1, 1), shape(2)), "one that asks for no memory is scored by other rules"
