"""A quota plane driven by hand, with the few objects it writes to kept as an API server would keep them."""

from __future__ import annotations

from builders import changed, kueue_workload
from msgspec import structs

from headgate.engine.journal import Journal
from headgate.engine.quota.plane import QuotaPlane
from headgate.model.effects import (
    Activation,
    ClusterQueueStatus,
    CohortStatus,
    Consumption,
    Delete,
    EmitEvent,
    Finalizers,
    LocalQueueStatus,
    PatchSpec,
    PatchStatus,
    QueuePriority,
    WakeAt,
)
from headgate.model.events import Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Condition, Key, Kind, Target
from headgate.model.objects import Namespace
from headgate.model.pod import PodShape
from headgate.model.queues import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    LocalQueue,
    PodSet,
    QueuedWorkload,
    QueuedWorkloadStatus,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    WorkloadPriorityClass,
)
from headgate.model.resources import Resources
from headgate.model.settings import QuotaSettings, Settings

PLAIN = QuotaSettings()


def namespace(name="default", **labels):
    return Namespace(Key(Kind.NAMESPACE, "", name), f"uid-{name}", "1", labels)


def flavor(name="default", **fields):
    return ResourceFlavor(Key(Kind.RESOURCE_FLAVOR, "", name), f"uid-{name}", "1", **fields)


def quota(**flavors):
    """cpu of these flavors in whole cores, in order; or a Quota in milli."""
    made = {name: one if isinstance(one, Quota) else Quota(one * 1000) for name, one in flavors.items()}
    return (ResourceGroup(("cpu",), tuple(FlavorQuotas(name, (("cpu", one),)) for name, one in made.items())),)


def queue(name="cq", cpu=2, cohort="", **fields):
    groups = fields.pop("groups", None) or quota(default=cpu)
    fields.setdefault("namespaces", ())
    return ClusterQueue(Key(Kind.CLUSTER_QUEUE, "", name), f"uid-{name}", "1", groups, cohort, **fields)


def local(name="lq", of="cq", space="default", **fields):
    return LocalQueue(Key(Kind.LOCAL_QUEUE, space, name), f"uid-{name}", "1", of, **fields)


def cohort(name, parent="", **fields):
    return Cohort(Key(Kind.COHORT, "", name), f"uid-{name}", "1", parent, **fields)


def priority_class(name, value):
    return WorkloadPriorityClass(Key(Kind.WORKLOAD_PRIORITY_CLASS, "", name), f"uid-{name}", "1", value)


def check(name, active=True, controller="example.com/check", **fields):
    conditions = (Condition("Active", str(active), "Active", "", 0.0),)
    key = Key(Kind.ADMISSION_CHECK, "", name)
    return AdmissionCheck(key, f"uid-{name}", "1", controller, conditions=conditions, **fields)


def pods(cpu=1, name="main", count=1, **fields):
    amounts = {"cpu": cpu * 1000, **fields.pop("amounts", {})}
    return PodSet(name, PodShape(requests=Resources.of(amounts)), count, **fields)


def work(name="a", cpu=1, queue="lq", **fields):
    """A workload of one pod that nobody owns."""
    key = Key(Kind.KUEUE_WORKLOAD, fields.pop("space", "default"), name)
    fields.setdefault("pod_sets", (pods(cpu),))
    fields.setdefault("created", 0.0)
    return kueue_workload(key, f"uid-{name}", "1", queue=queue, **fields)


OWNER = Target(Key(Kind.JOB, "default", "job"), "uid-job")
BASICS = (namespace(), flavor(), local())


