"""The admission webhooks: one table of what an API server asks and which handler answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headgate.gates.fields import (
    YES,
    FieldError,
    immutable,
    is_going,
    is_well_typed,
    spec_of,
    verdict_on,
    with_finalizer,
    with_spec,
)
from headgate.gates.jobs import job_errors, suspended_if_managed
from headgate.gates.kueue_workloads import (
    RESERVED,
    pod_set_change_errors,
    template_errors,
    workload_change_errors,
    workload_errors,
)
from headgate.gates.managed_jobs import Asking
from headgate.gates.pods import gated_if_managed, pod_errors
from headgate.gates.queues import cluster_queue_errors, cohort_errors, flavor_errors
from headgate.gates.replicas import pods_wait, replicas_errors, stateful_set_errors
from headgate.model.admission import Admit, Inquiry, Json, Judge, Matter, Question, Refuse, Rules, Said, Verdict
from headgate.model.groups import Workload
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import IN_USE
from headgate.model.objects import Classes, PriorityClass
from headgate.model.queues import (
    ClusterQueue,
    Cohort,
    PriorityClassRef,
    QueuedWorkload,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from headgate.model.quota_settings import DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS


def class_to_fill_in(workload: Workload, classes: Classes) -> str:
    """The class a workload gets that names none, as a pod would; where no class is the default, it stays without."""
    return "" if workload.priority_class else classes.default


def judged(workload: Workload, classes: Classes) -> Verdict:
    """Whether its classes exist, and protect it at least as much as they let it preempt others."""
    for name in (workload.priority_class, workload.preemption_priority_class):
        if name and name not in classes.values:
            return Refuse(f"no PriorityClass with name {name} was found")
    if workload.preemption_priority_class and _preempts_more(workload, classes):
        return Refuse(_endless(workload, classes))
    return Admit()


def _preempts_more(workload: Workload, classes: Classes) -> bool:
    return classes.values[workload.preemption_priority_class] < _priority(workload, classes)


def _priority(workload: Workload, classes: Classes) -> int:
    return classes.values.get(workload.priority_class or classes.default, 0)


def _endless(workload: Workload, classes: Classes) -> str:
    """Two workloads like this one could take each other's place for ever."""
    shield, chosen = workload.preemption_priority_class, workload.priority_class or classes.default
    of_class = f"of priorityClassName {chosen}" if chosen else "of a workload without priorityClassName"
    return (
        f"the value of preemptionPriorityClassName {shield} ({classes.values[shield]}) is below the value {of_class} "
        f"({_priority(workload, classes)}): workloads like this one would preempt each other without end"
    )


Errors = Callable[[Question], Iterable[FieldError]]

_CLASS_KINDS: Mapping[tuple[str, str], Kind] = {
    ("kueue.x-k8s.io", "WorkloadPriorityClass"): Kind.WORKLOAD_PRIORITY_CLASS,
    ("scheduling.k8s.io", "PriorityClass"): Kind.PRIORITY_CLASS,
}


def default_workload(question: Question, _rules: Rules) -> Inquiry:
    workload = question.thing
    if not isinstance(workload, Workload):
        return Admit()
    name = class_to_fill_in(workload, (yield from _classes()))
    return Admit(with_spec(question.new, priorityClassName=name) if name else None)


def validate_workload(question: Question, _rules: Rules) -> Inquiry:
    workload = question.thing
    if not isinstance(workload, Workload):
        return Admit()
    return judged(workload, (yield from _classes()))


def keep_while_in_use(question: Question, _rules: Rules) -> Verdict:
    """It can only go when nothing depends on it any more."""
    return Admit(with_finalizer(question.new, IN_USE))


def default_queued_workload(question: Question, _rules: Rules) -> Said:
    """Who names a class and no priority means that of the class."""
    workload = question.thing if spec_of(question.new).get("priority") is None else None
    return _with_priority(question.new, workload) if isinstance(workload, QueuedWorkload) else YES


def _with_priority(value: Json, workload: QueuedWorkload) -> Inquiry:
    priority = yield from _value_of(workload.priority_class)
    return Admit(None if priority is None else with_spec(value, priority=priority))


def checked(errors: Errors, framework: str = "") -> Judge:
    """Judges by these errors alone. What is going away is let go; work of a kind that is not ours is not our matter."""

    def judge(question: Question, rules: Rules) -> Verdict:
        if (framework and framework not in rules.quota.frameworks) or is_going(question.new):
            return YES
        return verdict_on(errors(question))

    return judge


def _classes() -> Asking[Classes]:
    found = yield Kind.PRIORITY_CLASS
    return Classes.of(one for one in found if isinstance(one, PriorityClass))


