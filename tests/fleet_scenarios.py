"""Fleets in a few words: a manager, worker clusters, and jobs to dispatch. JSON is YAML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from headgate.simulator.faults import Faults, WriteFault
from headgate.simulator.process import Process
from headgate.simulator.report import Report
from headgate.simulator.scenario import Scenario, load_scenario, parse_scenario
from headgate.simulator.virtual_time import EPOCH, run

Json = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
PRIORITIES = {"low": 100, "middle": 500, "high": 1000}
HOME = "home"


def kueue(kind: str, name: str, namespaced: bool = False, **fields: Any) -> Json:
    where = {"namespace": "default"} if namespaced else {}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name, **where}, **fields}


def quota(**of_flavor: int) -> list[Json]:
    """Of cpu, by flavor, in the order the flavors are tried."""
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]} for name, cpu in of_flavor.items()
    ]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def queue(cpu: int = 0, *, flavors: Mapping[str, int] | None = None, **spec: Any) -> list[Json]:
    """The queue `team`, with its flavors and the priority classes."""
    given = flavors or {"default": cpu}
    whole = {"namespaceSelector": {}, "resourceGroups": quota(**given), **spec}
    return [
        *shared(*given),
        kueue("ClusterQueue", "team", spec=whole),
        kueue("LocalQueue", "team", namespaced=True, spec={"clusterQueue": "team"}),
    ]


def shared(*flavors: str) -> list[Json]:
    """What queues have in common: flavors and priority classes."""
    classes = [kueue("WorkloadPriorityClass", name, value=value) for name, value in PRIORITIES.items()]
    return [*(kueue("ResourceFlavor", name) for name in flavors), *classes]


def worker_cluster(name: str) -> Json:
    source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
    return kueue("MultiKueueCluster", name, spec={"clusterSource": source})


def manager(*workers: str, objects: Sequence[Json] = (), cpu: int = 1000, **fields: Any) -> Json:
    """The cluster that jobs are created in; it dispatches them to these workers."""
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "fleet"}
    check = kueue("AdmissionCheck", "fleet", spec={"controllerName": MULTIKUEUE, "parameters": parameters})
    checked = {"admissionChecks": [{"name": "fleet"}]}
    preempting = {"withinClusterQueue": "LowerPriority"}
    return {
        "name": HOME,
        "roles": ["quota", "integrations", "fleet"],
        "objects": [
            *(worker_cluster(name) for name in workers),
            kueue("MultiKueueConfig", "fleet", spec={"clusters": list(workers)}),
            check,
            *queue(cpu, admissionChecksStrategy=checked, preemption=preempting),
            *objects,
        ],
        **fields,
    }


def worker(name: str, *objects: Json, cpu: int = 4, nodes: int = 1, **fields: Any) -> Json:
    """A worker cluster whose queue has all of its nodes, and preempts what is less important."""
    capacity = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    spec = fields.pop("queue", {})
    of_flavor = spec.pop("flavors", None)
    given = {"preemption": {"withinClusterQueue": "LowerPriority"}, **spec}
    return {
        "name": name,
        "nodes": [{"name": "n-%d", "count": nodes, "capacity": capacity}],
        "objects": [*queue(cpu * nodes, flavors=of_flavor, **given), *objects],
        **fields,
    }


def pod_template(cpu: int, run: float, stop: float, **spec: Any) -> Json:
    given = {"run-seconds": run, "stop-seconds": stop}
    return {
        "metadata": {"annotations": {f"headgate.dev/{name}": f"{value:g}" for name, value in given.items() if value}},
        "spec": {
            "schedulerName": "headgate",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": max(30, int(stop)),
            "containers": [{"name": "work", "image": "example.com/work", "resources": {"requests": {"cpu": str(cpu)}}}],
            **spec,
        },
    }


def job(name: str, priority: str = "", *, cpu: int = 4, run: float = 600, stop: float = 0, pods: int = 1) -> Json:
    """A Job of the queue `team` in a cluster of its own."""
    labels = {QUEUE_NAME: "team", **({PRIORITY_CLASS: priority} if priority else {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"parallelism": pods, "completions": pods, "template": pod_template(cpu, run, stop)},
    }


def pod(name: str, priority: str = "", *, cpu: int = 4, run: float = 0, stop: float = 0, **labels: str) -> Json:
    """A pod of the queue `team`."""
    made = pod_template(cpu, run, stop)
    made["metadata"] |= {"name": name, "namespace": "default"}
    own = {QUEUE_NAME: "team", **({PRIORITY_CLASS: priority} if priority else {})}
    made["metadata"]["labels"] = {**own, **labels}
    return {"apiVersion": "v1", "kind": "Pod", **made}


def member(name: str, group: str, total: int = 1, **fields: Any) -> Json:
    """A pod of a group, which holds its quota until its last pod has stopped unless that is released fast."""
    made = pod(name, **fields, **{"kueue.x-k8s.io/pod-group-name": group})
    made["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = str(total)
    return made


def dispatched(name: str, priority: str = "high", **fields: Any) -> Json:
    """A Job that runs on a worker cluster."""
    made = job(name, priority, **fields)
    made["spec"]["managedBy"] = MULTIKUEUE
    return made


def fleet(clusters: Iterable[Json], timeline: Sequence[Json] = (), **fields: Any) -> Scenario:
    given = {"kind": "Scenario", "clusters": list(clusters), "timeline": list(timeline), "until": "settled", **fields}
    return parse_scenario(json.dumps(given), "fleet.yaml")


def multikueue(**fields: Any) -> Json:
    """A configuration with this section multiKueue."""
    return {"multiKueue": fields}


def of_kind(report: Report, cluster: str, kind: str) -> dict[str, Json]:
    """The objects at the end, by name; Workloads by the name of their job."""
    found = [value for value in report.final[cluster] if value["kind"] == kind]
    return {
        work_of(value["metadata"]["name"]) if kind == "Workload" else value["metadata"]["name"]: value
        for value in found
    }


def work_of(name: str) -> str:
    """What a Workload was made for: its name without the prefix of its kind and the hash."""
    kind, _, rest = name.partition("-")
    return rest.rsplit("-", 1)[0] if kind in ("job", "pod", "statefulset") and "-" in rest else name


def told(report: Report, *decisions: str) -> list[tuple[float, str, str, str]]:
    """Time, cluster, job and reason of all such decisions about Workloads, in order."""
    return [
        (entry["at"], entry["cluster"], work_of(entry["object"]["name"]), entry["reason"])
        for entry in report.journal
        if entry["decision"] in decisions and entry["object"]["kind"] == "Workload"
    ]


def preemptions(report: Report) -> dict[str, int]:
    """How many Workloads were preempted, by cluster; those without any are left out."""
    return {name: n["preemptions"] for name, n in report.summary["fleet"]["clusters"].items() if n["preemptions"]}


def opened(report: Report) -> dict[str, int]:
    """How many gates were opened, by cluster."""
    return {name: n["gatesOpened"] for name, n in report.summary["fleet"]["clusters"].items() if n["gatesOpened"]}


# what the document tells, with crashes

PREEMPTED: dict[str, Json] = {
    "story": {"east": 1},
    "sequence": {"east": 1, "north": 1},
    "cut-off": {"east": 1, "north": 1},
    "fits": {},
}
"""Where is preempted in each scenario of the document."""


def scenario(name: str) -> Scenario:
    return load_scenario(str(Path(__file__).parent / "scenarios" / "fleet" / f"{name}.yaml"))


@cache
def writes_of_the_manager(name: str) -> list[int]:
    """The numbers of its writes for the urgent job, which comes after ten seconds, among all writes of the run."""
    wanted: list[bool] = []
    perform = Process._tried

    def tried(self: Any, write: Any, send: Any, now: float) -> Any:
        wanted.append(self._access.cluster == HOME and now >= EPOCH + 10)
        return perform(self, write, send, now)

    with mock.patch.object(Process, "_tried", tried):
        run(scenario(name))
    return [number for number, is_wanted in enumerate(wanted) if is_wanted]


def crashed(name: str, number: int, fault: WriteFault) -> None:
    """With a crash at that write there are the same preemptions, and the scenario holds what it expects."""
    report = run(scenario(name), faults=Faults(at={number: fault}, restart=0.0))
    what = f"{name}: {fault} write {number}"
    assert (opened(report), preemptions(report)) == (PREEMPTED[name], PREEMPTED[name]), what
    assert [str(failure) for failure in report.failures] == [], what
