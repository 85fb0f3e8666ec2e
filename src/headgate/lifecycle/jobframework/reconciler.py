"""Reconciles a job with its Workload: which writes are due. The order of the rules is Kueue's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from headgate.lifecycle.jobframework.generic_job import COMPOSE_ERROR, Ending, GenericJob, Stop, StopReason
from headgate.lifecycle.jobframework.job_workload import (
    JobPriority,
    common_labels,
    create_workload,
    finished,
    is_elastic,
    priority_of,
    progressed,
    rewritten_spec,
)
from headgate.lifecycle.jobframework.pod_writes import CannotStart, pod_set_infos
from headgate.lifecycle.terminating import WAITING_FOR_ROOM, Hold, message
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
    WorkloadRewrite,
)
from headgate.model.keys import Target
from headgate.model.kueue_names import (
    ELASTIC_JOB,
    IN_USE,
    MAX_EXECUTION_SECONDS,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE_NAME,
    positive,
)
from headgate.model.queues import ADMISSION_GATED_BY, PriorityClassRef, QueuedWorkload, ResourceFlavor

BY_US = f"{DEACTIVATED}DueTo"  # how the reason of an eviction begins when it was not the user who deactivated
WORKLOAD_CLASS = "WorkloadPriorityClass"


class JobState(Struct, frozen=True):
    """A job, its Workload if it has one, and all that decides what is written about them."""

    job: GenericJob
    workload: QueuedWorkload | None
    true: frozenset[str]  # the conditions of the Workload that are True
    rank: JobPriority | str  # or what has to be there first
    flavors: Mapping[str, ResourceFlavor]
    now: float
    is_settled: bool = True  # nothing that was decided about its parts is still under way
    hold: Hold | None = None  # it does not start while terminating pods would make it fit
    extras: tuple[QueuedWorkload, ...] = ()  # other Workloads that say they are its own
    kept_for: float | None = None  # seconds after which a deactivated job is deleted; None: never
    copied: tuple[str, ...] = ()  # labels that a Workload gets from its job

    @property
    def is_active(self) -> bool:
        return not self.is_settled or self.job.is_active(self.now)


def reconcile(state: JobState) -> Iterator[Effect]:
    """The writes and events that are due now; none when the job and its Workload agree."""
    for extra in state.extras:
        yield from _removed(state, extra)
    workload = state.workload
    if workload is None:
        yield from _without_workload(state)
    elif not state.job.owns(workload):
        message = f"Workload {_name(workload)} exists and belongs to someone else"
        yield _warning(state, "WorkloadNameConflict", message)
    elif FINISHED in state.true:
        yield from state.job.finalize()
        yield from without_finalizer(workload)
    else:
        yield from _with_workload(state, workload)


def expires_at(workload: QueuedWorkload, seconds: float | None) -> float | None:
    """When the job of a Workload that we deactivated is deleted; one that a user deactivated is kept."""
    since = true_since(workload, EVICTED)
    if seconds is None or since is None or workload.active or not reason_of(workload, EVICTED).startswith(BY_US):
        return None
    return since + seconds


def without_finalizer(workload: QueuedWorkload) -> Iterator[Effect]:
    """Removes our finalizer: nothing of the job runs any more."""
    if IN_USE in workload.finalizers:
        rest = tuple(name for name in workload.finalizers if name != IN_USE)
        yield PatchSpec(_exact(workload), Finalizers(rest))


def _without_workload(state: JobState) -> Iterator[Effect]:
    job = state.job
    if job.ending is not None or job.is_terminating:
        yield from job.finalize()
        return
    yield from job.sync_parts(None, state.now)
    if job.may_run:
        yield from _stop(state, StopReason.NO_MATCH, "No matching Workload; restoring pod templates")
    elif job.problem:
        yield _warning(state, COMPOSE_ERROR, job.problem)
    elif isinstance(state.rank, str):
        yield _warning(state, COMPOSE_ERROR, state.rank)
    elif name := job.labels.get(PREBUILT_WORKLOAD):
        yield _warning(state, COMPOSE_ERROR, f"Workload {name}, which label {PREBUILT_WORKLOAD} names, does not exist")
    elif not state.is_active and job.is_complete:
        yield from _created(state, state.rank)


def _created(state: JobState, rank: JobPriority) -> Iterator[Effect]:
    key, labels = state.job.workload_key, common_labels(state.job, state.copied)
    if labels is None:
        yield _warning(state, COMPOSE_ERROR, "constructing workload: pods have different label values")
        return
    yield create_workload(state.job, rank, labels)
    yield _event(state, "CreatedWorkload", f"Created Workload: {key.namespace}/{key.name}")


def _with_workload(state: JobState, workload: QueuedWorkload) -> Iterator[Effect]:
    job, active = state.job, state.is_active
    wanted = progressed(job, workload, active, state.now, state.hold)
    if wanted != workload:
        yield _written(wanted)
        if state.hold is not None and not workload.is_true(WAITING_FOR_ROOM):
            yield _event(state, WAITING_FOR_ROOM, message(state.hold, workload))
        if wanted.is_true(FINISHED):
            yield _event(state, "FinishedWorkload", f"Workload '{_name(workload)}' is declared finished")
            return
    if workload.deleted is not None:
        yield from _stop(state, StopReason.DELETED, "Workload is deleted")
        if not active and not job.may_run:
            yield from without_finalizer(workload)
        return
    yield from job.sync_parts(workload, state.now)
    if not job.is_terminating:
        yield from _moved_on(state, workload) if job.matches(workload) else _mismatched(state, workload)


def _moved_on(state: JobState, workload: QueuedWorkload) -> Iterator[Effect]:
    yield from _adopted(state.job, workload)
    evicted = workload.condition(EVICTED) if EVICTED in state.true else None
    until = expires_at(workload, state.kept_for) if evicted is not None else None
    if until is not None and until <= state.now and not state.is_active:
        yield from _deleted(state)
    elif evicted is not None:
        yield from _stop(state, StopReason.EVICTED, evicted.message)
    elif ADMITTED not in state.true:
        yield from _stop(state, StopReason.NOT_ADMITTED, "Not admitted by cluster queue")
    elif state.job.can_start and state.hold is None:
        yield from _start(state, workload)
    yield from _renamed(state, workload)
    if workload.gated_by:
        yield from _ungated(state, workload)
    if workload.status.admission is None and is_elastic(state.job) is not (ELASTIC_JOB in workload.annotations):
        change = Annotations({ELASTIC_JOB: "true" if is_elastic(state.job) else None})
        yield PatchSpec(workload.target, change)


def _deleted(state: JobState) -> Iterator[Effect]:
    discarded = list(state.job.delete())
    yield from discarded
    if discarded:
        yield _event(state, "Deleted", "Deleted job: deactivation retention period expired")


def _start(state: JobState, workload: QueuedWorkload) -> Iterator[Effect]:
    if workload.status.cluster:
        yield from state.job.start_elsewhere()
        return
    try:
        given = pod_set_infos(workload, state.flavors)
        started = [] if given is None else list(state.job.start(workload, given))
    except CannotStart as conflict:
        yield _written(finished(workload, Ending("FailedToStart", str(conflict)), state.now))
        return
    yield from started
    if started and workload.status.admission is not None:
        yield _event(state, "Started", f"Admitted by clusterQueue {workload.status.admission.cluster_queue}")


def _stop(state: JobState, reason: StopReason, message: str) -> Iterator[Effect]:
    stopped = list(state.job.stop(Stop(reason, message, state.now)))
    yield from stopped
    if stopped:
        yield _event(state, "Stopped", message)


def _mismatched(state: JobState, workload: QueuedWorkload) -> Iterator[Effect]:
    """A pending Workload is updated; one that holds quota is deleted once its job is stopped."""
    job = state.job
    if job.labels.get(PREBUILT_WORKLOAD) == workload.key.name:
        ending = Ending("OutOfSync", "The prebuilt workload is out of sync with its user job")
        yield _written(finished(workload, ending, state.now))
    elif _is_pending(job, workload) and isinstance(state.rank, JobPriority):
        yield PatchSpec(_exact(workload), WorkloadRewrite(rewritten_spec(job, state.rank)))
        yield _updated(state, f"Updated not matching Workload for suspended job: {_name(workload)}")
    else:
        yield from _stop(state, StopReason.NO_MATCH, "No matching Workload; restoring pod templates")
        if not state.is_active:
            yield from _removed(state, workload)


def _is_pending(job: GenericJob, workload: QueuedWorkload) -> bool:
    return not workload.is_true(QUOTA_RESERVED) and not job.may_run and bool(job.pod_sets())


def _renamed(state: JobState, workload: QueuedWorkload) -> Iterator[Effect]:
    """Its queue, its time limit and its class may change while it waits; later only a class of the same kind may."""
    rank, job = state.rank, state.job
    if job.labels.get(PREBUILT_WORKLOAD):
        return
    if isinstance(rank, str):
        known = workload.priority_class
        if job.labels.get(PRIORITY_CLASS, "") not in ("", known.name if known is not None else ""):
            yield _warning(state, COMPOSE_ERROR, rank)
        return
    limit = positive(job.labels, MAX_EXECUTION_SECONDS) if MAX_EXECUTION_SECONDS in job.labels else None
    shown = (workload.queue, workload.max_execution_seconds)
    if QUOTA_RESERVED not in state.true:
        is_other_class = rank.ref != workload.priority_class
        if (job.labels.get(QUEUE_NAME, ""), limit) != shown or is_other_class:
            yield PatchSpec(_exact(workload), WorkloadRewrite(rewritten_spec(job, rank)))
            if is_other_class:
                yield _updated(state, f"Updated workload priority class: {_name(workload)}")
    elif rank.ref != workload.priority_class and all(map(_is_workload_class, (rank.ref, workload.priority_class))):
        yield PatchSpec(_exact(workload), WorkloadRewrite(priority_of(rank)))
        yield _updated(state, f"Updated workload priority class: {_name(workload)}")


def _ungated(state: JobState, workload: QueuedWorkload) -> Iterator[Effect]:
    """Admission gates that were removed from the job are removed from its Workload; none is ever added."""
    named = [name.strip() for name in state.job.annotations.get(ADMISSION_GATED_BY, "").split(",")]
    staying = [name for name in workload.gated_by if name in named]
    if len(staying) < len(workload.gated_by):
        change = Annotations({ADMISSION_GATED_BY: ",".join(staying) or None})
        yield PatchSpec(workload.target, change)
        yield _updated(state, f'Updated workload AdmissionGatedBy to "{",".join(staying)}"')


def _is_workload_class(ref: PriorityClassRef | None) -> bool:
    return ref is not None and ref.kind == WORKLOAD_CLASS


def _adopted(job: GenericJob, workload: QueuedWorkload) -> Iterator[Effect]:
    """A prebuilt Workload gets its owner."""
    if job.controller is not None and workload.owner is None:
        yield PatchSpec(_exact(workload), Owners(job.owners, job.controller))


def _removed(state: JobState, workload: QueuedWorkload) -> Iterator[Effect]:
    if workload.deleted is None:
        yield Delete(workload.target)
        yield _event(state, "DeletedWorkload", f"Deleted not matching Workload: {_name(workload)}")
    else:
        yield from without_finalizer(workload)


def _written(wanted: QueuedWorkload) -> PatchStatus:
    return PatchStatus(_exact(wanted), wanted.status)


def _exact(workload: QueuedWorkload) -> Target:
    """The Workload as it was seen: what is written about it was made from that."""
    return Target(workload.key, workload.uid, workload.version)


def _name(workload: QueuedWorkload) -> str:
    return f"{workload.key.namespace}/{workload.key.name}"


def _updated(state: JobState, message: str) -> EmitEvent:
    return _event(state, "UpdatedWorkload", message)


def _event(state: JobState, reason: str, message: str) -> EmitEvent:
    return EmitEvent(state.job.parts[0], EventType.NORMAL, reason, reason, message, state.now)


def _warning(state: JobState, reason: str, message: str) -> EmitEvent:
    return EmitEvent(state.job.parts[0], EventType.WARNING, reason, reason, message, state.now)
