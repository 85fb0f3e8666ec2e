"""Writes to a single pod: start it, stop it, remove our finalizer."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from headgate.lifecycle.jobframework.generic_job import PodSetInfo, Stop
from headgate.lifecycle.jobframework.pod_set_info import merged_selector
from headgate.model.effects import (
    Delete,
    Directives,
    Effect,
    Finalizers,
    PatchSpec,
    PatchStatus,
    PodCondition,
    PodStart,
)
from headgate.model.keys import Target
from headgate.model.kueue_names import ADMISSION_GATE, GATES, MANAGED
from headgate.model.pod import ENDED, HeldPod, Pod

TERMINATION_TARGET = "TerminationTarget"
_NOT_IN_TEMPLATES = ("nodeName", "schedulingGates")
_fields = msgspec.json.Decoder(dict[str, Raw])


def is_gated(pod: Pod) -> bool:
    return ADMISSION_GATE in pod.gates


def may_run(pod: Pod) -> bool:
    """It is not gated by us, has not ended and is not being deleted."""
    return not is_gated(pod) and pod.phase not in ENDED and pod.deleted is None


def can_start(pod: Pod) -> bool:
    return is_gated(pod) and pod.phase not in ENDED and pod.deleted is None


def start(pod: Pod, got: PodSetInfo) -> PatchSpec:
    """One write gives the pod all it lacks and takes our gates off."""
    shape = pod.shape
    directives = Directives(
        merged_selector(dict(shape.node_selector), got.node_selector),
        tuple(each for each in got.tolerations if each not in shape.tolerations),
        {name: value for name, value in got.labels.items() if pod.labels.get(name) != value},
        {name: value for name, value in got.annotations.items() if pod.annotations.get(name) != value},
    )
    gates = tuple((index, gate) for index, gate in enumerate(pod.gates) if gate in GATES)
    has = bool(shape.node_selector), bool(shape.tolerations), bool(pod.annotations)
    return PatchSpec(pod.target, PodStart(directives, gates, *has))


def stop(pod: Pod, why: Stop) -> Iterator[Effect]:
    yield PatchStatus(pod.target, PodCondition(TERMINATION_TARGET, "True", why.reason, why.message, why.at))
    yield Delete(pod.target)


def finalize(pod: Pod) -> Iterator[Effect]:
    """Removes our finalizer, and no other; nothing once that is done."""
    finalizers = held(pod).finalizers
    if MANAGED in finalizers:
        rest = tuple(name for name in finalizers if name != MANAGED)
        yield PatchSpec(Target(pod.key, pod.uid, pod.version), Finalizers(rest))


def held(pod: Pod) -> HeldPod:
    return pod.held or HeldPod()


def template(pod: Pod) -> Raw:
    """A template such pods could be made of: without the node and the gates, which are one pod's own."""
    spec = {name: value for name, value in _fields.decode(held(pod).spec).items() if name not in _NOT_IN_TEMPLATES}
    return Raw(msgspec.json.encode({"spec": spec}))
