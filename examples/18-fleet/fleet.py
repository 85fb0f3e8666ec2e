"""Twenty clusters and bursts of urgent work: what is preempted, lost and waited for, with three ways to preempt.

    python examples/18-fleet/fleet.py                       20 clusters, 500 workloads
    python examples/18-fleet/fleet.py --share 0.1           a tenth of it
    python examples/18-fleet/fleet.py --svg fleet.svg       draws it, too

Every cluster is busy with Jobs of its own teams; urgent Jobs come in bursts and are dispatched to all clusters. It is
run three times: without gates every cluster preempts for every urgent Job; with gates and no window the first cluster
that asks may preempt; with proposals the one whose victims cost least.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headgate.simulator import Report, parse_scenario, run

CLUSTERS, OWN, URGENT, BURSTS = 20, 340, 160, 4
NODES, NODE_CPU, POD_CPU, SECONDS = 4, 4, 2, 3 * 3600
KUEUE = "kueue.x-k8s.io/v1beta2"
PRIORITIES = {"low": 100, "middle": 500, "high": 1000}
Manifest = dict[str, Any]
POLICIES: dict[str, Manifest] = {
    "no gates": {"featureGates": {"MultiKueueOrchestratedPreemption": False}},
    "first come, first served": {"multiKueue": {"proposalWindow": "0s"}},
    "priced proposals": {},
}


class Task(NamedTuple):
    """A Job: of one cluster's own team, or urgent and for any of them (`cluster` is empty)."""

    at: float
    name: str
    cluster: str
    priority: str
    pods: int
    seconds: int


def tasks(share: float, seed: int = 1) -> list[Task]:
    """The Jobs of three hours: those of the clusters' own teams, and four bursts of urgent ones."""
    dice, found = random.Random(seed), list[Task]()
    for number in range(round(OWN * share)):
        cluster = names(share)[number % len(names(share))]
        at, priority = dice.uniform(0, 0.5 * SECONDS), dice.choice(("low", "low", "middle"))
        found.append(Task(at, f"own-{number}", cluster, priority, dice.randint(1, 3), dice.randint(600, 1800)))
    for burst in range(BURSTS):
        for number in range(round(URGENT * share / BURSTS)):
            at = (0.15 + 0.15 * burst) * SECONDS + dice.uniform(0, 120)
            found.append(Task(at, f"urgent-{burst}-{number}", "", "high", dice.randint(1, 3), dice.randint(300, 900)))
    return sorted(found)


def names(share: float) -> list[str]:
    return [f"worker-{number:02d}" for number in range(max(2, round(CLUSTERS * share)))]


def scenario(work: Sequence[Task], workers: Sequence[str], config: Manifest) -> Manifest:
    return {
        "kind": "Scenario",
        "config": config,
        "clusters": [home(workers), *(worker(name) for name in workers)],
        "timeline": [
            {"at": f"{task.at:.3f}s", "cluster": task.cluster or "home", "apply": [job(task)]} for task in work
        ],
        "until": "settled",
    }


def home(workers: Sequence[str]) -> Manifest:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "fleet"}
    check = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    strategy = {"admissionChecks": [{"name": "fleet"}]}
    objects = [
        *(kueue("MultiKueueCluster", name, clusterSource={"kubeConfig": {"location": name}}) for name in workers),
        kueue("MultiKueueConfig", "fleet", clusters=list(workers)),
        kueue("AdmissionCheck", "fleet", **check),
        *queue(100_000, admissionChecksStrategy=strategy),
    ]
    return {"name": "home", "roles": ["quota", "integrations", "fleet"], "objects": objects}


def worker(name: str) -> Manifest:
    capacity = {"cpu": str(NODE_CPU), "memory": "64Gi", "pods": "110"}
    objects = queue(NODES * NODE_CPU, preemption={"withinClusterQueue": "LowerPriority"})
    return {"name": name, "nodes": [{"name": "n-%d", "count": NODES, "capacity": capacity}], "objects": objects}


def queue(cpu: int, **spec: Any) -> list[Manifest]:
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    local = kueue("LocalQueue", "team", clusterQueue="team")
    local["metadata"]["namespace"] = "default"
    classes = [kueue("WorkloadPriorityClass", name) | {"value": value} for name, value in PRIORITIES.items()]
    team = kueue("ClusterQueue", "team", namespaceSelector={}, resourceGroups=groups, **spec)
    return [kueue("ResourceFlavor", "default"), *classes, team, local]


def kueue(kind: str, name: str, **spec: Any) -> Manifest:
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}} | ({"spec": spec} if spec else {})


def job(task: Task) -> Manifest:
    labels = {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/priority-class": task.priority}
    container = {"name": "work", "image": "example.com/work", "resources": {"requests": {"cpu": str(POD_CPU)}}}
    template = {
        "metadata": {"annotations": {"headgate.dev/run-seconds": str(task.seconds), "headgate.dev/stop-seconds": "20"}},
        "spec": {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container]},
    }
    managed = {} if task.cluster else {"managedBy": "kueue.x-k8s.io/multikueue"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": task.name, "namespace": "default", "labels": labels},
        "spec": {"parallelism": task.pods, "completions": task.pods, "template": template, **managed},
    }


