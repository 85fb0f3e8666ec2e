"""What is to be done next about some work and its Workload. The order of the rules is Kueue's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from headgate.lifecycle.jobframework.generic_job import Ending, Stop, StopReason, Work
from headgate.lifecycle.jobframework.pod_set_info import CannotStart, injections
from headgate.lifecycle.jobframework.workload_manifest import (
    QueueRank,
    common_labels,
    create_workload,
    priority_of,
    rewritten_spec,
)
from headgate.lifecycle.jobframework.workload_status import finished, progressed
from headgate.lifecycle.terminating.holds import WAITING_FOR_ROOM, Hold, message
from headgate.lifecycle.workload.conditions import (
    ADMITTED,
    DEACTIVATED,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    reason_of,
    true_since,
)
from headgate.model.effects import (
    Annotations,
    Delete,
    Effect,
    EmitEvent,
    EventType,
    Finalizers,
    Owners,
    PatchSpec,
    PatchStatus,
    QueuedWorkloadStatus,
    WorkloadRewrite,
)
from headgate.model.keys import Target
from headgate.model.kueue_names import IN_USE, MAX_EXECUTION_SECONDS, PREBUILT_WORKLOAD, QUEUE_NAME, positive
from headgate.model.queues import ADMISSION_GATED_BY, PriorityClassRef, QueuedWorkload, ResourceFlavor

BY_US = f"{DEACTIVATED}DueTo"  # how the reason of an eviction begins when it was not the user who deactivated
WORKLOAD_CLASS = "WorkloadPriorityClass"


class Scene(Struct, frozen=True):
    """The work, its Workload if it has one, and what else counts."""

    work: Work
    workload: QueuedWorkload | None
    rank: QueueRank | str  # or what has to be there first
    flavors: Mapping[str, ResourceFlavor]
    now: float
    is_settled: bool = True  # nothing that was decided about its parts is still under way
    hold: Hold | None = None  # it does not start while pods that are leaving would make it fit
    extras: tuple[QueuedWorkload, ...] = ()  # other Workloads that say they are its own
    kept_for: float | None = None  # seconds after which work that was deactivated is deleted; None: never
    copied: tuple[str, ...] = ()  # labels that a Workload gets from the work it is made for

    @property
    def is_active(self) -> bool:
        return not self.is_settled or self.work.is_active(self.now)


def decisions(scene: Scene) -> Iterator[Effect]:
    """What to do now; when nothing is left to do, nothing."""
    for extra in scene.extras:
        yield from _remove(extra)
    workload = scene.workload
    if workload is None:
        yield from _without_workload(scene)
    elif not scene.work.owns(workload):
        message = f"Workload {workload.key.namespace}/{workload.key.name} exists and belongs to someone else"
        yield _warning(scene, "WorkloadNameConflict", message)
    elif workload.is_true(FINISHED):
        yield from scene.work.let_go()
        yield from without_finalizer(workload)
    else:
        yield from _with_workload(scene, workload)


def expires_at(workload: QueuedWorkload, seconds: float | None) -> float | None:
    """When the work of a Workload that we deactivated is deleted; what its user deactivated is kept."""
    since = true_since(workload, EVICTED)
    if seconds is None or since is None or workload.active or not reason_of(workload, EVICTED).startswith(BY_US):
        return None
    return since + seconds


def without_finalizer(workload: QueuedWorkload) -> Iterator[Effect]:
    """Nothing of it runs any more: it may be deleted."""
    if IN_USE in workload.finalizers:
        rest = tuple(name for name in workload.finalizers if name != IN_USE)
        yield PatchSpec(_exact(workload), Finalizers(rest))


def _without_workload(scene: Scene) -> Iterator[Effect]:
    work = scene.work
    if work.ending is not None or work.is_going:
        yield from work.let_go()
        return
    yield from work.tidy(None, scene.now)
    if work.may_run:
        yield from _stop(scene, StopReason.NO_MATCH, "No matching Workload; restoring pod templates")
    elif work.problem:
        yield _warning(scene, "ErrWorkloadCompose", work.problem)
    elif isinstance(scene.rank, str):
        yield _warning(scene, "ErrWorkloadCompose", scene.rank)
    elif not scene.is_active and work.is_complete and PREBUILT_WORKLOAD not in work.labels:
        yield from _created(scene, scene.rank)


def _created(scene: Scene, rank: QueueRank) -> Iterator[Effect]:
    key, labels = scene.work.workload_key, common_labels(scene.work, scene.copied)
    if labels is None:
        yield _warning(scene, "ErrWorkloadCompose", "constructing workload: pods have different label values")
        return
    yield create_workload(scene.work, rank, labels)
    yield _event(scene, "CreatedWorkload", f"Created Workload: {key.namespace}/{key.name}")


def _with_workload(scene: Scene, workload: QueuedWorkload) -> Iterator[Effect]:
    work, active = scene.work, scene.is_active
    wanted = progressed(work, workload, active, scene.now, scene.hold)
    if wanted != workload:
        yield _written(wanted)
        if scene.hold is not None and not workload.is_true(WAITING_FOR_ROOM):
            yield _event(scene, WAITING_FOR_ROOM, message(scene.hold, workload))
        if wanted.is_true(FINISHED):
            key = workload.key
            yield _event(scene, "FinishedWorkload", f"Workload '{key.namespace}/{key.name}' is declared finished")
            return
    if workload.deleted is not None:
        yield from _stop(scene, StopReason.DELETED, "Workload is deleted")
        if not active and not work.may_run:
            yield from without_finalizer(workload)
        return
    yield from work.tidy(workload, scene.now)
    if not work.is_going:
        yield from _moved_on(scene, workload) if work.matches(workload) else _mismatched(scene, workload)


def _moved_on(scene: Scene, workload: QueuedWorkload) -> Iterator[Effect]:
    yield from _adopted(scene.work, workload)
    evicted = workload.condition(EVICTED)
    until = expires_at(workload, scene.kept_for)
    if until is not None and until <= scene.now and not scene.is_active:
        yield from _discarded(scene)
    elif evicted is not None and evicted.status == "True":
        yield from _stop(scene, StopReason.EVICTED, evicted.message)
    elif not workload.is_true(ADMITTED):
        yield from _stop(scene, StopReason.NOT_ADMITTED, "Not admitted by cluster queue")
    elif scene.work.can_start and scene.hold is None:
        yield from _start(scene, workload)
    yield from _renamed(scene, workload)
    yield from _ungated(scene.work, workload)


def _discarded(scene: Scene) -> Iterator[Effect]:
    discarded = list(scene.work.discard())
    yield from discarded
    if discarded:
        yield _event(scene, "Deleted", "Deleted job: deactivation retention period expired")


def _start(scene: Scene, workload: QueuedWorkload) -> Iterator[Effect]:
    try:
        given = injections(workload, scene.flavors)
        started = [] if given is None else list(scene.work.start(workload, given))
    except CannotStart as conflict:
        yield _written(finished(workload, Ending("FailedToStart", str(conflict)), scene.now))
        return
    yield from started
    if started and workload.admission is not None:
        yield _event(scene, "Started", f"Admitted by clusterQueue {workload.admission.cluster_queue}")


def _stop(scene: Scene, reason: StopReason, message: str) -> Iterator[Effect]:
    stopped = list(scene.work.stop(Stop(reason, message, scene.now)))
    yield from stopped
    if stopped:
        yield _event(scene, "Stopped", message)


def _mismatched(scene: Scene, workload: QueuedWorkload) -> Iterator[Effect]:
    """A Workload that waits is brought up to date; one that holds quota is given up with what runs of it."""
    work = scene.work
    if work.labels.get(PREBUILT_WORKLOAD) == workload.key.name:
        ending = Ending("OutOfSync", "The prebuilt workload is out of sync with its user job")
        yield _written(finished(workload, ending, scene.now))
    elif _waits(work, workload) and isinstance(scene.rank, QueueRank):
        yield PatchSpec(_exact(workload), WorkloadRewrite(rewritten_spec(work, scene.rank)))
    else:
        yield from _stop(scene, StopReason.NO_MATCH, "No matching Workload; restoring pod templates")
        if not scene.is_active:
            yield from _remove(workload)


def _waits(work: Work, workload: QueuedWorkload) -> bool:
    return not workload.is_true(QUOTA_RESERVED) and not work.may_run and bool(work.pod_sets())


def _renamed(scene: Scene, workload: QueuedWorkload) -> Iterator[Effect]:
    """Its queue, its time limit and its class may change while it waits; later only a class of the same kind may."""
    rank, work = scene.rank, scene.work
    if isinstance(rank, str) or work.labels.get(PREBUILT_WORKLOAD):
        return
    limit = positive(work.labels, MAX_EXECUTION_SECONDS)
    said = (workload.queue, workload.max_execution_seconds)
    if not workload.is_true(QUOTA_RESERVED):
        if (work.labels.get(QUEUE_NAME, ""), limit) != said or rank.ref != workload.priority_class:
            yield PatchSpec(_exact(workload), WorkloadRewrite(rewritten_spec(work, rank)))
    elif rank.ref != workload.priority_class and all(map(_is_workload_class, (rank.ref, workload.priority_class))):
        yield PatchSpec(_exact(workload), WorkloadRewrite(priority_of(rank)))


def _ungated(work: Work, workload: QueuedWorkload) -> Iterator[Effect]:
    """Controllers that let go of the work let go of its Workload; none is ever added."""
    named = [name.strip() for name in work.annotations.get(ADMISSION_GATED_BY, "").split(",")]
    staying = [name for name in workload.gated_by if name in named]
    if len(staying) < len(workload.gated_by):
        change = Annotations({ADMISSION_GATED_BY: ",".join(staying) or None})
        yield PatchSpec(workload.target, change)


def _is_workload_class(ref: PriorityClassRef | None) -> bool:
    return ref is not None and ref.kind == WORKLOAD_CLASS


def _adopted(work: Work, workload: QueuedWorkload) -> Iterator[Effect]:
    """A Workload made beforehand gets its owner."""
    if work.controller is not None and workload.owner is None:
        yield PatchSpec(_exact(workload), Owners(work.owners, work.controller))


def _remove(workload: QueuedWorkload) -> Iterator[Effect]:
    if workload.deleted is None:
        yield Delete(workload.target)
    else:
        yield from without_finalizer(workload)


def _written(wanted: QueuedWorkload) -> PatchStatus:
    return PatchStatus(_exact(wanted), QueuedWorkloadStatus.of(wanted))


def _exact(workload: QueuedWorkload) -> Target:
    """The Workload as it was seen: what is written about it was made from that."""
    return Target(workload.key, workload.uid, workload.version)


def _event(scene: Scene, reason: str, message: str) -> EmitEvent:
    return EmitEvent(scene.work.parts[0], EventType.NORMAL, reason, "Reconciling", message, scene.now)


def _warning(scene: Scene, reason: str, message: str) -> EmitEvent:
    return EmitEvent(scene.work.parts[0], EventType.WARNING, reason, "Reconciling", message, scene.now)
