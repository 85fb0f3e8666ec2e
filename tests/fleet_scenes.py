"""A manager cluster and its workers, each a small Kubernetes with our engine, and Jobs that run by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from integration_scenes import CLUSTER_QUEUES, JOBS, KUEUE, LOCAL_QUEUES, cluster_queue, flavor, job, local_queue

from headgate.api.install_manifests import queue_definitions
from headgate.api.wire import format_time
from headgate.apiserver import INITIAL_OBJECTS, ApiServer, Request
from headgate.engine.loop import Engine, Raised
from headgate.engine.quarantine import GuardedEngine, Quarantine
from headgate.model.effects import Connect, Disconnect, EmitEvent, RemoteWrite, WakeAt
from headgate.model.events import (
    Gone,
    Observed,
    Outcome,
    RemoteConnection,
    RemoteEvent,
    RemoteState,
    TimerFired,
    WriteError,
)
from headgate.model.keys import Kind
from headgate.model.kueue_names import MULTIKUEUE, MULTIKUEUE_ORIGIN
from headgate.model.settings import FRAMEWORKS, MultiKueueSettings, QuotaSettings, Role, Settings
from headgate.simulator.clients import perform
from headgate.simulator.observing import Feed

ROUNDS = 60  # of one settling; who needs more runs in circles
START = 1_000_000.0
CONFIGS, CLUSTERS = f"{KUEUE}/multikueueconfigs", f"{KUEUE}/multikueueclusters"
CHECKS, FLAVORS = f"{KUEUE}/admissionchecks", f"{KUEUE}/resourceflavors"
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
OF_KUEUE = "kueue.x-k8s.io/v1beta2"
RUNS = frozenset({Role.QUOTA, Role.INTEGRATIONS})
Fault = Callable[[str, Any], str]
"""What happens to a write on a cluster: empty, or before, after, lost, conflict."""


class Crash(Exception):
    """Our process at home is gone."""


class Cluster:
    """One cluster and the engine on it. Jobs that are not suspended have their pods at once, until they are ended."""

    def __init__(
        self, name: str, roles: frozenset[Role], clock: Callable[[], float], fleet: MultiKueueSettings
    ) -> None:
        self.name, self._clock = name, clock
        self.server = ApiServer(objects=(*INITIAL_OBJECTS, *queue_definitions()))
        quota = QuotaSettings(frameworks=FRAMEWORKS, preemption_gates=True)
        self.settings = Settings(quota=quota, multikueue=fleet, roles=roles)
        self.effects: list[Any] = []  # all since the start
        self.create(FLAVORS, flavor("default"))
        self.start()

    def start(self) -> None:
        """A process that knows nothing but what the cluster holds."""
        self.engine: Engine | GuardedEngine = Engine(self.settings)
        self.feed = Feed(self.server, self.engine.reads)
        self.inbox: list[Any] = []
        self.timers: dict[str, float] = {}

    def step(self, *told: Any) -> list[Any]:
        batch = [*self.inbox, *self.feed.poll(), *told]
        self.inbox = []
        if not batch:
            return []
        effects = self.engine.step(batch, self._clock())
        for effect in effects:
            if isinstance(effect, WakeAt):
                self.timers[effect.timer] = min(effect.at, self.timers.get(effect.timer, effect.at))
        made = [effect for effect in effects if not isinstance(effect, WakeAt)]
        self.effects += made
        return made

    def fire(self) -> None:
        for timer in [timer for timer, at in self.timers.items() if at <= self._clock()]:
            del self.timers[timer]
            self.inbox.append(TimerFired(timer))

    def run_jobs(self) -> None:
        """What the Job controller and kubelets do, for Jobs that no other controller runs."""
        for found in self.list(JOBS):
            spec, status = found["spec"], found.get("status", {})
            ended = any(each["type"] in ("Complete", "Failed") for each in status.get("conditions", []))
            if spec.get("managedBy") or ended:
                continue
            pods, when = spec["parallelism"], format_time(self._clock())
            if spec.get("suspend"):
                wanted = {"active": 0, "ready": 0, "startTime": None}
                wanted["conditions"] = [{"type": "Suspended", "status": "True", "lastTransitionTime": when}]
            else:
                wanted = {"active": pods, "ready": pods, "startTime": status.get("startTime") or when, "conditions": []}
            shown = status.get("active", 0), bool(status.get("conditions"))
            if shown != (wanted["active"], bool(wanted["conditions"])):
                self.patch(f"{JOBS}/{found['metadata']['name']}/status", status=wanted)

    # everyone else's part

    def ask(self, method: str, path: str, value: Any = None, content_type: str = "application/json") -> Any:
        body = b"" if value is None else msgspec.json.encode(value)
        answer = self.server.handle(Request(method, path, {}, body, content_type), self._clock())
        assert answer.code < 300, answer.value
        return answer.value

    def create(self, path: str, manifest: Any) -> Any:
        return self.ask("POST", path, manifest)

    def patch(self, path: str, **change: Any) -> Any:
        return self.ask("PATCH", path, change, "application/merge-patch+json")

    def delete(self, path: str) -> None:
        self.ask("DELETE", path)

    def list(self, path: str) -> list[Any]:
        return list(self.ask("GET", path)["items"])

    def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.list(path)]

    def workload(self, name: str = "job") -> Any:
        """The Workload of the Job or pod of that name; None where there is none."""
        found = [each for each in self.list(WORKLOADS) if f"-{name}-" in each["metadata"]["name"]]
        return found[0] if found else None

    def conditions(self, name: str = "job") -> dict[str, str]:
        found = self.workload(name) or {}
        return {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", [])}

    def job(self, name: str = "job") -> Any:
        found = [each for each in self.list(JOBS) if each["metadata"]["name"] == name]
        return found[0] if found else None

    def runs(self, name: str = "job") -> bool:
        found = self.job(name)
        return found is not None and bool(found.get("status", {}).get("active")) and not found["spec"].get("managedBy")

    def end(self, name: str = "job", kind: str = "Complete") -> None:
        when, found = format_time(self._clock()), self.job(name)
        before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
        conditions = [{"type": each, "status": "True", "lastTransitionTime": when} for each in (before, kind)]
        done = {"completionTime": when} if kind == "Complete" else {}
        count = {"succeeded" if kind == "Complete" else "failed": found["spec"]["parallelism"]}
        status = {"active": 0, "ready": 0, "conditions": conditions, **done, **count}
        self.patch(f"{JOBS}/{name}/status", status=status)


class Remote:
    """The manager's connection to one worker: its objects with our label, and whether it can be reached."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.feed = Feed(cluster.server, (Kind.KUEUE_WORKLOAD, Kind.JOB, Kind.STATEFUL_SET, Kind.POD))
        self._known: dict[Any, str] = {}
        self.is_told = False

    def poll(self, origin: str) -> Iterator[Any]:
        for change in self.feed.poll():
            if isinstance(change, Observed) and change.object.labels.get(MULTIKUEUE_ORIGIN) == origin:
                self._known[change.object.key] = change.object.uid
                yield RemoteEvent(self.cluster.name, change)
            elif isinstance(change, Gone) and self._known.pop(change.key, "") == change.uid:
                yield RemoteEvent(self.cluster.name, change)
        if not self.is_told:
            self.is_told = True
            yield RemoteConnection(self.cluster.name, RemoteState.CONNECTED, "Active", "Connected")


