"""What is known of a value is known of that very value, and of no more values than there is room for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver import Json, caches
from headgate.apiserver.apiextensions import resource_types_of
from headgate.apiserver.caches import Cache, CachePolicy
from headgate.apiserver.field_errors import render
from headgate.apiserver.strategy import RestStrategy


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(1, 5))
def test_the_latest_are_known_and_the_memory_is_bounded(order: list[int], limit: int) -> None:
    known = Cache[int, str](CachePolicy(limit, "", "", "", ""))
    for number in order:
        known.put(number, str(number))
    assert all(known.get(number) == str(number) for number in order[-limit:])
    assert len(known) <= 2 * limit


def rules(spec: Json, status: Json) -> RestStrategy:
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    whole = {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}}
    subresources = {"subresources": {"status": {}}}
    return resource_types_of({"spec": {**whole, "versions": [{**version, **subresources}]}})[0].rules


def thing(spec: Any, **status: Any) -> Json:
    metadata = {"name": "it", "namespace": "default", "resourceVersion": "1"}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec, "status": status}


SMALL: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer", "maximum": 9}, "d": {"type": "string", "default": "given"}},
    "x-kubernetes-validations": [{"rule": "self.a < 5"}],
}
COUNTED: Json = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}


@pytest.mark.parametrize(
    "spec, expected",
    [
        pytest.param({"a": 4}, [], id="a rule that holds goes on to hold"),
        pytest.param({"a": 5}, [], id="one that does not hold for what stays is not asked again"),
    ],
)
def test_a_spec_that_stays_is_no_matter_of_a_change_of_status(spec: Json, expected: list[str]) -> None:
    kind = rules(SMALL, COUNTED)
    old = kind.prepare_create(thing(spec))
    for number in (1, 2, 3):
        new = kind.prepare_status({**old, "status": {"n": number}}, old)
        assert new["spec"] == {**spec, "d": "given"}
        assert [render(error) for error in kind.validate_status(new, old)] == expected
        old = new


def test_the_same_spec_is_refused_as_often_as_it_is_created() -> None:
    kind, spec = rules(SMALL, COUNTED), {"a": 5}
    for _ in range(3):
        new = kind.prepare_create(thing(spec))
        assert [render(error) for error in kind.validate_create(new)] == [
            "spec: Invalid value: failed rule: self.a < 5"
        ]


@pytest.mark.parametrize(
    "first, then, wrong",
    [
        pytest.param(1, True, "boolean", id="true is not the number one"),
        pytest.param(2, "2", "string", id="a text is not the number it spells"),
    ],
)
def test_a_value_that_was_right_vouches_for_no_value_of_another_type(first: Any, then: Any, wrong: str) -> None:
    kind = rules(SMALL, COUNTED)
    old = kind.prepare_create(thing({"a": 1}))
    assert not kind.validate_status({**old, "status": {"n": first}}, old)
    refused = kind.validate_status({**old, "status": {"n": then}}, old)
    assert render(refused[0]) == (f'status.n: Invalid value: "{wrong}": n in body must be of type integer: "{wrong}"')


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param({"extra": 1}, id="a field that the kind has no more"),
        pytest.param({"extra": None}, id="one that says nothing"),
        pytest.param({"spec": {"a": 1, "d": "given", "extra": 1}}, id="a spec with such a field"),
    ],
)
def test_a_change_of_status_that_was_right_leaves_nothing_unknown_beside_it(beside: Json) -> None:
    kind, status = rules(SMALL, COUNTED), {"n": 1}
    old = kind.prepare_create(thing({"a": 1}))
    for _ in range(2):
        new = kind.prepare_status({**old, "status": status}, old)
        assert not kind.validate_status(new, old)
    other = {**old, **beside}
    assert kind.prepare_status({**other, "status": status}, other) == new == {**old, "status": status}


def test_a_status_is_completed_as_often_as_it_is_written() -> None:
    kind, status = rules(SMALL, COUNTED), {"n": 1, "extra": 2}
    old = kind.prepare_create(thing({"a": 1}))
    for _ in range(3):
        new = kind.prepare_status({**old, "status": status}, old)
        assert new["status"] == {"n": 1}
        assert not kind.validate_status(new, old)


APISERVER = Path(caches.__file__).parent
POLICIES = [name for name, value in vars(caches).items() if isinstance(value, CachePolicy)]


def test_no_cache_exists_without_a_policy() -> None:
    elsewhere = [path for path in APISERVER.rglob("*.py") if path != Path(caches.__file__)]
    assert not [path.name for path in elsewhere if re.search(r"lru_cache|functools.*\bcache\b", path.read_text())]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_a_cache_and_says_what_pays_for_it(name: str) -> None:
    used = [path for path in APISERVER.rglob("*.py") if re.search(rf"(Cache|memoized)\({name}\b", path.read_text())]
    policy = getattr(caches, name)
    assert len(used) >= 1
    assert policy.limit > 0
    assert all((policy.key, policy.sound, policy.dropped))
    assert re.match(r"bench_\w+: [\d.]+", policy.pays)
