"""Kubernetes' CEL library: quantities, lists, sets, regular expressions. URLs, IPs and such are not supported.

The CEL engine has no custom types, so a quantity is a map with one entry, its amount in nanos; two quantities are equal
when their amounts are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from headgate.apiserver.messages import Json
from headgate.apiserver.patterns import InvalidPattern, compile_pattern
from headgate.model.quantity import NANOS, InvalidQuantity, Quantity, parse_quantity

Implementation = Callable[..., Any]

_BOOL, _DOUBLE, _DYN, _INT, _LIST, _STRING = (
    getattr(cel.Type, name) for name in ("BOOL", "DOUBLE", "DYN", "INT", "LIST", "STRING")
)
_LARGEST_INTEGER = 2**63 - 1
_NANOS = "nanos of a quantity"


def _carried(nanos: int) -> Json:
    return {_NANOS: str(nanos)}


def _nanos(value: Any) -> int:
    if isinstance(value, dict) and _NANOS in value:
        return int(value[_NANOS])
    if isinstance(value, int) and not isinstance(value, bool):
        return value * NANOS
    raise ValueError("no such overload")


def _quantity(text: str) -> Json:
    return _carried(_parsed(text).nanos)


def _parsed(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except InvalidQuantity as error:
        raise ValueError(error.reason) from None


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantity:
        return False
    return True


def _is_integer(value: Any) -> bool:
    nanos = _nanos(value)
    return nanos % NANOS == 0 and abs(nanos) <= _LARGEST_INTEGER * NANOS


def _as_integer(value: Any) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _nanos(value) // NANOS


def _compared(one: Any, other: Any) -> int:
    return (_nanos(one) > _nanos(other)) - (_nanos(one) < _nanos(other))


def _sign(value: Any) -> int:
    return _compared(value, 0)


def _first_of(extreme: Callable[[Sequence[Any]], Any], name: str) -> Implementation:
    def choose(items: Sequence[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return extreme(items)

    return choose


def _is_sorted(items: Sequence[Any]) -> bool:
    return all(one <= other for one, other in pairwise(items))


def _index_of(items: Sequence[Any], wanted: Any) -> int:
    return next((place for place, item in enumerate(items) if item == wanted), -1)


def _last_index_of(items: Sequence[Any], wanted: Any) -> int:
    return max((place for place, item in enumerate(items) if item == wanted), default=-1)


def _contains(items: Sequence[Any], others: Sequence[Any]) -> bool:
    return all(other in items for other in others)


def _find(text: str, pattern: str) -> str:
    return next(iter(_find_all(text, pattern)), "")


def _find_all(text: str, pattern: str) -> list[str]:
    try:
        return compile_pattern(pattern).found(text)
    except InvalidPattern as error:
        raise ValueError(f"Illegal regex: {error}") from None


def _find_some(text: str, pattern: str, limit: int) -> list[str]:
    found = _find_all(text, pattern)
    return found if limit < 0 else found[:limit]


_FUNCTIONS: Sequence[tuple[str, Any, Implementation, tuple[Any, ...]]] = (
    ("quantity", _DYN, _quantity, (_STRING,)),
    ("isQuantity", _BOOL, _is_quantity, (_STRING,)),
    ("sets.contains", _BOOL, _contains, (_LIST, _LIST)),
    ("sets.equivalent", _BOOL, lambda one, other: _contains(one, other) and _contains(other, one), (_LIST, _LIST)),
    ("sets.intersects", _BOOL, lambda one, other: any(item in one for item in other), (_LIST, _LIST)),
)
_METHODS: Sequence[tuple[str, Any, Implementation, tuple[Any, ...]]] = (
    ("isInteger", _BOOL, _is_integer, (_DYN,)),
    ("asInteger", _INT, _as_integer, (_DYN,)),
    ("asApproximateFloat", _DOUBLE, lambda value: _nanos(value) / NANOS, (_DYN,)),
    ("sign", _INT, _sign, (_DYN,)),
    ("add", _DYN, lambda one, other: _carried(_nanos(one) + _nanos(other)), (_DYN, _DYN)),
    ("sub", _DYN, lambda one, other: _carried(_nanos(one) - _nanos(other)), (_DYN, _DYN)),
    ("isGreaterThan", _BOOL, lambda one, other: _compared(one, other) > 0, (_DYN, _DYN)),
    ("isLessThan", _BOOL, lambda one, other: _compared(one, other) < 0, (_DYN, _DYN)),
    ("compareTo", _INT, _compared, (_DYN, _DYN)),
    ("isSorted", _BOOL, _is_sorted, (_LIST,)),
    ("sum", _DYN, sum, (_LIST,)),
    ("min", _DYN, _first_of(min, "min"), (_LIST,)),
    ("max", _DYN, _first_of(max, "max"), (_LIST,)),
    ("indexOf", _INT, _index_of, (_LIST, _DYN)),
    ("lastIndexOf", _INT, _last_index_of, (_LIST, _DYN)),
    ("find", _STRING, _find, (_STRING, _STRING)),
    ("findAll", _LIST, _find_all, (_STRING, _STRING)),
    ("findAll", _LIST, _find_some, (_STRING, _STRING, _INT)),
)


def kubernetes_functions() -> Any:
    """The CEL extension with all functions of the library."""
    overloads: dict[str, list[Any]] = {}
    for is_member, table in ((False, _FUNCTIONS), (True, _METHODS)):
        for name, returned, implementation, parameters in table:
            known = overloads.setdefault(name, [])
            identity = f"kubernetes_{name}_{len(known)}".replace(".", "_")
            known.append(cel.Overload(identity, returned, list(parameters), is_member, implementation))
    return cel.CelExtension("kubernetes", [cel.FunctionDecl(name, known) for name, known in overloads.items()])
