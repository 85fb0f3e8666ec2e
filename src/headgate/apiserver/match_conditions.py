"""The `matchConditions` of a webhook: expressions in CEL that must all hold for it to be asked.

They read `request`, `object` and `oldObject`; there is no `authorizer` here, and the request has no `options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from headgate.apiserver.admission import Operation
from headgate.apiserver.cel import (
    CompilationError,
    EvaluationError,
    Reads,
    compile_program,
    evaluate_program,
    note_reads,
)
from headgate.apiserver.messages import Json

_OF_ITS_SORT = frozenset(
    {
        "kind",
        "operation",
        "requestKind",
        "requestResource",
        "requestSubResource",
        "resource",
        "subResource",
        "userInfo",
    }
)
"""What requests of one user for one sort of write have in common."""
_AUTHENTICATED = "system:authenticated"
_ACCOUNTS = "system:serviceaccounts"


class Condition:
    """One expression. `of_sort`: its answer depends on who writes and on the sort of write, and on nothing else."""

    def __init__(self, text: str) -> None:
        self._text, self.of_sort = text, False
        self._program: Any = None
        try:
            self._program = compile_program(text, "request", "object", "oldObject")
        except CompilationError as problem:
            self._broken = EvaluationError(f"compilation error: compilation failed: {problem}")
        else:
            self.of_sort = _reads_sort_only(text)

    def holds(self, operation: Operation) -> bool | EvaluationError:
        if self._program is None:
            return self._broken
        data = {"request": _request(operation), "object": operation.new, "oldObject": operation.old}
        said = evaluate_program(self._program, data)
        if isinstance(said, bool):
            return said
        why = said.why if isinstance(said, EvaluationError) else "must evaluate to bool"
        return EvaluationError(f"expression '{self._text}' resulted in error: {why}")


@lru_cache(maxsize=1024)
def compile_condition(text: str) -> Condition:
    """One that does not compile fails whenever it is asked."""
    return Condition(text)


def left_open(conditions: Sequence[Condition], operation: Operation) -> tuple[Condition, ...] | None:
    """Those that have to be asked about each write of this user and this sort; None if one never holds."""
    said = [(each, each.holds(operation) if each.of_sort else None) for each in conditions]
    if any(held is False for _, held in said):
        return None
    return tuple(each for each, held in said if held is not True)


def all_hold(conditions: Sequence[Condition], operation: Operation) -> bool | EvaluationError:
    """One that does not hold outweighs those that fail."""
    failed: list[str] = []
    for condition in conditions:
        said = condition.holds(operation)
        if said is False:
            return False
        if isinstance(said, EvaluationError) and said.why not in failed:
            failed.append(said.why)
    if not failed:
        return True
    return EvaluationError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")


def _reads_sort_only(text: str) -> bool:
    request, new, old = Reads(), Reads(), Reads()
    note_reads(text, {"request": request, "object": new, "oldObject": old})
    wider = request.whole or request.size or request.items
    return new.nothing and old.nothing and not wider and _OF_ITS_SORT.issuperset(request.fields)


def _request(operation: Operation) -> Json:
    """As a server shows it: fields that are empty are left out."""
    of, subresource = operation.resource, operation.subresource
    kind = {"group": of.group, "version": of.version, "kind": of.kind}
    resource = {"group": of.group, "version": of.version, "resource": of.plural}
    is_namespace = (of.group, of.plural) == ("", "namespaces")
    given = {
        "subResource": subresource,
        "requestSubResource": subresource,
        "name": operation.name,
        "namespace": operation.name if is_namespace else operation.namespace,
    }
    return {
        "uid": "",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        **{name: value for name, value in given.items() if value},
        "operation": operation.verb,
        "userInfo": {"username": operation.user, "groups": _groups(operation.user)},
        "dryRun": operation.dry_run,
    }


def _groups(user: str) -> list[str]:
    """Of a service account its namespace's; whoever has a name is known."""
    if user.startswith("system:serviceaccount:"):
        return [_ACCOUNTS, f"{_ACCOUNTS}:{user.split(':')[2]}", _AUTHENTICATED]
    return ["system:masters", _AUTHENTICATED] if user == "system:admin" else [_AUTHENTICATED]
