"""`headgate install`: CRDs, RBAC and webhooks."""

from __future__ import annotations

import re
import sys

import click
import yaml

from headgate.api.install_manifests import AtService, AtUrl, Manifest, WebhookPlace
from headgate.model.settings import DEFAULT_SCHEDULER_NAME
from headgate.ui.arguments import read_scheduler_names
from headgate.ui.output import JSON, TABLE, echo_document, output_option

URL = re.compile(r"https://[^/?#@\s]+(/[^?#\s]*)?")
SERVICE = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?)/([a-z]([-a-z0-9]*[a-z0-9])?)(:([0-9]{1,5}))?")
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
WITHOUT_WEBHOOKS = (
    "No webhooks: unknown priority classes, and preemption priorities below the priority, will not be refused; Jobs "
    "and pods with a queue name will not be suspended or gated automatically, and invalid queues are found only later. "
    "See --webhook-url and --service."
)


def read_url(_context: click.Context, _parameter: click.Parameter, text: str) -> AtUrl | None:
    if text and not URL.fullmatch(text):
        raise click.BadParameter(f"expected a URL such as https://10.0.0.5:10271, got {text!r}")
    return AtUrl(text) if text else None


def read_service(_context: click.Context, _parameter: click.Parameter, text: str) -> AtService | None:
    if not text:
        return None
    found = SERVICE.fullmatch(text)
    if found is None or not 0 < int(found[6] or 443) < 65536:
        raise click.BadParameter(f"expected NAMESPACE/NAME or NAMESPACE/NAME:PORT, got {text!r}")
    return AtService(found[1], found[3], int(found[6] or 443))


def read_namespaces(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        if not NAMESPACE.fullmatch(name):
            raise click.BadParameter(f"expected names of namespaces, got {name!r}")
    if not names:
        raise click.BadParameter("expected at least one namespace, such as kube-system")
    return names


@click.command(
    epilog="""\b
Examples:
  headgate install --service headgate-system/headgate
      on the cluster of the current context; `headgate run` is a pod behind that Service
  headgate install --webhook-url https://10.0.0.5:10271
      `headgate run --roles scheduler,quota,integrations --webhook-listen 0.0.0.0:10271` is a process outside
  headgate install --dry-run --service headgate-system/headgate | kubectl apply --server-side -f -
      the same, applied with kubectl
"""
)
@click.option("--kubeconfig", metavar="FILE", default="", help="Instead of KUBECONFIG or ~/.kube/config.")
@click.option("--context", metavar="NAME", default="", help="Context to use instead of the current one.")
@click.option("--insecure", is_flag=True, help="Send a bearer token even over plain HTTP to another host.")
@click.option(
    "--webhook-url",
    "url",
    metavar="URL",
    default="",
    callback=read_url,
    help="URL of the webhooks of a `headgate run --webhook-listen` outside the cluster.",
)
@click.option(
    "--service",
    metavar="NAMESPACE/NAME[:PORT]",
    default="",
    callback=read_service,
    help="Service of the webhooks inside the cluster; the default port is 443.",
)
@click.option(
    "--queues/--no-queues",
    default=True,
    help="Also install Kueue's CRDs, and what suspends Jobs and gates pods until they are admitted. CRDs that "
    "headgate did not install are left as they are.",
)
@click.option(
    "--volcano",
    is_flag=True,
    help="Also install Volcano's CRDs Queue and PodGroup and their validation. CRDs that headgate did not install are "
    "left as they are.",
)
@click.option(
    "--fleet",
    is_flag=True,
    help="Also install the rights of `headgate run --roles fleet`, for a manager cluster: among them, to read Secrets "
    "of the namespace headgate-system.",
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    metavar="NAME",
    multiple=True,
    default=(DEFAULT_SCHEDULER_NAME,),
    show_default=True,
    callback=read_scheduler_names,
    help="schedulerName that `headgate run` serves: its pods get the queue-allocation gate they ask for, and those of "
    "others never come to our webhooks for it; may be repeated.",
)
@click.option(
    "--system-class-namespaces",
    metavar="LIST",
    default="kube-system",
    show_default=True,
    callback=read_namespaces,
    help="Namespaces whose Workloads and PodGroups may name system-* PriorityClasses, separated by commas.",
)
@click.option("--dry-run", is_flag=True, help="Print the manifests, as YAML or JSON, and contact no cluster.")
@output_option
def install(
    *,
    kubeconfig: str,
    context: str,
    insecure: bool,
    url: AtUrl | None,
    service: AtService | None,
    queues: bool,
    volcano: bool,
    fleet: bool,
    scheduler_names: tuple[str, ...],
    system_class_namespaces: tuple[str, ...],
    dry_run: bool,
    output: str,
) -> None:
    """Install CRDs, RBAC and webhooks for workloads and queues.

    Idempotent: what exists is updated. Exits with 0 when everything is installed, 2 for wrong input, 1 otherwise.
    """
    # Imported late, because the HTTP client takes a while to import and help should be fast.
    from headgate.live.cluster_reading import ClusterFlags  # noqa: PLC0415
    from headgate.live.install import manifests  # noqa: PLC0415
    from headgate.live.start import start_install  # noqa: PLC0415

    if url is not None and service is not None:
        raise click.UsageError("expected --webhook-url or --service, not both")
    place: WebhookPlace | None = url or service
    if fleet and not queues:
        raise click.UsageError("expected --fleet without --no-queues: a manager cluster has queues")
    wanted = manifests(
        place,
        queues=queues,
        volcano=volcano,
        fleet=fleet,
        schedulers=scheduler_names,
        system_classes=system_class_namespaces,
    )
    if dry_run and output == JSON:
        echo_document({"apiVersion": "v1", "kind": "List", "items": wanted}, output)
        return
    if dry_run:
        click.echo(in_yaml(wanted), nl=False)
        return
    steps: list[str] = []
    tell = click.echo if output == TABLE else steps.append
    status = start_install(ClusterFlags(kubeconfig, context, insecure), wanted, tell)
    if output != TABLE:
        told = [line.rpartition(": ") for line in steps]
        echo_document([{"object": name, "outcome": outcome} for name, _, outcome in told], output)
    if status == 0 and place is None:
        click.echo(WITHOUT_WEBHOOKS, err=output != TABLE)
    sys.exit(status)


def in_yaml(wanted: tuple[Manifest, ...]) -> str:
    return yaml.safe_dump_all(wanted, sort_keys=False, width=100)
