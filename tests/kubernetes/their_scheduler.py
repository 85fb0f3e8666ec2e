"""kube-scheduler, let loose once on pods that wait: where each goes, or why it does not, and what every node scored."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import yaml
from assets import program
from children import Child
from cluster import KUBE_SCHEDULER, Cluster
from objects import Manifest
from wire import Client

PATIENCE = 300.0  # seconds to look at every pod once
FINAL_SCORE = re.compile(r'final score for pod" pod="([^/"]+)/([^"]+)" node="([^"]+)" score=(-?\d+)')

PodName = tuple[str, str]
"""Namespace and name."""


class Decision(NamedTuple):
    node: str  # empty when no node will do
    reason: str = ""
    scores: dict[str, int] = {}  # of each node that will do; none when that is only one  # noqa: RUF012


async def their_decisions(
    cluster: Cluster, client: Client, folder: Path, choices: Manifest, waiting: str
) -> dict[PodName, Decision]:
    """What it makes of the pods listed at `waiting` when it is started now; `choices` join its configuration."""
    scheduler = started(cluster, folder, choices, "schedule_one=10")  # which logs every score
    try:
        async with asyncio.timeout(PATIENCE):
            while None in (decisions := await _seen(client, waiting)).values():
                assert scheduler.running, scheduler.written()[-2000:]
                await asyncio.sleep(0.3)
    finally:
        scheduler.stop()
    scores = _scores(scheduler.written())
    return {name: decision._replace(scores=scores[name]) for name, decision in decisions.items() if decision}


def started(cluster: Cluster, folder: Path, choices: Manifest, logged: str) -> Child:
    """kube-scheduler as its own user; `choices` join its configuration, `logged` names sources that log more."""
    access = str(cluster.kubeconfig_of_user(*KUBE_SCHEDULER))
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": access, "qps": 5000, "burst": 5000},
        **choices,
    }
    configuration = folder / "kube-scheduler.yaml"
    configuration.write_text(yaml.safe_dump(document))
    flags = [f"--config={configuration}", "--secure-port=0", f"--vmodule={logged}"]
    return Child([program("kube-scheduler"), *flags], folder / "kube-scheduler.log")


async def _seen(client: Client, waiting: str) -> dict[PodName, Decision | None]:
    """What became of each pod; None while it was not looked at."""
    listed = await client.get(waiting)
    return {(each["metadata"]["namespace"], each["metadata"]["name"]): _decision(each) for each in listed["items"]}


def _decision(pod: Manifest) -> Decision | None:
    if pod["spec"].get("nodeName"):
        return Decision(pod["spec"]["nodeName"])
    conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
    return Decision("", conditions["PodScheduled"].get("message", "")) if "PodScheduled" in conditions else None


def _scores(log: str) -> dict[PodName, dict[str, int]]:
    found: dict[PodName, dict[str, int]] = defaultdict(dict)
    for namespace, name, node, score in FINAL_SCORE.findall(log):
        found[namespace, name][node] = int(score)
    return found
