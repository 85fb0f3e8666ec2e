"""The remaining kinds the engine and the world read: those that own pods, and those that say something about pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Raw, Struct

from headgate.model.claims import AttachLimits, DeviceClaim, StorageClass, Volume, VolumeClaim
from headgate.model.keys import Key, Target
from headgate.model.node import Node, Selector
from headgate.model.pod import Pod, PodTemplate, Workload
from headgate.model.queues import MultiKueueCluster, MultiKueueConfig, QueuedWorkload, QueueObject
from headgate.model.resources import Resources
from headgate.model.selectors import Requirement
from headgate.model.volcano import VolcanoQueue


class Service(Struct, frozen=True, gc=False):
    """`selector` empty selects nothing."""

    key: Key
    uid: str
    version: str
    selector: Mapping[str, str]


class ReplicaOwner(Struct, frozen=True, gc=False):
    """A ReplicaSet, Deployment, StatefulSet or ReplicationController."""

    key: Key
    uid: str
    version: str
    selector: Selector
    labels: Mapping[str, str] = {}
    owner: Target | None = None  # its controller, where that is of a kind we know

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


class Replicas(ReplicaOwner, frozen=True, gc=False):
    """A ReplicaSet, Deployment or StatefulSet: so many pods of one template."""

    replicas: int = 1
    template: Raw = Raw(b"{}")  # spec.template, verbatim; of one that wants no pods, left out
    deleted: float | None = None
    generation: int = 0


class StatefulSet(Replicas, frozen=True, gc=False):
    """Pods that are numbered, and each replaced by one of the same name."""

    annotations: Mapping[str, str] = {}
    pods: PodTemplate = PodTemplate()
    in_order: bool = True  # each pod waits until the one before it is ready
    spec: Raw = Raw(b"")  # verbatim, of one that names a queue


class CronJob(Struct, frozen=True, gc=False):
    """Jobs of one template, created by a schedule."""

    key: Key
    uid: str
    version: str
    created: float
    schedule: str
    template: Raw  # spec.jobTemplate, verbatim
    time_zone: str = ""
    suspended: bool = False
    concurrency: str = "Allow"  # or Forbid, or Replace
    starting_deadline: int | None = None  # seconds after which a missed Job is not started any more
    keeps_succeeded: int = 3  # Jobs that have ended
    keeps_failed: int = 1
    last_scheduled: float | None = None
    deleted: float | None = None

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


class Bounds(Struct, frozen=True, gc=False):
    """Between which amounts must lie, and what who says nothing gets; of a resource not named nothing is said."""

    max: Resources = Resources()
    min: Resources = Resources()
    default: Resources = Resources()  # limits
    default_request: Resources = Resources()


class LimitRange(Struct, frozen=True, gc=False):
    """Bounds for every container and for every pod of its namespace, in the order they are listed."""

    key: Key
    uid: str
    version: str
    containers: tuple[Bounds, ...] = ()
    pods: tuple[Bounds, ...] = ()


class RuntimeClass(Struct, frozen=True, gc=False):
    """`overhead` is what every pod that it runs takes besides its containers."""

    key: Key
    uid: str
    version: str
    overhead: Resources = Resources()


class Namespace(Struct, frozen=True, gc=False):
    key: Key
    uid: str
    version: str
    labels: Mapping[str, str]
    deleted: float | None = None


class PriorityClass(Struct, frozen=True, gc=False):
    key: Key
    uid: str
    version: str
    value: int
    is_default: bool = False
    preempts: bool = True


class PodCount(Struct, frozen=True, gc=False):
    """A number of pods, or that many percent of those expected."""

    number: int
    percent: bool = False

    def of(self, expected: int) -> int:
        """So many pods of that many; a part of a pod is a whole one."""
        return -(-self.number * expected // 100) if self.percent else self.number


class DisruptionBudget(Struct, frozen=True, gc=False):
    """How many of the selected pods may be disrupted now; `selector` None selects nothing, empty selects all.

    Its spec says how many must stay available or how many may be unavailable, never both.
    """

    key: Key
    uid: str
    version: str
    selector: tuple[Requirement, ...] | None
    disruptions_allowed: int = 0
    already_disrupted: frozenset[str] = frozenset()  # names of pods counted already
    min_available: PodCount | None = None
    max_unavailable: PodCount | None = None
    generation: int = 0


class JobIndexes(Struct, frozen=True, gc=False):
    """The indexes of an Indexed Job: lists such as `0,2-4`, as its status has them."""

    completed: str = ""
    failed: str = ""
    backoff_limit: int | None = None  # of each index; None: the Job has one for all
    most_failed: int | None = None  # more failed indexes fail the Job


class Job(Struct, frozen=True, gc=False):
    key: Key
    uid: str
    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    template: Raw  # spec.template, verbatim
    created: float
    parallelism: int = 1
    completions: int | None = None
    suspended: bool = False
    backoff_limit: int = 6
    managed_by: str = ""
    succeeded: int = 0
    failed: int = 0
    started: float | None = None
    ended: str = ""  # Complete or Failed once that condition is True
    deleted: float | None = None
    pods: PodTemplate = PodTemplate()
    ended_message: str = ""
    active: int = 0  # pods that neither ended nor are being deleted
    ready: int = 0
    terminating: int = 0  # pods that are being deleted and have not ended
    uncounted_succeeded: int = 0  # pods that succeeded and are not yet in `succeeded`
    suspension_shown: bool = False  # its controller says that it is suspended
    owner: Target | None = None  # its controller, where that is of a kind we know
    generation: int = 0
    failed_indexes: int = 0  # how many indexes failed for good
    indexes: JobIndexes | None = None  # of an Indexed Job
    spec: Raw = Raw(b"")  # verbatim, of one that runs on another cluster

    @property
    def target(self) -> Target:
        return Target(self.key, self.uid)


ClaimObject = VolumeClaim | Volume | StorageClass | DeviceClaim | AttachLimits
OwnerObject = Service | ReplicaOwner
FleetObject = MultiKueueCluster | MultiKueueConfig
QuotaObject = QueueObject | QueuedWorkload | LimitRange | RuntimeClass | VolcanoQueue
Object = (
    Pod
    | Node
    | Namespace
    | PriorityClass
    | DisruptionBudget
    | Job
    | CronJob
    | Workload
    | ClaimObject
    | OwnerObject
    | QuotaObject
    | FleetObject
)


SYSTEM_CLASSES: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""There is no cluster without these."""


class Classes(Struct, frozen=True):
    """Every priority class by its value, and the one that work without a class gets; empty where there is none."""

    values: Mapping[str, int]
    default: str = ""
    never_preempt: frozenset[str] = frozenset()

    @classmethod
    def of(cls, found: Iterable[PriorityClass]) -> Classes:
        """Of several default classes the lowest counts."""
        classes = sorted(found, key=lambda one: (one.value, one.key.name))
        default = next((one.key.name for one in classes if one.is_default), "")
        polite = frozenset(one.key.name for one in classes if not one.preempts)
        return cls({**SYSTEM_CLASSES, **{one.key.name: one.value for one in classes}}, default, polite)
