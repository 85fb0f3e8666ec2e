"""`headgate simulate`: run a scenario in virtual time and print what happened."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import click
import msgspec

from headgate.gates.pre_enqueue import InvalidPlugin
from headgate.model.quantity import counted, duration_text
from headgate.simulator import (
    Faults,
    Interrupted,
    InvalidScenario,
    NeverSettles,
    Report,
    load_scenario,
    parse_faults,
    run,
    uncontrolled_kinds,
)
from headgate.ui.output import JSON, TABLE, echo_document, output_option, progress_bar, styled, table
from headgate.ui.plugins import InstalledPlugins

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
OBJECTS_BETWEEN_COLLECTIONS = 1_000_000  # a run keeps nearly all it allocates, so collections find little
COLOURS = {
    **dict.fromkeys(("bind", "admit", "start", "finish", "ungate"), "green"),
    **dict.fromkeys(("wait", "gate", "hold", "nominate"), "yellow"),
    **dict.fromkeys(("preempt", "evict", "stop", "fail", "delete"), "red"),
}
"""Of decisions, by what they mean for the object."""


def _read_faults(_ctx: click.Context, _option: click.Parameter, value: str) -> Faults:
    try:
        return parse_faults(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    epilog="""\b
Examples:
  headgate simulate examples/01-first-pod/scenario.yaml
      the timeline, the pods, and a summary
  headgate simulate scenario.yaml --seed 7 --output json
      all objects, decisions and refused requests, for a script
  headgate simulate - < scenario.yaml
      from standard input
  headgate simulate scenario.yaml --faults crash=0.01,lost=0.05,conflict=0.05,stale=2s
      with faults at random, from the seed
