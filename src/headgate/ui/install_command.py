"""`headgate install`: give a cluster our kinds, our rights and our webhooks."""

from __future__ import annotations

import re
import sys

import click
import yaml

from headgate.api.install_manifests import AtService, AtUrl, Manifest, WebhookPlace

URL = re.compile(r"https://[^/?#@\s]+(/[^?#\s]*)?")
SERVICE = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?)/([a-z]([-a-z0-9]*[a-z0-9])?)(:([0-9]{1,5}))?")
WITHOUT_WEBHOOKS = (
    "No webhooks: unknown priority classes, and preemption priorities below the priority, will not be refused; jobs "
    "and pods that name a queue will not be held back by themselves, and mistakes in queues are found only later. "
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


@click.command(
    epilog="""\b
Examples:
  headgate install --service headgate-system/headgate
      on the cluster of the current context; `headgate run` is a pod behind that Service
  headgate install --webhook-url https://10.0.0.5:10271
      `headgate run --webhook-listen 0.0.0.0:10271` is a process outside the cluster
  headgate install --dry-run --service headgate-system/headgate | kubectl apply --server-side -f -
      the same by other hands
"""
)
@click.option("--kubeconfig", metavar="FILE", default="", help="Instead of KUBECONFIG or ~/.kube/config.")
@click.option("--context", metavar="NAME", default="", help="Context to use instead of the current one.")
@click.option(
    "--webhook-url",
    "url",
    metavar="URL",
    default="",
    callback=read_url,
    help="Where API servers reach `headgate run --webhook-listen` outside the cluster.",
)
@click.option(
    "--service",
    metavar="NAMESPACE/NAME[:PORT]",
    default="",
    callback=read_service,
    help="The Service they reach it by inside the cluster (port 443 unless said).",
)
@click.option(
    "--queues/--no-queues",
    default=True,
    help="Kueue's kinds, and what is needed to hold back jobs and pods until there is quota for them. Kinds that "
    "somebody else installed are left as they are.",
)
@click.option("--dry-run", is_flag=True, help="Print the manifests as YAML and ask no cluster.")
def install(
    *, kubeconfig: str, context: str, url: AtUrl | None, service: AtService | None, queues: bool, dry_run: bool
) -> None:
    """Give a cluster what workloads and queues need: their kinds, the rights of our process, and its webhooks.

    Safe to repeat: what is there already is brought up to date. Exits with 0 when all is in place, 2 for wrong input,
    1 otherwise.
    """
    # What talks to clusters takes a while to load, so only a real start loads it.
    from headgate.live.install import manifests  # noqa: PLC0415
    from headgate.live.start import start_install  # noqa: PLC0415

    if url is not None and service is not None:
        raise click.UsageError("expected --webhook-url or --service, not both")
    place: WebhookPlace | None = url or service
    wanted = manifests(place, queues=queues)
    if dry_run:
        click.echo(in_yaml(wanted), nl=False)
        return
    status = start_install(kubeconfig, context, wanted, click.echo)
    if status == 0 and place is None:
        click.echo(WITHOUT_WEBHOOKS)
    sys.exit(status)


def in_yaml(wanted: tuple[Manifest, ...]) -> str:
    return yaml.safe_dump_all(wanted, sort_keys=False, width=100)
