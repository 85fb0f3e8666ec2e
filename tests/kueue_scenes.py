"""A small cluster as Kueue 0.19 leaves it: queues of two teams, and workloads with the statuses that it writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
API = "kueue.x-k8s.io/v1beta2"
AT = "2026-03-01T09:00:00Z"


def condition(type_: str, status: bool, reason: str, message: str = "", at: str = AT) -> Json:
    told = {"type": type_, "status": str(status), "reason": reason, "message": message}
    return {**told, "lastTransitionTime": at, "observedGeneration": 1}


def queued(queue: str) -> tuple[Json, ...]:
    """The conditions of a workload that was admitted."""
    return (
        condition("QuotaReserved", True, "QuotaReserved", f"Quota reserved in ClusterQueue {queue}"),
        condition("Admitted", True, "Admitted", "The workload is admitted"),
    )


def template(cpu: str) -> Json:
    container = {"name": "c", "image": "registry.example/none", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}


class KueueScene:
    """`ns` is the namespace; the names of what belongs to no namespace begin with it."""

    def __init__(self, ns: str) -> None:
        self.ns = ns

    def objects(self) -> list[Json]:
        """In the order they can be created; owners of workloads must be there before."""
        return [
            self._flavor(),
            self._check(),
            self._queue("a", "4", {"borrowingLimit": "2"}, checks=[f"{self.ns}-check"]),
            self._queue("b", "6", {}),
            self._local("a"),
            self._local("b"),
            *self._workloads(),
        ]

    def jobs(self) -> list[Json]:
        return [self._job("wait", 2, "2"), self._job("render", 3, "1")]

    def _workloads(self) -> list[Json]:
        gone = condition("Finished", True, "Succeeded", "Job finished successfully")
        waiting = condition("QuotaReserved", False, "WaitingForQuota", "couldn't assign flavors to pod set main")
        half = {"reclaimablePods": [{"name": "main", "count": 1}]}
        checked = {"admissionChecks": [self._state("Pending")]}
        return [
            self._workload("job-train", "b", 1, "5", 100, conditions=queued(self.queue("b"))),
            self._workload("job-done", "b", 1, "6", 0, conditions=[*queued(self.queue("b")), gone]),
            self._workload(
                "job-render", "a", 3, "1", 50, conditions=queued(self.queue("a")), status=half, job="render"
            ),
            self._workload("job-checked", "a", 1, "1", 70, conditions=queued(self.queue("a"))[:1], status=checked),
            self._workload("job-wait", "a", 2, "2", 50, conditions=[waiting], job="wait"),
        ]

    def queue(self, team: str) -> str:
        return f"{self.ns}-{team}"

    def _state(self, state: str) -> Json:
        return {"name": f"{self.ns}-check", "state": state, "message": "on its way", "lastTransitionTime": AT}

    def _flavor(self) -> Json:
        return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": f"{self.ns}-flavor"}, "spec": {}}

    def _check(self) -> Json:
        active = condition("Active", True, "Active", "The admission check is active")
        return {
            "apiVersion": API,
            "kind": "AdmissionCheck",
            "metadata": {"name": f"{self.ns}-check"},
            "spec": {"controllerName": "example.com/check"},
            "status": {"conditions": [active]},
        }

    def _queue(self, team: str, cpu: str, limits: Json, checks: Sequence[str] = ()) -> Json:
        resources = [{"name": "cpu", "nominalQuota": cpu, **limits}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": f"{self.ns}-flavor", "resources": resources}]}
        preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"}
        spec: Json = {"cohortName": f"{self.ns}-all", "namespaceSelector": {}, "preemption": preemption}
        if checks:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
        ready = condition("Active", True, "Ready", "Can admit new workloads")
        return {
            "apiVersion": API,
            "kind": "ClusterQueue",
            "metadata": {"name": self.queue(team)},
            "spec": {**spec, "resourceGroups": [group]},
            "status": {"conditions": [ready]},
        }

    def _local(self, team: str) -> Json:
        return {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": f"user-{team}", "namespace": self.ns},
            "spec": {"clusterQueue": self.queue(team)},
        }

    def _job(self, name: str, pods: int, cpu: str) -> Json:
        labels = {"kueue.x-k8s.io/queue-name": "user-a"}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": self.ns, "labels": labels},
            "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": template(cpu)},
        }

    def _workload(
        self, name: str, team: str, pods: int, cpu: str, priority: int, *, conditions: Sequence[Json], job: str = "",
        status: Json | None = None,
    ) -> Json:  # fmt: skip
        reserved = any(one["type"] == "QuotaReserved" and one["status"] == "True" for one in conditions)
        total = str(pods * int(cpu))
        assigned = {
            "name": "main",
            "flavors": {"cpu": f"{self.ns}-flavor"},
            "resourceUsage": {"cpu": total},
            "count": pods,
        }
        told: Json = {"conditions": list(conditions), **(status or {})}
        if reserved:
            told["admission"] = {"clusterQueue": self.queue(team), "podSetAssignments": [assigned]}
        else:
            told["resourceRequests"] = [{"name": "main", "resources": {"cpu": total}}]
        metadata: Json = {"name": name, "namespace": self.ns, "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
        if job:
            metadata["ownerReferences"] = [{"job": job}]  # completed once the job is there
        sets = [{"name": "main", "count": pods, "template": template(cpu)}]
        spec = {"active": True, "queueName": f"user-{team}", "priority": priority, "podSets": sets}
        return {"apiVersion": API, "kind": "Workload", "metadata": metadata, "spec": spec, "status": told}


def owned(manifest: Json, uids: dict[str, str]) -> Json:
    """The manifest with its owner as a server wants it, by the uids of the jobs that are there."""
    owners = [_controller(one["job"], uids[one["job"]]) for one in manifest["metadata"].get("ownerReferences", ())]
    return {**manifest, "metadata": {**manifest["metadata"], **({"ownerReferences": owners} if owners else {})}}


def _controller(job: str, uid: str) -> Json:
    named = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid}
    return {**named, "controller": True, "blockOwnerDeletion": True}
