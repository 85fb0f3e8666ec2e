"""`headgate apiserver`: the small Kubernetes by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from headgate.ui.arguments import AUTHORIZATION_MODE, PORT, WRITTEN_KUBECONFIG


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
