"""What is tried out on the table leaves no trace, whatever it was and however it ended."""

import contextlib

import pytest
from builders import node, pod, pod_key, shape
from hypothesis import given
from hypothesis import strategies as st
from peers_builders import HOST, pod_of, select, spread, term, zoned

from headgate.model.claims import Attachment, ClaimName
from headgate.model.keys import Key, Kind
from headgate.model.node import HostPort, WeightedTerm
from headgate.placement.neighbours import Neighbours, PodQuery, TermRole
from headgate.placement.table import NodeTable
from headgate.placement.trial import PlacementTrial
from headgate.placement.volumes import Attachments

WEB, DB = term(select("app=web")), term(select("app=db"), key=HOST)
QUESTIONS = (PodQuery((WEB,)), PodQuery((DB,)), PodQuery((WEB, DB)), PodQuery((WEB,), living=True))
CLAIM = ClaimName(Kind.VOLUME_CLAIM, "data")
KINDS = (
    {"labels": "app=web", "cpu": 100, "memory": 10},
    {"labels": "app=db", "cpu": 50, "ports": (HostPort(80), HostPort(53, "UDP"))},
    {"labels": "app=db", "anti_affinity": (DB,), "affinity": (WEB,)},
    {"labels": "app=web", "preferences": (WeightedTerm(5, WEB), WeightedTerm(-5, DB)), "hard_spread": (spread(),)},
    {"claims": (CLAIM,)},
    {"labels": "app=web", "deleted": 1.0},
)
NAMES = [f"p{i}" for i in range(6)]
NODES = ("a1", "a2", "b1", "unknown")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("leave"), st.sampled_from(NAMES)),
        st.tuples(st.just("take"), st.sampled_from(NAMES), st.sampled_from(KINDS), st.sampled_from(NODES)),
        st.just(("mark",)),
        st.tuples(st.just("back"), st.integers(0, 9)),
    ),
    max_size=25,
)
charged = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(KINDS), st.sampled_from(NODES)), max_size=6)


class Scene:
    """A table with all its followers."""

    def __init__(self, before):
        self.table = NodeTable()
        self.neighbours = Neighbours(self.table)
        self.attachments = Attachments(self.table)
        self.attachments.bind(Key(Kind.VOLUME_CLAIM, "default", "data"), Attachment("csi", "v1"))
        for each in (zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b")):
            self.table.put(each)
        for name, kind, where in before:
            self.table.charge(pod_of(name=name, **kind), where)
        self.neighbours.nominations.put(pod(NAMES[0], nominated="a1", priority=5))
        self.look()

    def look(self):
        """All that anyone can see of it."""
        table, rows = self.table, [self.table.row_of(name) for name in NODES[:3]]
        columns = [(each, sorted(each.names())) for each in (table.requested, table.scored, table.ports)]
        late = pod_of("app=web")
        return {
            "amounts": [{name: each[name].tolist() for name in names if each[name].any()} for each, names in columns],
            "charges": [table.charge_of(pod_key(name)) for name in NAMES],
            "pods on": sorted((row, placed.key, placed.shape.ports) for row, placed in table.placed()),
            "answers": [self.neighbours.answer(question).tolist() for question in QUESTIONS],
            "held": [
                sorted((t.topology_key, c.tolist()) for t, c in self.neighbours.holding(r, late)) for r in TermRole
            ],
            "claims": [self.attachments.uses(Key(Kind.VOLUME_CLAIM, "default", "data"))],
            "attached": [self.attachments.attachable((Attachment("csi", "v1"),)).tolist()],
            "promised": [self.neighbours.nominations.admits(late, row) for row in rows],
        }


def play(trial, marks, step):
    match step:
        case ("leave", name):
            trial.leave(pod_key(name))
        case ("take", name, kind, where):
            trial.take(pod_of(name=name, **kind), where)
        case ("mark",):
            marks.append(trial.mark())
        case ("back", which) if marks:
            mark = marks[which % len(marks)]
            trial.back_to(mark)
            marks[:] = [each for each in marks if each <= mark]


@given(charged, steps)
def test_any_sequence_is_undone_exactly(before, tried):
    scene = Scene(before)
    expected, marks = scene.look(), []
    with PlacementTrial(scene.table) as trial:
        for step in tried:
            play(trial, marks, step)
    assert scene.look() == expected


@given(charged, steps, steps)
def test_going_back_to_a_mark_restores_how_it_was_then(before, first, second):
    scene = Scene(before)
    with PlacementTrial(scene.table) as trial:
        for step in first:
            play(trial, [], step)
        expected, mark = scene.look(), trial.mark()
        for step in second:
            if step[0] in ("leave", "take"):
                play(trial, [], step)
        trial.back_to(mark)
        assert scene.look() == expected


@given(charged, steps)
def test_within_a_trial_everyone_counts_as_if_it_were_so(before, tried):
    scene = Scene(before)
    with PlacementTrial(scene.table) as trial:
        for step in tried:
            play(trial, [], step)
        now = [(name, scene.table.charge_of(pod_key(name))) for name in NAMES]
        afresh = Scene([])
        for _, charge in now:
            if charge is not None:
                afresh.table.charge(charge[1], charge[0])
        assert scene.look() == afresh.look()


def test_an_exception_leaves_no_trace_either():
    scene = Scene([("p1", KINDS[0], "a1")])
    expected = scene.look()
    with contextlib.suppress(ValueError), PlacementTrial(scene.table) as trial:
        trial.leave(pod_key("p1"))
        trial.take(pod("p2"), "a1")
        raise ValueError
    assert scene.look() == expected


def test_trials_nest():
    table = NodeTable()
    table.put(node("n"))
    with PlacementTrial(table) as outer:
        outer.take(pod("a", cpu=300), "n")
        with PlacementTrial(table) as inner:
            inner.leave(pod_key("a"))
            inner.take(pod("b", cpu=500), "n")
        assert table.requested["cpu"].sum() == 300
    assert table.requested["cpu"].sum() == 0


@pytest.mark.parametrize("key, left", [("there", True), ("stranger", False)])
def test_leaving_tells_whether_there_was_anything_to_give_back(key, left):
    table = NodeTable()
    table.put(node("n"))
    table.charge(pod("there", shape=shape(100)), "n")
    with PlacementTrial(table) as trial:
        assert trial.leave(pod_key(key)) is left


def test_a_pod_that_takes_another_node_gives_the_first_one_back():
    table = NodeTable()
    table.put(zoned("a1", "a"))
    table.put(zoned("b1", "b"))
    table.charge(pod("p"), "a1")
    with PlacementTrial(table) as trial:
        trial.take(pod("p", cpu=700), "b1")
        assert table.requested["cpu"][table.row_of("a1")] == 0
    assert table.requested["cpu"][table.row_of("a1")] == 100
