"""A fleet of three real kube-apiservers: a manager and two workers, with our processes under their own rights.

No Job controller runs, so the tests play its part where that matters: a Job has active pods when they say so.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from children import eventually, free_port
from cluster import OWN_NAMESPACE, Cluster
from conftest import Start
from installing import install
from kueue_worker import KueueWorker
from ours import OurProcess

Json = dict[str, Any]
SLOW_SECONDS = 2.0  # of each answer
TRIED_FOR = 10.0  # seconds that one cluster has to preempt before another may
CONFIGURATION = """
multiKueue: {singleClusterPreemptionTimeout: TIMEOUT, proposalWindow: 500ms}
"""
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: NS-flavor}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NS-queue}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  CHECKS
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: NS-flavor, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: NS}
spec: {clusterQueue: NS-queue}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: NS-urgent}
value: 1000
"""
CHECKS = "admissionChecksStrategy: {admissionChecks: [{name: NS-check}]}"
FLEET = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: NS-workers}
spec: {clusters: CLUSTERS}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: NS-check}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: NS-workers}
"""
WORKER = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: NS-NAME}
spec: {clusterSource: {kubeConfig: {location: NS-NAME, locationType: Secret}}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: NS, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  suspend: true
  EXTRA
  template:
    spec:
      restartPolicy: Never
      CLASS
      containers: [{name: c, image: registry.example/none, resources: {requests: {cpu: "CPU"}}}]
"""
MANAGED = "managedBy: kueue.x-k8s.io/multikueue"
OF_KUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: own-w2, namespace: NS}
spec:
  queueName: user-queue
  priority: 0
  podSets:
  - name: main
    count: 1
    template:
      spec:
        restartPolicy: Never
        containers: [{name: c, image: registry.example/none, resources: {requests: {cpu: "4"}}}]
"""


class Member:
    """One cluster of the fleet, in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def apply(self, text: str, **values: str) -> None:
        for name, value in {**values, "NS": self.namespace}.items():
            text = text.replace(name, value)
        self.cluster.kubectl("apply", "--filename=-", text=text)

    def submit(self, name: str, cpu: int = 4, extra: str = "", *, urgent: bool = False) -> None:
        chosen = "priorityClassName: NS-urgent" if urgent else ""
        self.apply(JOB, NAME=name, CPU=str(cpu), EXTRA=extra, CLASS=chosen)

    def list(self, kind: str) -> list[Json]:
        found = json.loads(self.cluster.kubectl("get", kind, f"--namespace={self.namespace}", "--output=json"))
        return list(found["items"])

    def workload(self, job: str) -> Json | None:
        return next((one for one in self.list("kwl") if f"-{job}-" in one["metadata"]["name"]), None)

    def status(self, job: str) -> Json:
        found = self.workload(job)
        return found.get("status", {}) if found is not None else {}

    def is_true(self, job: str, type_: str) -> bool:
        conditions = self.status(job).get("conditions", ())
        return any(one["type"] == type_ and one["status"] == "True" for one in conditions)

    def opened_at(self, job: str) -> float:
        """Since when the preemption gate of a clone is open."""
        [gate] = self.status(job)["preemptionGates"]
        assert gate["state"] == "Open"
        return datetime.fromisoformat(gate["lastTransitionTime"]).timestamp()

    def is_running(self, job: str) -> bool:
        found = [one for one in self.list("job") if one["metadata"]["name"] == job]
        return bool(found) and not found[0]["spec"].get("suspend")

    def patch_status(self, kind: str, name: str, status: Json) -> None:
        where = (f"--namespace={self.namespace}", "--subresource=status", "--type=merge")
        self.cluster.kubectl("patch", kind, name, *where, f"--patch={json.dumps({'status': status})}")

    def show_active(self, job: str, pods: int) -> None:
        """What the Job controller says."""
        self.patch_status("job", job, {"active": pods, "ready": 0, "startTime": "2026-01-01T00:00:00Z"})


