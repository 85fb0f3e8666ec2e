"""`headgate simulate`: run a scenario in virtual time and print what happened."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

import click

from headgate.gates.pre_enqueue import InvalidPlugin, PreEnqueue
from headgate.simulator import (
    Faults,
    InvalidScenario,
    NeverSettles,
    Progress,
    Report,
    Scenario,
    load_scenario,
    parse_faults,
    run,
)
from headgate.ui.plugins import InstalledPlugins
from headgate.ui.tables import table

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
BAR = 30  # characters
PATIENCE, REDRAW = 1.0, 0.1  # seconds before the bar appears, and between two updates
OBJECTS_BETWEEN_COLLECTIONS = 1_000_000  # a run keeps nearly all it allocates, so collections find little


def _read_faults(_ctx: click.Context, _option: click.Parameter, value: str) -> Faults:
    try:
        return parse_faults(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("file", type=click.Path())
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds give equal runs.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
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
    """Run the scenario in FILE and print what happened.

    \b
    Exit status: 0 done and every expectation held, 1 one did not hold, 2 the input was wrong.
    \b
    Examples:
      headgate simulate examples/01-first-pod/scenario.yaml
      headgate simulate scenario.yaml --seed 7 --output json
      headgate simulate scenario.yaml --faults crash=0.01,lost=0.05,conflict=0.05,stale=2s
    """
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    sys.exit(_simulate(file, seed, faults, lambda report: _print(report, output, journal)))


def _simulate(file: str, seed: int, faults: Faults, show: Callable[[Report], None]) -> int:
    try:
        installed = InstalledPlugins()
        scenario = load_scenario(file, installed.names)
        report = _run(scenario, seed, faults, installed.enabled_by(scenario.settings))
        show(report)
    except (InvalidScenario, InvalidPlugin) as error:
        return _say(str(error), WRONG_INPUT)
    except NeverSettles as error:
        return _say(f"{file}: {error}", FAILED)
    except AssertionError as error:  # an invariant of the simulator or of the engine
        return _say(f"{file}: a bug in headgate, please report it: {error}", FAILED)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    for failure in report.failures:
        click.echo(f"{file}: {failure}", err=True)
    return FAILED if report.failures else DONE


def _say(message: str, status: int) -> int:
    click.echo(message, err=True)
    return status


def _print(report: Report, output: str, journal: bool) -> None:
    if output == "json":
        click.echo(report.to_json())
    else:
        for line in render(report, timeline_only=journal):
            click.echo(line)


def _run(scenario: Scenario, seed: int, faults: Faults, plugins: tuple[PreEnqueue, ...]) -> Report:
    with _progress() as progress:
        return run(scenario, seed, faults, progress, plugins)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A progress bar for long runs, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda now, end: None
        return
    bar = _Bar()
    try:
        yield bar.show
    finally:
        bar.clear()


class _Bar:
    """A progress bar that appears after PATIENCE."""

    def __init__(self) -> None:
        self._next = monotonic() + PATIENCE
        self._width = 0

    def show(self, now: float, end: float | None) -> None:
        if monotonic() < self._next:
            return
        self._next = monotonic() + REDRAW
        text = f"simulating {_share(now / end) if end else f'{now:.0f}s'}"
        self._width = max(self._width, len(text))
        click.echo(f"\r{text:<{self._width}}", err=True, nl=False)

    def clear(self) -> None:
        if self._width:
            click.echo(f"\r{'':<{self._width}}\r", err=True, nl=False)


def _share(share: float) -> str:
    return f"[{'#' * int(share * BAR):<{BAR}}] {share:4.0%}"


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
    rows = [_decided(entry, several) for entry in report.journal] + [
        _refused(entry, several) for entry in report.refused
    ]
    rows.sort(key=lambda row: row[0])
    yield from table(["TIME", "OBJECT", "DECISION", "WHY"], [[_time(at), *cells] for at, cells in rows])


def _decided(entry: Mapping[str, Any], several: bool) -> tuple[float, list[str]]:
    why = f"{entry['reason']}: {entry['message']}" if entry["message"] else entry["reason"]
    return entry["at"], [_object(entry, several), entry["decision"], why]


def _refused(entry: Mapping[str, Any], several: bool) -> tuple[float, list[str]]:
    return entry["at"], [_object(entry, several), f"{entry['verb']} refused", f"{entry['code']} {entry['message']}"]


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
    yield f"after {_time(report.until)}, pods: " + ", ".join(f"{count} {name}" for name, count in pods.items())
    if waited is not None:
        yield f"waited for a node: {waited['min']:g}s to {waited['max']:g}s, median {waited['median']:g}s"
    yield f"{report.summary['decisions']} decisions, {report.summary['effects']} writes"
    if (scaled := report.summary.get("autoscaler")) is not None:
        yield (
            f"autoscaler: {scaled['scaleUps']} scale-ups, {scaled['nodesAdded']} nodes added, "
            f"{scaled['nodesRemoved']} removed, {scaled['falseScaleUps']} false, {scaled['missedScaleUps']} missed"
        )


def _time(seconds: float) -> str:
    return f"{seconds:g}s" if seconds < 1e6 else f"{seconds:.0f}s"
