"""What quota has to know of the pods it holds back; of all others nothing of this is read."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from headgate.api.wire import Buffer, Wire, time_at
from headgate.model.pod import HeldPod


class HeldMetadata(Wire, frozen=True):
    finalizers: list[str] | None = None


class HeldCondition(Wire, frozen=True):
    type: str
    status: str
    reason: str = ""
    last_transition_time: str | None = None


class HeldStatus(Wire, frozen=True):
    conditions: list[HeldCondition] | None = None


class HeldObject(Wire, frozen=True):
    metadata: HeldMetadata
    spec: Raw
    status: HeldStatus = HeldStatus()


class NamedClass(Wire, frozen=True):
    priority_class_name: str = ""


_decoder = msgspec.json.Decoder(HeldObject)
_classes = msgspec.json.Decoder(NamedClass)


def held_pod(raw: Buffer) -> HeldPod:
    wire = _decoder.decode(raw)
    conditions = wire.status.conditions or []
    return HeldPod(
        spec=wire.spec.copy(),  # a copy, or it would keep the whole message alive
        finalizers=tuple(wire.metadata.finalizers or ()),
        priority_class=_classes.decode(wire.spec).priority_class_name,
        ready=any(condition.type == "Ready" and condition.status == "True" for condition in conditions),
        failed_at=_failed_at(conditions),
    )


def _failed_at(conditions: list[HeldCondition]) -> float | None:
    for condition in conditions:
        if condition.type == "ContainersReady" and (condition.status, condition.reason) == ("False", "PodFailed"):
            return time_at("$.status.conditions", condition.last_transition_time)
    return None