class RealFleet:
    """A manager and its workers, with queues of four cpus in one namespace."""

    def __init__(self, manager: Cluster, workers: dict[str, Cluster], namespace: str) -> None:
        self.home = Member(manager, namespace)
        self.workers = {name: Member(cluster, namespace) for name, cluster in workers.items()}

    def begin(self) -> None:
        for worker in self.workers.values():
            worker.cluster.kubectl("create", "namespace", self.home.namespace)
            worker.apply(QUEUES, CHECKS="")
        self.home.apply(QUEUES, CHECKS=CHECKS)
        for name in self.workers:
            self.add(name, self.kubeconfig(name))

    def kubeconfig(self, name: str, port: int = 0) -> Json:
        """For the manager's account on a worker, all in one document; perhaps for another port."""
        cluster = self.workers[name].cluster
        document: Json = yaml.safe_load(cluster.kubeconfig_of_account(OWN_NAMESPACE, "manager").read_text())
        place = document["clusters"][0]["cluster"]
        place["certificate-authority-data"] = base64.b64encode(
            Path(place.pop("certificate-authority")).read_bytes()
        ).decode()
        if port:
            place["server"] = f"https://127.0.0.1:{port}"
        return document

    def add(self, name: str, kubeconfig: Json) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"kubeconfig": yaml.safe_dump(kubeconfig)}}
        metadata = {"name": f"{self.home.namespace}-{name}", "namespace": OWN_NAMESPACE}
        self.home.cluster.kubectl("apply", "--filename=-", text=json.dumps({**secret, "metadata": metadata}))
        self.home.apply(WORKER, NAME=name)

    def use(self, *names: str) -> None:
        self.home.apply(FLEET, CLUSTERS=json.dumps([f"{self.home.namespace}-{name}" for name in names]))

    def active(self, name: str) -> tuple[str, str]:
        """Status and reason of the condition Active of a MultiKueueCluster."""
        path = "--output=jsonpath={.status.conditions[0].status} {.status.conditions[0].reason}"
        shown = self.home.cluster.kubectl("get", "mkc", f"{self.home.namespace}-{name}", path)
        status, _, reason = shown.partition(" ")
        return status, reason

    def fill(self) -> None:
        """Each worker runs a Job of its own that takes all of its quota."""
        for name, worker in self.workers.items():
            worker.submit(f"own-{name}")
        for name, worker in self.workers.items():
            eventually(f"{name} is full", lambda: worker.is_running(f"own-{name}"))  # noqa: B023

    def preempting(self) -> list[str]:
        """The workers that have evicted their own Job."""
        return [name for name, worker in self.workers.items() if worker.is_true(f"own-{name}", "Evicted")]

    def running(self, job: str) -> list[str]:
        return [name for name, worker in self.workers.items() if worker.is_running(job)]

    def clear(self) -> None:
        namespace = self.home.namespace
        for member in (self.home, *self.workers.values()):
            member.cluster.kubectl("delete", "jobs,kwl", "--all", f"--namespace={namespace}", "--wait=false")
        fleet = ("mkc", *(f"{namespace}-{name}" for name in ("w1", "w2", "dead", "slow")), "--ignore-not-found")
        self.home.cluster.kubectl("delete", *fleet)


@pytest.fixture(scope="module")
def workers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cluster]]:
    """Two clusters beside the manager's, each with an account for it."""
    install(cluster, "--fleet")
    folders = {name: tmp_path_factory.mktemp(name) for name in ("w1", "w2")}
    with Cluster(folders["w1"], cluster) as first, Cluster(folders["w2"], cluster) as second:
        for worker in (first, second):
            install(worker)
            worker.kubectl("create", "serviceaccount", "manager", f"--namespace={OWN_NAMESPACE}")
            bound = ("--clusterrole=headgate-manager", f"--serviceaccount={OWN_NAMESPACE}:manager")
            worker.kubectl("create", "clusterrolebinding", "manager", *bound)
            worker.wait_until_allowed(
                worker.kubeconfig_of_account(OWN_NAMESPACE, "manager"), "watch workloads.kueue.x-k8s.io"
            )
        yield {"w1": first, "w2": second}


@pytest.fixture
def fleet(cluster: Cluster, workers: dict[str, Cluster], namespace: str) -> Iterator[RealFleet]:
    made = RealFleet(cluster, workers, namespace)
    try:
        made.begin()
        yield made
    finally:
        made.clear()


@pytest.fixture
def run(start: Start, fleet: RealFleet, tmp_path: Path) -> Any:
    """Starts the processes of these workers, then the manager's; returns the latter."""

    def started(*names: str, timeout: str = "5m") -> OurProcess:
        config = tmp_path / "headgate.yaml"
        config.write_text(CONFIGURATION.replace("TIMEOUT", timeout))
        ours = ("--no-leader-elect", "--lease-namespace", OWN_NAMESPACE, "--config", str(config))
        for name in names or fleet.workers:
            account = fleet.workers[name].cluster.kubeconfig_of_own_account()
            start("--roles", "quota,integrations", *ours, kubeconfig=account)
        return start("--roles", "quota,integrations,fleet", *ours)

    return started


