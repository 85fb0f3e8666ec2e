"""Records the events of every step as a line of JSON, for replay, without what nobody decides by and may be secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, assert_never

import msgspec
from msgspec import Raw

from headgate.api.decode import at_any_depth
from headgate.model.effects import Create, EmitEvent
from headgate.model.events import (
    Event,
    FleetEvent,
    Gone,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    TimerFired,
    Unreadable,
)
from headgate.model.keys import Key

Told = dict[str, object]


class Recorder:
    """Holds the JSON of what is observed until the batch it falls into is handed over."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._noted: dict[tuple[str, Key, str], Raw] = {}  # by cluster; empty: our own

    def note(self, event: Observed | Gone, raw: Raw, cluster: str = "") -> None:
        self._noted[(cluster, *_place(event))] = raw

    def write(self, batch: Sequence[Event | FleetEvent], now: float) -> None:
        """{"at": seconds, "events": […]}, where an event is one of

        {"type": "Observed" or "Gone", "kind": …, "object": …}, {"type": "TimerFired", "timer": …},
        {"type": "Outcome", "effect": …, "object": key, "trouble": … or null, "message": …}

        What is told of a worker cluster has "cluster" as well, and may be of type "Unreadable", with "why", or
        {"type": "RemoteConnection", "cluster": …, "state": …, "reason": …, "message": …}.
        """
        events = [told for event in batch for told in self._event(event)]
        if events:
            self._out.write(msgspec.json.encode({"at": now, "events": events}) + b"\n")
            self._out.flush()

    def _event(self, event: Event | FleetEvent | Unreadable, cluster: str = "") -> Iterator[Told]:
        match event:
            case Observed() | Gone():
                yield self._sight(event, cluster)
            case Unreadable():
                sight = {"kind": event.key.kind.value, "object": _shadow(event.key, event.uid), "why": event.why}
                yield {"type": "Unreadable", **sight, "workload": event.workload}
            case RemoteEvent():
                yield from ({**told, "cluster": event.cluster} for told in self._event(event.event, event.cluster))
            case RemoteConnection(name, state, reason, message):
                yield {
                    "type": "RemoteConnection",
                    "cluster": name,
                    "state": state,
                    "reason": reason,
                    "message": message,
                }
            case TimerFired(timer):
                yield {"type": "TimerFired", "timer": timer}
            case Outcome(effect=EmitEvent()):
                pass  # nobody decides by it
            case Outcome(effect, trouble, message):
                key = effect.key if isinstance(effect, Create) else effect.target.key
                made = {"effect": type(effect).__name__, "object": str(key)}
                yield {"type": "Outcome", **made, "trouble": trouble, "message": message}
            case _:
                assert_never(event)

    def _sight(self, event: Observed | Gone, cluster: str) -> Told:
        place = _place(event)
        raw = bytes(self._noted.pop((cluster, *place), Raw(b"")))
        return {"type": type(event).__name__, "kind": place[0].kind.value, "object": _readable(raw) or _shadow(*place)}


def _place(event: Observed | Gone) -> tuple[Key, str]:
    if isinstance(event, Gone):
        return event.key, event.uid
    return event.object.key, event.object.uid


CONTAINERS = frozenset({"containers", "initContainers", "ephemeralContainers"})
OF_A_CONTAINER = frozenset({"name", "image", "resources", "restartPolicy", "ports"})
"""What decisions depend on. Environments, commands, arguments and probes are left out: they may hold secrets."""
CONTENTS = frozenset({"data", "stringData", "binaryData"})
"""Of Secrets and ConfigMaps."""
DOMAINS = ("kubernetes.io", "k8s.io", "x-k8s.io", "headgate.dev", "volcano.sh")
"""Of annotations that decisions depend on; whatever else users write into annotations is left out."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _readable(raw: bytes) -> Raw | None:
    """The object without what may be secret; None where it cannot be decoded."""
    try:
        value = at_any_depth(_values.decode, raw)
        leave_out_secrets(value)
        return Raw(msgspec.json.encode(value))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


_values = msgspec.json.Decoder()


def leave_out_secrets(value: Any) -> None:
    """Removes from a Kubernetes object, at any depth, what nobody decides by and may be secret."""
    for name in CONTENTS if isinstance(value, dict) else ():
        value.pop(name, None)
    ahead = [value]
    while ahead:
        here = ahead.pop()
        if isinstance(here, dict):
            for name, part in here.items():
                here[name] = _kept(name, part)
            ahead.extend(here.values())
        elif isinstance(here, list):
            ahead.extend(here)


def _kept(name: str, part: Any) -> Any:
    if name in CONTAINERS and isinstance(part, list):
        return [_of(one, OF_A_CONTAINER) if isinstance(one, dict) else one for one in part]
    if name == "annotations" and isinstance(part, dict):
        return _of(part, [note for note in part if _is_ours(note)])
    return part


def _of(mapping: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: mapping[name] for name in mapping if name in names}


def _is_ours(annotation: str) -> bool:
    domain = annotation.partition("/")[0]
    known = any(domain == one or domain.endswith(f".{one}") for one in DOMAINS)
    return known and annotation != LAST_APPLIED


def _shadow(key: Key, uid: str) -> object:
    """All that is known of an object that was found missing."""
    place = {"namespace": key.namespace} if key.namespace else {}
    return {"metadata": {"name": key.name, "uid": uid, **place}}
