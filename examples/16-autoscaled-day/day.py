"""A simulated day with an autoscaler: bursts, gangs and a full queue, with Kueue's queues and without them.

    python examples/16-autoscaled-day/day.py                  the whole day: 24 hours, up to 200 nodes
    python examples/16-autoscaled-day/day.py --hours 2        a short one
    python examples/16-autoscaled-day/day.py --svg day.svg    draws it, too

The same work is run four times: for each autoscaler, with queues (teams have quota; Jobs without quota are suspended)
and without (all pods are created at once). The table says what was ordered, and what of it was false or missed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headgate.simulator import Report, parse_scenario, run

AUTOSCALERS = ("karpenter", "clusterAutoscaler")
QUOTA = {"research": 640, "sales": 320, "web": 160}  # cpu; 140 of the 200 nodes
NODE_CPU, MOST_NODES = 8, 200
DELAY = "150s"
KUEUE = "kueue.x-k8s.io/v1beta2"
Manifest = dict[str, Any]


class Work(NamedTuple):
    """A Job of one team: equal pods, all of which start together if it is a gang."""

    at: float  # seconds
    name: str
    team: str
    pods: int
    cpu: int
    seconds: int
    gang: bool = False


def day(hours: float, seed: int = 1) -> list[Work]:
    """A day of work, compressed to so many hours: small Jobs all day, a gang now and then, and four bursts."""
    dice, work = random.Random(seed), list[Work]()
    length = hours * 3600
    scale = hours / 24
    for number in range(round(240 * scale)):
        at, team = dice.uniform(0, 0.85 * length), dice.choice(sorted(QUOTA))
        work.append(Work(at, f"small-{number}", team, dice.randint(1, 4), dice.choice((1, 2)), dice.randint(300, 1200)))
    for number in range(round(20 * scale)):
        at = dice.uniform(0, 0.8 * length)
        work.append(Work(at, f"gang-{number}", "research", 4 * dice.randint(1, 4), 8, dice.randint(900, 3600), True))
    for burst, share in enumerate((0.28, 0.38, 0.54, 0.72)):
        for number in range(max(4, round(50 * scale))):
            at, team = share * length + dice.uniform(0, 300), dice.choice(("research", "research", "sales"))
            work.append(Work(at, f"burst-{burst}-{number}", team, 4, 8, dice.randint(900, 2700)))
    return sorted(work)


def scenario(work: Sequence[Work], autoscaler: str, queues: bool, hours: float, most_nodes: int) -> Manifest:
    node = {"capacity": {"cpu": str(NODE_CPU), "memory": "32Gi"}}
    group = {"name": "node", "min": 0, "max": most_nodes, "delay": DELAY, "node": node}
    cluster = {"name": "main", "autoscaler": {"kind": autoscaler, "groups": [group]}}
    return {
        "kind": "Scenario",
        "clusters": [cluster | ({"objects": list(queue_objects(most_nodes / MOST_NODES))} if queues else {})],
        "timeline": [{"at": f"{each.at:.3f}s", "apply": list(manifests(each, queues))} for each in work],
        "until": f"{round(hours * 3600)}s",
    }


def queue_objects(share: float) -> Iterator[Manifest]:
    """A queue for each team, with that share of its quota."""
    yield {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default"}}
    for team, cpu in QUOTA.items():
        quota = [{"name": "cpu", "nominalQuota": str(round(cpu * share))}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quota}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group], "cohortName": "company"}
        yield {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": team}, "spec": spec}
        local = {"name": team, "namespace": "default"}
        yield {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": team}}


def manifests(work: Work, queues: bool) -> Iterator[Manifest]:
    """The Job, and before it the Workload that makes its pods a gang."""
    labels = {}
    if work.gang:
        group = {"name": "pods", "policy": {"gang": {"minCount": work.pods}}}
        metadata = {"name": work.name, "namespace": "default"}
        api = "scheduling.headgate.dev/v1alpha1"
        yield {"apiVersion": api, "kind": "Workload", "metadata": metadata, "spec": {"podGroups": [group]}}
        labels = {"scheduling.headgate.dev/workload": work.name, "scheduling.headgate.dev/pod-group": "pods"}
    requests = {"cpu": str(work.cpu)}
    spec = {
        "schedulerName": "headgate",
        "restartPolicy": "Never",
        "containers": [{"name": "work", "image": "example.com/work", "resources": {"requests": requests}}],
    }
    annotations = {"headgate.dev/run-seconds": str(work.seconds)}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    queue = {"kueue.x-k8s.io/queue-name": work.team} if queues else {}
    yield {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": work.name, "namespace": "default", "labels": queue},
        "spec": {"parallelism": work.pods, "completions": work.pods, "template": template},
    }


class Outcome(NamedTuple):
    """What became of the day under one autoscaler, with queues or without."""

    autoscaler: str
    queues: bool
    counts: dict[str, Any]  # the autoscaler's part of the summary
    finished: int  # pods
    nodes: list[tuple[float, int]]  # seconds, and how many nodes were ordered or there from then on

    @property
    def beyond_quota(self) -> int:
        """Nodes ordered while there were as many as the quota of all teams fills."""
        enough = sum(QUOTA.values()) // NODE_CPU
        counts = [0, *(count for _, count in self.nodes)]
        return sum(after > before >= enough for before, after in itertools.pairwise(counts))

    @property
    def title(self) -> str:
        return f"{self.autoscaler}, {'with' if self.queues else 'without'} queues"


def simulate(work: Sequence[Work], autoscaler: str, queues: bool, hours: float, most_nodes: int) -> Outcome:
    given = scenario(work, autoscaler, queues, hours, most_nodes)
    report = run(parse_scenario(json.dumps(given), "day"))
    summary = report.summary
    return Outcome(autoscaler, queues, summary["autoscaler"], summary["pods"]["succeeded"], list(node_counts(report)))


def node_counts(report: Report) -> Iterator[tuple[float, int]]:
    nodes = 0
    for entry in report.journal:
        if entry["decision"] in ("order", "remove") and entry["object"]["kind"] == "Node":
            nodes += 1 if entry["decision"] == "order" else -1
            yield entry["at"], nodes


HEADS = (
    "",
    "pods finished",
    "nodes ordered",
    "most at once",
    "ordered beyond all quota",
    "false for want of quota",
    "false, never used",
    "missed",
    "node-hours",
    "empty node-hours",
)


def rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    for each in outcomes:
        counts = each.counts
        numbers = (
            each.finished,
            counts["nodesAdded"],
            max((nodes for _, nodes in each.nodes), default=0),
            each.beyond_quota,
            counts["falseReasons"]["quota"],
            counts["falseReasons"]["unused"],
            counts["missedScaleUps"],
            round(counts["nodeSeconds"] / 3600),
            round(counts["emptyNodeSeconds"] / 3600, 1),
        )
        yield (each.title, *map(str, numbers))


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a table in Markdown."""
    lines = [HEADS, ("---",) * len(HEADS), *rows(outcomes)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


WIDTH, HEIGHT, LEFT, TOP, GAP = 720, 150, 60, 65, 95
COLORS = {True: "#0b6e4f", False: "#c1440e"}


def svg(outcomes: Sequence[Outcome], hours: float, most_nodes: int) -> str:
    """Nodes over the day, one panel for each autoscaler, with queues and without."""
    panels = [panel(number, kind, outcomes, hours, most_nodes) for number, kind in enumerate(AUTOSCALERS)]
    height = TOP + len(AUTOSCALERS) * (HEIGHT + GAP)
    size = f'width="{WIDTH + LEFT + 20}" height="{height}" viewBox="0 0 {WIDTH + LEFT + 20} {height}"'
    style = 'font-family="sans-serif" font-size="12"'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{background}\n' + "\n".join(panels) + "\n</svg>\n"


def panel(number: int, kind: str, outcomes: Sequence[Outcome], hours: float, most_nodes: int) -> str:
    top = TOP + number * (HEIGHT + GAP)
    parts = [f'<text x="{LEFT}" y="{top - 44}" font-weight="bold">{kind}: nodes ordered or running</text>']
    for share in (0, 0.5, 1):
        y = top + HEIGHT * (1 - share)
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + WIDTH}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{round(most_nodes * share)}</text>')
    for hour in range(0, round(hours) + 1, max(1, round(hours / 8))):
        x = LEFT + WIDTH * hour / hours
        parts.append(f'<text x="{x:.0f}" y="{top + HEIGHT + 16}" text-anchor="middle">{hour} h</text>')
    shown = [each for each in outcomes if each.autoscaler == kind]
    for place, each in enumerate(sorted(shown, key=lambda each: each.queues)):
        color, counts = COLORS[each.queues], each.counts
        points = " ".join(
            f"{LEFT + WIDTH * at / 3600 / hours:.1f},{top + HEIGHT * (1 - count / most_nodes):.1f}"
            for at, count in steps(each.nodes, hours)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        text = f"{'with' if each.queues else 'without'} queues: {counts['nodesAdded']} nodes ordered, "
        reasons = counts["falseReasons"]
        text += f"{reasons['quota']} without quota, {reasons['unused']} unused, {counts['missedScaleUps']} missed"
        parts.append(f'<text x="{LEFT}" y="{top - 26 + 16 * place}" fill="{color}">{text}</text>')
    return "\n".join(parts)


def steps(nodes: Sequence[tuple[float, int]], hours: float) -> Iterator[tuple[float, int]]:
    """The count at 300 times, as corners of a line."""
    at, count, width = 0, 0, hours * 3600 / 300
    for number in range(301):
        yield number * width, count
        while at < len(nodes) and nodes[at][0] <= number * width:
            count = nodes[at][1]
            at += 1
        yield number * width, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0, help="how long the day is (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=MOST_NODES, help="how many there may be (default: %(default)s)")
    parser.add_argument("--svg", type=Path, help="draw it to this file")
    parser.add_argument("--only", choices=AUTOSCALERS, help="this autoscaler only")
    arguments = parser.parse_args()
    work = day(arguments.hours)
    outcomes = [
        simulate(work, autoscaler, queues, arguments.hours, arguments.nodes)
        for autoscaler in ([arguments.only] if arguments.only else AUTOSCALERS)
        for queues in (True, False)
    ]
    print(table(outcomes))
    if arguments.svg:
        arguments.svg.write_text(svg(outcomes, arguments.hours, arguments.nodes))


if __name__ == "__main__":
    main()
