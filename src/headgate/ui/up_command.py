"""`headgate up`, a cluster on this machine with Headgate on it, and `headgate apiserver`, its API server by itself."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import yaml

from headgate.model.quantity import InvalidQuantity, parse_quantity
from headgate.ui.arguments import DNS_NAME

ASSETS = "KUBEBUILDER_ASSETS"
DEFAULT_NODES, DEFAULT_SHAPE = "20", "cpu=8,memory=32Gi"
FASTEST = 10_000.0
WRONG_INPUT = 2
RESOURCE = re.compile(r"[A-Za-z0-9]([-._/A-Za-z0-9]*[A-Za-z0-9])?")


PORT = click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; 0, the default: a free one."
)
WRITTEN_KUBECONFIG = click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("headgate.kubeconfig"),
    show_default=True,
    help="Where to write the kubeconfig of its administrator; only you can read it.",
)
AUTHORIZATION_MODE = click.option(
    "--authorization-mode",
    "mode",
    type=click.Choice(["AlwaysAllow", "RBAC"]),
    default="AlwaysAllow",
    show_default=True,
    help="Who decides what a client may do: nobody, or Roles and their bindings, as on a real cluster.",
)


def read_shape(_context: click.Context, _parameter: click.Parameter, text: str) -> dict[str, str]:
    """Resources and their amounts."""
    shape = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = part.partition("=")
        try:
            parse_quantity(amount)
        except InvalidQuantity:
            equals = ""
        if not equals or not RESOURCE.fullmatch(name):
            raise click.BadParameter(f"expected RESOURCE=AMOUNT such as cpu=8 or nvidia.com/gpu=4, got {part!r}")
        shape[name] = amount
    return shape


def read_names(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if not DNS_NAME.fullmatch(name) or names.count(name) > 1:
            raise click.BadParameter(f"expected different names of lower-case letters, digits and '-', got {name!r}")
    if not names:
        raise click.BadParameter("expected at least one name")
    return names


@click.command(
    epilog="""\b
Examples:
  headgate up
      20 nodes; then, in another terminal, the line it prints, and kubectl
  headgate up --nodes 4 --node-shape cpu=8,memory=32Gi,nvidia.com/gpu=4 --speed 10
      four nodes with GPUs; everything takes a tenth of its time
  headgate up --scenario examples/11-queues/scenario.yaml
      the objects and the timeline of a scenario, while you look on
  headgate up --clusters manager,worker1,worker2
      three clusters, each a context of the kubeconfig; the first dispatches to the others
  KUBEBUILDER_ASSETS=/usr/local/kubebuilder/bin headgate up --kube-apiserver
      on a real kube-apiserver and etcd
