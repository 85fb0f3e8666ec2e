"""What is kept about nodes by demand is what the rule says of every node, however it was worked out."""

import numpy as np
from builders import node, shape
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.node import NodeTerm
from headgate.model.selectors import Operator, Requirement
from headgate.placement.filters import NodeAffinity, Verdicts
from headgate.placement.table import NodeTable

NAMES = [f"n{index}" for index in range(5)]
VALUES = ["a", "b", "7"]
labels = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(VALUES))
requirements = st.builds(
    lambda key, operator, values: Requirement(key, operator, tuple(sorted(values))),
    st.sampled_from(["zone", "disk", "unknown"]),
    st.sampled_from(list(Operator)),
    st.sets(st.sampled_from(VALUES), min_size=1),
)
terms = st.builds(
    lambda expressions, name: NodeTerm(
        tuple(expressions), (Requirement("metadata.name", Operator.IN, (name,)),) if name else ()
    ),
    st.lists(requirements, max_size=2),
    st.sampled_from(["", "", "n1"]),
)
shapes = st.builds(
    lambda selector, required: shape(
        1, node_selector=tuple(sorted(selector.items())), required_terms=None if required is None else tuple(required)
    ),
    labels,
    st.none() | st.lists(terms, max_size=2),
)
moves = st.lists(st.tuples(st.sampled_from(NAMES), st.none() | labels), max_size=12)


@given(moves, moves, st.lists(shapes, min_size=1, max_size=3))
def test_affinity_is_judged_as_if_every_node_were_asked(before, after, asked):
    """Of a new demand the nodes without the labels are not asked about, later only those that changed are."""
    rule, table = NodeAffinity(), NodeTable()
    verdicts = Verdicts(rule, table)
    for history in (before, after):
        for name, having in history:
            table.drop(name) if having is None else table.put(node(name, labels=having))
        for one in asked:
            passes = verdicts.passes(one, slice(0, len(table.nodes)))
            mask = np.ones(len(table.nodes), dtype=bool) if passes is None else passes
            assert [bool(mask[row]) for row, each in enumerate(table.nodes) if each is not None] == [
                rule.refusal(one, each) is None for each in table.nodes if each is not None
            ]
            reasons = {reason for reason, met in verdicts.demands(one, slice(0, len(table.nodes))) if not met.all()}
            assert reasons <= {rule.reason}
