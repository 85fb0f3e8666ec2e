"""What Prometheus reads of gangs and of preemption, from an engine at work."""

from __future__ import annotations

import pytest
from builders import bound, gang, member, node, pod, priority_class, workload
from msgspec.structs import replace
from page_server import pages_served
from steps import Steps
from test_live_pages import ask

from headgate.live.health import Readiness
from headgate.live.metrics import Metrics
from headgate.model.effects import Bind, PatchStatus
from headgate.model.events import Outcome

TWO = node("n", cpu=100), node("m", cpu=100)
LOW = [bound(pod(f"low-{name}", priority=1), name) for name in ("n", "m")]
URGENT = (
    priority_class("high", 10),
    workload("urgent", gang(2), priority_class="high"),
    member("u0", "urgent"),
    member("u1", "urgent"),
)
WHOLE = workload("train", gang(2, whole=True)), bound(member("w0"), "n"), bound(member("w1"), "m")


def answered(steps: Steps) -> Steps:
    """The server accepts every nomination, mark and binding of the last step."""
    return steps.step(*(Outcome(effect) for effect in steps.effects if isinstance(effect, PatchStatus | Bind)))


async def read(steps: Steps) -> dict[str, float]:
    """What the page says of an engine that went through these steps."""
    metrics = Metrics("headgate")
    metrics.told(steps.engine.journal.take(), 0.0)
    metrics.start_leading(steps.engine.gauges)
    async with pages_served(Readiness(), metrics.render) as port:
        lines = (await ask(port, "GET /metrics HTTP/1.1"))[2].splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [*TWO, *LOW, pod("boss", priority=10)],
            {
                "scheduler_preemption_attempts_total": 1,
                "scheduler_preemption_victims_count": 1,
                "scheduler_preemption_victims_sum": 1,
                "scheduler_workload_preemption_victims_count": 0,
                'scheduler_preemption_workload_disruptions_sum{preemptor="pod"}': 0,
                'scheduler_preemption_pdb_violations_total{preemptor="pod"}': 0,
            },
            id="a pod takes the room of a pod",
        ),
        pytest.param(
            [*TWO, *WHOLE, pod("boss", priority=10)],
            {
                "scheduler_preemption_victims_sum": 2,
                'scheduler_preemption_workload_disruptions_sum{preemptor="pod"}': 1,
            },
            id="a pod takes the room of a gang that leaves whole",
        ),
        pytest.param(
            [*TWO, *LOW, *URGENT],
            {
                "scheduler_preemption_attempts_total": 0,
                'scheduler_workload_preemption_attempts_total{result="success"}': 1,
                "scheduler_workload_preemption_victims_sum": 2,
                "scheduler_preemption_victims_sum": 2,
                'scheduler_preemption_workload_disruptions_count{preemptor="podgroup"}': 1,
                'scheduler_podgroup_schedule_attempts_total{profile="headgate",result="waiting_on_preemption"}': 1,
                'scheduler_schedule_attempts_total{profile="headgate",result="unschedulable"}': 2,
            },
            id="a gang takes the room of two pods",
        ),
        pytest.param(
            [*TWO, *(replace(each, priority=99) for each in LOW), *URGENT],
            {
                'scheduler_workload_preemption_attempts_total{result="unschedulable"}': 1,
                'scheduler_podgroup_schedule_attempts_total{profile="headgate",result="unschedulable"}': 1,
                "scheduler_preemption_victims_count": 0,
            },
            id="nobody would leave for the gang",
        ),
        pytest.param(
            [*TWO, *URGENT],
            {
                'scheduler_podgroup_schedule_attempts_total{profile="headgate",result="scheduled"}': 1,
                'scheduler_schedule_attempts_total{profile="headgate",result="scheduled"}': 2,
            },
            id="a gang that finds room",
        ),
    ],
)
async def test_what_is_counted(objects, expected):
    steps = answered(answered(Steps(*objects)))
    found = await read(steps)
    assert {name: found[name] for name in expected} == expected
