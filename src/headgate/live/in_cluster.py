"""Access from inside a pod, through its service account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.live.access import Access, Cluster, ServerUrl, TokenFile
from headgate.live.document import InvalidKubeconfig
from headgate.live.pool import Address

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def inside_cluster(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST"))


def load_in_cluster(environment: Mapping[str, str], mounted: Path = SERVICE_ACCOUNT) -> Access:
    """The pod's own access; the token is re-read as it rotates."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidKubeconfig("environment", "KUBERNETES_SERVICE_PORT", f"expected a port, got {port!r}")
    token = mounted / "token"
    if not token.exists():
        raise InvalidKubeconfig(str(token), "", "expected a service account token; is its mounting turned off?")
    url = ServerUrl(Address(host, int(port)), tls=True, prefix="")
    authority = _content(mounted / "ca.crt").encode()
    cluster = Cluster(url, str(mounted / "ca.crt"), authority)
    return Access(cluster, TokenFile(token), namespace=_content(mounted / "namespace").strip())


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidKubeconfig(str(file), "", f"expected a readable file: {error}") from error
