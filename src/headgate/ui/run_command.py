"""`headgate run`: decide on a real cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

ROLES = ("quota", "scheduler", "fleet", "integrations")
BUILT_ROLES = ("quota", "scheduler", "integrations")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


def read_roles(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    roles = tuple(part.strip() for part in text.split(",") if part.strip())
    for role in roles:
        if role not in ROLES:
            raise click.BadParameter(f"expected roles among {', '.join(ROLES)}, got {role!r}")
        if role not in BUILT_ROLES:
            raise click.BadParameter(f"the role {role!r} is not available yet; available: {', '.join(BUILT_ROLES)}")
    if not roles:
        raise click.BadParameter(f"expected at least one role among {', '.join(BUILT_ROLES)}")
    return roles


def read_namespace(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    if text and not DNS_LABEL.fullmatch(text):
        raise click.BadParameter(f"expected the name of a namespace, got {text!r}")
    return text


def read_scheduler_names(_context: click.Context, _parameter: click.Parameter, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if not DNS_NAME.fullmatch(name):
            raise click.BadParameter(f"expected a name of lower-case letters, digits, '-' and '.', got {name!r}")
    return tuple(dict.fromkeys(names))


@click.command(
    epilog="""\b
Examples:
  headgate run
      on the cluster of the current context, with leader election in kube-system
  headgate run --kubeconfig admin.conf --roles scheduler
      on a bare cluster; pods with spec.schedulerName: headgate get nodes
  headgate run --roles quota,integrations
      queues and quota for jobs and pods, whoever schedules them
  headgate run --scheduler-name default-scheduler --no-leader-elect
      in place of kube-scheduler, alone
  headgate run --config headgate.yaml --log-format json --record seen.jsonl
      configured, with logs for machines, and what was observed kept for replay
  headgate run --webhook-listen 0.0.0.0:10271
      answering questions about new Workloads too, where `headgate install` told the cluster to ask
"""
)
@click.option(
    "--kubeconfig", metavar="FILE", default="", help="Instead of KUBECONFIG, ~/.kube/config or a pod's own access."
)
@click.option("--context", metavar="NAME", default="", help="Context to use instead of the current one.")
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Configuration (YAML).")
@click.option(
    "--roles",
    metavar="LIST",
    default="scheduler",
    show_default=True,
    callback=read_roles,
    help=f"What to decide, separated by commas: {', '.join(ROLES)}.",
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    metavar="NAME",
    multiple=True,
    callback=read_scheduler_names,
    help="Serve pods of this schedulerName instead of the configured ones; may be repeated.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="0.0.0.0:10270",
    show_default=True,
    help="Where /healthz, /livez, /readyz and /metrics are served; '' for nowhere.",
)
@click.option(
    "--leader-elect",
    metavar="[true|false]",
    type=click.BOOL,
    is_flag=False,
    flag_value=True,
    default=True,
    show_default=True,
    help="Decide only as leader.",
)
@click.option("--no-leader-elect", is_flag=True, help="The same as --leader-elect=false.")
@click.option(
    "--lease-namespace",
    metavar="NAME",
    default="",
    callback=read_namespace,
    help="Where the lease is kept.  [default: our own inside a cluster, kube-system outside]",
)
@click.option(
    "--webhook-listen",
    metavar="HOST:PORT",
    default="",
    help="Where API servers may ask about new Workloads, over TLS.  [default: nowhere]",
)
@click.option(
    "--webhook-cert",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Certificate to show them.  [default: one of our own, which they are told to trust]",
)
@click.option("--webhook-key", metavar="FILE", type=click.Path(path_type=Path), help="The key of that certificate.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--record", metavar="FILE", type=click.Path(path_type=Path), help="Write what is observed, for replay.")
@click.option(
    "--plugin-timeout",
    metavar="DURATION",
    default="100ms",
    show_default=True,
    help="How long an installed plugin may take over one pod.",
)
def run(
    *,
    kubeconfig: str,
    context: str,
    config: Path | None,
    roles: tuple[str, ...],
    scheduler_names: tuple[str, ...],
    listen: str,
    leader_elect: bool,
    no_leader_elect: bool,
    lease_namespace: str,
    webhook_listen: str,
    webhook_cert: Path | None,
    webhook_key: Path | None,
    log_format: str,
    log_level: str,
    record: Path | None,
    plugin_timeout: str,
) -> None:
    """Decide on a real cluster: when pods may start and where they run.

    Needs nothing installed in the cluster; for Workloads, see `headgate install`. Exits with 0 after SIGTERM or Ctrl-C,
    2 for wrong input, 1 otherwise.
    """
    # What talks to clusters takes a while to load, so only a real start loads it.
    from headgate.gates.pre_enqueue import InvalidPlugin  # noqa: PLC0415
    from headgate.live.start import Flags, start  # noqa: PLC0415
    from headgate.ui.installed import InstalledPlugins  # noqa: PLC0415

    flags = Flags(
        kubeconfig=kubeconfig,
        context=context,
        config=config,
        roles=roles,
        scheduler_names=scheduler_names,
        listen=listen,
        leader_elect=leader_elect and not no_leader_elect,
        lease_namespace=lease_namespace,
        webhook_listen=webhook_listen,
        webhook_cert=webhook_cert,
        webhook_key=webhook_key,
        log_format=log_format,
        log_level=log_level,
        record=record,
        plugin_timeout=plugin_timeout,
    )
    try:
        installed = InstalledPlugins()
    except InvalidPlugin as error:
        raise click.UsageError(str(error)) from None
    sys.exit(start(flags, installed))
