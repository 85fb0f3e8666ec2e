"""Whole processes on small clusters over HTTPS: a manager, two workers, one that never answers and one that is dead."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner
from fleet_scenes import CHECKS, CLUSTERS, CONFIGS, FLAVORS, PREEMPTS
from integration_scenes import CLUSTER_QUEUES, LOCAL_QUEUES, cluster_queue, flavor, job, local_queue
from scripted_server import unused_port
from served_cluster import JOBS, NAMESPACE, WORKLOADS, ServedCluster, served
from test_live_pages import ask
from test_live_service import port_in, process

from headgate.live.http_server import Listen
from headgate.live.kubeconfig import worker_access
from headgate.live.service import RunPlan
from headgate.model.kueue_names import MULTIKUEUE
from headgate.model.settings import FRAMEWORKS, MultiKueueSettings, QuotaSettings, Role, Settings
from headgate.ui.cli import main

OF_WORKERS = frozenset({Role.QUOTA, Role.INTEGRATIONS})


class SmallFleet:
    """A manager and its workers, whose processes run while the context lasts."""

    def __init__(self, home: ServedCluster, workers: dict[str, ServedCluster]) -> None:
        self.home, self.workers = home, workers
        self._changed = asyncio.Event()
        for cluster in (home, *workers.values()):
            cluster.changed = self._changed

    async def until(self, holds) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    def set_up(self, fleet: dict[str, bytes], cpus: int = 4) -> None:
        """Worker clusters of these kubeconfigs, and a queue whose workloads run there."""
        for name, kubeconfig in fleet.items():
            self.home.keep_kubeconfig(name, kubeconfig)
            spec = {"clusterSource": {"kubeConfig": {"location": name}}}
            self.home.ask("POST", CLUSTERS, _of_kueue("MultiKueueCluster", name, spec))
        self.home.ask("POST", CONFIGS, _of_kueue("MultiKueueConfig", "all", {"clusters": list(fleet)}))
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
        check = {"controllerName": MULTIKUEUE, "parameters": parameters}
        self.home.ask("POST", CHECKS, _of_kueue("AdmissionCheck", "fleet", check))
        checks = {"admissionChecks": [{"name": "fleet"}]}
        queues = {self.home: cluster_queue(100, admissionChecksStrategy=checks)}
        queues |= {worker: cluster_queue(cpus, preemption=PREEMPTS) for worker in self.workers.values()}
        for cluster, queue in queues.items():
            cluster.ask("POST", FLAVORS, flavor("default"))
            cluster.ask("POST", CLUSTER_QUEUES, queue)
            cluster.ask("POST", LOCAL_QUEUES, local_queue())

    def active(self, name: str) -> tuple[str, str] | None:
        """Status and reason of the condition Active."""
        status = self.home.ask("GET", f"{CLUSTERS}/{name}").get("status", {})
        return next(((one["status"], one["reason"]) for one in status.get("conditions", ())), None)

    def check(self) -> tuple[str, str]:
        """State of the admission check of the only Workload at home, and its cluster."""
        found = self.home.ask("GET", WORKLOADS)["items"]
        status = found[0].get("status", {}) if found else {}
        return next((one["state"] for one in status.get("admissionChecks", ())), ""), status.get("clusterName", "")

    def running(self) -> list[str]:
        """The workers whose clone of the Job is not suspended."""
        jobs = {name: worker.ask("GET", JOBS)["items"] for name, worker in self.workers.items()}
        return [name for name, found in jobs.items() if found and not found[0]["spec"].get("suspend")]


def _of_kueue(kind: str, name: str, spec: object) -> dict[str, object]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def plan_for(cluster: ServedCluster, roles: frozenset[Role], **fields: object) -> RunPlan:
    fleet = MultiKueueSettings(proposal_window=0.0)
    settings = Settings(quota=QuotaSettings(frameworks=FRAMEWORKS), multikueue=fleet, roles=roles)
    return RunPlan(worker_access(cluster.kubeconfig(), "a test"), settings, namespace=NAMESPACE, **fields)


@asynccontextmanager
async def small_fleet(ca, log, *workers: str) -> AsyncIterator[SmallFleet]:
    """The workers' processes run; the manager's is up to the test."""
    async with AsyncExitStack() as stack, asyncio.timeout(90):
        home = await stack.enter_async_context(served(ca))
        served_workers = {name: await stack.enter_async_context(served(ca)) for name in workers}
        yield_to = SmallFleet(home, served_workers)
        for worker in served_workers.values():
            await stack.enter_async_context(process(plan_for(worker, OF_WORKERS), log))
        yield yield_to


def managing(fleet: SmallFleet, **fields: object) -> RunPlan:
    return plan_for(fleet.home, OF_WORKERS | {Role.FLEET}, **fields)


async def test_a_job_runs_on_one_worker_although_another_never_answers_and_a_third_is_dead(ca, log):
    async with small_fleet(ca, log, "a", "b") as fleet, served(ca) as slow:
        slow.holds = True
        gone = (
            fleet.workers["a"]
            .kubeconfig()
            .replace(str(fleet.workers["a"].server.port).encode(), str(unused_port()).encode())
        )
        alive = {name: worker.kubeconfig() for name, worker in fleet.workers.items()}
        fleet.set_up({"dead": gone, "slow": slow.kubeconfig(), **alive})
        fleet.home.ask("POST", JOBS, job("it", managedBy=MULTIKUEUE))
        async with process(managing(fleet, listen=Listen("127.0.0.1", 0)), log):
            await fleet.until(lambda: fleet.running())
            await fleet.until(lambda: fleet.check()[0] == "Ready")
            assert [fleet.check()[1]] == fleet.running()
            [other] = set(fleet.workers) - set(fleet.running())
            await fleet.until(lambda: not fleet.workers[other].ask("GET", WORKLOADS)["items"])
            await fleet.until(lambda: fleet.active("a") == fleet.active("b") == ("True", "Active"))
            await fleet.until(lambda: fleet.active("dead") == ("False", "ClientConnectionFailed"))
            assert fleet.active("slow") is None
            status, _, page = await ask(port_in(log), "GET /metrics HTTP/1.1")
            assert status == "200 OK"
            assert 'headgate_worker_cluster_connected{cluster="a"} 1.0' in page
            assert 'headgate_worker_cluster_connected{cluster="slow"} 0.0' in page
            assert 'multikueue_workloads_admitted_total{cluster="' in page
        assert any("INFO    stopped" in line for line in log.lines)  # the workers write to the same log, and go on


async def test_a_refused_kubeconfig_shows_the_field_and_the_fix_and_a_better_one_is_used(ca, log):
    async with small_fleet(ca, log, "a") as fleet:
        fleet.set_up({"a": fleet.workers["a"].kubeconfig().replace(b"https://", b"http://")})
        async with process(managing(fleet), log):
            await fleet.until(lambda: fleet.active("a") == ("False", "InsecureKubeConfig"))
            shown = fleet.home.ask("GET", f"{CLUSTERS}/a")["status"]["conditions"][0]["message"]
            assert shown.startswith(
                f"Secret {NAMESPACE}/a: clusters[0].cluster.server: expected a URL such as https://"
            )
            fleet.home.keep_kubeconfig("a", fleet.workers["a"].kubeconfig())
            await fleet.until(lambda: fleet.active("a") == ("True", "Active"))


async def test_at_home_each_clusters_answer_is_explained_to_whoever_may_read_the_kubeconfigs(ca, log, tmp_path):
    async with small_fleet(ca, log, "a", "b") as fleet:
        fleet.set_up({name: worker.kubeconfig() for name, worker in fleet.workers.items()}, cpus=0)
        fleet.home.ask("POST", JOBS, job("it", managedBy=MULTIKUEUE))
        async with process(managing(fleet), log):
            await fleet.until(lambda: all(worker.ask("GET", WORKLOADS)["items"] for worker in fleet.workers.values()))
            await fleet.until(lambda: "QuotaReserved" in str(fleet.workers["a"].ask("GET", WORKLOADS)))
            fleet.workers["b"].go_down()
            await fleet.until(lambda: fleet.active("b") == ("False", "ClientConnectionFailed"))
            told = await explained(fleet, tmp_path, "--kubeconfigs-namespace", NAMESPACE)
            assert [one["answer"] for one in told["workers"]] == ["no quota", "not connected"]
            assert [one["cluster"] for one in told["workers"]] == ["a", "b"]
            blind = await explained(fleet, tmp_path, "--kubeconfigs-namespace", "elsewhere")
            assert [one["answer"] for one in blind["workers"]] == ["dispatched", "not connected"]


async def explained(fleet: SmallFleet, folder: Path, *flags: str) -> dict[str, Any]:
    file = folder / "kubeconfig"
    file.write_bytes(fleet.home.kubeconfig())
    command = ["explain", "workload", "job/it", "-n", "default", "--kubeconfig", str(file), "-o", "json", *flags]
    result = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_only_a_manager_cluster_gives_the_right_to_read_secrets_and_only_in_our_namespace():
    def about_secrets(*flags: str) -> list[tuple[str, list[str]]]:
        printed = yaml.safe_load_all(CliRunner().invoke(main, ["install", "--dry-run", *flags]).output)
        return [
            (one["metadata"].get("namespace", "everywhere"), rule["verbs"])
            for one in printed
            for rule in one.get("rules", ())
            if "secrets" in rule.get("resources", ()) and "resourceNames" not in rule
        ]

    create = ("headgate-system", ["create"])
    assert about_secrets() == [create]
    assert about_secrets("--fleet") == [create, ("headgate-system", ["list", "watch"])]
    refused = CliRunner().invoke(main, ["install", "--dry-run", "--fleet", "--no-queues"])
    assert (refused.exit_code, "a manager cluster has queues" in refused.output) == (2, True)
