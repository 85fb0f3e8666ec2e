"""Writes to a single pod: start it with what it is given, stop it, remove our finalizer.

Admitted pods are given the labels, selectors and tolerations of their flavors and admission checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Raw, Struct

from headgate.lifecycle.jobframework.generic_job import PodSetInfo, PodSetInfos, Stop
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
from headgate.model.kueue_names import (
    ADMISSION_GATE,
    CLUSTER_QUEUE_NAME,
    FLAVORS,
    GATES,
    LOCAL_QUEUE_NAME,
    MANAGED,
    POD_SET,
)
from headgate.model.names import label_value_errors
from headgate.model.node import TaintEffect, Toleration
from headgate.model.pod import ENDED, HeldPod, Pod
from headgate.model.queues import PodSetAssignment, QueuedWorkload, ResourceFlavor

TERMINATION_TARGET = "TerminationTarget"
_NOT_IN_TEMPLATES = ("nodeName", "schedulingGates")
_fields = msgspec.json.Decoder(dict[str, Raw])


class _Toleration(Struct, frozen=True, rename="camel"):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: TaintEffect | None = None
    toleration_seconds: int | None = None

    def plain(self) -> Toleration:
        return Toleration(self.key, self.operator == "Exists", self.value, self.effect, self.toleration_seconds)


class _Update(Struct, frozen=True, rename="camel"):
    """What an admission check wants of the pods of one set."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[_Toleration, ...] = ()


_updates = msgspec.json.Decoder(tuple[_Update, ...] | None)


class CannotStart(Exception):
    """What is to be given to the pods contradicts itself; that will never change."""


def pod_set_infos(workload: QueuedWorkload, flavors: Mapping[str, ResourceFlavor]) -> PodSetInfos | None:
    """What each pod set gets; None while a flavor it was given is not known. Raises CannotStart."""
    assert workload.status.admission is not None, f"{workload.key} is not admitted"
    given = workload.status.admission.pod_sets
    if any(flavor not in flavors for assigned in given for _, flavor in assigned.flavors):
        return None
    return {assigned.name: _pod_set_info(workload, assigned, flavors) for assigned in given}


def flavors_annotation(assigned: PodSetAssignment) -> str:
    """Of which flavor each resource is, as pods remember it."""
    return ",".join(f"{resource}={flavor}" for resource, flavor in assigned.flavors)


def _pod_set_info(
    workload: QueuedWorkload, assigned: PodSetAssignment, flavors: Mapping[str, ResourceFlavor]
) -> PodSetInfo:
    names = dict.fromkeys(flavor for _, flavor in assigned.flavors)
    updates = list(_updates_for(workload, assigned.name))
    selector, labels, annotations = (
        dict[str, str](),
        _own_labels(workload, assigned),
        {FLAVORS: flavors_annotation(assigned)},
    )
    tolerations: dict[Toleration, None] = {}
    for name in names:
        _merge(selector, flavors[name].node_labels, "nodeSelector")
        tolerations |= dict.fromkeys(flavors[name].tolerations)
    for update in updates:
        _merge(selector, update.node_selector, "nodeSelector")
        _merge(labels, update.labels, "labels")
        _merge(annotations, update.annotations, "annotations")
        tolerations |= dict.fromkeys(entry.plain() for entry in update.tolerations)
    return PodSetInfo(assigned.count, selector, tuple(tolerations), labels, annotations)


def _own_labels(workload: QueuedWorkload, assigned: PodSetAssignment) -> dict[str, str]:
    """A name too long to be the value of a label is left out."""
    assert workload.status.admission is not None
    queue = workload.status.admission.cluster_queue
    names = {POD_SET: assigned.name, CLUSTER_QUEUE_NAME: queue, LOCAL_QUEUE_NAME: workload.queue}
    return {label: value for label, value in names.items() if not label_value_errors(value)}


def _updates_for(workload: QueuedWorkload, pod_set: str) -> Iterator[_Update]:
    for check in workload.status.checks:
        found = _updates.decode(check.updates) if check.updates else None
        yield from (update for update in found or () if update.name == pod_set)


def _merge(into: dict[str, str], more: Mapping[str, str], what: str) -> None:
    for name, value in more.items():
        if into.setdefault(name, value) != value:
            raise CannotStart(f"conflicting values of {name} in {what}: {into[name]} and {value}")


def merged_selector(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What comes on top of the pod's own selector. Raises CannotStart where they contradict each other."""
    for name, value in given.items():
        if own.get(name, value) != value:
            raise CannotStart(f"conflicting values of {name} in nodeSelector: {own[name]} and {value}")
    return {name: value for name, value in given.items() if name not in own}


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
