"""The door: objects, lists and watch lines from bytes. Behind it there are only typed values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from headgate.api.claims import (
    decode_csi_node,
    decode_device_claim,
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
)
from headgate.api.kueue_queues import (
    decode_admission_check,
    decode_cluster_queue,
    decode_cohort,
    decode_local_queue,
    decode_resource_flavor,
    decode_workload_priority_class,
)
from headgate.api.kueue_workloads import decode_queued_workload
from headgate.api.multikueue import decode_multikueue_cluster, decode_multikueue_config
from headgate.api.nodes import decode_node
from headgate.api.owners import (
    decode_cron_job,
    decode_job,
    decode_replica_owner,
    decode_replication_controller,
    decode_service,
    decode_stateful_set,
)
from headgate.api.pods import decode_pod
from headgate.api.policies import (
    decode_disruption_budget,
    decode_limit_range,
    decode_namespace,
    decode_priority_class,
    decode_runtime_class,
)
from headgate.api.volcano import decode_volcano_pod_group, decode_volcano_queue
from headgate.api.wire import Buffer, InvalidField, InvalidObject, Undecodable, Wire, invalid_field
from headgate.api.workloads import decode_pod_group, decode_workload
from headgate.model.events import Unreadable
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import PREBUILT_WORKLOAD
from headgate.model.objects import Object

__all__ = [
    "READABLE",
    "Identity",
    "InvalidObject",
    "ListPage",
    "Undecodable",
    "WatchLine",
    "decode",
    "decode_list",
    "decode_watch",
    "identity",
    "unreadable",
]

_DECODERS: Mapping[Kind, Callable[[Buffer], Object]] = {
    Kind.POD: decode_pod,
    Kind.NODE: decode_node,
    Kind.NAMESPACE: decode_namespace,
    Kind.JOB: decode_job,
    Kind.CRON_JOB: decode_cron_job,
    Kind.PRIORITY_CLASS: decode_priority_class,
    Kind.DISRUPTION_BUDGET: decode_disruption_budget,
    Kind.VOLUME_CLAIM: decode_volume_claim,
    Kind.VOLUME: decode_volume,
    Kind.STORAGE_CLASS: decode_storage_class,
    Kind.CSI_NODE: decode_csi_node,
    Kind.DEVICE_CLAIM: decode_device_claim,
    Kind.SERVICE: decode_service,
    Kind.REPLICATION_CONTROLLER: decode_replication_controller,
    Kind.REPLICA_SET: decode_replica_owner(Kind.REPLICA_SET),
    Kind.STATEFUL_SET: decode_stateful_set,
    Kind.DEPLOYMENT: decode_replica_owner(Kind.DEPLOYMENT),
    Kind.LIMIT_RANGE: decode_limit_range,
    Kind.RUNTIME_CLASS: decode_runtime_class,
    Kind.WORKLOAD: decode_workload,
    Kind.POD_GROUP: decode_pod_group,
    Kind.VOLCANO_POD_GROUP: decode_volcano_pod_group,
    Kind.VOLCANO_QUEUE: decode_volcano_queue,
    Kind.KUEUE_WORKLOAD: decode_queued_workload,
    Kind.CLUSTER_QUEUE: decode_cluster_queue,
    Kind.LOCAL_QUEUE: decode_local_queue,
    Kind.COHORT: decode_cohort,
    Kind.RESOURCE_FLAVOR: decode_resource_flavor,
    Kind.WORKLOAD_PRIORITY_CLASS: decode_workload_priority_class,
    Kind.ADMISSION_CHECK: decode_admission_check,
    Kind.MULTIKUEUE_CLUSTER: decode_multikueue_cluster,
    Kind.MULTIKUEUE_CONFIG: decode_multikueue_config,
}

READABLE = tuple(_DECODERS)
"""The kinds whose objects can be decoded."""


class Identity(Struct, frozen=True, gc=False):
    """Which object this is. A bookmark's holds only the version."""

    key: Key
    uid: str
    version: str


class ListPage(Struct, frozen=True, gc=False):
    """One page of a list; `continuation` asks for the next one and is empty on the last."""

    items: list[Raw]
    version: str
    continuation: str


