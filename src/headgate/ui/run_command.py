"""`headgate run`: the quota, integrations, scheduler and fleet roles on a cluster."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from headgate.ui.arguments import read_file, read_scheduler_names

ROLES = ("quota", "scheduler", "fleet", "integrations")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def read_roles(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    roles = tuple(part.strip() for part in text.split(",") if part.strip())
    for role in roles:
        if role not in ROLES:
            raise click.BadParameter(f"expected roles among {', '.join(ROLES)}, got {role!r}")
    if not roles:
        raise click.BadParameter(f"expected at least one role among {', '.join(ROLES)}")
    return roles


def read_namespace(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    if text and not DNS_LABEL.fullmatch(text):
        raise click.BadParameter(f"expected the name of a namespace, got {text!r}")
    return text


@click.command(
    epilog="""\b
Examples:
  headgate run
      on the cluster of the current context, with leader election in kube-system
  headgate run --kubeconfig admin.conf --roles scheduler
      schedules pods with spec.schedulerName: headgate; needs nothing installed
  headgate run --roles quota,integrations
      queues and quota for Jobs and pods, with any scheduler
  headgate run --scheduler-name default-scheduler --no-leader-elect
      in place of kube-scheduler, as a single replica
  headgate run --config headgate.yaml --log-format json --record seen.jsonl
      with a configuration, JSON logs, and observations recorded for replay
  headgate run --roles quota,integrations,fleet
      on a manager cluster: workloads run on its worker clusters
  headgate run --roles scheduler,quota,integrations --webhook-listen 0.0.0.0:10271
      also serves the webhooks that `headgate install` configured
"""
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    default="",
    help="Instead of KUBECONFIG, ~/.kube/config or the pod's service account.",
)
@click.option("--context", metavar="NAME", default="", help="Context to use instead of the current one.")
@click.option("--insecure", is_flag=True, help="Send a bearer token even over plain HTTP to another host.")
@click.option("--config", metavar="FILE", callback=read_file, help="Configuration (YAML); - for standard input.")
@click.option(
    "--roles",
    metavar="LIST",
    default="scheduler",
    show_default=True,
    callback=read_roles,
    help=f"Roles to run, separated by commas: {', '.join(ROLES)}.",
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
    help="Address of /healthz, /livez and /readyz; '' for none. Also of /metrics and /preemptions, which need no token "
    "if it is a loopback address.",
)
@click.option(
    "--metrics-listen",
    metavar="HOST:PORT",
    default="",
    help="Address of /metrics and /preemptions over TLS, for whoever has a token or client certificate that the API "
    "server lets get them.  [default: none]",
)
@click.option(
    "--metrics-cert",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Serving certificate.  [default: one that is made at each start]",
)
@click.option("--metrics-key", metavar="FILE", type=click.Path(path_type=Path), help="Key of that certificate.")
@click.option(
    "--metrics-client-ca",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="CA of client certificates that may read /metrics and /preemptions.  [default: tokens only]",
)
@click.option(
    "--leader-elect",
    metavar="[true|false]",
    type=click.BOOL,
    is_flag=False,
    flag_value=True,
    default=True,
    show_default=True,
    help="Run only as elected leader.",
)
@click.option("--no-leader-elect", is_flag=True, help="Same as --leader-elect=false.")
@click.option(
    "--lease-namespace",
    metavar="NAME",
    default="",
    callback=read_namespace,
    help="Namespace of the lease.  [default: the pod's own, or kube-system outside a cluster]",
)
@click.option(
    "--webhook-listen",
    metavar="HOST:PORT",
    default="",
    help="Address of the admission webhooks, over TLS.  [default: none]",
)
@click.option(
    "--queues/--no-queues",
    default=True,
    help="Also serve the webhooks of queues, which need the roles quota and integrations; as for `headgate install`.",
)
@click.option(
    "--webhook-cert",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Serving certificate.  [default: from our own CA, which the webhook configurations trust]",
)
@click.option("--webhook-key", metavar="FILE", type=click.Path(path_type=Path), help="Key of that certificate.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--record", metavar="FILE", type=click.Path(path_type=Path), help="Record observations, for replay.")
@click.option(
    "--plugin-timeout",
    metavar="DURATION",
    default="100ms",
    show_default=True,
    help="Time limit for a call of an installed plugin.",
)
def run(
    *,
    kubeconfig: str,
    context: str,
    insecure: bool,
    config: Path | None,
    roles: tuple[str, ...],
    scheduler_names: tuple[str, ...],
    listen: str,
    metrics_listen: str,
    metrics_cert: Path | None,
    metrics_key: Path | None,
    metrics_client_ca: Path | None,
    leader_elect: bool,
    no_leader_elect: bool,
    lease_namespace: str,
    webhook_listen: str,
    queues: bool,
    webhook_cert: Path | None,
    webhook_key: Path | None,
    log_format: str,
    log_level: str,
    record: Path | None,
    plugin_timeout: str,
) -> None:
    """Run on a cluster: admit workloads to quota, start and stop their pods, schedule pods, dispatch to other clusters.

    The scheduler role needs nothing installed; for Workloads and queues, see `headgate install`. Exits with 0 after
    SIGTERM or Ctrl-C, 2 for wrong input, 1 otherwise.
    """
    # Imported late, because the HTTP client takes a while to import and help should be fast.
    from headgate.gates.pre_enqueue import InvalidPlugin  # noqa: PLC0415
    from headgate.live.start import Flags, start  # noqa: PLC0415
    from headgate.ui.output import cluster_reading  # noqa: PLC0415
    from headgate.ui.plugins import InstalledPlugins  # noqa: PLC0415

    flags = Flags(
        kubeconfig=kubeconfig,
        context=context,
        insecure=insecure,
        config=config,
        roles=roles,
        scheduler_names=scheduler_names,
        listen=listen,
        metrics_listen=metrics_listen,
        metrics_cert=metrics_cert,
        metrics_key=metrics_key,
        metrics_client_ca=metrics_client_ca,
        leader_elect=leader_elect and not no_leader_elect,
        lease_namespace=lease_namespace,
        webhook_listen=webhook_listen,
        queues=queues,
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
    with cluster_reading() as console:
        sys.exit(start(flags, installed, console))
