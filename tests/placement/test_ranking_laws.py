"""A row is judged alike by itself and among others, at once and when somebody asks about it at last."""

import numpy as np
import pytest
from builders import node, pod, pod_key, shape
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.scheduler.plugins import plugins_for
from headgate.model.settings import Profile, ScoringStrategy
from headgate.placement import ranking
from headgate.placement.neighbours import Neighbours
from headgate.placement.ranking import NO_PLACE, Ranking
from headgate.placement.table import NodeTable

STRATEGIES = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
CURVE = ((0, 0), (40, 7), (100, 3))
NAMES = [f"n{index}" for index in range(6)]
AMOUNTS = st.sampled_from([0, 1, 7, 100, 333, 1000])
sizes = st.tuples(AMOUNTS, AMOUNTS, st.integers(1, 3))
shapes = st.builds(shape, AMOUNTS, AMOUNTS)
charges = st.lists(st.tuples(st.sampled_from(NAMES), shapes), max_size=8)


def rules_for(table, strategy="LeastAllocated"):
    scoring = ScoringStrategy(type=strategy, shape=CURVE)
    return plugins_for(Profile(scoring=scoring), Neighbours(table)).rules.rows


def table_of(made):
    table = NodeTable()
    for name, (cpu, memory, pods) in zip(NAMES, made, strict=False):
        table.put(node(name, cpu=cpu, memory=memory, pods=pods))
    return table


@given(st.lists(sizes, min_size=1, max_size=6), charges, shapes, st.sampled_from(STRATEGIES))
def test_a_row_by_itself_is_rated_as_among_all_rows(made, there, asked, strategy):
    """Also a node that lacks what the pod asks for, or on which more is taken than there is."""
    table = table_of(made)
    for index, (name, one) in enumerate(there):
        table.charge(pod(f"p{index}", shape=one), name)
    rules, rows = rules_for(table, strategy), range(len(made))
    together = [int(score) for score in rules.rate(asked, slice(0, len(made)))]
    assert [rules.rate_one(asked, row) for row in rows] == together
    assert [rules.rate(asked, row) for row in rows] == together
    for rule, _ in rules.scores:
        all_at_once = rule.scores(asked, table, slice(0, len(made)), 0) + np.zeros(len(made), dtype=np.int64)
        assert [rule.scores(asked, table, row, 0) for row in rows] == all_at_once.tolist()


moves = st.one_of(
    st.tuples(st.just("charge"), st.integers(0, 4), st.sampled_from(NAMES)),
    st.tuples(st.just("release"), st.integers(0, 4), st.just("")),
    st.tuples(st.just("put"), st.integers(0, 3), st.sampled_from(NAMES)),
    st.tuples(st.just("drop"), st.just(0), st.sampled_from(NAMES)),
    st.tuples(st.just("ask"), st.integers(0, 63), st.just("")),
    st.tuples(st.just("ask all"), st.just(0), st.just("")),
    st.tuples(st.just("grow"), st.just(70), st.just("")),
)


def play(table, move):
    match move:
        case ("charge", number, name):
            table.charge(pod(f"p{number}", shape=shape(100 + number, 7)), name)
        case ("release", number, _):
            table.release(pod_key(f"p{number}"))
        case ("put", size, name):
            table.put(node(name, cpu=size * 150, unschedulable=size == 3))
        case ("drop", _, name):
            table.drop(name)
        case ("grow", count, _):
            for index in range(count):
                table.put(node(f"more-{index}"))


def comparable(places):
    """What the places of rows that will do are; the others have none."""
    return np.maximum(places, NO_PLACE).tolist()


def rows_in(bits, count):
    """The rows whose place among six has its bit set."""
    return np.array([bits >> (row % 6) & 1 for row in range(count)], dtype=np.bool_)


@pytest.mark.parametrize("few", [0, 1, 12], ids=["all at once", "one by one if alone", "one by one"])
@given(history=st.lists(moves, max_size=30))
def test_rows_asked_about_stand_where_they_would_if_all_were_always_asked_about(few, history):
    """Changed rows nobody asks about are judged later, once somebody does."""
    table = table_of([(300, 100, 9)] * len(NAMES))
    asked, rules = shape(50, 3), rules_for(table)
    followed = Ranking(asked, rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "FEW", few)
        for kind, number, name in history:
            play(table, (kind, number, name))
            if not kind.startswith("ask"):
                continue
            mask = None if kind == "ask all" else rows_in(number, len(table.nodes))
            followed.refresh(mask)
            afresh = Ranking(asked, rules)
            afresh.refresh()
            here = slice(None) if mask is None else mask
            assert comparable(followed.places[here]) == comparable(afresh.places[here])
