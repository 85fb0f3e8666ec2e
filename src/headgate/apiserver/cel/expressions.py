"""CEL expressions and `x-kubernetes-validations` rules: compiled once, evaluated for a value and its old value."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings  # type: ignore[import-untyped]
from msgspec import Struct

from headgate.apiserver.caches import CEL_PROGRAMS, memoized
from headgate.apiserver.cel.functions import AUTHORIZER, authorizer_functions, kubernetes_functions
from headgate.apiserver.messages import Json

_LONGEST_MESSAGE = 5 * 1024  # bytes a message expression may make
_OLD = "__old__"  # holds the old value under `value`, where there is one
_CODE = re.compile(r"^[A-Z_]+: ")
_UNDECLARED = re.compile(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '(\w+)\.[\w.]+' \(in container ''\)\n \| .*\n \| \.*\^"
)
_MESSAGES = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"modulus by zero|modulo by zero"), "modulus by zero"),
    (re.compile(r"No matching overloads found.*|Applying SELECT to non-message type"), "no such overload"),
)


class CompilationError(Exception):
    """An expression that does not compile; the text is a real server's as far as the compilers agree."""


class EvaluationError(Struct, frozen=True):
    """An expression that could not be evaluated for a value."""

    why: str


def compile_program(text: str, *variables: str) -> Any:
    """The compiled expression over these variables. Raises CompilationError."""
    try:
        return _environment(*variables).compile(text)
    except RuntimeError as error:
        said = _CODE.sub("", str(error)).removesuffix(" [INVALID_ARGUMENT]")
        raise CompilationError(_UNDECLARED.sub(partial(_at_its_root, text), said)) from None


def _at_its_root(text: str, found: re.Match[str]) -> str:
    """The error of an undeclared name at its first part, as a real server tells it; ours tells of the last field."""
    line, column, root = int(found[1]), int(found[2]), found[3]
    shown = text.split("\n")[line - 1]
    start = shown.rfind(root, 0, column)
    if start < 0:
        return found[0]
    told = f"ERROR: <input>:{line}:{start + 1}: undeclared reference to '{root}' (in container '')"
    return f"{told}\n | {shown}\n | {'.' * start}^"


def evaluate_program(program: Any, data: Json) -> Any:
    """The expression's value, or EvaluationError."""
    result = program.eval(data=data)
    made = result.plain_value()
    return EvaluationError(_real_message(str(made))) if result.type() == cel.Type.ERROR else made


class CelExpression:
    """A compiled expression over `self` and optionally `oldSelf`."""

    def __init__(self, text: str, *, optional_old: bool) -> None:
        """Raises CompilationError."""
        self.text, self._optional = text, optional_old
        self.uses_old = False
        try:
            self._compiled = compile_program(text, "self")
        except CompilationError:
            self._compiled, self.uses_old = self._with_old(text), True

    def _with_old(self, text: str) -> Any:
        if self._optional:
            return compile_program(f"cel.bind(oldSelf, {_OLD}.?value, (\n{text}\n))", "self", _OLD)
        return compile_program(text, "self", "oldSelf")

    def returns(self, name: str) -> bool:
        """Whether the expression's type is this one or dynamic."""
        return self._compiled.return_type().name() in (name, "DYN")

    def evaluate(self, new: Any, old: Any) -> Any:
        """The expression's value, or EvaluationError; `old` is None where there is none."""
        data: Json = {"self": new}
        if self.uses_old and self._optional:
            data[_OLD] = {} if old is None else {"value": old}
        elif self.uses_old:
            data["oldSelf"] = old
        return evaluate_program(self._compiled, data)


class ValidationRule(Struct, frozen=True):
    """A compiled rule. `old_optional`: a rule that uses oldSelf is evaluated for new values too."""

    text: str
    expression: CelExpression
    message: str = ""
    message_expression: CelExpression | None = None
    reason: str = ""
    path: str = ""
    old_optional: bool = False

    @property
    def name(self) -> str:
        """The rule as errors name it."""
        return self.message or self.text

    @property
    def expressions(self) -> tuple[CelExpression, ...]:
        return (self.expression,) if self.message_expression is None else (self.expression, self.message_expression)

    @property
    def uses_old(self) -> bool:
        return any(expression.uses_old for expression in self.expressions)

    def applies_to(self, old: Any) -> bool:
        return old is not None or not self.expression.uses_old or self.old_optional

    def message_for(self, new: Any, old: Any) -> str:
        """The message for a value that violates the rule."""
        said = None if self.message_expression is None else self.message_expression.evaluate(new, old)
        if isinstance(said, str) and _is_message(said.strip()):
            return said.strip()
        return self.message or f"failed rule: {self.text}"


def compile_rule(given: Json, path: str) -> ValidationRule:
    """The compiled rule; its violations are reported at `path` below the value. Raises CompilationError."""
    optional, said = bool(given.get("optionalOldSelf")), given.get("messageExpression")
    return ValidationRule(
        text=given["rule"].strip(),
        expression=compile_expression(given["rule"], optional_old=optional),
        message=(given.get("message") or "").strip(),
        message_expression=compile_expression(said, optional_old=optional) if said else None,
        reason=given.get("reason") or "",
        path=path,
        old_optional=optional,
    )


def _is_message(text: str) -> bool:
    return bool(text) and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE


def _real_message(error: str) -> str:
    for pattern, words in _MESSAGES:
        found = pattern.search(error)
        if found is not None:
            return found.expand(words)
    return _CODE.sub("", error)


@memoized(CEL_PROGRAMS)
def compile_expression(text: str, *, optional_old: bool) -> CelExpression:
    """The compiled expression. Raises CompilationError."""
    return CelExpression(text, optional_old=optional_old)


@memoized(CEL_PROGRAMS)
def _environment(*variables: str) -> Any:
    extensions = [
        ext_strings.ExtStrings(),
        ext_optional.ExtOptional(),
        ext_math.ExtMath(),
        ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
        kubernetes_functions(),
        *([authorizer_functions()] if AUTHORIZER in variables else []),
    ]
    return cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN), extensions=extensions)


_STEP = re.compile(r"\.(?P<name>[^.\[\]']+)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class InvalidPath(ValueError):
    """The path does not exist in the schema."""


def field_path(schema: Json, path: str) -> str:
    """The path as errors write it: `.a.b` and `['a'].b` are `a.b`, keys of maps are in brackets. Raises InvalidPath."""
    at, place, written = schema, 0, ""
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            raise InvalidPath(path)
        name = step["name"] if step["name"] is not None else _unescaped(step["quoted"])
        at, is_field = _subschema(at, name, path)
        written += (f".{name}" if written else name) if is_field else f"[{name}]"
        place = step.end()
    return written


def _subschema(schema: Json, name: str, path: str) -> tuple[Json, bool]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if properties and name in properties:
        return properties[name], True
    if not properties and isinstance(others, dict):
        return others, False
    raise InvalidPath(path)


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found.group(1) not in _ESCAPES:
            raise InvalidPath(text)
        return _ESCAPES[found.group(1)]

    return re.sub(r"\\(.)", plain, text)
