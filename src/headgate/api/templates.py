"""Pods made from the template of a Job or StatefulSet, as the controllers of these make them."""

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
from headgate.model.owners import StatefulSet


class _TemplateMetadata(Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(Struct):
    spec: Raw
    metadata: _TemplateMetadata | None = None


def pod_from_template(owner: Job | StatefulSet, name: str, labels: Mapping[str, str]) -> Create:
    """A pod owned by it and labelled as its own; `labels` come on top of the template's."""
    template = _template(owner)
    metadata = template.metadata or _TemplateMetadata()
    manifest = {
        "apiVersion": RESOURCES[Kind.POD].api_version,
        "kind": RESOURCES[Kind.POD].kind_name,
        "metadata": {
            "name": name,
            "namespace": owner.key.namespace,
            "labels": {**(metadata.labels or {}), **_labels_of(owner, name), **labels},
            "annotations": metadata.annotations or {},
            "ownerReferences": [_ownership(owner)],
        },
        "spec": template.spec,
    }
    return Create(Key(Kind.POD, owner.key.namespace, name), Raw(msgspec.json.encode(manifest)))


def _template(owner: Job | StatefulSet) -> _Template:
    try:
        return msgspec.json.decode(memoryview(owner.template), type=_Template)
    except msgspec.DecodeError as error:
        field, key = invalid_field(error), owner.key
        raise InvalidObject(key.kind, key, field.path.replace("$", "$.spec.template", 1), field.expected) from None


def _labels_of(owner: Job | StatefulSet, pod: str) -> dict[str, str]:
    if isinstance(owner, StatefulSet):
        return {"statefulset.kubernetes.io/pod-name": pod, "apps.kubernetes.io/pod-index": pod.rpartition("-")[2]}
    return {
        "batch.kubernetes.io/controller-uid": owner.uid,
        "batch.kubernetes.io/job-name": owner.key.name,
        "controller-uid": owner.uid,
        "job-name": owner.key.name,
    }


def _ownership(owner: Job | StatefulSet) -> dict[str, Any]:
    resource = RESOURCES[owner.key.kind]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind_name,
        "name": owner.key.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
