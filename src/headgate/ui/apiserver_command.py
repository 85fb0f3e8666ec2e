"""`headgate apiserver`: the small Kubernetes by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(
    epilog="""\b
Examples:
  headgate apiserver --port 6443 --kubeconfig ./kubeconfig
      then, in another terminal: KUBECONFIG=./kubeconfig kubectl get nodes
  headgate apiserver
      on a free port, with the kubeconfig beside it
"""
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; 0, the default: a free one.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; loopback unless you mean it."
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("headgate.kubeconfig"),
    show_default=True,
    help="Where to write the kubeconfig of its administrator; only you can read it.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep objects and credentials there: what is acknowledged survives the process. Default: in memory only.",
)
def apiserver(*, port: int, host: str, kubeconfig: Path, data_dir: Path | None) -> None:
    """Serve a small Kubernetes until Ctrl-C: API server only, over TLS; empty unless its data are kept.

    kubectl and client libraries can use it; nothing runs pods there. Exits with 0 when stopped, 2 for wrong input,
    1 where it cannot listen.
    """
    # Imported late, because help should be fast.
    from headgate.live.api_front import start_apiserver  # noqa: PLC0415
    from headgate.live.http_server import Listen  # noqa: PLC0415

    sys.exit(start_apiserver(Listen(host, port), kubeconfig.resolve(), data_dir, click.echo))
