"""Kubernetes events, as events.k8s.io/v1 wants them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from headgate.api.kinds import RESOURCES
from headgate.api.times import format_micro_time
from headgate.model.effects import EmitEvent
from headgate.model.keys import Target

MOST_NOTE_BYTES = 1024
MOST_NAME_BYTES = 253
NAMESPACE_OF_CLUSTER_WIDE = "default"  # where events about cluster-wide objects are kept


def events_path(emit: EmitEvent) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{_namespace(emit)}/events"


def event_manifest(emit: EmitEvent, reporter: str) -> dict[str, Any]:
    """The event; the same one always gets the same name, so telling it twice records it once."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": _name(emit), "namespace": _namespace(emit)},
        "eventTime": format_micro_time(emit.at),
        "reportingController": reporter,
        "reportingInstance": reporter,
        "action": emit.action,
        "reason": emit.reason,
        "type": emit.type.value,
        "note": emit.message.encode()[:MOST_NOTE_BYTES].decode(errors="ignore"),
        "regarding": _regarding(emit.target),
    }


def _namespace(emit: EmitEvent) -> str:
    return emit.target.key.namespace or NAMESPACE_OF_CLUSTER_WIDE


def _name(emit: EmitEvent) -> str:
    story = msgspec.json.encode((emit.target.uid, emit.reason, emit.message, emit.at))
    mark = blake2b(story, digest_size=8).hexdigest()
    return f"{emit.target.key.name[: MOST_NAME_BYTES - 1 - len(mark)].rstrip('-.')}.{mark}"


def _regarding(target: Target) -> dict[str, str]:
    key, resource = target.key, RESOURCES[target.key.kind]
    named = {"kind": resource.kind_name, "apiVersion": resource.api_version, "name": key.name, "uid": target.uid}
    return {**named, "namespace": key.namespace} if key.namespace else named
