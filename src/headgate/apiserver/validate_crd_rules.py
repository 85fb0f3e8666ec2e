"""The rules a schema brings (`x-kubernetes-validations`): well-formed, about fields that exist, able to be evaluated.

That a rule reads only fields the schema declares is not checked here, as a real server does: such a rule fails when it
is asked. Neither is what its evaluation may cost.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.apiserver.cel import VALIDATIONS, CompilationError, InvalidPath, compile_expression, field_path
from headgate.apiserver.field_errors import FieldError, invalid, not_supported, required
from headgate.apiserver.validate_crd_shapes import RuleProps, SchemaProps

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


class _Shown(msgspec.Struct, rename="pascal", frozen=True):
    """A rule as a real server's errors print it."""

    rule: str
    message: str
    message_expression: str
    reason: str | None
    field_path: str
    optional_old_self: bool | None


def rule_form_errors(path: str, node: SchemaProps) -> list[FieldError]:
    """What is wrong with the rules of one node before they are compiled."""
    errors: list[FieldError] = []
    for here, rule in _rules(path, node):
        errors += _text_errors(here, rule)
        if rule.message_expression and not rule.message_expression.strip():
            detail = "messageExpression must be non-empty if specified"
            errors.append(required(f"{here}.messageExpression", detail))
        if rule.reason is not None and rule.reason not in _REASONS:
            errors.append(not_supported(f"{here}.reason", rule.reason, _REASONS))
        if rule.field_path:
            errors += _path_errors(f"{here}.fieldPath", rule.field_path, node)
    return errors


def rule_errors(path: str, node: SchemaProps, unmatched: str = "") -> list[FieldError]:
    """What is wrong with the rules of well-formed nodes, this one and all below.

    `unmatched` is the path of the list in which old and new items cannot be matched, where there is one above.
    """
    errors = [error for here, rule in _rules(path, node) for error in _compile_errors(here, rule, unmatched)]
    for name, part in (node.properties or {}).items():
        errors += rule_errors(f"{path}.properties[{name}]", part, unmatched)
    if isinstance(node.additional_properties, SchemaProps):
        errors += rule_errors(f"{path}.additionalProperties", node.additional_properties, unmatched)
    if node.items is not None:
        errors += rule_errors(f"{path}.items", node.items, unmatched or (path if node.list_type != "map" else ""))
    return errors


def _rules(path: str, node: SchemaProps) -> Iterator[tuple[str, RuleProps]]:
    for index, rule in enumerate(node.validations or ()):
        yield f"{path}.{VALIDATIONS}[{index}]", rule


def _text_errors(here: str, rule: RuleProps) -> list[FieldError]:
    text, message = (rule.rule or "").strip(), rule.message or ""
    if not text:
        return [required(f"{here}.rule", "rule is not specified")]
    if message and not message.strip():
        return [invalid(f"{here}.message", message, "must be non-empty if specified")]
    if _has_breaks(message.strip()):
        return [invalid(f"{here}.message", message, "must not contain line breaks")]
    if _has_breaks(text) and not message:
        return [required(f"{here}.message", "message must be specified if rule contains line breaks")]
    return []


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _path_errors(here: str, path: str, node: SchemaProps) -> list[FieldError]:
    errors: list[FieldError] = []
    if not path.strip():
        errors.append(invalid(here, path, "must be non-empty if specified"))
    if _has_breaks(path):
        errors.append(invalid(here, path, "must not contain line breaks"))
    try:
        field_path(msgspec.to_builtins(node), path)
    except InvalidPath:
        errors.append(invalid(here, path, "must be a valid path"))
    return errors


def _compile_errors(here: str, rule: RuleProps, unmatched: str) -> Iterator[FieldError]:
    optional = bool(rule.optional_old_self)
    try:
        test = compile_expression(rule.rule or "", optional_old=optional)
    except CompilationError as problem:
        yield invalid(f"{here}.rule", _shown(rule), f"compilation failed: {problem}")
        return
    if not test.returns("BOOL"):
        yield invalid(f"{here}.rule", _shown(rule), "cel expression must evaluate to a bool")
    yield from _message_errors(here, rule)
    if test.uses_old and unmatched:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {unmatched}"
        yield invalid(f"{here}.rule", rule.rule, detail)
    if not test.uses_old and rule.optional_old_self is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{here}.optionalOldSelf", rule.optional_old_self, detail)


def _message_errors(here: str, rule: RuleProps) -> Iterator[FieldError]:
    if not rule.message_expression:
        return
    where = f"{here}.messageExpression"
    try:
        says = compile_expression(rule.message_expression, optional_old=bool(rule.optional_old_self))
    except CompilationError as problem:
        yield invalid(where, _shown(rule), f"messageExpression compilation failed: {problem}")
        return
    if not says.returns("STRING"):
        yield invalid(where, _shown(rule), "messageExpression must evaluate to a string")


def _shown(rule: RuleProps) -> _Shown:
    return _Shown(
        rule=rule.rule or "",
        message=rule.message or "",
        message_expression=rule.message_expression or "",
        reason=rule.reason,
        field_path=rule.field_path or "",
        optional_old_self=rule.optional_old_self,
    )