class WatchLine(Struct, frozen=True, gc=False):
    """One line of a watch; `type` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: Raw


class MalformedAnswer(ValueError):
    """An answer that is no list or watch event."""


class _Name(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(Wire, frozen=True):
    metadata: _Name


class _ListMetadata(Wire, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(Wire, frozen=True):
    items: list[Raw] | None = None
    metadata: _ListMetadata = _ListMetadata()


class _PodNode(Wire, frozen=True):
    node_name: str = ""


class _Progress(Wire, frozen=True):
    phase: Any = ""


class _Placed(Wire, frozen=True):
    spec: _PodNode
    status: _Progress | None = None


class _Life(Wire, frozen=True):
    labels: dict[str, str] | None = None
    deletion_timestamp: Any = None


class _Living(Wire, frozen=True):
    metadata: _Life


_ENDED = ("Succeeded", "Failed")
MOST_SAID = 512  # characters of an error that are passed on
DEEPEST = 100  # levels, several times what any field we read has
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)  # a text without an end is looked at once
T = TypeVar("T")
_places = msgspec.json.Decoder(_Placed)
_lives = msgspec.json.Decoder(_Living)
_names = msgspec.json.Decoder(_Named)
_lists = msgspec.json.Decoder(_List)
_lines = msgspec.json.Decoder(WatchLine)


def decode(kind: Kind, raw: bytes | Raw) -> Object:
    """The object as the engine sees it; raises InvalidObject."""
    buffer = raw if isinstance(raw, bytes) else memoryview(raw)
    try:
        return at_any_depth(_DECODERS[kind], buffer)
    except InvalidField as error:
        raise InvalidObject(kind, _key_if_readable(kind, buffer), error.path, error.expected) from None
    except msgspec.DecodeError as error:
        field = invalid_field(error)
        raise InvalidObject(kind, _key_if_readable(kind, buffer), field.path, field.expected) from None
    except Exception as error:
        told = f"{type(error).__name__}: {str(error)[:MOST_SAID]}"
        raise Undecodable(kind, _key_if_readable(kind, buffer), "$", told) from error


def unreadable(about: Identity, raw: bytes | Raw, why: str) -> Unreadable:
    """An object that cannot be decoded, with what can be made out of it nevertheless."""
    buffer = raw if isinstance(raw, bytes) else memoryview(raw)
    life = _if_readable(_lives, buffer)
    labels = (life.metadata.labels if life is not None else None) or {}
    is_leaving = life is not None and life.metadata.deletion_timestamp is not None
    node = _node_taken(buffer) if about.key.kind is Kind.POD else ""
    return Unreadable(about.key, about.uid, about.version, why, node, labels.get(PREBUILT_WORKLOAD, ""), is_leaving)


def _node_taken(raw: Buffer) -> str:
    """The node of a pod; empty if unknown."""
    pod = _if_readable(_places, raw)
    if pod is None:
        return ""
    return pod.spec.node_name if pod.status is None or pod.status.phase not in _ENDED else ""


def _if_readable(decoder: msgspec.json.Decoder[T], raw: Buffer) -> T | None:
    try:
        return at_any_depth(decoder.decode, raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def identity(kind: Kind, raw: bytes | Raw) -> Identity:
    """Only what tells which object this is; raises InvalidObject."""
    try:
        name = at_any_depth(_names.decode, raw if isinstance(raw, bytes) else memoryview(raw)).metadata
    except UnicodeDecodeError as error:
        raise InvalidObject(kind, None, "$", str(error)) from None
    except msgspec.DecodeError as error:
        field = invalid_field(error)
        raise InvalidObject(kind, None, field.path, field.expected) from None
    return Identity(Key(kind, name.namespace, name.name), name.uid, name.resource_version)


def decode_list(raw: bytes) -> ListPage:
    """A page of a list with its items still encoded; raises MalformedAnswer."""
    try:
        page = at_any_depth(_lists.decode, raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswer(f"not a list: {error}") from None
    return ListPage(page.items or [], page.metadata.resource_version, page.metadata.continue_)


def decode_watch(raw: bytes) -> WatchLine:
    """A watch line with its object still encoded; raises MalformedAnswer."""
    try:
        return at_any_depth(_lines.decode, raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswer(f"not a watch event: {error}") from None


def at_any_depth(read: Callable[[Buffer], T], raw: Buffer) -> T:
    """The decoded value; parts nested too deep for the decoder, which no field we read is, are left out."""
    try:
        return read(raw)
    except RecursionError:
        return read(_flattened(bytes(raw)))


def _flattened(raw: bytes) -> bytes:
    """The same JSON with null for whatever is nested deeper than DEEPEST."""
    made, depth, kept = [], 0, 0
    for token in _TOKENS.finditer(raw):
        match raw[token.start() : token.start() + 1]:
            case b"{" | b"[":
                depth += 1
                if depth == DEEPEST + 1:
                    made.append(raw[kept : token.start()])
            case b"}" | b"]":
                if depth == DEEPEST + 1:
                    made.append(b"null")
                    kept = token.end()
                depth -= 1
    return b"".join([*made, raw[kept:]])


def _key_if_readable(kind: Kind, raw: Buffer) -> Key | None:
    found = _if_readable(_names, raw)
    name = found.metadata if found is not None else None
    return Key(kind, name.namespace, name.name) if name is not None and name.name else None
