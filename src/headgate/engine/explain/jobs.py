"""Jobs, pods, StatefulSets and Deployments that have no Workload: why no queue manages them, or what they wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import structs

from headgate.engine.explain.explanation import Explanation, MinimalChange, RequiredAction, WorkloadState
from headgate.engine.explain.limits import namespaced_name
from headgate.engine.explain.snapshot import ClusterSnapshot
from headgate.engine.explain.state import StateReport
from headgate.engine.explain.workload import explain
from headgate.engine.integrations.job_index import NotManaged
from headgate.lifecycle.jobframework.generic_job import GenericJob
from headgate.lifecycle.jobframework.pod_group import group_of, is_standing, total_of
from headgate.lifecycle.jobframework.stateful_set import workload_key
from headgate.model.keys import Key, Kind
from headgate.model.kueue_names import DEFAULT_QUEUE, GROUP_NAME, PREBUILT_WORKLOAD, QUEUE_NAME
from headgate.model.objects import Job, ReplicaOwner, StatefulSet
from headgate.model.pod import Pod
from headgate.model.quantity import counted
from headgate.model.settings import DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS

KIND_NAMES: Mapping[Kind, str] = {
    Kind.JOB: "Job",
    Kind.POD: "Pod",
    Kind.STATEFUL_SET: "StatefulSet",
    Kind.DEPLOYMENT: "Deployment",
    Kind.REPLICA_SET: "ReplicaSet",
    Kind.KUEUE_WORKLOAD: "Pod group",  # a group goes by the name of its Workload
}
_FRAMEWORKS: Mapping[Kind, str] = {
    Kind.JOB: JOBS,
    Kind.POD: PODS,
    Kind.KUEUE_WORKLOAD: PODS,
    Kind.STATEFUL_SET: STATEFUL_SETS,
    Kind.DEPLOYMENT: DEPLOYMENTS,
}
MOST_NAMED = 5  # names in a sentence


def explain_job(cluster: ClusterSnapshot, key: Key) -> Explanation | None:
    """What is to be said of an object without a Workload of its own; None if there is no such object."""
    if key.kind is Kind.POD:
        pod = cluster.pods.get(key)
        return None if pod is None else _of_pod(cluster, pod)
    if key.kind is Kind.KUEUE_WORKLOAD:
        pods = _group(cluster, key)
        return _of_group(cluster, key, pods) if pods else None
    found = cluster.owners.get(key)
    if found is None:
        return None
    if key.kind in (Kind.DEPLOYMENT, Kind.REPLICA_SET):
        return _of_replicas(cluster, found)
    return _of_owner(cluster, found)


def _of_owner(cluster: ClusterSnapshot, found: Job | ReplicaOwner) -> Explanation:
    """A Job or a StatefulSet."""
    reason = cluster.jobs.not_managed(found) if isinstance(found, Job | StatefulSet) else None
    if _framework(found.key) not in cluster.settings.frameworks:
        return _plain(cluster, found.key, found.labels, _unsupported(found.key))
    if isinstance(found, Job) and found.ended:
        summary = f"has ended ({found.ended}) and has no Workload"
        return _plain(cluster, found.key, found.labels, StateReport(WorkloadState.FINISHED, summary))
    if reason is not None:
        return _plain(cluster, found.key, found.labels, _not_managed(cluster, found.key, reason))
    job = cluster.jobs.find(workload_key(found) if isinstance(found, StatefulSet) else found.key)
    assert job is not None, f"{found.key} is managed and was put into the index"
    return _plain(cluster, found.key, found.labels, _without_workload(cluster, job))


def _of_pod(cluster: ClusterSnapshot, pod: Pod) -> Explanation:
    if pod.held is None and pod.owner is not None:
        owner = pod.owner.key
        told = _workload_of(cluster, owner) or explain_job(cluster, owner)
        if told is not None:
            return structs.replace(told, notes=(*told.notes, f"Pod {pod.key.name} is one of its pods"))
    if group := group_of(pod) if pod.held is not None else "":
        key = Key(Kind.KUEUE_WORKLOAD, pod.key.namespace, group)
        return _of_group(cluster, key, _group(cluster, key))
    if PODS not in cluster.settings.frameworks:
        return _plain(cluster, pod.key, pod.labels, _unsupported(pod.key))
    job = cluster.jobs.find(pod.key) if pod.held is not None else None
    if job is not None:
        return _plain(cluster, pod.key, pod.labels, _without_workload(cluster, job))
    named = pod.labels.get(QUEUE_NAME)
    if named and cluster.jobs.selects(pod.key.namespace):
        summary = f"is not managed: it names LocalQueue {named}, but no webhook saw its creation, so nothing holds it"
        act = "create it again while the webhooks of `headgate install` answer"
        return _plain(cluster, pod.key, pod.labels, StateReport(WorkloadState.NOT_MANAGED, summary, (act,)))
    reason = NotManaged.NO_QUEUE_NAME if not named else NotManaged.NAMESPACE
    return _plain(cluster, pod.key, pod.labels, _not_managed(cluster, pod.key, reason))


def _of_group(cluster: ClusterSnapshot, key: Key, pods: Sequence[Pod]) -> Explanation:
    job = cluster.jobs.find(key)
    first = min(pods, key=lambda pod: (pod.created, pod.key))
    if job is None:
        return _plain(cluster, key, first.labels, _unsupported(key))
    standing = [pod for pod in pods if is_standing(pod, cluster.settings.quota_release)]
    total = total_of(standing)
    if not job.problem and len(standing) < total:
        lacking = total - len(standing)
        summary = f"has {len(standing)} of its {counted(total, 'pod')}: {counted(lacking, 'pod')} missing"
        act = f"create {counted(lacking, 'pod')} with the label {GROUP_NAME}={key.name}"
        return _plain(cluster, key, first.labels, StateReport(WorkloadState.INCOMPLETE, summary, (act,)))
    return _plain(cluster, key, first.labels, _without_workload(cluster, job))


def _of_replicas(cluster: ClusterSnapshot, found: Job | ReplicaOwner) -> Explanation:
    """A Deployment or ReplicaSet, whose pods each have a Workload of their own: the first that is not admitted."""
    pods = [pod for pod in cluster.pods.values() if _is_owned(cluster, pod, found.key)]
    workloads = [one for pod in pods if (one := cluster.jobs.workload_for(pod)) is not None]
    told = [explain(cluster, one) for one in sorted(workloads, key=lambda one: (one.created, one.key))]
    if not told:
        return _plain(cluster, found.key, found.labels, _without_pods(cluster, found, len(pods)))
    states = Counter(one.state for one in told)
    listed = ", ".join(f"{number} {state}" for state, number in states.items())
    note = f"Each pod of {KIND_NAMES[found.key.kind]} {found.key.name} has a Workload of its own: {listed}"
    shown = next((one for one in told if one.state is not WorkloadState.ADMITTED), told[0])
    return structs.replace(shown, notes=(*shown.notes, note))


def _without_pods(cluster: ClusterSnapshot, found: Job | ReplicaOwner, pods: int) -> StateReport:
    if DEPLOYMENTS not in cluster.settings.frameworks:
        return _unsupported(found.key)
    if not cluster.settings.manages_all and not found.labels.get(QUEUE_NAME):
        return _not_managed(cluster, found.key, NotManaged.NO_QUEUE_NAME)
    if not cluster.jobs.selects(found.key.namespace):
        return _not_managed(cluster, found.key, NotManaged.NAMESPACE)
    there = f"has {counted(pods, 'pod')}, and none has a Workload yet" if pods else "has no pods yet"
    return StateReport(WorkloadState.NO_WORKLOAD, f"{there}: each pod of it waits for quota by itself")


def _is_owned(cluster: ClusterSnapshot, pod: Pod, owner: Key) -> bool:
    """Whether it is the pod's owner, or owns that."""
    direct = pod.owner.key if pod.owner is not None else None
    above = cluster.owners.get(direct) if direct is not None else None
    return direct == owner or (above is not None and above.owner is not None and above.owner.key == owner)


