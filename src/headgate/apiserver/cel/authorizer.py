"""The `authorizer` of admission policies: expressions that ask what somebody may do.

The CEL engine has no custom types, so a check that is being put together is a map of what it asks for, and so is its
decision. Whoever evaluates an expression says in `deciding` who decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from headgate.apiserver.messages import Json

AUTHORIZER = "authorizer"
ACCOUNT = "serviceAccount"
Decide = Callable[[Json], tuple[bool, str]]
"""Whether what a check asks for is allowed, and why. Its parts are named as in ResourceAttributes, with `path` and the
service account it asks for, if any."""

_DECIDES: ContextVar[Decide] = ContextVar("decides")
_BOOL, _DYN, _STRING = (getattr(cel.Type, name) for name in ("BOOL", "DYN", "STRING"))


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
_METHODS: tuple[tuple[str, Any, Callable[..., Any], int], ...] = (
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
    for name, returned, implementation, texts in _METHODS:
        overload = cel.Overload(f"authorizer_{name}", returned, [_DYN, *[_STRING] * texts], True, implementation)
        declared.append(cel.FunctionDecl(name, [overload]))
    return cel.CelExtension("authorizer", declared)
