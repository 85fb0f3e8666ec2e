"""A pod as scheduling sees it, the shape that pods of one template share, and the groups pods belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Raw, Struct

from headgate.model.claims import ClaimDemands, ClaimName
from headgate.model.keys import Condition, Key, Target
from headgate.model.node import HostPort, NodeTerm, PeerDemands, PreferredTerm, Toleration
from headgate.model.resources import Resources, TemplateNeeds
from headgate.model.volcano import VolcanoGroup


class PreemptionMode(StrEnum):
    """How a gang may be preempted."""

    POD = "Pod"  # each pod by itself
    POD_GROUP = "PodGroup"  # all of its pods or none


class GroupKey(Struct, frozen=True, order=True, gc=False):
    """One replica of a pod group; `workload` is the object that describes it, of whatever kind."""

    workload: Key
    group: str = ""
    replica: str = ""

    @property
    def line_key(self) -> Key:
        """Its place among the keys of single pods; no object has a slash in its name."""
        return Key(self.workload.kind, self.workload.namespace, f"{self.workload.name}/{self.group}/{self.replica}")

    def __str__(self) -> str:
        return "/".join(part for part in (str(self.workload), self.group, self.replica) if part)


class Gang(Struct, frozen=True, gc=False):
    """At least so many pods start together or none does."""

    min_count: int
    mode: PreemptionMode = PreemptionMode.POD


class PodGroup(Struct, frozen=True, gc=False):
    """A group as its workload describes it. Without a gang its pods have nothing in common but their priority."""

    name: str = ""
    gang: Gang | None = None
    topology: str = ""  # the node label of which all its pods must find one and the same value


class Workload(Struct, frozen=True, gc=False):
    """What describes groups: our own Workload, or a PodGroup of Kubernetes or Volcano, which describes just one.

    `priority`, `preemption_priority` and `preempts` are what the object itself says, where it does.
    """

    key: Key
    uid: str
    version: str
    created: float
    groups: tuple[PodGroup, ...] = ()
    priority_class: str = ""
    preemption_priority_class: str = ""
    priority: int | None = None
    preemption_priority: int | None = None
    preempts: bool | None = None  # None: as its priority class says
    conditions: tuple[Condition, ...] = ()
    deleted: float | None = None
    volcano: VolcanoGroup | None = None  # of a PodGroup of Volcano

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)

    def group(self, name: str) -> PodGroup | None:
        return next((group for group in self.groups if group.name == name), None)


class Phase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


ENDED = frozenset({Phase.SUCCEEDED, Phase.FAILED})


class PodShape(Struct, frozen=True, gc=False, cache_hash=True):
    """All that decides where a pod may run. Equal shapes get equal verdicts, so verdicts are kept by shape."""

    requests: Resources = Resources()
    scored_requests: Resources = Resources()  # with upstream's defaults where a container asks for no cpu or memory
    node_name: str = ""  # the node the manifest itself names
    node_selector: tuple[tuple[str, str], ...] = ()
    required_terms: tuple[NodeTerm, ...] | None = None  # one must match; None: no demand; (): nothing matches
    preferred_terms: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()  # of all containers, with their tags
    peers: PeerDemands | None = None
    claims: tuple[ClaimName, ...] = ()  # as the manifest names them
    bound_to: ClaimDemands | None = None  # what these claims demand, in place of their names when the pod is placed


class PodTemplate(Struct, frozen=True, gc=False):
    """What is said of pods yet to be made; `shape` as far as quota looks at it, worked out from `needs`."""

    shape: PodShape = PodShape()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    priority_class: str = ""
    needs: TemplateNeeds = TemplateNeeds()


class ScheduledCondition(Struct, frozen=True, gc=False):
    """The pod's PodScheduled condition as it stands on the object."""

    status: str
    reason: str
    message: str


class HeldPod(Struct, frozen=True, gc=False):
    """What is to be known of a pod that quota decides about, besides what is known of any pod."""

    spec: Raw = Raw(b"{}")  # verbatim
    finalizers: tuple[str, ...] = ()
    priority_class: str = ""
    ready: bool = False
    failed_at: float | None = None  # when its containers were seen to have failed


class EvictionMark(Struct, frozen=True, gc=False):
    """A pod that carries it is evicted together with all pods of a gang, or not at all."""

    gang: str
    pods: int  # how many there were when they were marked


class Pod(Struct, frozen=True, gc=False):
    key: Key
    uid: str
    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    shape: PodShape
    created: float  # seconds since the epoch
    scheduler_name: str = ""
    priority: int = 0
    preempts: bool = True  # preemptionPolicy is not Never
    gates: tuple[str, ...] = ()
    node: str = ""  # where it is bound
    phase: Phase = Phase.PENDING
    deleted: float | None = None  # when it will be, or was to be, gone (deletionTimestamp)
    grace: int = 30  # seconds it may take to stop
    owner: Target | None = None  # its controller, where that is of a kind we know
    scheduled: ScheduledCondition | None = None
    nominated: str = ""
    preempted: bool = False  # marked as one that a scheduler preempts
    mark: EvictionMark | None = None  # with which gang it is evicted, where the mark says so
    started: float | None = None  # when a kubelet took it up
    group: GroupKey | None = None  # the group it says it belongs to
    group_total: int = 0  # how many pods its group has, where the pods themselves say so
    checkpointed: float | None = None  # when its work was last saved
    checkpoint_every: float | None = None  # seconds after which it saves its work each time
    held: HeldPod | None = None  # of a pod labelled as managed by quota
    reserved_at: float | None = None  # since when it reserves capacity of its Volcano queue, once its gate is removed
    of_daemon_set: bool = False
    containers: tuple[str, ...] = ()  # their names, once it is bound

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)

    @property
    def holds_room(self) -> bool:
        """Bound and not ended: its requests count against its node, also while it terminates."""
        return bool(self.node) and self.phase not in ENDED

    @property
    def wants_node(self) -> bool:
        return not self.node and self.phase not in ENDED and self.deleted is None


_SAID = re.compile(r"; all (\d{1,9}) pods of (\S+) are evicted together$")


def evicted_together(text: str, mark: EvictionMark | None) -> str:
    """The text of a DisruptionTarget condition, with what the mark says."""
    return text if mark is None else f"{text}; all {mark.pods} pods of {mark.gang} are evicted together"


def eviction_mark(text: str) -> EvictionMark | None:
    """What the text of a DisruptionTarget condition says of the gang, if it does."""
    found = _SAID.search(text)
    return EvictionMark(found[2], int(found[1])) if found else None
