"""From the command line of `headgate install` to an exit code."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence

from headgate.api.install_manifests import Manifest
from headgate.live.access import Access
from headgate.live.client import Client
from headgate.live.connection import Disconnected
from headgate.live.credentials import CredentialsUnavailable
from headgate.live.document import InvalidKubeconfig
from headgate.live.finding import find_access
from headgate.live.install import NotInstalled, install

INSTALLED, FAILED, WRONG_INPUT = 0, 1, 2  # exit codes

Tell = Callable[[str], None]


def start_install(kubeconfig: str, context: str, wanted: Sequence[Manifest], tell: Tell) -> int:
    """Installs what is wanted on the cluster of these flags and tells each step; the exit code."""
    try:
        asyncio.run(_install(find_access(kubeconfig, context, os.environ), wanted, tell))
    except InvalidKubeconfig as error:
        sys.stderr.write(f"Error: {error}\n")
        return WRONG_INPUT
    except (NotInstalled, Disconnected, CredentialsUnavailable) as error:
        sys.stderr.write(f"Error: {error}\n")
        return FAILED
    return INSTALLED


async def _install(access: Access, wanted: Sequence[Manifest], tell: Tell) -> None:
    client = Client(access, time.monotonic, time.time, asyncio.sleep)
    try:
        async for step in install(wanted, client.perform, asyncio.sleep):
            tell(f"{step.manifest}: {step.outcome}")
    finally:
        client.close()
