"""Kubernetes' CEL library: quantities, lists, sets, regular expressions, and the `authorizer` of admission policies.

URLs, IPs and such are not supported. The CEL engine has no custom types, so a quantity is a map with one entry, its
amount in nanos; two quantities are equal when their amounts are. An authorizer's check that is being put together is a
map of what it asks for, and so is its decision. Whoever evaluates an expression says in `deciding` who decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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

AUTHORIZER = "authorizer"
ACCOUNT = "serviceAccount"
Decide = Callable[[Json], tuple[bool, str]]
"""Whether what a check asks for is allowed, and why. Its parts are named as in ResourceAttributes, with `path` and the
service account it asks for, if any."""
_DECIDES: ContextVar[Decide] = ContextVar("decides")


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


@contextmanager
def deciding(decide: Decide) -> Iterator[None]:
    """Expressions that are evaluated inside ask this one."""
    token = _DECIDES.set(decide)
    try:
        yield
    finally:
        _DECIDES.reset(token)


def authorizer_value(request_resource: Json) -> Json:
    """The value of the variable, for a request about this resource."""
    return {"requestResource": request_resource}


def _asking(part: str) -> Callable[[Json, str], Json]:
    return lambda check, text: {**check, part: text}


def _check(check: Json, verb: str) -> Json:
    allowed, reason = _DECIDES.get()({**check, "verb": verb})
    return {"allowed": allowed, "reason": reason}


_PARTS = ("group", "resource", "subresource", "namespace", "name", "path")
_CHECK_METHODS: tuple[tuple[str, Any, Callable[..., Any], int], ...] = (
    *((part, _DYN, _asking(part), 1) for part in _PARTS),
    *((ignored, _DYN, lambda check, _text: check, 1) for ignored in ("fieldSelector", "labelSelector")),
    (ACCOUNT, _DYN, lambda check, namespace, name: {**check, ACCOUNT: f"{namespace}:{name}"}, 2),
    ("check", _DYN, _check, 1),
    ("allowed", _BOOL, lambda decision: bool(decision["allowed"]), 0),
    ("reason", _STRING, lambda decision: str(decision["reason"]), 0),
    ("errored", _BOOL, lambda _decision: False, 0),
    ("error", _STRING, lambda _decision: "", 0),
)


def authorizer_functions() -> Any:
    """The CEL extension with the methods of `authorizer`, of its checks and of their decisions."""
    declared = []
    for name, returned, implementation, texts in _CHECK_METHODS:
        overload = cel.Overload(f"authorizer_{name}", returned, [_DYN, *[_STRING] * texts], True, implementation)
        declared.append(cel.FunctionDecl(name, [overload]))
    return cel.CelExtension("authorizer", declared)
