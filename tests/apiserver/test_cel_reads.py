"""What rules can read of a value: less to look at, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api.install_manifests import definitions, queue_definitions
from headgate.apiserver import Json
from headgate.apiserver.apiextensions.rules import NodeRules
from headgate.apiserver.cel import EvaluationError, Reads, ValidationRule, compile_rule, compile_view, note_reads

TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}
EVERYTHING = ["oldSelf", "self"]


def shown(reads: Reads, path: str) -> Iterator[str]:
    if reads.whole:
        yield path
        return
    if reads.size:
        yield f"size of {path}"
    if reads.nothing:
        yield f"has {path}"
    for name, part in reads.fields.items():
        yield from shown(part, f"{path}.{name}")
    if reads.items is not None:
        yield from shown(reads.items, f"{path}[]")


def reads_of(text: str) -> list[str]:
    self, old = Reads(), Reads()
    note_reads(text, {"self": self, "oldSelf": old})
    untouched = {"has self", "has oldSelf"}
    return sorted({*shown(self, "self"), *shown(old, "oldSelf")} - untouched)


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("self.a.b < 3", ["self.a.b"], id="a field of a field"),
        pytest.param("self == oldSelf", EVERYTHING, id="a value as a whole"),
        pytest.param("has(self.a.b)", ["has self.a.b"], id="whether a field is there"),
        pytest.param("size(self.a) == self.b.size()", ["size of self.a", "size of self.b"], id="only the size"),
        pytest.param("size(self.a + oldSelf.a) > 1", ["oldSelf.a", "self.a"], id="the size of something made of it"),
        pytest.param("self.l.exists(c, c.t == 'x' && c.s)", ["self.l[].s", "self.l[].t"], id="something of each item"),
        pytest.param(
            "self.l.all(g, g.m.exists_one(f, has(f.x) && f.y == g.z))",
            ["has self.l[].m[].x", "self.l[].m[].y", "self.l[].z"],
            id="items of items",
        ),
        pytest.param("self.l.exists(c, c in oldSelf.l)", ["oldSelf.l", "self.l[]"], id="items as a whole"),
        pytest.param("self.l.filter(c, c.t).size() == 1", ["self.l"], id="a list made of items has them in it"),
        pytest.param("self.l.all(i, c, c.t == i)", EVERYTHING, id="two names at once are not understood"),
        pytest.param("self.l[0].t == 'x'", ["self.l"], id="an item by its place"),
        pytest.param("self.a.startsWith(self.b)", ["self.a", "self.b"], id="a function of a field"),
        pytest.param("'self.x' == self.a // self.y", ["self.a"], id="texts and comments read nothing"),
        pytest.param(r"r'\' == self.a && 'x' == self.b", ["self.a", "self.b"], id="a raw text ends where it ends"),
        pytest.param(r"""'\'' == self.a || "\"" == self.b""", ["self.a", "self.b"], id="quotes inside of texts"),
        pytest.param("other.self.x == self.a", ["self.a"], id="a field that is called self"),
        pytest.param(".self.x == 1", EVERYTHING, id="a name from the root is not understood"),
        pytest.param("self.?a.orValue('') == ''", ["self"], id="an optional field"),
        pytest.param("`self`.a == 1", EVERYTHING, id="what cannot be taken apart is not understood"),
        pytest.param("self.l.exists(self, self.t) && self.a", ["self.a", "self.l[].t"], id="an item called self"),
    ],
)
def test_what_a_rule_reads(text: str, expected: list[str]) -> None:
    assert reads_of(text) == expected


ITEM: Json = {
    "type": "object",
    "properties": {"t": TEXT, "n": NUMBER, "o": {"type": "object", "properties": {"t": TEXT}}},
}
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "a": NUMBER,
        "b": TEXT,
        "l": {"type": "array", "items": ITEM},
        "m": {"type": "object", "additionalProperties": NUMBER},
        "o": {"type": "object", "properties": {"t": TEXT, "q": ITEM}},
        "f": {"type": "number"},
        "namespace": TEXT,
        "free": {"x-kubernetes-preserve-unknown-fields": True},
    },
}
RULES = (
    "self.a < 2",
    "has(self.o) && has(self.o.q) && self.o.q.n == self.a",
    "!has(self.o.q.t)",
    "size(self.l) < 2",
    "self.l.size() == size(oldSelf.l)",
    "self.l.all(i, has(i.t) && i.n < 2)",
    "self.l.exists(i, i.o.t == self.b)",
    "self.l.exists_one(i, i.t == 'x')",
    "self.l.filter(i, i.n > 0).size() == 1",
    "self.l.filter(i, has(i.n)) == oldSelf.l.filter(i, has(i.n))",
    "self.l.map(i, i.t) == oldSelf.l.map(i, i.t)",
    "self.l.all(i, oldSelf.l.exists(j, j.t == i.t && has(j.o) == has(i.o)))",
    "self.l[0].t == 'x'",
    "size(self.m) < 2",
    "self.m.all(k, self.m[k] < 2)",
    "'x' in self.m",
    "self.m.x == 1",
    "self.o == oldSelf.o",
    "self == oldSelf",
    "size(self.b) < 2 && size(self.o.q.t) < 2",
    "self.f < 1.5",
    "self.__namespace__ == 'x'",
    "self.free.t == 'x' || has(self.free.n)",
    "size(self.free) == 1",
    "has(self.b) ? self.b == 'x' : self.a == 1",
    "self.?o.q.n.orValue(0) == 0",
    "self.l.exists(self, self.n == 1) || self.a == 1",
)

numbers, texts = st.integers(0, 2), st.sampled_from(["", "x", "yy"])
items = st.fixed_dictionaries(
    {}, optional={"t": texts, "n": numbers, "o": st.fixed_dictionaries({}, optional={"t": texts}), "z": numbers}
)
values = st.fixed_dictionaries(
    {},
    optional={
        "a": numbers,
        "b": texts,
        "l": st.lists(items, max_size=3),
        "m": st.dictionaries(texts, numbers, max_size=2),
        "o": st.fixed_dictionaries({}, optional={"t": texts, "q": items}),
        "f": numbers | st.just(1.5),
        "namespace": texts,
        "free": items | texts | st.lists(texts, max_size=2) | st.none(),
        "undeclared": texts,
    },
)
COMPILED = [
    compile_rule({"rule": text, "messageExpression": "self.b + ' and ' + string(self.a)"}, "") for text in RULES
]
ANSWERS = [(rule, NodeRules(SCHEMA, [rule], root=False)) for rule in COMPILED]
TOGETHER = [NodeRules(SCHEMA, COMPILED, root=False), NodeRules(SCHEMA, COMPILED, root=True)]
NARROW = [
    COMPILED[RULES.index(text)] for text in ("self.a < 2", "!has(self.o.q.t)", "self.l.exists_one(i, i.t == 'x')")
]
BY_PARTS = NodeRules(SCHEMA, NARROW, root=True)


def answered_in_full(rule: ValidationRule, new: Json, old: Json | None) -> list[tuple[str, str | EvaluationError]]:
    see = compile_view(SCHEMA)
    seen, before = see(new), None if old is None else see(old)
    held: Any = rule.expression.evaluate(seen, before) if rule.applies_to(before) else True
    if held is True:
        return []
    return [(rule.text, held if isinstance(held, EvaluationError) else rule.message_for(seen, before))]


@settings(max_examples=60, deadline=None)
@given(values, values | st.none())
def test_less_to_see_makes_no_difference(new: Json, old: Json | None) -> None:
    expected = [answered_in_full(rule, new, old) for rule in COMPILED]
    for (_, answers), full in zip(ANSWERS, expected, strict=True):
        for _again in range(2):
            assert [(rule.text, said) for rule, said in answers.violations(new, old)] == full
    everything = [one for full in expected for one in full]
    for together in TOGETHER:
        assert [(rule.text, said) for rule, said in together.violations(new, old)] == everything
    some = [one for rule, full in zip(COMPILED, expected, strict=True) if rule in NARROW for one in full]
    assert [(rule.text, said) for rule, said in BY_PARTS.violations(new, old)] == some


def rules_in(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (one["rule"] for one in schema.get("x-kubernetes-validations", ()))
        for part in schema.values():
            yield from rules_in(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from rules_in(part)


def test_the_rules_of_the_kinds_we_serve_are_understood() -> None:
    of_objects = [rule for kind in (*definitions(), *queue_definitions()) for rule in rules_in(kind) if "self." in rule]
    unclear = [rule for rule in of_objects if reads_of(rule) == EVERYTHING]
    assert len(of_objects) > 30
    assert unclear == []
