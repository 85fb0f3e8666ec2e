"""A simulated day with an autoscaler: bursts, gangs and a queue that is full for hours.

    python examples/16-autoscaled-day/day.py                  the whole day: 24 hours, up to 200 nodes
    python examples/16-autoscaled-day/day.py --hours 2        a short one
    python examples/16-autoscaled-day/day.py --svg day.svg    draws it, too

The same work is run six times: for each autoscaler, in Volcano's queues with the queue-allocation gate and without it,
and in Kueue's queues. The table says how many nodes were ordered, and how many of these orders were false or missed.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from headgate.simulator import Report, parse_scenario, run

AUTOSCALERS = ("karpenter", "clusterAutoscaler")
TEAMS = {"research": (640, 800), "sales": (320, 480), "web": (160, 160)}  # cpu: its share, and the most it may use
QUOTA = sum(share for share, _ in TEAMS.values())  # cpu of all teams together: 140 of the 200 nodes
NODE_CPU, MOST_NODES = 8, 200
DELAY = "150s"
KUEUE, VOLCANO = "kueue.x-k8s.io/v1beta2", "scheduling.volcano.sh/v1beta1"
Manifest = dict[str, Any]


class Mode(StrEnum):
    """Which queues the work waits in, and how."""

    GATES = "Volcano queues with gates"
    NO_GATES = "Volcano queues without gates"
    KUEUE = "Kueue queues"


class Work(NamedTuple):
    """A Job of one team: equal pods, all of which start together if it is a gang."""

    at: float  # seconds
    name: str
    team: str
    pods: int
    cpu: int
    seconds: int
    gang: bool = False
    urgent: bool = False


def day(hours: float, seed: int = 1) -> list[Work]:
    """A day of work, compressed to so many hours: small Jobs all day, gangs, urgent Jobs, bursts, and a backlog."""
    dice, work = random.Random(seed), list[Work]()
    length = hours * 3600
    scale = hours / 24
    for number in range(round(240 * scale)):
        at, team = dice.uniform(0, 0.85 * length), dice.choice(sorted(TEAMS))
        work.append(Work(at, f"small-{number}", team, dice.randint(1, 4), dice.choice((1, 2)), dice.randint(300, 1200)))
    for number in range(round(20 * scale)):
        at = dice.uniform(0, 0.8 * length)
        work.append(Work(at, f"gang-{number}", "research", 4 * dice.randint(1, 4), 8, dice.randint(900, 3600), True))
    for burst, share in enumerate((0.28, 0.38, 0.54, 0.72)):
        for number in range(max(4, round(50 * scale))):
            at, team = share * length + dice.uniform(0, 300), dice.choice(("research", "research", "sales"))
            work.append(Work(at, f"burst-{burst}-{number}", team, 4, 8, dice.randint(900, 2700)))
    for number in range(round(24 * scale)):
        at, team = dice.uniform(0.25 * length, 0.8 * length), dice.choice(sorted(TEAMS))
        work.append(Work(at, f"urgent-{number}", team, 2, 8, dice.randint(300, 900), urgent=True))
    for number in range(max(8, round(50 * scale))):
        at = 0.58 * length + dice.uniform(0, 600)
        work.append(Work(at, f"backlog-{number}", "web", 4, 8, dice.randint(900, 2700)))
    return sorted(work)


def scenario(work: Sequence[Work], autoscaler: str, mode: Mode, hours: float, most_nodes: int) -> Manifest:
    node = {"capacity": {"cpu": str(NODE_CPU), "memory": "32Gi"}}
    group = {"name": "node", "min": 0, "max": most_nodes, "delay": DELAY, "node": node}
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 100,
    }
    queues = kueue_queues if mode is Mode.KUEUE else volcano_queues
    objects = [urgent, *queues(most_nodes / MOST_NODES)]
    return {
        "kind": "Scenario",
        "clusters": [{"name": "main", "autoscaler": {"kind": autoscaler, "groups": [group]}, "objects": objects}],
        "timeline": [{"at": f"{each.at:.3f}s", "apply": list(manifests(each, mode))} for each in work],
        "until": f"{round(hours * 3600)}s",
    }


def volcano_queues(share: float) -> Iterator[Manifest]:
    """A queue for each team below one for all, which is less than they could use together."""
    yield volcano_queue("company", "root", round(QUOTA * share))
    for team, (_, most) in TEAMS.items():
        yield volcano_queue(team, "company", round(most * share))


def volcano_queue(name: str, parent: str, cpu: int) -> Manifest:
    spec = {"parent": parent, "capability": {"cpu": str(cpu)}}
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def kueue_queues(share: float) -> Iterator[Manifest]:
    """The same limits as ClusterQueues that borrow from one another."""
    yield {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "default"}}
    for team, (nominal, most) in TEAMS.items():
        amounts = {"nominalQuota": str(round(nominal * share)), "borrowingLimit": str(round((most - nominal) * share))}
        flavor = {"name": "default", "resources": [{"name": "cpu", **amounts}]}
        group = {"coveredResources": ["cpu"], "flavors": [flavor]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group], "cohortName": "company"}
        yield {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": team}, "spec": spec}
        local = {"name": team, "namespace": "default"}
        yield {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": team}}


def manifests(work: Work, mode: Mode) -> Iterator[Manifest]:
    """The Job, and before it what makes its pods a gang."""
    labels, annotations = dict[str, str](), {"headgate.dev/run-seconds": str(work.seconds)}
    metadata = {"name": work.name, "namespace": "default"}
    if mode is not Mode.KUEUE:
        annotations["scheduling.volcano.sh/queue-name"] = work.team
    if mode is Mode.GATES:
        annotations["scheduling.volcano.sh/queue-allocation-gate"] = "true"
    if work.gang and mode is Mode.KUEUE:
        group = {"name": "pods", "policy": {"gang": {"minCount": work.pods}}}
        api = "scheduling.headgate.dev/v1alpha1"
        yield {"apiVersion": api, "kind": "Workload", "metadata": metadata, "spec": {"podGroups": [group]}}
        labels = {"scheduling.headgate.dev/workload": work.name, "scheduling.headgate.dev/pod-group": "pods"}
    elif work.gang:
        spec = {"minMember": work.pods, "queue": work.team}
        yield {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": metadata, "spec": spec}
        annotations["scheduling.k8s.io/group-name"] = work.name
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod_spec(work)}
    queue = {"kueue.x-k8s.io/queue-name": work.team} if mode is Mode.KUEUE else {}
    yield {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "labels": queue},
        "spec": {"parallelism": work.pods, "completions": work.pods, "template": template},
    }


def pod_spec(work: Work) -> Manifest:
    container = {"name": "work", "image": "example.com/work", "resources": {"requests": {"cpu": str(work.cpu)}}}
    priority = {"priorityClassName": "urgent"} if work.urgent else {}
    return {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container], **priority}


class Outcome(NamedTuple):
    """What became of the day under one autoscaler, in one kind of queues."""

    autoscaler: str
    mode: Mode
    counts: dict[str, Any]  # the autoscaler's part of the summary
    finished: int  # pods
    nodes: list[tuple[float, int]]  # seconds, and how many nodes were ordered or there from then on

    @property
    def title(self) -> str:
        return f"{self.autoscaler}, {self.mode}"

    @property
    def orders(self) -> str:
        counts = self.counts
        orders = f"{counts['nodesAdded']} nodes ordered, {counts['falseScaleUps']} of them false"
        return f"{orders}, {counts['missedScaleUps']} missed"


def simulate(work: Sequence[Work], autoscaler: str, mode: Mode, hours: float, most_nodes: int) -> Outcome:
    given = scenario(work, autoscaler, mode, hours, most_nodes)
    report = run(parse_scenario(json.dumps(given), "day"))
    summary = report.summary
    return Outcome(autoscaler, mode, summary["autoscaler"], summary["pods"]["succeeded"], list(node_counts(report)))


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
    "false",
    "missed",
    "most nodes at once",
    "never used",
    "node-hours",
    "empty node-hours",
)


def rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    for each in outcomes:
        counts = each.counts
        numbers = (
            each.finished,
            counts["nodesAdded"],
            counts["falseScaleUps"],
            counts["missedScaleUps"],
            max((nodes for _, nodes in each.nodes), default=0),
            counts["nodesUnused"],
            round(counts["nodeSeconds"] / 3600),
            round(counts["emptyNodeSeconds"] / 3600),
        )
        yield (each.title, *map(str, numbers))


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a table in Markdown."""
    lines = [HEADS, ("---",) * len(HEADS), *rows(outcomes)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


WIDTH, HEIGHT, LEFT, TOP, GAP = 720, 150, 60, 75, 100
COLORS = {Mode.NO_GATES: "#c1440e", Mode.GATES: "#0b6e4f"}
"""What is drawn, in this order: Kueue's queues would hide the gates."""


def svg(outcomes: Sequence[Outcome], hours: float, most_nodes: int) -> str:
    """Nodes over the day, one panel for each autoscaler, with gates and without."""
    panels = [panel(number, kind, outcomes, hours, most_nodes) for number, kind in enumerate(AUTOSCALERS)]
    width, height = LEFT + WIDTH + 20, TOP + len(AUTOSCALERS) * (HEIGHT + GAP) - 60
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = 'font-family="sans-serif" font-size="12"'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{background}\n' + "\n".join(panels) + "\n</svg>\n"


def panel(number: int, kind: str, outcomes: Sequence[Outcome], hours: float, most_nodes: int) -> str:
    top = TOP + number * (HEIGHT + GAP)
    parts = [f'<text x="{LEFT}" y="{top - 50}" font-weight="bold">{kind}: nodes ordered or running</text>']
    parts += axes(top, hours, most_nodes)
    shown = {each.mode: each for each in outcomes if each.autoscaler == kind}
    for place, (mode, color) in enumerate(COLORS.items()):
        points = " ".join(
            f"{LEFT + WIDTH * at / 3600 / hours:.1f},{top + HEIGHT * (1 - count / most_nodes):.1f}"
            for at, count in corners(shown[mode].nodes, hours)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts.append(f'<text x="{LEFT}" y="{top - 33 + 15 * place}" fill="{color}">{mode}: {shown[mode].orders}</text>')
    return "\n".join(parts)


def axes(top: int, hours: float, most_nodes: int) -> Iterator[str]:
    for nodes in (0, most_nodes // 2, most_nodes):
        y = top + HEIGHT * (1 - nodes / most_nodes)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{nodes}</text>'
    quota = QUOTA / NODE_CPU / MOST_NODES  # of all nodes
    y = top + HEIGHT * (1 - quota)
    yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#555" stroke-dasharray="4 3"/>'
    yield f'<text x="{LEFT + 6}" y="{y - 4:.1f}" fill="#555">quota of all teams: {round(quota * most_nodes)}</text>'
    for hour in range(0, round(hours) + 1, max(1, round(hours / 8))):
        x = LEFT + WIDTH * hour / hours
        yield f'<text x="{x:.0f}" y="{top + HEIGHT + 16}" text-anchor="middle">{hour} h</text>'


def corners(nodes: Sequence[tuple[float, int]], hours: float) -> Iterator[tuple[float, int]]:
    """The count at 300 times, as corners of a line; where it stays the same there is none."""
    at, count, width = 0, 0, hours * 3600 / 300
    yield 0, 0
    for number in range(301):
        before = count
        while at < len(nodes) and nodes[at][0] <= number * width:
            count = nodes[at][1]
            at += 1
        if count != before or number == 300:
            yield number * width, before
            yield number * width, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0, help="how long the day is (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=MOST_NODES, help="how many there may be (default: %(default)s)")
    parser.add_argument("--svg", type=Path, help="draw it to this file")
    arguments = parser.parse_args()
    work = day(arguments.hours)
    outcomes = [
        simulate(work, autoscaler, mode, arguments.hours, arguments.nodes)
        for autoscaler in AUTOSCALERS
        for mode in Mode
    ]
    print(table(outcomes))
    if arguments.svg:
        arguments.svg.write_text(svg(outcomes, arguments.hours, arguments.nodes))
    wrong = [each for each in outcomes if each.mode is not Mode.NO_GATES and wrong_orders(each)]
    if wrong:
        raise SystemExit("\n".join(f"{each.title}: {each.orders}" for each in wrong))


def wrong_orders(outcome: Outcome) -> int:
    return int(outcome.counts["falseScaleUps"] + outcome.counts["missedScaleUps"])


if __name__ == "__main__":
    main()