class Fleet:
    """A manager with a queue that dispatches to its workers, in the order they are named, with so many cpus each."""

    def __init__(self, workers: dict[str, int], *, home_cpu: int = 100, **settings: Any) -> None:
        self.now = START
        self.fleet = MultiKueueSettings(**settings)
        self.home = Cluster("", RUNS | {Role.FLEET}, lambda: self.now, self.fleet)
        self.workers = {name: Cluster(name, RUNS, lambda: self.now, self.fleet) for name in workers}
        self.cut_off: set[str] = set()
        self.remotes: dict[str, Remote] = {}
        self.fault: Fault = lambda cluster, write: ""
        self.watch: Callable[[], None] = lambda: None  # called after every write
        for name, cpu in workers.items():
            self.workers[name].create(CLUSTER_QUEUES, cluster_queue(cpu, preemption=PREEMPTS))
            self.workers[name].create(LOCAL_QUEUES, local_queue())
        self._set_up_home(home_cpu)

    def _set_up_home(self, cpu: int) -> None:
        for name in self.workers:
            source = {"clusterSource": {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}}
            self.home.create(CLUSTERS, _of_kueue("MultiKueueCluster", name, source))
        self.home.create(CONFIGS, _of_kueue("MultiKueueConfig", "all", {"clusters": list(self.workers)}))
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
        check = {"controllerName": MULTIKUEUE, "parameters": parameters}
        self.home.create(CHECKS, _of_kueue("AdmissionCheck", "fleet", check))
        checks = {"admissionChecks": [{"name": "fleet"}]}
        self.home.create(CLUSTER_QUEUES, cluster_queue(cpu, admissionChecksStrategy=checks))
        self.home.create(LOCAL_QUEUES, local_queue())

    # time

    def settle(self) -> Fleet:
        """Until nobody has anything to do at this time."""
        for _ in range(ROUNDS):
            if not self.round():
                return self
        raise AssertionError(f"still busy after {ROUNDS} rounds: {self.home.effects[-6:]}")

    def round(self) -> bool:
        busy = False
        for cluster in self.workers.values():
            cluster.run_jobs()
            made = cluster.step()
            for write in made:
                cluster.inbox.append(perform(write, cluster.server, self.now))
                self.watch()
            busy = busy or bool(made) or bool(cluster.inbox)
        return self._home_round() or busy

    def _home_round(self) -> bool:
        told = [
            each for name, remote in self.remotes.items() if name not in self.cut_off for each in self._poll(remote)
        ]
        made = self.home.step(*told)
        try:
            for effect in made:
                self._perform(effect)
                self.watch()
        except Crash:
            self.restart()
        return bool(made) or bool(self.home.inbox) or bool(told)

    def _poll(self, remote: Remote) -> list[Any]:
        return list(remote.poll(self.fleet.origin))

    def _perform(self, effect: Any) -> None:
        match effect:
            case Connect(name):
                self.remotes[name] = Remote(self.workers[name])
                if name in self.cut_off:
                    self._tell_lost(name)
            case Disconnect(name):
                self.remotes.pop(name, None)
            case RemoteWrite(name, write):
                outcome = self._tried(name, write)
                self.home.inbox.append(RemoteEvent(name, outcome))
            case EmitEvent():
                perform(effect, self.home.server, self.now)
            case _:
                self.home.inbox.append(self._tried("", effect))

    def _tried(self, name: str, write: Any) -> Outcome:
        if name in self.cut_off or (name and name not in self.remotes):
            return Outcome(write, WriteError.UNAVAILABLE, "the cluster cannot be reached")
        server = self.workers[name].server if name else self.home.server
        match self.fault(name, write):
            case "before":
                raise Crash
            case "after":
                perform(write, server, self.now)
                raise Crash
            case "lost":
                perform(write, server, self.now)
                return Outcome(write, WriteError.UNKNOWN, "the answer was lost")
            case "conflict":
                return Outcome(write, WriteError.CONFLICT, "the object has been modified")
            case _:
                return perform(write, server, self.now)

    def later(self, seconds: float) -> Fleet:
        """Time passes, timer by timer."""
        until = self.now + seconds
        while True:
            self.settle()
            clusters = (self.home, *self.workers.values())
            due = [at for cluster in clusters for at in cluster.timers.values() if at <= until]
            if not due:
                self.now = until
                return self.settle()
            self.now = max(self.now, min(due))
            for cluster in clusters:
                cluster.fire()

    # what happens

    def restart(self) -> Fleet:
        self.remotes = {}
        self.home.start()
        return self

    def cut(self, name: str) -> Fleet:
        """The worker goes on by itself, and nobody hears of it."""
        self.cut_off.add(name)
        if name in self.remotes:
            self._tell_lost(name)
        return self

    def heal(self, name: str) -> Fleet:
        self.cut_off.discard(name)
        if name in self.remotes:
            self.remotes[name].is_told = False
        return self

    def _tell_lost(self, name: str) -> None:
        message = "the connection was refused"
        self.home.inbox.append(RemoteConnection(name, RemoteState.LOST, "ClientConnectionFailed", message))

    def submit(self, name: str = "job", cpu: int = 1, **fields: Any) -> Fleet:
        """A Job whose one pod wants so many cpus."""
        manifest = job(name, managedBy=MULTIKUEUE, **fields)
        manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cpu)
        self.home.create(JOBS, manifest)
        return self

    def occupy(self, worker: str, name: str, cpu: int, **fields: Any) -> Fleet:
        """A Job of the worker's own."""
        manifest = job(name, **fields)
        manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cpu)
        self.workers[worker].create(JOBS, manifest)
        return self

    # what can be seen

    def running(self, name: str = "job") -> list[str]:
        return [each for each, cluster in self.workers.items() if cluster.runs(name)]

    def check(self, name: str = "job") -> tuple[str, str]:
        """State and message of the check of the Workload at home."""
        (found,) = self.home.workload(name)["status"]["admissionChecks"]
        return found["state"], found.get("message", "")

    def replicas(self, name: str = "job") -> list[str]:
        return [each for each, cluster in self.workers.items() if cluster.workload(name) is not None]

    def open_gates(self, name: str = "job") -> list[str]:
        found = {each: cluster.workload(name) for each, cluster in self.workers.items()}
        return [each for each, workload in found.items() if workload is not None and _is_open(workload)]


class GuardedFleet(Fleet):
    """The manager runs with a quarantine, as a process does."""

    def __init__(self, workers: dict[str, int], **settings: Any) -> None:
        self.quarantine, self.rebuilt = Quarantine(), 0
        super().__init__(workers, **settings)
        self._guard()

    def _guard(self) -> None:
        def fresh() -> Engine:
            return Engine(self.home.settings)

        self.home.engine = GuardedEngine(fresh, self.quarantine, fresh)

    def restart(self) -> Fleet:
        super().restart()
        self._guard()
        return self

    def _home_round(self) -> bool:
        try:
            return super()._home_round()
        except Raised as raised:
            assert isinstance(self.home.engine, GuardedEngine)
            for _ in self.home.engine.find(raised, self.now):
                pass
            self.rebuilt += 1
            self.restart()
            return True


PREEMPTS = {"withinClusterQueue": "LowerPriority"}


def _is_open(workload: Any) -> bool:
    gates = workload.get("status", {}).get("preemptionGates", [])
    return any(gate["name"] == MULTIKUEUE and gate.get("state") == "Open" for gate in gates)


def _of_kueue(kind: str, name: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": OF_KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}