@asynccontextmanager
async def slow_path_to(port: int) -> AsyncIterator[int]:
    """A port that leads to another one, from where every answer takes two seconds more."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
        while data := await reader.read(65536):
            await asyncio.sleep(seconds)
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(forward(reader, back, 0.0), forward(there, writer, SLOW_SECONDS), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_a_slow_and_a_dead_cluster_delay_neither_the_start_nor_the_others(fleet: RealFleet, run: Any) -> None:
    async with slow_path_to(fleet.workers["w2"].cluster.port) as slow:
        fleet.add("dead", fleet.kubeconfig("w1", free_port()))
        fleet.add("slow", fleet.kubeconfig("w2", slow))
        fleet.use("dead", "slow", "w1")
        fleet.home.submit("it", extra=MANAGED)
        process = await asyncio.to_thread(run)

        def story() -> None:
            eventually("it is ready", lambda: process.answers("/readyz"))
            eventually("w1 runs it", lambda: fleet.running("it") == ["w1"])
            chosen = f"{fleet.home.namespace}-w1"
            eventually("that is said at home", lambda: fleet.home.status("it").get("clusterName") == chosen)
            eventually("the dead one shows why", lambda: fleet.active("dead") == ("False", "ClientConnectionFailed"))
            eventually("the slow one is connected, too", lambda: fleet.active("slow") == ("True", "Active"))

        await asyncio.to_thread(story)


def test_of_two_full_clusters_exactly_one_preempts(fleet: RealFleet, run: Any) -> None:
    fleet.use("w1", "w2")
    run()
    fleet.fill()
    fleet.home.submit("urgent", extra=MANAGED, urgent=True)
    [winner] = eventually("one runs it", lambda: fleet.running("urgent"))
    [other] = set(fleet.workers) - {winner}
    assert fleet.preempting() == [winner]
    eventually("the other's clone is gone", lambda: fleet.workers[other].workload("urgent") is None)
    assert fleet.workers[other].is_running(f"own-{other}")
    eventually("it is admitted at home", lambda: fleet.home.is_true("urgent", "Admitted"))
    told = ("get", "events", f"--namespace={fleet.home.namespace}")
    opened = "PreemptionGateOpened"
    events = eventually("that a gate was opened is told", lambda: _with(opened, fleet.home.cluster.kubectl(*told)))
    assert events.count(opened) == 1


def _with(word: str, text: str) -> str:
    return text if word in text else ""


def test_where_one_cluster_fits_none_preempts(fleet: RealFleet, run: Any) -> None:
    fleet.use("w1", "w2")
    run()
    fleet.workers["w1"].submit("own-w1")
    eventually("w1 is full", lambda: fleet.workers["w1"].is_running("own-w1"))
    fleet.home.submit("urgent", extra=MANAGED, urgent=True)
    assert eventually("one runs it", lambda: fleet.running("urgent")) == ["w2"]
    eventually("w1's clone is gone", lambda: fleet.workers["w1"].workload("urgent") is None)
    assert fleet.preempting() == []
    assert fleet.workers["w1"].is_running("own-w1")


def test_a_preemption_that_fails_lets_the_next_cluster_try_after_the_timeout(fleet: RealFleet, run: Any) -> None:
    fleet.use("w1", "w2")
    run(timeout=f"{TRIED_FOR:.0f}s")
    fleet.fill()
    for name, worker in fleet.workers.items():
        worker.show_active(f"own-{name}", 1)  # a pod that does not leave
    fleet.home.submit("urgent", extra=MANAGED, urgent=True)
    eventually("one preempts, and then the other", lambda: sorted(fleet.preempting()) == sorted(fleet.workers))
    opened = {worker.opened_at("urgent"): name for name, worker in fleet.workers.items()}
    assert max(opened) - min(opened) >= TRIED_FOR
    second = opened[max(opened)]
    fleet.workers[second].show_active(f"own-{second}", 0)
    assert eventually("it runs there", lambda: fleet.running("urgent")) == [second]


def test_a_worker_with_kueues_scheduler_signals_is_allowed_to_preempt_and_runs_it(fleet: RealFleet, run: Any) -> None:
    """The other worker is ours, and full of work that is as urgent."""
    fleet.use("w1", "w2")
    run("w1")
    ours, theirs = fleet.workers["w1"], fleet.workers["w2"]
    ours.submit("own-w1", urgent=True)
    eventually("w1 is full", lambda: ours.is_running("own-w1"))
    theirs.apply(OF_KUEUE)
    with KueueWorker(theirs) as kueue:
        eventually("w2 is full", lambda: kueue.admitted == ["own-w2"])
        fleet.home.submit("urgent", extra=MANAGED, urgent=True)
        chosen = f"{fleet.home.namespace}-w2"
        eventually("it is admitted there", lambda: fleet.home.status("urgent").get("clusterName") == chosen)
        assert kueue.evicted == ["own-w2"]
        eventually("its Job is there", lambda: [one["metadata"]["name"] for one in theirs.list("job")] == ["urgent"])
        eventually("the clone of ours is gone", lambda: ours.workload("urgent") is None)
    assert ours.is_running("own-w1")
