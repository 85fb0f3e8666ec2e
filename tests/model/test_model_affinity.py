"""What pods demand of nodes, and what they put up with."""

from __future__ import annotations

import pytest

from headgate.model.node import NodeTerm, Taint, TaintEffect, Toleration
from headgate.model.selectors import Operator, Requirement

LABELS = {"zone": "a", "cores": "16", "empty": "", "odd": "1_0"}


def demand(key, operator, *values):
    return Requirement(key, Operator(operator), values)


@pytest.mark.parametrize(
    "requirement, holds",
    [
        pytest.param(demand("zone", "In", "a", "b"), True, id="one of the values"),
        pytest.param(demand("zone", "In", "b"), False, id="none of the values"),
        pytest.param(demand("rack", "In", "a"), False, id="In needs the label"),
        pytest.param(demand("zone", "NotIn", "b"), True, id="another value than these"),
        pytest.param(demand("zone", "NotIn", "a"), False, id="a value ruled out"),
        pytest.param(demand("rack", "NotIn", "a"), True, id="NotIn is content without the label"),
        pytest.param(demand("empty", "Exists"), True, id="an empty label exists"),
        pytest.param(demand("rack", "Exists"), False, id="a missing label does not exist"),
        pytest.param(demand("rack", "DoesNotExist"), True, id="a label that must be missing is"),
        pytest.param(demand("zone", "DoesNotExist"), False, id="a label that must be missing is not"),
        pytest.param(demand("cores", "Gt", "8"), True, id="more than"),
        pytest.param(demand("cores", "Gt", "16"), False, id="as many is not more"),
        pytest.param(demand("cores", "Lt", "100"), True, id="numbers compare as numbers"),
        pytest.param(demand("cores", "Lt", "16"), False, id="as many is not less"),
        pytest.param(demand("zone", "Gt", "1"), False, id="a word is no number"),
        pytest.param(demand("cores", "Gt", "x"), False, id="nor is the word compared with"),
        pytest.param(demand("rack", "Lt", "1"), False, id="comparing needs the label"),
        pytest.param(demand("odd", "Gt", "1"), False, id="a number has no underscores"),
        pytest.param(demand("cores", "Lt", str(2**63)), False, id="a number has 64 bits"),
        pytest.param(demand("cores", "Gt", "1", "2"), False, id="comparing needs one value"),
    ],
)
def test_requirement(requirement, holds):
    assert requirement.holds(LABELS) is holds


@pytest.mark.parametrize(
    "term, matches",
    [
        pytest.param(NodeTerm(), False, id="an empty term matches nothing"),
        pytest.param(
            NodeTerm((demand("zone", "In", "a"), demand("cores", "Gt", "8"))), True, id="all expressions hold"
        ),
        pytest.param(NodeTerm((demand("zone", "In", "a"), demand("cores", "Gt", "99"))), False, id="one does not"),
        pytest.param(NodeTerm(fields=(demand("metadata.name", "In", "n"),)), True, id="the name is asked for"),
        pytest.param(
            NodeTerm((demand("zone", "In", "a"),), (demand("metadata.name", "In", "m"),)), False, id="another name is"
        ),
    ],
)
def test_node_term(term, matches):
    assert term.matches("n", LABELS) is matches


TAINT = Taint("gpu", "h100", TaintEffect.NO_SCHEDULE)


@pytest.mark.parametrize(
    "toleration, tolerates",
    [
        pytest.param(Toleration("gpu", value="h100", effect=TaintEffect.NO_SCHEDULE), True, id="the very taint"),
        pytest.param(Toleration("gpu", value="h100"), True, id="any effect of it"),
        pytest.param(Toleration("gpu", exists=True), True, id="any value of it"),
        pytest.param(Toleration(exists=True), True, id="every taint"),
        pytest.param(Toleration(exists=True, effect=TaintEffect.NO_EXECUTE), False, id="every taint of another effect"),
        pytest.param(Toleration("gpu", value="a100"), False, id="another value"),
        pytest.param(Toleration("tpu", exists=True), False, id="another key"),
    ],
)
def test_toleration(toleration, tolerates):
    assert toleration.tolerates(TAINT) is tolerates
