"""`headgate explain workload`: why a workload waits, who has its quota, and the smallest change that would admit it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NoReturn

import click
import msgspec
from msgspec import Struct

from headgate.api.durations import InvalidDuration, parse_duration
from headgate.engine.why_waiting.answers import Explanation
from headgate.engine.why_waiting.cluster import READ, Cluster
from headgate.engine.why_waiting.explaining import explain
from headgate.gates.strangers import InvalidPlugin
from headgate.live.reading import Readings
from headgate.live.start_look import CannotLook, Where, look, namespace_of, settings_in
from headgate.model.keys import Key, Kind
from headgate.model.queues import QueuedWorkload
from headgate.simulator.scenario import InvalidScenario
from headgate.simulator.virtual_time import NeverSettles
from headgate.ui.explain_json import to_json
from headgate.ui.explain_names import InvalidName, NoSuchWorkload, Wanted
from headgate.ui.explain_scenario import simulated
from headgate.ui.explain_text import render
from headgate.ui.installed import InstalledPlugins

DONE, NOT_FOUND, WRONG_INPUT = 0, 1, 2
NO_QUEUES = (
    "the cluster does not serve Workloads of kueue.x-k8s.io/v1beta2; `headgate install` brings them, or a Kueue that "
    "serves this version"
)


class Moment(Struct, frozen=True):
    """A second of a scenario's run, or its end."""

    scenario: str
    seed: int
    at: float | None


def read_moment(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration(text)
    except InvalidDuration as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    epilog="""\b
Examples:
  headgate explain workload job/train --namespace team-a
      the Workload of a Job
  headgate explain workload job-train-1a2b3 --output json
      a Workload by its own name, for a script
  headgate explain workload job/train --config headgate.yaml
      with fair sharing, transformations and the like as configured
  headgate explain workload job/model --scenario examples/11-queues/scenario.yaml --at 20s
      in a scenario, twenty seconds after its start
"""
)
@click.argument("name", metavar="[KIND/]NAME")
@click.option("--namespace", "-n", metavar="NAME", default="", help="Instead of the one of the context.")
@click.option("--kubeconfig", metavar="FILE", default="", help="Instead of KUBECONFIG or ~/.kube/config.")
@click.option("--context", metavar="NAME", default="", help="Context to use instead of the current one.")
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The configuration that headgate, or Kueue, decides by.",
)
@click.option("--scenario", metavar="FILE", type=click.Path(), help="Simulate this scenario instead.")
@click.option("--at", metavar="TIME", callback=read_moment, help="Of the scenario, such as 90s; else its end.")
@click.option("--seed", type=int, default=0, show_default=True, help="For the scenario.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
def workload(
    *,
    name: str,
    namespace: str,
    kubeconfig: str,
    context: str,
    config: Path | None,
    scenario: str | None,
    at: float | None,
    seed: int,
    output: str,
) -> None:
    """Say why a workload waits: the limit that binds, who holds the quota, the smallest changes that would admit it.

    NAME is that of a Workload, or job/NAME, pod/NAME or statefulset/NAME. Only reads the cluster, and needs no headgate
    to run; who wrote the objects, headgate or Kueue, makes no difference.

    \b
    Exit status: 0 answered, 1 no such workload, 2 the input was wrong or the cluster could not be read.
    """
    if at is not None and not scenario:
        raise click.UsageError("--at: expected --scenario FILE beside it")
    try:
        if scenario:
            told, now = _in_scenario(name, namespace, Moment(scenario, seed, at))
        else:
            told, now = _on_cluster(name, namespace, Where(kubeconfig, context), config)
    except NoSuchWorkload as error:
        _fail(error, NOT_FOUND)
    except (InvalidName, CannotLook, InvalidScenario, InvalidPlugin, NeverSettles) as error:
        _fail(error, WRONG_INPUT)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(to_json(told))))
    else:
        for line in render(told, now):
            click.echo(line)
    sys.exit(DONE)


def _fail(error: Exception, status: int) -> NoReturn:
    click.echo(f"Error: {error}", err=True)
    sys.exit(status)


def _in_scenario(name: str, namespace: str, moment: Moment) -> tuple[Explanation, float]:
    wanted = Wanted.parse(name, namespace or "default")
    cluster = simulated(moment.scenario, moment.seed, moment.at)
    return explain(cluster, wanted.find(list(cluster.workloads.values()), cluster.pods)), cluster.now


def _on_cluster(name: str, namespace: str, where: Where, config: Path | None) -> tuple[Explanation, float]:
    settings = settings_in(config, InstalledPlugins().names)
    wanted = Wanted.parse(name, namespace or namespace_of(where))
    found = look(where, READ, lambda seen: _further(wanted, seen))
    if Kind.KUEUE_WORKLOAD in found.unserved:
        raise CannotLook(NO_QUEUES)
    for complaint in found.left_out:
        click.echo(f"Warning: left out, because it cannot be read: {complaint}", err=True)
    cluster = Cluster(found.objects, settings.quota, time.time())
    return explain(cluster, wanted.find(list(cluster.workloads.values()), cluster.pods)), cluster.now


def _further(wanted: Wanted, seen: Readings) -> list[Key]:
    return wanted.worth_reading([one for one in seen.objects if isinstance(one, QueuedWorkload)])