def _value_of(named: PriorityClassRef | None) -> Asking[int | None]:
    kind = None if named is None else _CLASS_KINDS.get((named.group, named.kind))
    if named is None or kind is None:
        return None
    found = yield Key(kind, "", named.name)
    return next((one.value for one in found if isinstance(one, PriorityClass | WorkloadPriorityClass)), None)


def _of_cluster_queue(question: Question) -> list[FieldError]:
    queue, old = question.thing, question.was
    if not isinstance(queue, ClusterQueue):
        return []
    errors = cluster_queue_errors(queue, old if isinstance(old, ClusterQueue) else None)
    return errors + _fixed("concurrentAdmissionPolicy", question)


def _fixed(field: str, question: Question) -> list[FieldError]:
    if question.old is None or spec_of(question.new).get(field) == spec_of(question.old).get(field):
        return []
    return [immutable(f"spec.{field}")]


def _of_cohort(question: Question) -> list[FieldError]:
    cohort = question.thing
    return cohort_errors(cohort) if isinstance(cohort, Cohort) else []


def _of_flavor(question: Question) -> list[FieldError]:
    flavor = question.thing
    return flavor_errors(flavor) if isinstance(flavor, ResourceFlavor) else []


def _of_queued_workload(question: Question) -> Sequence[FieldError]:
    """Much work is written with the very same spec and status, and is looked at once."""
    new, old = question.new, question.old or {}
    return question.once(_queued_workload_errors, question, *_looked_at(new), *_looked_at(old))


def _looked_at(value: Json) -> tuple[object, object, object]:
    """All that decides whether a workload may be as it is: what else its metadata say, its server has seen to."""
    return value.get("spec"), value.get("status"), (value.get("metadata") or {}).get("annotations")


def _queued_workload_errors(question: Question) -> Sequence[FieldError]:
    new, old = question.thing, question.was
    if not isinstance(new, QueuedWorkload):
        return ()
    pod_sets = _pod_sets(question.new)
    errors = [*workload_errors(new), *template_errors(pod_sets)]
    if isinstance(old, QueuedWorkload) and question.old is not None:
        errors += workload_change_errors(new, old)
        if old.is_true(RESERVED):
            errors += pod_set_change_errors(pod_sets, _pod_sets(question.old))
    return errors


def _pod_sets(value: Json) -> Sequence[Json]:
    return spec_of(value).get("podSets") or ()


def _of_well_typed(judge: Judge) -> Judge:
    """Judges what has the types it must have; of anything else the server's own validation says best what is wrong."""

    def judged_if_well_typed(question: Question, rules: Rules) -> Said:
        well_typed = is_well_typed(question.new) and (question.old is None or is_well_typed(question.old))
        return judge(question, rules) if well_typed else YES

    return judged_if_well_typed


_JUDGES: Mapping[Matter, Judge] = {
    Matter.DEFAULT_WORKLOAD: default_workload,
    Matter.VALIDATE_WORKLOAD: validate_workload,
    Matter.DEFAULT_CLUSTER_QUEUE: keep_while_in_use,
    Matter.VALIDATE_CLUSTER_QUEUE: checked(_of_cluster_queue),
    Matter.VALIDATE_COHORT: checked(_of_cohort),
    Matter.DEFAULT_RESOURCE_FLAVOR: keep_while_in_use,
    Matter.VALIDATE_RESOURCE_FLAVOR: checked(_of_flavor),
    Matter.DEFAULT_QUEUED_WORKLOAD: default_queued_workload,
    Matter.VALIDATE_QUEUED_WORKLOAD: checked(_of_queued_workload),
    Matter.DEFAULT_JOB: suspended_if_managed,
    Matter.VALIDATE_JOB: checked(lambda question: job_errors(question.new, question.old), JOBS),
    Matter.DEFAULT_POD: gated_if_managed,
    Matter.VALIDATE_POD: checked(lambda question: pod_errors(question.new, question.old), PODS),
    Matter.DEFAULT_DEPLOYMENT: pods_wait(DEPLOYMENTS),
    Matter.VALIDATE_DEPLOYMENT: checked(lambda question: replicas_errors(question.new, question.old), DEPLOYMENTS),
    Matter.DEFAULT_STATEFUL_SET: pods_wait(STATEFUL_SETS),
    Matter.VALIDATE_STATEFUL_SET: checked(stateful_set_errors, STATEFUL_SETS),
}

JUDGES: Mapping[Matter, Judge] = {matter: _of_well_typed(judge) for matter, judge in _JUDGES.items()}
