"""Fields of unstructured objects, and field errors with the messages of an API server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from headgate.model.admission import AdmissionAllowed, AdmissionDenied, AdmissionResponse, Json

NEGATIVE = "must be greater than or equal to 0"
ALLOWED = AdmissionAllowed()


class AdmissionFieldError(Struct, frozen=True):
    """`path` begins below the object (`spec.…`)."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def invalid(path: str, value: str | int, detail: str) -> AdmissionFieldError:
    return AdmissionFieldError(path, f"Invalid value: {_shown(value)}: {detail}")


def immutable(path: str) -> AdmissionFieldError:
    return AdmissionFieldError(path, "Invalid value: field is immutable")


def unchanged(path: str, new: str, old: str) -> list[AdmissionFieldError]:
    """The error if this immutable text changed."""
    return [] if new == old else [invalid(path, new, "field is immutable")]


def duplicate(path: str, value: str) -> AdmissionFieldError:
    return AdmissionFieldError(path, f"Duplicate value: {_shown(value)}")


def not_found(path: str, value: str) -> AdmissionFieldError:
    return AdmissionFieldError(path, f"Not found: {_shown(value)}")


def required(path: str, detail: str) -> AdmissionFieldError:
    return AdmissionFieldError(path, f"Required value: {detail}")


def forbidden(path: str, detail: str) -> AdmissionFieldError:
    return AdmissionFieldError(path, f"Forbidden: {detail}")


def not_supported(path: str, value: str, known: Iterable[str]) -> AdmissionFieldError:
    listed = ", ".join(_shown(one) for one in sorted(known))
    return AdmissionFieldError(path, f"Unsupported value: {_shown(value)}: supported values: {listed}")


def too_many(path: str, number: int, most: int) -> AdmissionFieldError:
    return AdmissionFieldError(path, f"Too many: {number}: must have at most {most} items")


def response_to(errors: Iterable[AdmissionFieldError]) -> AdmissionResponse:
    """Allowed if there are no errors; else denied with all of them in one line, each once."""
    found = list(errors)
    if not found:
        return ALLOWED
    texts = list(dict.fromkeys(map(str, found)))
    return AdmissionDenied(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _shown(value: str | int) -> str:
    return json.dumps(value, ensure_ascii=False)


RawAmounts = dict[str, str | int | float] | None


class _Part(Struct, rename="camel", frozen=True):
    """The fields of an object that handlers read, with their types."""


class _Owner(_Part, frozen=True):
    name: str = ""
    uid: str | None = None


class _ReadMetadata(_Part, frozen=True):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None


class _Needs(_Part, frozen=True):
    requests: RawAmounts = None
    limits: RawAmounts = None


class _Container(_Part, frozen=True):
    resources: _Needs | None = None


class _Gate(_Part, frozen=True):
    name: str


class _PodSpec(_Part, frozen=True):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    resources: _Needs | None = None
    overhead: RawAmounts = None


class _ReadTemplate(_Part, frozen=True):
    metadata: _ReadMetadata | None = None
    spec: _PodSpec | None = None


class _PodSet(_Part, frozen=True):
    name: str = ""
    count: int = 1
    template: _ReadTemplate | None = None


class _ReadSpec(_Part, frozen=True):
    suspend: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    replicas: int | None = None
    completion_mode: str | None = None
    scheduling_gates: list[_Gate] | None = None
    template: _ReadTemplate | None = None
    pod_sets: list[_PodSet] | None = None


class _ReadStatus(_Part, frozen=True):
    phase: str | None = None
    replicas: int | None = None
    ready_replicas: int | None = None


class _ReadObject(_Part, frozen=True):
    metadata: _ReadMetadata | None = None
    spec: _ReadSpec | None = None
    status: _ReadStatus | None = None


LABELS, ANNOTATIONS = "metadata.labels", "metadata.annotations"


def is_well_typed(value: Json) -> bool:
    """Whether all fields that handlers read have the right types."""
    try:
        msgspec.convert(value, _ReadObject)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


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
