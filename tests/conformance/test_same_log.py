"""One observation log, three worlds: the simulator, the live stack over HTTP, and the bare engine tell one story."""

from __future__ import annotations

import random

import pytest
from lived import lived
from msgspec import structs
from replayed import replayed
from simulated import simulated
from simulator.small_scenarios import job, nodes, pod, scenario

from headgate.simulator.report import merged_journal
from headgate.simulator.virtual_time import EPOCH

GATES = [{"name": "example.com/quota"}, {"name": "example.com/license"}]


def by_name(name: str) -> dict[str, str]:
    return {"kind": "Pod", "namespace": "default", "name": name}


def ungate(at: str, name: str, *left: dict[str, str]) -> dict:
    return {"at": at, "patch": by_name(name) | {"merge": {"spec": {"schedulingGates": list(left)}}}}


EVERYDAY = [
    {"at": "1s", "apply": [pod("ends", cpu="3", run="20"), pod("gated", schedulingGates=GATES)]},
    {"at": "2s", "apply": [pod("refused", cpu="4"), pod("leaves", cpu="1"), pod("choosy", nodeSelector={"zone": "b"})]},
    ungate("5s", "gated", GATES[1]),
    ungate("6s", "gated"),
    {"at": "8s", "delete": by_name("leaves")},
    {"at": "40s", "addNodes": [nodes(1, name="late-%d", labels={"zone": "b"})]},
    {"at": "50s", "apply": [pod("unlucky", cpu="9")]},
    {"at": "55s", "apply": [pod("again", cpu="9")]},
    {"at": "60s", "delete": by_name("again")},
    {"at": "60s", "apply": [pod("again", cpu="2")]},
    {"at": "70s", "dropNode": "late-0"},
]
BUSY = [
    {"at": "1s", "apply": [job("batch", completions=6, parallelism=3, run="7", cpu="2")]},
    {"at": "2s", "apply": [pod(f"p-{number}", cpu="1500m", run="11") for number in range(8)]},
    {"at": "30s", "addNodes": [nodes(2, name="more-%d")]},
    {"at": "400s", "apply": [pod("much-later", cpu="500m")]},
]


def by_chance(seed: int) -> list[dict]:
    """Pods that come, some gated, some too large, and go again, in an order of their own."""
    rolls, steps = random.Random(seed), []
    for number in range(12):
        name, at = f"r-{number}", rolls.randrange(1, 60)
        gated = {"schedulingGates": GATES} if rolls.random() < 0.3 else {}
        run = str(rolls.choice([5, 15, ""]))
        steps.append({"at": f"{at}s", "apply": [pod(name, cpu=rolls.choice(["1", "3", "6"]), run=run, **gated)]})
        if gated:
            steps.append(ungate(f"{at + rolls.randrange(1, 20)}s", name))
        if rolls.random() < 0.2:
            steps.append({"at": f"{at + 30}s", "delete": by_name(name)})
    steps.append({"at": f"{rolls.randrange(20, 60)}s", "addNodes": [nodes(1, cpu="8", name="big-%d")]})
    return steps


LOGS = [
    pytest.param(EVERYDAY, "120s", 0, id="pods come, are refused, held, released, end and are deleted"),
    pytest.param(BUSY, "900s", 3, id="a job and more pods than fit, for longer than a watch lasts"),
    *(pytest.param(by_chance(seed), "400s", seed, id=f"by chance, seed {seed}") for seed in range(4)),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("timeline, until, seed", LOGS)
def test_one_log_gives_one_journal_in_every_world(timeline, until, seed):
    plan = scenario(pod("first"), machines=[nodes(2)], timeline=timeline, until=until)
    settings = structs.replace(plan.settings[0], seed=seed)
    log, journal = simulated(plan, seed)

    story, recorded = lived(log, settings)

    assert merged_journal({"main": story}, EPOCH) == journal
    assert [step(line) for line in recorded] == [step(line) for line in log]
    assert merged_journal({"main": replayed(recorded, settings)}, EPOCH) == journal


def step(line):
    """Within one step order is the world's own affair."""
    return line["at"], sorted(line["events"], key=str)


def test_the_everyday_log_holds_every_kind_of_decision():
    _, journal = simulated(scenario(pod("first"), machines=[nodes(2)], timeline=EVERYDAY, until="120s"), 0)
    assert {entry["decision"] for entry in journal} == {"bind", "wait", "gate", "ungate"}
