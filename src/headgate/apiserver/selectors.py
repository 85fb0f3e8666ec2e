"""Label and field selectors of list, watch and deletecollection, and the selectors inside objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.apiserver.field_errors import quote
from headgate.apiserver.messages import Json
from headgate.apiserver.status import StatusError, bad_request
from headgate.apiserver.strategy import ResourceType
from headgate.model.selectors import (
    InvalidSelector,
    Requirement,
    label_selector,
    parse_field_selector,
    parse_label_selector,
    selects,
)

Match = Callable[[Json], bool]
LabelTest = Callable[[Mapping[str, str]], bool]

COMMON_FIELDS = ("metadata.name", "metadata.namespace")
FIELDS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("", "pods"): {
        "spec.nodeName": "",
        "spec.restartPolicy": "",
        "spec.schedulerName": "",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "false",
        "status.phase": "",
        "status.podIP": "",
        "status.nominatedNodeName": "",
    },
    ("", "nodes"): {"spec.unschedulable": "false"},
    ("", "namespaces"): {"status.phase": ""},
    ("batch", "jobs"): {"status.successful": "0"},
    ("", "events"): {
        "involvedObject.kind": "",
        "involvedObject.namespace": "",
        "involvedObject.name": "",
        "involvedObject.uid": "",
        "involvedObject.apiVersion": "",
        "reason": "",
        "reportingComponent": "",
        "type": "",
    },
}
"""Supported field selectors beyond name and namespace, and the value of an absent field."""


def selection(query: Mapping[str, str], resource: ResourceType) -> Match | None:
    """The selectors of a request as one predicate; None if it has none."""
    try:
        by_label = parse_label_selector(query.get("labelSelector", ""))
        by_field = parse_field_selector(query.get("fieldSelector", ""))
    except InvalidSelector as error:
        raise bad_request(str(error)) from None
    tests = [_field_test(requirement, resource) for requirement in by_field]
    if by_label:
        tests.append(lambda value: selects(by_label, value["metadata"].get("labels") or {}))
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda value: all(test(value) for test in tests)


def object_selector(selector: Json | None) -> LabelTest:
    """A LabelSelector as a predicate on labels; None selects nothing, an empty one everything."""
    if selector is None:
        return lambda _: False
    try:
        requirements = label_selector(selector)
    except InvalidSelector as error:
        raise StatusError(500, "InternalError", f"Internal error occurred: {error}") from None
    return lambda labels: selects(requirements, labels)


def _field_test(requirement: Requirement, resource: ResourceType) -> Match:
    path = requirement.key
    absent, steps = _when_absent(path, resource), path.split(".")
    return lambda value: requirement.holds({path: _field(value, steps, absent)})


def _when_absent(path: str, resource: ResourceType) -> str:
    known = FIELDS.get((resource.group, resource.plural), {})
    if path in COMMON_FIELDS:
        return ""
    if path not in known and (known or resource.schema is not None):
        raise bad_request(f"field label not supported: {path}")
    if path not in known:
        fields = ", ".join(map(quote, COMMON_FIELDS))
        raise bad_request(f"{quote(path)} is not a known field selector: only {fields}")
    return known[path]


def _field(value: Any, steps: list[str], absent: str) -> str:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return absent
    return str(value).lower() if isinstance(value, bool) else str(value)