def _group(cluster: ClusterSnapshot, key: Key) -> list[Pod]:
    return [
        pod
        for pod in cluster.pods.values()
        if pod.held is not None and pod.key.namespace == key.namespace and group_of(pod) == key.name
    ]


def _workload_of(cluster: ClusterSnapshot, owner: Key) -> Explanation | None:
    found = (one for one in cluster.workloads.values() if one.owner is not None and one.owner.key == owner)
    return next((explain(cluster, one) for one in found), None)


def _framework(key: Key) -> str:
    return _FRAMEWORKS[key.kind]


def _unsupported(key: Key) -> StateReport:
    name = _framework(key) if key.kind in _FRAMEWORKS else DEPLOYMENTS
    summary = f"is not managed: integrations.frameworks of the configuration has no {name}"
    return StateReport(WorkloadState.NOT_MANAGED, summary, (f"add {name} to integrations.frameworks",))


def _not_managed(cluster: ClusterSnapshot, key: Key, reason: NotManaged) -> StateReport:
    """It exists, and no queue manages it."""
    if reason is NotManaged.OWNER:
        return StateReport(WorkloadState.NOT_MANAGED, "is part of its owner, which waits for quota itself")
    if reason is NotManaged.NAMESPACE:
        summary = f"is not managed: managedJobsNamespaceSelector of the configuration excludes {key.namespace}"
        return StateReport(WorkloadState.NOT_MANAGED, summary)
    summary = f"is not managed by a queue: it has no label {QUEUE_NAME}"
    queues = sorted(one.name for one in cluster.objects.locals if one.namespace == key.namespace)
    if DEFAULT_QUEUE in queues:
        summary += f", and LocalQueue {DEFAULT_QUEUE} was not there, or no webhook answered, when it was created"
    listed = ", ".join(queues[:MOST_NAMED]) or "none"
    act = f"create it again with the label {QUEUE_NAME} (LocalQueues in namespace {key.namespace}: {listed})"
    return StateReport(WorkloadState.NOT_MANAGED, summary, (act,))


