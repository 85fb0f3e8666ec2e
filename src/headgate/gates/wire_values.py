"""Objects as they are on the wire, read and filled in without touching the one that was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.model.admission import Json

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
