"""`headgate install` as users run it, and webhooks that the server asks for as long as somebody answers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from children import eventually
from cluster import Cluster
from metering import Values, scrape, values_of
from ours import HEADGATE, OurProcess

from headgate.api.install_manifests import definitions, queue_definitions, volcano_definitions

CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
PROBE = {
    "apiVersion": "scheduling.headgate.dev/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "probe"},
    "spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 1}}}]},
}
"""An object that both our configurations are about, whatever else they are about."""
ASKED = {("/default-workload",), ("/validate-workload",)}


def run_install(kubeconfig: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [HEADGATE, "install", "--kubeconfig", kubeconfig, *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def install(cluster: Cluster, *flags: str) -> str:
    """What it says; returns when the kinds it defines are served."""
    done = run_install(cluster.administrator, *flags)
    assert done.returncode == 0, done.stderr
    kinds = [*definitions()]
    kinds += () if "--no-queues" in flags else queue_definitions()
    kinds += volcano_definitions() if "--volcano" in flags else ()
    cluster.wait_until_served(*(each["metadata"]["name"] for each in kinds))
    return done.stdout


@contextmanager
def webhooks_installed(cluster: Cluster, port: int, *flags: str) -> Iterator[str]:
    """The server is to ask whoever listens on that port; what `headgate install` said.

    In the end it asks nobody any more, whatever happened: what nobody answers for would be refused. Whoever answered is
    to be stopped before.
    """
    try:
        yield install(cluster, "--webhook-url", f"https://127.0.0.1:{port}", *flags)
    finally:
        cluster.kubectl("delete", ",".join(CONFIGURATIONS), "headgate", "--ignore-not-found")
        eventually("the server asks nobody any more", lambda: cluster.accepts(PROBE))


def wait_until_asked(cluster: Cluster, process: OurProcess) -> None:
    """Until the server asks the process about what is written, and trusts what it answers.

    It learns of each configuration, and of the authority to trust, from a watch.
    """

    def is_asked() -> bool:
        before = _questions(process)
        if not cluster.accepts(PROBE):
            return False
        after = _questions(process)
        return all(after.get(path, 0) > before.get(path, 0) for path in ASKED)

    eventually("the server asks us and trusts our answers", is_asked)


def _questions(process: OurProcess) -> Values:
    return values_of(scrape(process), "controller_runtime_webhook_requests_total", code="200")
