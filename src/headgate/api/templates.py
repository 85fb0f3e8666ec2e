"""Pods made from a Job's template, as the Job controller makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from headgate.api.errors import InvalidObject, invalid_field
from headgate.api.kinds import RESOURCES
from headgate.model.effects import Create
from headgate.model.keys import Key, Kind
from headgate.model.objects import Job


class _TemplateMetadata(Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(Struct):
    spec: Raw
    metadata: _TemplateMetadata | None = None


def pod_from_template(job: Job, name: str, labels: Mapping[str, str]) -> Create:
    """A pod of the Job, owned by it and labelled as its own; `labels` come on top of the template's."""
    template = _template(job)
    metadata = template.metadata or _TemplateMetadata()
    manifest = {
        "apiVersion": RESOURCES[Kind.POD].api_version,
        "kind": RESOURCES[Kind.POD].kind_name,
        "metadata": {
            "name": name,
            "namespace": job.key.namespace,
            "labels": {**(metadata.labels or {}), **_labels_of(job), **labels},
            "annotations": metadata.annotations or {},
            "ownerReferences": [_ownership(job)],
        },
        "spec": template.spec,
    }
    return Create(Key(Kind.POD, job.key.namespace, name), Raw(msgspec.json.encode(manifest)))


def _template(job: Job) -> _Template:
    try:
        return msgspec.json.decode(memoryview(job.template), type=_Template)
    except msgspec.DecodeError as error:
        field = invalid_field(error)
        raise InvalidObject(Kind.JOB, job.key, field.path.replace("$", "$.spec.template", 1), field.expected) from None


def _labels_of(job: Job) -> dict[str, str]:
    return {
        "batch.kubernetes.io/controller-uid": job.uid,
        "batch.kubernetes.io/job-name": job.key.name,
        "controller-uid": job.uid,
        "job-name": job.key.name,
    }


def _ownership(job: Job) -> dict[str, Any]:
    resource = RESOURCES[Kind.JOB]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind_name,
        "name": job.key.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
