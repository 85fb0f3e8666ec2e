"""Jobs and pods on a small Kubernetes, with the integrations at work and everyone else's part played by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headgate.api.install_manifests import queue_definitions
from headgate.api.kinds import object_path
from headgate.api.wire import format_time
from headgate.apiserver import INITIAL_OBJECTS, ApiServer, Request
from headgate.engine.integrations.plane import IntegrationsPlane
from headgate.engine.journal import Journal
from headgate.engine.planes import Plane
from headgate.engine.quota.plane import QuotaPlane
from headgate.model.effects import Create, EmitEvent, WakeAt
from headgate.model.events import Gone, Observed, Outcome, TimerFired, WriteError
from headgate.model.keys import Kind
from headgate.model.settings import FRAMEWORKS, QuotaSettings, Settings
from headgate.simulator.clients import perform
from headgate.simulator.observing import Feed

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
QUEUE = "kueue.x-k8s.io/queue-name"
GATE = "kueue.x-k8s.io/admission"
MANAGED = "kueue.x-k8s.io/managed"
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
WORKLOAD_CLASSES = f"{KUEUE}/workloadpriorityclasses"
CLUSTER_QUEUES = f"{KUEUE}/clusterqueues"
NODES = "/api/v1/nodes"
LOCAL_QUEUES = f"{KUEUE}/namespaces/default/localqueues"
OF_KUEUE = "kueue.x-k8s.io/v1beta2"
KINDS = {
    WORKLOADS: {"apiVersion": OF_KUEUE, "kind": "Workload"},
    WORKLOAD_CLASSES: {"apiVersion": OF_KUEUE, "kind": "WorkloadPriorityClass"},
    CLASSES: {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"},
}
ROUNDS = 30  # of one settling; who needs more runs in circles


class Integrations:
    """The plane and the server it writes to. `settle` lets it act until it has nothing left to do."""

    def __init__(self, *, with_quota: bool = False, **quota: Any) -> None:
        """`with_quota`: the quota plane works beside, and nothing is admitted by hand."""
        self._with_quota = with_quota
        self._bystander = 0  # how often someone else wrote just before us
        self.fault: Callable[[Any], WriteError | None] = lambda _: None  # what goes wrong with a write
        self.server = ApiServer(objects=(*INITIAL_OBJECTS, *queue_definitions()))
        self.settings = Settings(quota=QuotaSettings(**{"frameworks": FRAMEWORKS, **quota}))
        self.now = 1_000.0
        self.effects: list[Any] = []  # of the last settling
        self.restart()
        self.create(f"{KUEUE}/resourceflavors", flavor("default"))

    def restart(self) -> None:
        """A process that knows nothing but what the cluster holds."""
        self.journal = Journal()
        self.plane = IntegrationsPlane(self.settings, self.journal)
        self._planes: list[Plane] = [QuotaPlane(self.settings, self.journal)] if self._with_quota else []
        self._planes.append(self.plane)
        self._feed = Feed(self.server, dict.fromkeys(kind for plane in self._planes for kind in plane.reads))
        self._inbox: list[Any] = []
        self.alarms: list[WakeAt] = []

    # the plane's part

    def settle(self) -> Integrations:
        self.effects = []
        for _ in range(ROUNDS):
            made = self.step()
            self.effects += made
            if not made:
                return self
        raise AssertionError(f"still busy after {ROUNDS} rounds: {made}")

    def step(self) -> list[Any]:
        """One turn; what was written is heard of in the next."""
        events = [*self._inbox, *self._feed.poll()]
        self._inbox = []
        effects = [
            effect
            for event in events
            for plane in self._planes
            if _kind_of(event) in (None, *plane.reads)
            for effect in plane.absorb(event, self.now)
        ]
        for plane in self._planes:
            effects += plane.decide(self.now)
        for plane in self._planes:
            plane.check()
        self.alarms += [effect for effect in effects if isinstance(effect, WakeAt)]
        writes = [effect for effect in effects if not isinstance(effect, WakeAt)]
        self._inbox = [self._perform(write) for write in writes]
        return writes

    def _perform(self, write: Any) -> Outcome:
        match self.fault(write):
            case None:
                return perform(write, self.server, self.now)
            case WriteError.UNKNOWN:
                perform(write, self.server, self.now)
                return Outcome(write, WriteError.UNKNOWN, "the answer was lost")
            case WriteError.CONFLICT if not isinstance(write, Create):
                self._bystander += 1
                self.patch(object_path(write.target.key), metadata={"labels": {"example.com/by": str(self._bystander)}})
                return Outcome(write, WriteError.CONFLICT, "the object has been modified")
            case trouble:
                return Outcome(write, trouble, "trouble")

    def later(self, seconds: float) -> Integrations:
        self.now += seconds
        self._inbox.append(TimerFired("integrations"))
        return self.settle()

    @property
    def wakes(self) -> list[float]:
        """When it wants to be woken for more than a safety net."""
        return [alarm.at for alarm in self.alarms if not alarm.idle and alarm.at > self.now]

    @property
    def events(self) -> list[str]:
        return [effect.reason for effect in self.effects if isinstance(effect, EmitEvent)]

    @property
    def writes(self) -> list[str]:
        return [type(effect).__name__ for effect in self.effects if not isinstance(effect, EmitEvent)]

    def number(self, metric: str, **labels: str) -> int:
        wanted = tuple(sorted(labels.items()))
        return next((value for name, said, value in self.plane.collect() if (name, said) == (metric, wanted)), 0)

    # everyone else's part

    def ask(self, method: str, path: str, value: Any = None, content_type: str = "application/json") -> Any:
        body = b"" if value is None else msgspec.json.encode(value)
        answer = self.server.handle(Request(method, path, {}, body, content_type), self.now)
        assert answer.code < 300, answer.value
        return answer.value

    def create(self, path: str, manifest: Any) -> Any:
        """The kind may be left out: the path says it."""
        return self.ask("POST", path, {**KINDS.get(path, {}), **manifest})

    def patch(self, path: str, **change: Any) -> Any:
        return self.ask("PATCH", path, change, "application/merge-patch+json")

    def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.ask("GET", path)["items"]]

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def workload(self, name: str = "") -> Any:
        """The one Workload there is, or that of the name."""
        if name:
            return self.get(f"{WORKLOADS}/{name}")
        (only,) = self.ask("GET", WORKLOADS)["items"]
        return only

    def conditions(self, name: str = "") -> dict[str, tuple[str, str]]:
        found = self.workload(name).get("status", {}).get("conditions", [])
        return {each["type"]: (each["status"], each["reason"]) for each in found}

    def admit(self, name: str = "", flavor: str = "default", **counts: int) -> Integrations:
        """As the quota plane does, with fewer pods of the sets that are named."""
        found = self.workload(name)
        assignments = [
            {
                "name": each["name"],
                "flavors": {"cpu": flavor},
                "resourceUsage": {"cpu": str(counts.get(each["name"], each["count"]))},
                "count": counts.get(each["name"], each["count"]),
            }
            for each in found["spec"]["podSets"]
        ]
        admission = {"clusterQueue": "cq", "podSetAssignments": assignments}
        self.say(found, {"QuotaReserved": "True", "Admitted": "True", "Evicted": "False"}, admission=admission)
        return self.settle()

    def evict(self, name: str = "", reason: str = "Preempted") -> Integrations:
        self.say(self.workload(name), {"Evicted": "True"}, reason)
        return self.settle()

    def news(self) -> list[Any]:
        """What changed on the server since it was last looked at; the plane is not told."""
        return self._feed.poll()

    def say(self, found: Any, said: dict[str, str], reason: str = "", **fields: Any) -> None:
        kept = [each for each in found.get("status", {}).get("conditions", []) if each["type"] not in said]
        when = format_time(self.now)
        fresh = [
            {"type": name, "status": status, "reason": reason or name, "message": "said", "lastTransitionTime": when}
            for name, status in said.items()
        ]
        self.patch(f"{WORKLOADS}/{found['metadata']['name']}/status", status={"conditions": [*kept, *fresh], **fields})

    def job_status(self, name: str = "job", **status: Any) -> Integrations:
        self.patch(f"{JOBS}/{name}/status", status=status)
        return self.settle()

    def run(self, *pods: str, ready: bool = True) -> Integrations:
        """Bound, started and, unless said otherwise, ready."""
        for name in pods:
            self.ask(
                "POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}
            )
            conditions = [{"type": "Ready", "status": str(ready)}]
            self.patch(f"{PODS}/{name}/status", status={"phase": "Running", "conditions": conditions})
        return self.settle()

    def end(self, *pods: str, phase: str = "Succeeded") -> Integrations:
        for name in pods:
            self.patch(f"{PODS}/{name}/status", status={"phase": phase})
        return self.settle()

    def delete(self, path: str) -> Integrations:
        self.ask("DELETE", path)
        return self.settle()

    def free(self, name: str) -> bool:
        """Whether nothing of ours keeps the pod from running."""
        return not self.get(f"{PODS}/{name}")["spec"].get("schedulingGates")

    @property
    def decoded(self) -> dict[str, Any]:
        """What the plane has seen last, by name."""
        return {key.name: found for key, found in self._feed.objects.items()}


def _kind_of(event: Any) -> Kind | None:
    if isinstance(event, Observed):
        return event.object.key.kind
    return event.key.kind if isinstance(event, Gone) else None


def node(name: str, cpu: Any, ready: bool = True, labels: Any = None, **spec: Any) -> dict[str, Any]:
    status = {
        "allocatable": {"cpu": str(cpu), "memory": "8Gi", "pods": "20"},
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def cluster_queue(cpu: int, name: str = "cq", **spec: Any) -> dict[str, Any]:
    """Owns so much cpu of the flavor `default`, and takes work of all namespaces."""
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    whole = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    return {"apiVersion": OF_KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": whole}


def local_queue(name: str = "lq", cluster_queue: str = "cq") -> dict[str, Any]:
    spec = {"clusterQueue": cluster_queue}
    return {"apiVersion": OF_KUEUE, "kind": "LocalQueue", "metadata": {"name": name}, "spec": spec}


def flavor(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": OF_KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def pod_spec(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "example.com/image:1", "resources": {"requests": {"cpu": cpu}}}]
    return {"containers": containers, **spec}


def job(name: str = "job", parallelism: int = 1, completions: int | None = None, **fields: Any) -> dict[str, Any]:
    """Suspended, as our webhook leaves it."""
    labels = {QUEUE: "lq", **fields.pop("labels", {})}
    annotations, template = fields.pop("annotations", {}), fields.pop("template", {})
    spec = {
        "parallelism": parallelism,
        "completions": parallelism if completions is None else completions,
        "suspend": True,
        "template": {"spec": pod_spec(restartPolicy="Never", **template)},
        **fields,
    }
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def pod(name: str = "pod", **fields: Any) -> dict[str, Any]:
    """Gated, labelled and held on to, as our webhook leaves it."""
    labels = {QUEUE: "lq", MANAGED: "true", **fields.pop("labels", {})}
    metadata = {
        "name": name,
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": fields.pop("annotations", {}),
        "finalizers": fields.pop("finalizers", [MANAGED]),
    }
    spec = {"schedulingGates": [{"name": gate} for gate in fields.pop("gates", [GATE])], **pod_spec(**fields)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def member(name: str, total: int = 2, group: str = "group", **fields: Any) -> dict[str, Any]:
    annotations = {TOTAL: str(total), **fields.pop("annotations", {})}
    return pod(name, labels={GROUP: group, **fields.pop("labels", {})}, annotations=annotations, **fields)
