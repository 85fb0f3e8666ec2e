"""A job of any kind as admission sees it. Each kind has one adapter that says how it starts, stops and ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Raw, Struct

from headgate.model.effects import Effect
from headgate.model.keys import Key, Target
from headgate.model.kueue_names import (
    PREBUILT_WORKLOAD,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SLICE_TOPOLOGY,
    UNCONSTRAINED_TOPOLOGY,
)
from headgate.model.node import Toleration
from headgate.model.queues import PodSet, QueuedWorkload, TopologyRequest

LONGEST_LEVEL = 63  # characters, of the label of a topology level
COMPOSE_ERROR = "ErrWorkloadCompose"
"""The reason of events that say why no Workload can be made of a job."""


class Ending(Struct, frozen=True, gc=False):
    """How a job ended: Succeeded or Failed, and the message about it."""

    reason: str
    message: str


class WantedPodSet(Struct, frozen=True, gc=False):
    """Pods of one template that the job consists of; `template` is JSON."""

    name: str
    template: Raw
    count: int
    min_count: int | None = None
    topology: TopologyRequest = ()


def topology_request(annotations: Mapping[str, str]) -> TopologyRequest:
    """The topology request that annotations of pods make."""
    asked = {
        "podSetSliceRequiredTopology": annotations.get(SLICE_TOPOLOGY),
        "preferred": annotations.get(PREFERRED_TOPOLOGY),
        "required": annotations.get(REQUIRED_TOPOLOGY),
        "unconstrained": "true" if annotations.get(UNCONSTRAINED_TOPOLOGY) == "true" else "",
    }
    return tuple((name, value[:LONGEST_LEVEL]) for name, value in asked.items() if value)


def requests_topology(pod_set: PodSet, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether a pod set requests the topology that these annotations do; a prebuilt Workload says itself."""
    return PREBUILT_WORKLOAD in labels or pod_set.topology == topology_request(annotations)


class PodSetInfo(Struct, frozen=True, gc=False):
    """What the pods of a pod set are given when they start, and how many they are."""

    count: int
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


PodSetInfos = Mapping[str, PodSetInfo]
"""By pod set."""


class StopReason(StrEnum):
    EVICTED = "WorkloadEvicted"
    DELETED = "WorkloadDeleted"
    NO_MATCH = "NoMatchingWorkload"
    NOT_ADMITTED = "NotAdmitted"


class Stop(Struct, frozen=True, gc=False):
    """Why a job is stopped, and when that was decided."""

    reason: StopReason
    message: str
    at: float


class GenericJob(Protocol):
    """One job, pod or group of pods, as it is now. Deciding what to do about it yields effects and changes nothing."""

    @property
    def key(self) -> Key:
        """Its name among all jobs."""

    @property
    def parts(self) -> tuple[Target, ...]:
        """The objects it consists of; its events are about the first."""

    @property
    def controller(self) -> Target | None:
        """The one that controls its Workload; None when its parts own it together."""

    @property
    def owners(self) -> tuple[Target, ...]:
        """Who owns its Workload, so that this lasts as long as any of them."""

    @property
    def uid(self) -> str:
        """Whose Workload it is, as a label on that says; empty for pods that are a group by themselves."""

    @property
    def workload_annotations(self) -> Mapping[str, str]:
        """Annotations by which its Workload says which kind of job it is for."""

    @property
    def part_labels(self) -> Sequence[Mapping[str, str]]:
        """Where labels are found that its Workload is to have too."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Where its queue, its priority class and the like are said."""

    @property
    def annotations(self) -> Mapping[str, str]: ...

    @property
    def workload_key(self) -> Key:
        """What its Workload is, or is to be, called."""

    @property
    def pod_priority_class(self) -> str:
        """The PriorityClass its pods name first."""

    @property
    def problem(self) -> str:
        """Why no Workload can be made of it, ever, as it is; empty when nothing is wrong."""

    @property
    def on_hold(self) -> str:
        """Why it wants no quota, for the time being; empty when it does."""

    @property
    def is_complete(self) -> bool:
        """Whether all is there that its Workload is made of."""

    @property
    def is_terminating(self) -> bool:
        """Whether it is being deleted, all of it."""

    @property
    def can_start(self) -> bool:
        """Whether some of it is held back and may start now."""

    @property
    def may_run(self) -> bool:
        """Whether some of it is not held back."""

    @property
    def can_restart(self) -> bool:
        """Whether it can be started once more after it was stopped."""

    @property
    def missing(self) -> int | None:
        """How many pods are gone and must be replaced by others than us; None where that is not how it works."""

    @property
    def ending(self) -> Ending | None: ...

    @property
    def is_ready(self) -> bool:
        """Whether all its pods run and are ready, or succeeded."""

    @property
    def reclaimable(self) -> tuple[tuple[str, int], ...]:
        """Pods that are done for good, by pod set."""

    def is_active(self, now: float) -> bool:
        """Whether any of it holds quota."""

    def occupies_nodes(self, now: float) -> bool:
        """Whether any of its pods is still on a node, with quota or without."""

    def next_release(self, now: float) -> float | None:
        """When time alone could make it inactive."""

    def pod_sets(self) -> tuple[WantedPodSet, ...]: ...

    def owns(self, workload: QueuedWorkload) -> bool:
        """Whether a Workload of its name is its own, and no stranger's."""

    def matches(self, workload: QueuedWorkload) -> bool:
        """Whether the Workload describes it as it is."""

    def start(self, workload: QueuedWorkload, given: PodSetInfos) -> Iterator[Effect]: ...

    def start_elsewhere(self) -> Iterator[Effect]:
        """What is written when it starts on a worker cluster: nothing of it may start here."""

    def stop(self, why: Stop) -> Iterator[Effect]: ...

    def sync_parts(self, workload: QueuedWorkload | None, now: float) -> Iterator[Effect]:
        """Writes that bring its own objects in line while it exists."""

    def delete(self) -> Iterator[Effect]:
        """Deletes it: nobody will start it again."""

    def finalize(self) -> Iterator[Effect]:
        """Removes our finalizers from its objects."""