"""
)
@click.option(
    "--nodes",
    metavar="COUNT|FILE",
    default="",
    help=f"How many nodes, or a file with `clusters[].nodes` of a scenario. [default: {DEFAULT_NODES}]",
)
@click.option(
    "--node-shape",
    "shape",
    metavar="RESOURCES",
    default=DEFAULT_SHAPE,
    show_default=True,
    callback=read_shape,
    help="What each node has.",
)
@click.option("--speed", type=click.FloatRange(0.01, FASTEST), default=1.0, show_default=True, help="Times faster.")
@click.option(
    "--scenario", metavar="FILE", default="", help="Play the objects and the timeline of a scenario; - for stdin."
)
@click.option(
    "--clusters",
    metavar="NAMES",
    default="main",
    show_default=True,
    callback=read_names,
    help="Several clusters, separated by commas: the first is the manager of the others, which have the nodes.",
)
@click.option("--kube-apiserver", "real", is_flag=True, help=f"On a real kube-apiserver and etcd from {ASSETS}.")
@PORT
@WRITTEN_KUBECONFIG
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep objects and credentials there, and go on from there. Default: in memory only.",
)
@AUTHORIZATION_MODE
@click.option("--exit-when-idle", is_flag=True, help="End when the scenario is over, instead of at Ctrl-C.")
def up(
    *,
    nodes: str,
    shape: dict[str, str],
    speed: float,
    scenario: str,
    clusters: tuple[str, ...],
    real: bool,
    port: int,
    kubeconfig: Path,
    data_dir: Path | None,
    mode: str,
    exit_when_idle: bool,
) -> None:
    """Start a cluster on this machine, with Headgate on it, until Ctrl-C.

    An API server on loopback, simulated nodes whose kubelets run pods for as long as their annotations say, the
    controllers of Jobs and other workloads, and Headgate with all roles and its webhooks. kubectl just works.

    Exits with 0 when stopped, 2 for wrong input, 1 otherwise.
    """
    # Imported late, because help should be fast.
    from headgate.apiserver.authorization import AuthorizationMode  # noqa: PLC0415
    from headgate.gates.pre_enqueue import InvalidPlugin  # noqa: PLC0415
    from headgate.local.up import UpPlan, start_up  # noqa: PLC0415
    from headgate.simulator import InvalidScenario, load_scenario, parse_scenario  # noqa: PLC0415
    from headgate.ui.plugins import InstalledPlugins  # noqa: PLC0415

    if scenario and (nodes or clusters != ("main",)):
        raise click.UsageError("expected --scenario without --nodes and --clusters: a scenario has its own")
    if real and speed != 1:
        raise click.UsageError("expected --kube-apiserver without --speed: a real server has a clock of its own")
    if real and not os.environ.get(ASSETS):
        raise click.UsageError(f"--kube-apiserver: expected {ASSETS} to name a folder with kube-apiserver and etcd")
    if data_dir is not None and speed != 1:
        raise click.UsageError("expected --data-dir without --speed: after a restart its times would lie in the future")
    installed = InstalledPlugins()
    try:
        if scenario:
            wanted = load_scenario(scenario, installed.names)
        else:
            wanted = parse_scenario(scenario_of(clusters, nodes, shape), _source(nodes), installed.names)
        plugins = installed.enabled_by(*wanted.settings)
    except (InvalidScenario, InvalidPlugin) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(WRONG_INPUT)
    plan = UpPlan(
        scenario=wanted,
        kubeconfig=kubeconfig.resolve(),
        speed=speed,
        port=port,
        assets=Path(os.environ[ASSETS]) if real else None,
        data_dir=data_dir,
        authorization=AuthorizationMode(mode),
        ends_when_idle=exit_when_idle,
        plugins=plugins,
    )
    sys.exit(start_up(plan, TerminalView() if sys.stdout.isatty() else PlainView()))


def _source(nodes: str) -> str:
    return nodes if nodes and not nodes.isdecimal() else "--nodes"


def scenario_of(clusters: Sequence[str], nodes: str, shape: dict[str, str]) -> str:
    """The scenario of clusters with nodes and nothing else. Several are a manager, which has no nodes, and workers."""
    from headgate.local.timeline import fleet_objects  # noqa: PLC0415

    batches = _batches(nodes or DEFAULT_NODES, shape)
    manager, *workers = clusters
    if not workers:
        described = [{"name": manager, "nodes": batches}]
    else:
        roles = ["scheduler", "quota", "integrations", "fleet"]
        described = [
            {"name": manager, "roles": roles, "objects": fleet_objects(tuple(workers))},
            *({"name": worker, "nodes": batches} for worker in workers),
        ]
    return yaml.safe_dump({"kind": "Scenario", "clusters": described})


def _batches(nodes: str, shape: dict[str, str]) -> object:
    if nodes.isdecimal():
        return [{"name": "node-%d", "count": int(nodes), "capacity": shape}]
    try:
        with Path(nodes).open("rb") as file:
            return yaml.safe_load(file)
    except OSError as error:
        raise click.BadParameter(f"expected a number or a file, but {nodes}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise click.BadParameter(f"expected YAML in {nodes}: {str(error).splitlines()[0]}") from None


class PlainView:
    """Lines, for whoever reads no terminal: decisions as they come, and how things are when that has changed."""

    def __init__(self) -> None:
        self._shown: tuple[str, ...] | None = None  # None: not ready yet

    def ready(self, kubeconfig: Path, clusters: Sequence[str]) -> None:
        self._shown = ()
        for line in _greeting(kubeconfig, clusters):
            click.echo(line)

    def write(self, text: str, /) -> None:
        click.echo(text, nl=False)

    def flush(self) -> None:
        sys.stdout.flush()

    def show(self, lines: Sequence[str]) -> None:
        if self._shown is not None and tuple(lines) != self._shown:
            self._shown = tuple(lines)
            click.echo("; ".join(lines))

    def close(self) -> None:
        self.flush()


class TerminalView:
    """A few lines that are drawn anew in their place, below what stays."""

    def __init__(self) -> None:
        from headgate.local.summary import LastDecisions  # noqa: PLC0415

        self._decisions, self._drawn, self._greeted = LastDecisions(), 0, False

    def ready(self, kubeconfig: Path, clusters: Sequence[str]) -> None:
        self._clear()
        for line in _greeting(kubeconfig, clusters):
            click.echo(line)
        self._greeted = True

    def write(self, text: str, /) -> None:
        self._decisions.write(text)

    def flush(self) -> None:
        """Is drawn with what is shown next."""

    def show(self, lines: Sequence[str]) -> None:
        if not self._greeted:
            return
        width, height = shutil.get_terminal_size()
        wanted = [*lines, "", *self._decisions.lines][-(height - 2) :]
        self._clear()
        for line in wanted:
            click.echo(line[: width - 1])
        self._drawn = len(wanted)

    def _clear(self) -> None:
        if self._drawn:
            click.echo(f"\x1b[{self._drawn}A\x1b[J", nl=False)
            self._drawn = 0

    def close(self) -> None:
        sys.stdout.flush()


def _greeting(kubeconfig: Path, clusters: Sequence[str]) -> list[str]:
    contexts = [f"contexts: {', '.join(clusters)}"] if len(clusters) > 1 else []
    return ["Up. In another terminal, paste:", "", f"  export KUBECONFIG={kubeconfig}", "", *contexts]


@click.command(
    epilog="""\b
Examples:
  headgate apiserver --port 6443 --kubeconfig ./kubeconfig
      then, in another terminal: KUBECONFIG=./kubeconfig kubectl get nodes
  headgate apiserver
      on a free port, with the kubeconfig beside it
"""
)
@PORT
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; loopback unless you mean it."
)
@WRITTEN_KUBECONFIG
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep objects and credentials there: what is acknowledged survives the process. Default: in memory only.",
)
@AUTHORIZATION_MODE
def apiserver(*, port: int, host: str, kubeconfig: Path, data_dir: Path | None, mode: str) -> None:
    """Serve a small Kubernetes until Ctrl-C: API server only, over TLS; empty unless its data are kept.

    kubectl and client libraries can use it; nothing runs pods there. Exits with 0 when stopped, 2 for wrong input,
    1 where it cannot listen.
    """
    # Imported late, because help should be fast.
    from headgate.apiserver.authorization import AuthorizationMode  # noqa: PLC0415
    from headgate.live.api_front import start_apiserver  # noqa: PLC0415
    from headgate.live.http_server import Listen  # noqa: PLC0415

    sys.exit(start_apiserver(Listen(host, port), kubeconfig.resolve(), data_dir, AuthorizationMode(mode), click.echo))
