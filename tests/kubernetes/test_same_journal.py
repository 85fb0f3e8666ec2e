"""The same pods on a real cluster and in the simulator: the same decisions, reasons and numbers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml
from children import eventually
from conftest import Start
from objects import Manifest, create_nodes, create_pods, node, pod, priority_classes
from ours import HEADGATE, OurProcess
from wire import Client

NODES = [
    node("plain", cpu="2"),
    node("tainted", cpu="8", taints=[{"key": "example.com/own", "effect": "NoSchedule"}]),
    node("cordoned", cpu="8", unschedulable=True),
]
PODS = [  # most important first
    pod("large", cpu="1500m"),
    pod("small", cpu="400m"),
    pod("crowded-out", cpu="400m"),
    pod("tolerant", cpu="400m", tolerations=[{"key": "example.com/own", "operator": "Exists"}]),
    pod("choosy", cpu="100m", nodeSelector={"zone": "a"}),
    pod("gated", cpu="100m", schedulingGates=[{"name": "example.com/wait"}]),
]
Decisions = dict[str, list[dict[str, Any]]]


def priority_class(rank: int) -> Manifest:
    """One a pod, so that both worlds take the pods in the same order."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": f"rank-{rank}"}, "value": 1000 - rank}


def ranked(rank: int, manifest: Manifest, namespace: str) -> Manifest:
    metadata = {**manifest["metadata"], "namespace": namespace}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "priorityClassName": f"rank-{rank}"}}


async def test_a_real_cluster_and_the_simulator_give_one_journal(
    client: Client, namespace: str, start: Start, tmp_path: Path
) -> None:
    classes = [priority_class(rank) for rank in range(len(PODS))]
    waiting = [ranked(rank, manifest, namespace) for rank, manifest in enumerate(PODS)]
    simulated = simulate(tmp_path, namespace, [*classes, *waiting])

    await create_nodes(client, NODES)
    async with priority_classes(client, *classes):
        await create_pods(client, namespace, waiting)
        process = start("--no-leader-elect", "--log-format", "json")
        told = sum(map(len, simulated.values()))
        lived = eventually("as much is decided", lambda: lived_decisions(process, told))

    assert lived == simulated
    assert simulated["large"][0]["decision"] == "bind"
    assert simulated["crowded-out"][0]["reason"] == "Unschedulable"


def simulate(folder: Path, namespace: str, objects: list[Manifest]) -> Decisions:
    nodes = [
        {
            "name": each["metadata"]["name"],
            "count": 1,
            "capacity": each["status"]["capacity"],
            "taints": each["spec"].get("taints", []),
        }
        for each in NODES
    ]
    cordoned = {"kind": "Node", "name": "cordoned", "merge": {"spec": {"unschedulable": True}}}
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}]
    scenario = {
        "kind": "Scenario",
        "clusters": [{"name": "main", "nodes": nodes, "objects": namespaces}],
        "timeline": [{"at": "1s", "patch": cordoned}, {"at": "2s", "apply": objects}],
        "until": "2s",
    }
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump(scenario))
    command: list[str | Path] = [HEADGATE, "simulate", file, "--output", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    decisions: Decisions = {}
    for entry in report["journal"]:
        told = {name: entry[name] for name in ("decision", "reason", "message")}
        decisions.setdefault(entry["object"]["name"], []).append({**told, **entry["numbers"]})
    return decisions


def lived_decisions(process: OurProcess, expected: int) -> Decisions | None:
    """From its log, once that many decisions are told: a line holds an entry with its numbers side by side."""
    decisions: Decisions = {}
    for line in map(json.loads, process.written().rpartition("\n")[0].splitlines()):
        if name := line.get("object", "").rpartition("/")[2]:
            numbers = {key: value for key, value in line.items() if key not in LINE_FIELDS}
            told = {"decision": line["message"], "reason": line["reason"], "message": line.get("detail", "")}
            decisions.setdefault(name, []).append({**told, **numbers})
    return decisions if sum(map(len, decisions.values())) >= expected else None


LINE_FIELDS = {"time", "level", "message", "object", "reason", "detail"}
