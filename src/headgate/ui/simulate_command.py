"""`headgate simulate`: run a scenario in virtual time and tell what happened."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

import click

from headgate.gates.pre_enqueue import PreEnqueue
from headgate.gates.strangers import InvalidPlugin
from headgate.simulator.faults import Faults, parse_faults
from headgate.simulator.report import Report
from headgate.simulator.scenario import InvalidScenario, Scenario, load_scenario
from headgate.simulator.virtual_time import NeverSettles, Progress, run
from headgate.ui.installed import InstalledPlugins
from headgate.ui.timeline import render

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
BAR = 30  # characters
PATIENCE, REDRAW = 1.0, 0.1  # seconds before the bar appears, and between two pictures of it
OBJECTS_BETWEEN_COLLECTIONS = 1_000_000  # a run keeps nearly all it makes, so looking for garbage is mostly in vain


def _read_faults(_ctx: click.Context, _option: click.Parameter, value: str) -> Faults:
    try:
        return parse_faults(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("file", type=click.Path())
@click.option("--seed", type=int, default=0, show_default=True, help="One seed, one history.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--faults",
    callback=_read_faults,
    default="",
    metavar="FAULTS",
    help="What goes wrong, by chance: crash, lost, conflict (per write), coalesced, dropped (per look) as "
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
    except AssertionError as error:  # an invariant, of the simulator's or of the engine's own
        return _say(f"{file}: a fault of headgate's own, please report it: {error}", FAILED)
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
    """A bar on the terminal for runs that take a while; nothing where nobody watches."""
    if not sys.stderr.isatty():
        yield lambda now, end: None
        return
    bar = _Bar()
    try:
        yield bar.show
    finally:
        bar.clear()


class _Bar:
    """Appears when a run takes longer than a moment."""

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