class QuotaSteps:
    """What the plane writes is performed and observed at once, unless `held`; then it waits in `writes`."""

    def __init__(self, *objects, settings=PLAIN, basics=BASICS, now=0.0):
        self.journal = Journal()
        self.plane = QuotaPlane(Settings(quota=settings), self.journal)
        self.settings = settings
        self.objects = {}
        self.now = now
        self.held = False
        self.writes = []
        self.written = []  # all that was ever performed
        self.events = []
        self.conflicts = 0
        self.versions = 1
        self.alarm = None
        self.see(*basics, *objects)

    def restart(self):
        """Another engine that knows only the objects as they are."""
        self.journal = Journal()
        self.plane = QuotaPlane(Settings(quota=self.settings), self.journal)
        self.writes, self.alarm = [], None
        return self.step(*(Observed(one) for one in self.objects.values()))

    def see(self, *objects):
        return self.step(*(Observed(self.put(one)) for one in objects))

    def put(self, one):
        self.versions += 1
        self.objects[one.key] = structs.replace(one, version=str(self.versions))
        return self.objects[one.key]

    def edit(self, name, **fields):
        """Somebody else changes a workload."""
        return self.see(changed(self[name], **fields))

    def says(self, name, type_, status, reason="", message=""):
        """Somebody else sets a condition of a workload."""
        others = tuple(one for one in self[name].status.conditions if one.type != type_)
        return self.edit(name, conditions=(*others, Condition(type_, str(status), reason, message, self.now)))

    def lose(self, one):
        del self.objects[one.key]
        return self.step(Gone(one.key, one.uid))

    def finish(self, name):
        return self.says(name, "Finished", True, "Succeeded")

    def later(self, seconds):
        self.now += seconds
        return self.step(TimerFired("quota"))

    def step(self, *batch):
        while True:
            effects = [effect for event in batch for effect in self.plane.absorb(event, self.now)]
            effects += self.plane.decide(self.now)
            self.plane.check()
            self._sort(effects)
            if self.held or not self.writes:
                return self
            writes, self.writes = self.writes, []
            batch = [event for write in writes for event in self.perform(write)]

    def release(self):
        """What was held is performed, and whatever follows from it."""
        self.held, writes = False, self.writes
        self.writes = []
        return self.step(*(event for write in writes for event in self.perform(write)))

    def perform(self, write):
        """As a server would: the outcome, and what is then to be seen."""
        found = self.objects.get(write.target.key)
        if found is None or found.uid != write.target.uid:
            return [Outcome(write, WriteError.GONE)]
        if write.target.version not in ("", found.version):
            self.conflicts += 1
            return [Outcome(write, WriteError.CONFLICT)]
        self.written.append(write)
        if isinstance(write, Delete) or self._is_let_go(found, write):
            del self.objects[found.key]
            return [Outcome(write), Gone(found.key, found.uid)]
        return [Outcome(write), Observed(self.put(_changed(found, write)))]

    @staticmethod
    def _is_let_go(found, write):
        change = getattr(write, "change", None)
        return isinstance(change, Finalizers) and not change.names and found.deleted is not None

    def _sort(self, effects):
        for effect in effects:
            match effect:
                case WakeAt():
                    self.alarm = effect.at
                case EmitEvent():
                    self.events.append(effect)
                case _:
                    self.writes.append(effect)

    def __getitem__(self, name):
        return self.objects[Key(Kind.KUEUE_WORKLOAD, "default", name)]

    def condition(self, name, type_):
        """Status, reason and message."""
        found = self[name].condition(type_)
        return found and (found.status, found.reason, found.message)

    def reason(self, name, type_="QuotaReserved"):
        found = self[name].condition(type_)
        return found and (found.status, found.reason)

    @property
    def admitted(self):
        return [w.key.name for w in self.workloads if w.is_true("Admitted") and not w.is_true("Finished")]

    @property
    def workloads(self):
        return sorted((one for one in self.objects.values() if isinstance(one, QueuedWorkload)), key=lambda w: w.key)

    @property
    def told(self):
        """Events as workload and reason."""
        return [(event.target.key.name, event.reason) for event in self.events]

    def decisions(self, name):
        """What was decided about a workload, oldest first."""
        return [entry.decision for entry in self.journal.about(Key(Kind.KUEUE_WORKLOAD, "default", name))]

    def status(self, key):
        """The status last written of a queue."""
        kinds = ClusterQueueStatus | LocalQueueStatus | CohortStatus
        return [w.change for w in self.written if w.target.key == key and isinstance(getattr(w, "change", 0), kinds)][
            -1
        ]

    def statuses_written(self, name):
        return [w.change for w in self.written if w.target.key.name == name and _is_status(w)]

    def number(self, metric, **labels):
        wanted = tuple(sorted(labels.items()))
        return {(name, at): value for name, at, value in self.plane.collect()}.get((metric, wanted), 0)


def _is_status(write):
    return isinstance(write, PatchStatus) and isinstance(write.change, QueuedWorkloadStatus)


def _changed(found, write):
    match write:
        case PatchStatus(change=QueuedWorkloadStatus() as status):
            return structs.replace(found, status=status)
        case PatchStatus(change=LocalQueueStatus(conditions=conditions, consumption=Consumption(consumed, at))):
            return structs.replace(found, conditions=conditions, consumed=consumed, consumed_at=at)
        case PatchStatus(change=ClusterQueueStatus() | LocalQueueStatus() as status):
            return structs.replace(found, conditions=status.conditions)
        case PatchStatus(change=CohortStatus(weighted_share)):
            return structs.replace(found, shown_share=weighted_share)
        case PatchSpec(change=Activation(active)):
            return structs.replace(found, active=active, generation=found.generation + 1)
        case PatchSpec(change=QueuePriority(priority)):
            return structs.replace(found, priority=priority, generation=found.generation + 1)
        case PatchSpec(change=Finalizers(names)):
            return structs.replace(found, finalizers=names)
        case _:
            return found