def _without_workload(cluster: ClusterSnapshot, job: GenericJob) -> StateReport:
    """It is managed and has no Workload: what keeps its controller from creating one."""
    if job.is_terminating:
        return StateReport(WorkloadState.DELETED, "is being deleted and has no Workload")
    if job.ending is not None:
        return StateReport(WorkloadState.FINISHED, f"has ended and has no Workload: {job.ending.message}")
    if job.problem:
        return StateReport(WorkloadState.INVALID, f"gets no Workload: {job.problem}")
    if Kind.PRIORITY_CLASS not in cluster.unreadable and isinstance(rank := cluster.classes.rank(job), str):
        return StateReport(WorkloadState.NO_CLASS, f"gets no Workload: {rank}", ("create it, or name one that exists",))
    if prebuilt := job.labels.get(PREBUILT_WORKLOAD):
        summary = f"waits for Workload {prebuilt}, which its label {PREBUILT_WORKLOAD} names and which does not exist"
        return StateReport(WorkloadState.NO_WORKLOAD, summary, (f"create Workload {prebuilt}",))
    if job.on_hold:
        return StateReport(WorkloadState.ON_HOLD, f"wants no quota: {job.on_hold}")
    doing = "runs without a Workload" if job.may_run else "has no Workload yet"
    return StateReport(
        WorkloadState.NO_WORKLOAD, f"{doing}: the controller that creates it has not seen it, or does not run"
    )


def _plain(cluster: ClusterSnapshot, key: Key, labels: Mapping[str, str], found: StateReport) -> Explanation:
    queue = labels.get(QUEUE_NAME, "")
    local = cluster.objects.locals.get(Key(Kind.LOCAL_QUEUE, key.namespace, queue))
    return Explanation(
        kind=KIND_NAMES[key.kind],
        workload=namespaced_name(key),
        state=found.state,
        summary=found.summary,
        local_queue=queue,
        cluster_queue=local.cluster_queue if local is not None else "",
        minimal_changes=tuple(MinimalChange(RequiredAction(act)) for act in found.actions),
    )