class Outcome(NamedTuple):
    """What became of the work under one policy. Waits are seconds, work is pod-hours."""

    policy: str
    gates: int
    preemptions: list[float]  # when, in seconds
    lost: float
    urgent_waits: list[float]  # until started for the last time
    delays: list[float]  # of the clusters' own Jobs: how much later they ended than if nobody else had been there

    @property
    def numbers(self) -> tuple[str, ...]:
        return (
            str(self.gates),
            str(len(self.preemptions)),
            f"{self.lost:.1f}",
            f"{statistics.median(self.urgent_waits):.0f}",
            f"{sorted(self.urgent_waits)[int(len(self.urgent_waits) * 0.95)]:.0f}",
            f"{statistics.mean(self.delays) / 60:.1f}",
        )


def simulate(work: Sequence[Task], workers: Sequence[str], policy: str) -> Outcome:
    report = run(parse_scenario(json.dumps(scenario(work, workers, POLICIES[policy])), "fleet"))
    counts = report.summary["fleet"]
    ended = {task: ended_at(report, task) for task in work}
    extra = {task: max(0.0, at - task.at - task.seconds) for task, at in ended.items()}
    return Outcome(
        policy,
        counts["gatesOpened"],
        list(preempted_at(report)),
        counts["workLostSeconds"] / 3600,
        [wait for task, wait in extra.items() if not task.cluster],
        [wait for task, wait in extra.items() if task.cluster],
    )


def ended_at(report: Report, task: Task) -> float:
    """Seconds from the start at which the Job was complete."""
    for found in report.final[task.cluster or "home"]:
        if found["kind"] == "Job" and found["metadata"]["name"] == task.name:
            return seconds(found["status"]["completionTime"])
    raise AssertionError(f"{task.name} is gone")


def seconds(time: str) -> float:
    """Runs begin with the year 2026."""
    days, hours, minutes, rest = (int(part) for part in (time[8:10], time[11:13], time[14:16], time[17:19]))
    return float(((days - 1) * 24 + hours) * 3600 + minutes * 60 + rest)


def preempted_at(report: Report) -> Iterator[float]:
    for entry in report.journal:
        if entry["decision"] == "preempt":
            yield entry["at"]


HEADS = (
    "",
    "gates opened",
    "preemptions",
    "pod-hours lost",
    "median wait of urgent work, s",
    "95 % wait, s",
    "mean delay of the clusters' own work, min",
)


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a table in Markdown."""
    lines = [HEADS, ("---",) * len(HEADS), *((each.policy, *each.numbers) for each in outcomes)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


WIDTH, HEIGHT, LEFT, TOP = 720, 220, 60, 90
COLORS = {"no gates": "#c1440e", "first come, first served": "#b58900", "priced proposals": "#0b6e4f"}


def svg(outcomes: Sequence[Outcome]) -> str:
    """Preemptions over time, summed up, one line for each policy."""
    most = max(1, *(len(each.preemptions) for each in outcomes))
    end = max([SECONDS, *(at for each in outcomes for at in each.preemptions)])
    parts = [f'<text x="{LEFT}" y="20" font-weight="bold">Preempted workloads in all clusters, by time</text>']
    for share in (0, 0.5, 1):
        y = TOP + HEIGHT * (1 - share)
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + WIDTH}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{round(most * share)}</text>')
    for hour in range(round(end / 3600) + 1):
        x = LEFT + WIDTH * min(1.0, hour * 3600 / end)
        parts.append(f'<text x="{x:.0f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{hour} h</text>')
    for place, each in enumerate(outcomes):
        corners = [(0.0, 0)]
        for count, at in enumerate(sorted(each.preemptions)):
            corners += [(at, count), (at, count + 1)]
        corners.append((end, len(each.preemptions)))
        points = " ".join(
            f"{LEFT + WIDTH * at / end:.1f},{TOP + HEIGHT * (1 - count / most):.1f}" for at, count in corners
        )
        color, numbers = COLORS[each.policy], each.numbers
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        text = f"{each.policy}: {numbers[1]} preemptions, {numbers[2]} pod-hours lost"
        parts.append(f'<text x="{LEFT}" y="{40 + 16 * place}" fill="{color}">{text}</text>')
    width, height = WIDTH + LEFT + 20, TOP + HEIGHT + 40
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = 'font-family="sans-serif" font-size="12"'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{background}\n' + "\n".join(parts) + "\n</svg>\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of clusters and work (default: %(default)s)")
    parser.add_argument("--svg", type=Path, help="draw it to this file")
    parser.add_argument("--only", choices=list(POLICIES), help="this policy only")
    arguments = parser.parse_args()
    work, workers = tasks(arguments.share), names(arguments.share)
    outcomes = [simulate(work, workers, name) for name in ([arguments.only] if arguments.only else POLICIES)]
    print(table(outcomes))
    if arguments.svg:
        arguments.svg.write_text(svg(outcomes))


if __name__ == "__main__":
    main()
