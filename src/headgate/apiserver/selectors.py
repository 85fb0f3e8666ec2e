"""Label and field selectors of list, watch and deletecollection, and the selectors inside objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from headgate.apiserver.messages import Json
from headgate.apiserver.rules import ResourceType
from headgate.apiserver.status import bad_request

Match = Callable[[Json], bool]
LabelTest = Callable[[Mapping[str, str]], bool]

_KEY = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_VALUE = r"[-A-Za-z0-9_.]*"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s+\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_COMPARE = re.compile(rf"({_KEY})\s*([<>])\s*(-?\d+)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_COMMA = re.compile(r",(?![^(]*\))")

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
"""Fields that can be selected by, beyond name and namespace, and what they count as when absent."""


def selection(query: Mapping[str, str], resource: ResourceType) -> Match | None:
    """What a request selects; None when it selects everything."""
    tests = []
    if text := query.get("labelSelector", "").strip():
        tests.append(_on_labels(label_selector(text)))
    if text := query.get("fieldSelector", "").strip():
        tests.append(field_selector(text, resource))
    if len(tests) < 2:
        return tests[0] if tests else None
    first, second = tests
    return lambda value: first(value) and second(value)


def _on_labels(test: LabelTest) -> Match:
    return lambda value: test(value["metadata"].get("labels") or {})


def label_selector(text: str) -> LabelTest:
    """The grammar of kubectl: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1`, joined by commas."""
    return _all([_label_test(part.strip()) for part in _COMMA.split(text)])


def _all(tests: list[LabelTest]) -> LabelTest:
    return tests[0] if len(tests) == 1 else lambda labels: all(test(labels) for test in tests)


def _label_test(text: str) -> LabelTest:
    if found := _SET.fullmatch(text):
        return label_test(found[1], found[2], [value.strip() for value in found[3].split(",")])
    if found := _EQUAL.fullmatch(text):
        return label_test(found[1], "notin" if found[2] == "!=" else "in", [found[3]])
    if found := _COMPARE.fullmatch(text):
        return label_test(found[1], found[2], [found[3]])
    if found := _EXISTS.fullmatch(text):
        return label_test(found[2], "absent" if found[1] else "exists", [])
    raise bad_request(f"unable to parse requirement: found {text!r}, expected key, key=value or key in (values)")


def label_test(key: str, operator: str, values: list[str]) -> LabelTest:
    match operator:
        case "in" | "In":
            return lambda labels: labels.get(key) in values
        case "notin" | "NotIn":
            return lambda labels: labels.get(key) not in values
        case "exists" | "Exists":
            return lambda labels: key in labels
        case "absent" | "DoesNotExist":
            return lambda labels: key not in labels
        case _:
            return _compare(key, 1 if operator == ">" else -1, int(values[0]))


def _compare(key: str, sign: int, bound: int) -> LabelTest:
    def test(labels: Mapping[str, str]) -> bool:
        try:
            return (int(labels[key]) - bound) * sign > 0
        except (KeyError, ValueError):
            return False

    return test


def object_selector(selector: Json | None) -> LabelTest:
    """A `matchLabels`/`matchExpressions` selector; None selects nothing, an empty one everything."""
    if selector is None:
        return lambda _: False
    tests = [label_test(key, "In", [value]) for key, value in (selector.get("matchLabels") or {}).items()]
    expressions = selector.get("matchExpressions") or ()
    tests += [label_test(part["key"], part["operator"], part.get("values") or []) for part in expressions]
    return _all(tests) if tests else lambda _: True


def field_selector(text: str, resource: ResourceType) -> Match:
    """`path=value` and `path!=value`, joined by commas, for the fields the resource can be selected by."""
    tests = [_field_test(part.strip(), resource) for part in text.split(",")]
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def _field_test(text: str, resource: ResourceType) -> Match:
    found = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", text)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    path, wanted, equal = found[1], found[3], found[2] != "!="
    absent = _when_absent(path, resource)
    steps = path.split(".")
    return lambda value: (_field(value, steps, absent) == wanted) is equal


def _when_absent(path: str, resource: ResourceType) -> str:
    known = FIELDS.get((resource.group, resource.plural), {})
    if path in COMMON_FIELDS:
        return ""
    if path not in known:
        raise bad_request(f"field label not supported: {path}")
    return known[path]


def _field(value: Any, steps: list[str], absent: str) -> str:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return absent
    return str(value).lower() if isinstance(value, bool) else str(value)
