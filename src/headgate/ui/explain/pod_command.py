"""`headgate explain pod`: which gate or stage holds a pod, the numbers of its Volcano queue, who reserves ahead."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from headgate.engine.explain.pod import PodExplanation, explain_pod
from headgate.engine.scheduler.cache import CACHED_KINDS
from headgate.gates.pre_enqueue import InvalidPlugin
from headgate.live.cluster_reading import (
    ClusterFlags,
    ClusterReadError,
    KindsToRead,
    default_namespace,
    load_settings,
    read_cluster,
)
from headgate.model.keys import Key, Kind
from headgate.model.settings import Settings
from headgate.simulator import InvalidScenario, NeverSettles
from headgate.ui.arguments import read_file
from headgate.ui.explain.workload_command import Moment, cluster_options, scenario_options, simulated
from headgate.ui.output import TABLE, age, cluster_reading, echo_document, output_option, table
from headgate.ui.plugins import InstalledPlugins

DONE, NOT_FOUND, WRONG_INPUT = 0, 1, 2


@click.command(
    epilog="""\b
Examples:
  headgate explain pod train-0 --namespace team-a
      what holds the pod, and its queue at every level
  headgate explain pod pod-3 --scenario tests/scenarios/volcano/three-pods.yaml --at 50s
      in a scenario, 50 seconds after its start
"""
)
@click.argument("name", metavar="NAME")
@cluster_options
@click.option(
    "--config", metavar="FILE", callback=read_file, help="Configuration of the scheduler; - for standard input."
)
@scenario_options
@output_option
def pod(
    *,
    name: str,
    namespace: str,
    kubeconfig: str,
    context: str,
    insecure: bool,
    config: Path | None,
    scenario: str | None,
    at: float | None,
    seed: int,
    output: str,
) -> None:
    """Explain why a pod waits: the gate or stage that holds it, its Volcano queue, who reserves ahead of it.

    Only reads the cluster, and needs no running headgate.

    \b
    Exit status: 0 explained, 1 no such pod, 2 the input was wrong or the cluster could not be read.
    """
    if at is not None and not scenario:
        raise click.UsageError("--at: expected --scenario FILE as well")
    try:
        if scenario:
            shown = simulated(Moment(scenario, seed, at))
            objects, settings, now = shown.objects, shown.settings, shown.now
            key = Key(Kind.POD, namespace or "default", name)
        else:
            flags, settings, now = ClusterFlags(kubeconfig, context, insecure), _settings(config), time.time()
            key = Key(Kind.POD, namespace or default_namespace(flags), name)
            with cluster_reading() as reading:
                objects = read_cluster(flags, KindsToRead(CACHED_KINDS), lambda _seen: [], reading.read).objects
    except (ClusterReadError, InvalidScenario, InvalidPlugin, NeverSettles) as error:
        _fail(str(error), WRONG_INPUT)
    found = explain_pod(objects, settings, key, now)
    if found is None:
        _fail(f"pod {key.namespace}/{key.name} not found", NOT_FOUND)
    if output == TABLE:
        for line in render(found, now):
            click.echo(line)
    else:
        echo_document(msgspec.to_builtins(found), output)
    sys.exit(DONE)


def _settings(config: Path | None) -> Settings:
    return load_settings(config, InstalledPlugins().names)


def _fail(error: str, status: int) -> NoReturn:
    click.echo(f"Error: {error}", err=True)
    sys.exit(status)


def render(found: PodExplanation, now: float) -> Iterator[str]:
    yield f"Pod {found.pod}: {found.reason or 'no decision of ours'}"
    if found.message:
        yield f"  {found.message}"
    if found.gates:
        yield f"  gates: {', '.join(found.gates)}"
    if found.levels:
        yield ""
        yield f"Queue {found.queue}:"
        heads = ("QUEUE", "RESOURCE", "CAPABILITY", "USED", "RESERVED", "GUARANTEE")
        rows = [
            (each.queue, each.resource, each.capability or "-", each.used, each.reserved, each.guarantee)
            for each in found.levels
        ]
        yield from table(heads, rows)
    if found.ahead:
        yield ""
        yield "Reserved, waiting for a node:"
        rows_ahead = [(each.pod, each.queue, each.requests, age(now - each.since)) for each in found.ahead]
        yield from table(("POD", "QUEUE", "REQUESTS", "SINCE"), rows_ahead)