"""
)
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds give equal runs.")
@output_option
@click.option(
    "--faults",
    callback=_read_faults,
    default="",
    metavar="FAULTS",
    help="Random faults: crash, lost, conflict (per write), coalesced, dropped (per batch of observations) as "
    "probabilities; stale, restart as durations.",
)
@click.option("--journal", is_flag=True, help="Print the timeline only.")
def simulate(file: str, seed: int, output: str, faults: Faults, journal: bool) -> None:
    """Run the scenario in FILE, or in standard input for `-`, and print what happened.

    \b
    Exit status: 0 done and every expectation held, 1 one did not hold or nothing came to rest, 2 the input was wrong,
    130 interrupted; what is known by then is printed.
    """
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        report, status = _run(file, seed, faults)
    except (InvalidScenario, InvalidPlugin) as error:
        _fail(str(error), WRONG_INPUT)
    except NeverSettles as error:
        _fail(f"{file}: {error}", FAILED)
    except AssertionError as error:  # an invariant of the simulator or of the engine
        _fail(f"{file}: a bug in headgate, please report it: {error}", FAILED)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    _print(report, output, journal)
    for failure in report.failures:
        click.echo(f"{file}: {failure}", err=True)
    sys.exit(FAILED if report.failures and status == DONE else status)


def _run(file: str, seed: int, faults: Faults) -> tuple[Report, int]:
    """What is known of the run when it ended or was interrupted, and the exit status of that."""
    installed = InstalledPlugins()
    scenario = load_scenario(file, installed.names)
    plugins = installed.enabled_by(*scenario.settings)
    if kinds := uncontrolled_kinds(scenario):
        click.echo(
            f"Warning: no controller of a simulated cluster acts on {', '.join(kinds)}: objects of these kinds are "
            "stored and nothing more happens to them",
            err=True,
        )
    try:
        with progress_bar() as progress:
            return run(scenario, seed, faults, progress, plugins), DONE
    except Interrupted as interrupted:
        click.echo(str(interrupted), err=True)
        return interrupted.report, INTERRUPTED


def _fail(message: str, status: int) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(status)


def _print(report: Report, output: str, journal: bool) -> None:
    if output == TABLE:
        for line in render(report, timeline_only=journal):
            click.echo(line)
    elif output == JSON:
        click.echo(report.to_json())
    else:
        echo_document(msgspec.json.decode(report.to_json()), output)


def render(report: Report, *, timeline_only: bool = False) -> Iterator[str]:
    """The report as lines of text, the timeline first."""
    yield from _timeline(report)
    if timeline_only:
        return
    yield ""
    yield from _pods(report)
    yield ""
    yield from _summary(report)


def _timeline(report: Report) -> Iterator[str]:
    several = len(report.final) > 1
    rows = [
        *(_warned(entry, several) for entry in report.warnings),
        *(_decided(entry, several) for entry in report.journal),
        *(_refused(entry, several) for entry in report.refused),
    ]
    rows.sort(key=lambda row: row[0])
    yield from table(
        ["TIME", "OBJECT", "DECISION", "WHY"], [[duration_text(at), *cells] for at, cells in rows], _coloured
    )


def _coloured(column: int, cell: str) -> str:
    word = cell.strip()
    return styled(cell, fg="red" if word.endswith("refused") else COLOURS.get(word)) if column == 2 else cell


def _decided(entry: Mapping[str, Any], several: bool) -> tuple[float, list[str]]:
    why = f"{entry['reason']}: {entry['message']}" if entry["message"] else entry["reason"]
    return entry["at"], [_object(entry, several), entry["decision"], why]


def _refused(entry: Mapping[str, Any], several: bool) -> tuple[float, list[str]]:
    return entry["at"], [_object(entry, several), f"{entry['verb']} refused", f"{entry['code']} {entry['message']}"]


def _warned(entry: Mapping[str, Any], several: bool) -> tuple[float, list[str]]:
    return entry["at"], [_object(entry, several), f"{entry['verb']} warned", entry["message"]]


def _object(entry: Mapping[str, Any], several: bool) -> str:
    found = entry["object"]
    where = f"{found['namespace']}/" if "namespace" in found else ""
    return f"{entry['cluster']}: " * several + f"{found['kind']} {where}{found['name']}"


def _pods(report: Report) -> Iterator[str]:
    several = len(report.final) > 1
    rows = [
        [f"{cluster}: " * several + _name(found), _phase(found), found["spec"].get("nodeName") or "-", _note(found)]
        for cluster, objects in report.final.items()
        for found in objects
        if found["kind"] == "Pod" and found["apiVersion"] == "v1"
    ]
    yield from table(["POD", "PHASE", "NODE", "NOTE"], rows)


def _name(found: Mapping[str, Any]) -> str:
    return f"{found['metadata']['namespace']}/{found['metadata']['name']}"


def _phase(found: Mapping[str, Any]) -> str:
    if "deletionTimestamp" in found["metadata"]:
        return "Terminating"
    return str(found.get("status", {}).get("phase", "Pending"))


def _note(found: Mapping[str, Any]) -> str:
    """Why it is not scheduled, from its PodScheduled condition."""
    for condition in found.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def _summary(report: Report) -> Iterator[str]:
    pods, waited = report.summary["pods"], report.summary["waitingSeconds"]
    yield f"after {duration_text(report.until)}, pods: " + ", ".join(f"{count} {name}" for name, count in pods.items())
    if waited is not None:
        least, median, most = (duration_text(waited[name]) for name in ("min", "median", "max"))
        yield f"waited for a node: {least} to {most}, median {median}"
    decisions, effects = report.summary["decisions"], report.summary["effects"]
    yield f"{counted(decisions, 'decision')}, {counted(effects, 'write')}"
    if (sent := report.summary.get("fleet")) is not None:
        by_cluster = [f"{name} {n['preemptions']}" for name, n in sent["clusters"].items() if n["preemptions"]]
        where = f" ({', '.join(by_cluster)})" if by_cluster else ""
        yield (
            f"fleet: {counted(sent['dispatches'], 'workload')} dispatched, "
            f"{counted(sent['gatesOpened'], 'gate')} opened, {sent['preemptions']} preempted{where}"
        )
    if (scaled := report.summary.get("autoscaler")) is not None:
        yield (
            f"autoscaler: {counted(scaled['scaleUps'], 'scale-up')}, {counted(scaled['nodesAdded'], 'node')} added, "
            f"{scaled['nodesRemoved']} removed, {scaled['falseScaleUps']} false, {scaled['missedScaleUps']} missed"
        )
