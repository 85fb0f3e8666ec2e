"""A worker cluster whose scheduler is Kueue's own: it decides on the objects of a real server, and we write what its
controllers would. Gates and conditions go by Kueue's names only.
"""

from __future__ import annotations

import copy
import json
import threading
from typing import Any, Protocol

from kueue.kueue_oracle import oracle, their_answers

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
OLD = "1970-01-02T00:00:00Z"  # before the time at which their scheduler is played
GATED = "Workload requires preemption, but it's gated"
PAUSE = 0.2  # seconds between two looks


class Worker(Protocol):
    """The cluster, in the one namespace that it schedules."""

    @property
    def namespace(self) -> str: ...

    def list(self, kind: str) -> list[Json]: ...

    def patch_status(self, kind: str, name: str, status: Json) -> None: ...


class KueueWorker:
    """Looks and writes, again and again, while the context lasts."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._stopped = worker, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.admitted: list[str] = []
        self.evicted: list[str] = []
        self.trouble: Exception | None = None

    def __enter__(self) -> KueueWorker:
        oracle()  # built before anybody waits for what it answers
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        if self.trouble is not None:
            raise self.trouble

    def _run(self) -> None:
        try:
            while not self._stopped.wait(PAUSE):
                self._look()
        except Exception as trouble:
            self.trouble = trouble

    def _look(self) -> None:
        there = {one["metadata"]["name"]: one for one in self._worker.list("kwl")}
        for name, workload in there.items():
            self._show_gates(name, workload)
        namespace = self._worker.namespace
        [queue] = [one for one in self._worker.list("cq") if one["metadata"]["name"] == f"{namespace}-queue"]
        flavors = [
            one for one in self._worker.list("resourceflavors") if one["metadata"]["name"] == f"{namespace}-flavor"
        ]
        pending = [name for name, one in there.items() if not _is_true(one, "QuotaReserved")]
        if not pending:
            return
        world = {
            "flavors": flavors,
            "cohorts": [],
            "queues": [queue],
            "workloads": [_as_played(one, queue["metadata"]["name"]) for one in there.values()],
        }
        for cycle in their_answers([world], rounds=1, cycles=1)[0][0]:
            for outcome in cycle["outcomes"]:
                self._write(outcome, there, queue["metadata"]["name"])

    def _show_gates(self, name: str, workload: Json) -> None:
        wanted = [one["name"] for one in workload["spec"].get("preemptionGates", ())]
        shown = [one["name"] for one in workload.get("status", {}).get("preemptionGates", ())]
        if wanted and not shown:
            closed = [{"name": one, "position": "Closed", "lastTransitionTime": NOW} for one in wanted]
            self._worker.patch_status("kwl", name, {"preemptionGates": closed})

    def _write(self, outcome: Json, there: dict[str, Json], queue: str) -> None:
        name = outcome["workload"]
        if outcome["admitted"]:
            self.admitted.append(name)
            self._worker.patch_status("kwl", name, _admitted(there[name], outcome, queue))
        elif outcome.get("victims"):
            for victim in outcome["victims"]:
                self.evicted.append(victim)
                evicted = [_condition("Evicted", "True", "Preempted"), _condition("QuotaReserved", "False", "Pending")]
                self._worker.patch_status("kwl", victim, {"conditions": evicted, "admission": None})
        else:
            refused = [_condition("QuotaReserved", "False", outcome["reason"], outcome["message"])]
            if outcome["message"] == GATED:
                refused.append(_condition("BlockedOnPreemptionGates", "True", "PreemptionGated", GATED))
            if not _has(there[name], refused):
                self._worker.patch_status("kwl", name, {"conditions": refused})


def _as_played(workload: Json, queue: str) -> Json:
    """In the namespace and the queue that their scheduler is played with, and old enough for it."""
    played = copy.deepcopy(workload)
    played["metadata"] |= {"namespace": "default", "creationTimestamp": OLD}
    played["metadata"].pop("managedFields", None)
    played["spec"]["queueName"] = queue
    for one in played.get("status", {}).get("conditions", ()):
        one["lastTransitionTime"] = OLD
    return played


def _admitted(workload: Json, outcome: Json, queue: str) -> Json:
    given = []
    for pod_set in workload["spec"]["podSets"]:
        name, count = pod_set["name"], outcome["counts"][pod_set["name"]]
        requests = pod_set["template"]["spec"]["containers"][0]["resources"]["requests"]
        usage = {resource: str(int(amount) * count) for resource, amount in requests.items()}
        flavors = outcome["flavors"][name]
        given.append({"name": name, "flavors": flavors, "count": count, "resourceUsage": usage})
    conditions = [
        _condition("QuotaReserved", "True", "QuotaReserved"),
        _condition("Admitted", "True", "Admitted"),
        _condition("BlockedOnPreemptionGates", "False", "QuotaReserved"),
    ]
    return {"admission": {"clusterQueue": queue, "podSetAssignments": given}, "conditions": conditions}


def _condition(type_: str, status: str, reason: str, message: str = "") -> Json:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


def _is_true(workload: Json, type_: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(one["type"] == type_ and one["status"] == "True" for one in conditions)


def _has(workload: Json, wanted: list[Json]) -> bool:
    shown = workload.get("status", {}).get("conditions", ())
    told = {json.dumps([one["type"], one["status"], one["reason"]]) for one in shown}
    return all(json.dumps([one["type"], one["status"], one["reason"]]) in told for one in wanted)
