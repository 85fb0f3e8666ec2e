"""`headgate explain preemption`: the victims, the preemptor, the policy, the cost, and the alternatives."""

from __future__ import annotations

import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from headgate.api.wire import format_time
from headgate.gates.pre_enqueue import InvalidPlugin
from headgate.model.quantity import duration_text
from headgate.preemption.receipts import node_time
from headgate.simulator import NO_FAULTS, Interrupted, InvalidScenario, NeverSettles, load_scenario, run
from headgate.ui.output import JSON, YAML, echo_document, output_option, progress_bar
from headgate.ui.plugins import InstalledPlugins

DONE, NOT_FOUND, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
TIMEOUT = 5.0  # seconds for a running headgate to answer
RECEIPTS = ("preempt", "evict")
COUNTED = ("policy", "domain", "domains", "candidates", "victims", "units", "work_lost", "displaced", "certificate")

Entry = Mapping[str, Any]


class ServerUnreachable(Exception):
    """The running headgate did not answer."""


@click.command(
    epilog="""\b
Examples:
  headgate explain preemption
      the latest preemptions of the headgate on this machine
  headgate explain preemption team-a/train-0 --server https://10.0.0.5:10272 --token-file token --insecure
      those with one pod or workload as victim or preemptor, of a headgate with --metrics-listen
  headgate explain preemption --scenario examples/08-whole-gangs/scenario.yaml
      the preemptions of a scenario
"""
)
@click.argument("name", required=False, metavar="[NAMESPACE/]NAME")
@click.option(
    "--server",
    metavar="URL",
    default="http://127.0.0.1:10270",
    show_default=True,
    help="Address of a running headgate.",
)
@click.option("--token-file", metavar="FILE", type=click.Path(path_type=Path), help="Bearer token for that address.")
@click.option(
    "--certificate-authority", metavar="FILE", type=click.Path(path_type=Path), help="CA of its serving certificate."
)
@click.option("--insecure", is_flag=True, help="Do not verify its certificate; send the token even without TLS.")
@click.option("--scenario", metavar="FILE", help="Simulate this scenario instead; - for standard input.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the scenario.")
@output_option
def preemption(
    *,
    name: str | None,
    server: str,
    token_file: Path | None,
    certificate_authority: Path | None,
    insecure: bool,
    scenario: str | None,
    seed: int,
    output: str,
) -> None:
    """Show the receipts of preemptions, all or those that concern one object.

    \b
    Exit status: 0 found, 1 no such preemption, 2 the input was wrong or headgate could not be reached.
    """
    try:
        if scenario:
            entries = _simulated(scenario, seed)
        else:
            entries = _fetched(server, token_file, certificate_authority, insecure=insecure)
    except (InvalidScenario, InvalidPlugin, NeverSettles, ServerUnreachable) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(WRONG_INPUT)
    except (Interrupted, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    chosen = [entry for entry in entries if entry["decision"] in RECEIPTS and (not name or _concerns(entry, name))]
    if output == JSON:
        click.echo(msgspec.json.encode(chosen))
    elif output == YAML:
        echo_document(chosen, output)
    else:
        for line in render(chosen, name or "", duration_text if scenario else format_time):
            click.echo(line)
    sys.exit(DONE if chosen else NOT_FOUND)


def render(entries: Sequence[Entry], name: str, clock: Callable[[float], str]) -> Iterator[str]:
    """One paragraph per receipt, the oldest first; `clock` writes their times."""
    if not entries:
        yield f"no preemption concerned {name}" if name else "no preemptions"
    for entry in entries:
        yield f"{clock(entry['at'])} {_object(entry)} {entry['decision']}: {entry['message']}"
        yield from _details(entry["numbers"])


def _details(numbers: Mapping[str, int | str]) -> Iterator[str]:
    yield "    " + ", ".join(_counted(name, numbers[name]) for name in COUNTED if name in numbers)
    if numbers.get("compared"):
        yield f"    compared: {numbers['compared']}"
    if numbers.get("alternatives"):
        yield f"    rejected: {numbers['alternatives']}"


def _counted(name: str, value: int | str) -> str:
    text = node_time(int(value)) if name in ("work_lost", "displaced") else str(value)
    return f"{name.replace('_', ' ')} {text}"


def _concerns(entry: Entry, name: str) -> bool:
    found = entry["object"]
    names = (found["name"], f"{found.get('namespace', '')}/{found['name']}")
    whole = name if "/" in name else f"default/{name}"
    concerned = str(entry["numbers"].get("for", "")), *str(entry["numbers"].get("names", "")).split(", ")
    return name in names or any(whole in _names_in(text) for text in concerned)


def _names_in(text: str) -> Iterator[str]:
    """The names in a text like `pod group default/train/workers`, with the workload of a group."""
    for word in text.split():
        yield word
        yield "/".join(word.split("/")[:2])


def _object(entry: Entry) -> str:
    found = entry["object"]
    where = f"{found['namespace']}/" if "namespace" in found else ""
    return f"{found['kind']} {where}{found['name']}"


def _simulated(file: str, seed: int) -> Sequence[Entry]:
    installed = InstalledPlugins()
    scenario = load_scenario(file, installed.names)
    with progress_bar() as progress:
        report = run(scenario, seed, NO_FAULTS, progress, installed.enabled_by(*scenario.settings))
    return report.journal


def _fetched(server: str, token: Path | None, authority: Path | None, *, insecure: bool) -> Sequence[Entry]:
    url = f"{server.rstrip('/')}/preemptions"
    try:
        proof = {"Authorization": f"Bearer {token.read_text().strip()}"} if token is not None else {}
        if proof and not insecure and _is_in_the_clear(url):
            raise ServerUnreachable(
                f"{url}: expected https, because a token is sent; --insecure sends it in the clear all the same"
            )
        request, tls = urllib.request.Request(url, headers=proof), ssl.create_default_context(cafile=authority)
        if insecure:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(request, timeout=TIMEOUT, context=tls) as answer:
            entries: Sequence[Entry] = msgspec.json.decode(answer.read())
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise ServerUnreachable(
            f"{url} could not be read: {reason}. Is headgate running with --listen? Give its address with --server, "
            "or a scenario with --scenario"
        ) from error
    return entries


def _is_in_the_clear(url: str) -> bool:
    # Imported late, because the HTTP client takes a while to import and help should be fast.
    from headgate.live.access import is_loopback  # noqa: PLC0415

    parts = urlsplit(url)
    return parts.scheme != "https" and not is_loopback(parts.hostname or "")
