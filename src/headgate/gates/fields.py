"""Reads fields of unstructured objects, and says what is wrong with one in the words of an API server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from headgate.model.admission import Admit, Json, Refuse, Verdict

NEGATIVE = "must be greater than or equal to 0"
YES = Admit()


class FieldError(Struct, frozen=True):
    """`path` begins below the object (`spec.…`)."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def invalid(path: str, value: str | int, detail: str) -> FieldError:
    return FieldError(path, f"Invalid value: {_shown(value)}: {detail}")


def immutable(path: str) -> FieldError:
    return FieldError(path, "Invalid value: field is immutable")


def unchanged(path: str, new: str, old: str) -> list[FieldError]:
    """What is wrong when this text may not change."""
    return [] if new == old else [invalid(path, new, "field is immutable")]


def duplicate(path: str, value: str) -> FieldError:
    return FieldError(path, f"Duplicate value: {_shown(value)}")


def not_found(path: str, value: str) -> FieldError:
    return FieldError(path, f"Not found: {_shown(value)}")


def required(path: str, detail: str) -> FieldError:
    return FieldError(path, f"Required value: {detail}")


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, f"Forbidden: {detail}")


def not_supported(path: str, value: str, known: Iterable[str]) -> FieldError:
    listed = ", ".join(_shown(one) for one in sorted(known))
    return FieldError(path, f"Unsupported value: {_shown(value)}: supported values: {listed}")


def too_many(path: str, number: int, most: int) -> FieldError:
    return FieldError(path, f"Too many: {number}: must have at most {most} items")


def verdict_on(errors: Iterable[FieldError]) -> Verdict:
    """Yes where there are none; else all of them in one line, each once."""
    found = list(errors)
    if not found:
        return YES
    texts = list(dict.fromkeys(map(str, found)))
    return Refuse(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _shown(value: str | int) -> str:
    return json.dumps(value, ensure_ascii=False)


LABELS, ANNOTATIONS = "metadata.labels", "metadata.annotations"


def labels_of(value: Json) -> Mapping[str, str]:
    return (value.get("metadata") or {}).get("labels") or {}


def annotations_of(value: Json) -> Mapping[str, str]:
    return (value.get("metadata") or {}).get("annotations") or {}


def spec_of(value: Json) -> Json:
    spec: Json = value.get("spec") or {}
    return spec


def is_going(value: Json) -> bool:
    return bool((value.get("metadata") or {}).get("deletionTimestamp"))


def with_labels(value: Json, labels: Mapping[str, str]) -> Json:
    return _with_metadata(value, "labels", {**labels_of(value), **labels}) if labels else value


def with_annotations(value: Json, annotations: Mapping[str, str]) -> Json:
    return _with_metadata(value, "annotations", {**annotations_of(value), **annotations})


def with_finalizer(value: Json, name: str) -> Json:
    known = (value.get("metadata") or {}).get("finalizers") or []
    return value if name in known else _with_metadata(value, "finalizers", [*known, name])


def with_spec(value: Json, **fields: object) -> Json:
    return {**value, "spec": {**spec_of(value), **fields}}


def _with_metadata(value: Json, field: str, part: Any) -> Json:
    return {**value, "metadata": {**(value.get("metadata") or {}), field: part}}
