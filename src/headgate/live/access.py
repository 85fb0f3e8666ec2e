"""How to reach a cluster and who we are there, as plain values. Kubeconfigs and pods both lead here."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from headgate.live.connection import Address


class Certificate(Struct, frozen=True):
    """A client certificate and its key, both PEM. `source` says where they come from."""

    chain: bytes
    key: bytes
    source: str


class ServerUrl(Struct, frozen=True):
    """A server's base URL, taken apart."""

    address: Address
    tls: bool
    prefix: str  # of every path; empty or /like/this

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.address}{self.prefix}"


class ClusterEndpoint(Struct, frozen=True):
    """`authority` (PEM) empty means the system's authorities."""

    url: ServerUrl
    source: str  # the file and path that name it
    authority: bytes = b""
    verify: bool = True


class Anonymous(Struct, frozen=True):
    """No token; perhaps a client certificate."""


class FixedToken(Struct, frozen=True):
    token: str


class TokenFile(Struct, frozen=True):
    """A token in a file that somebody replaces from time to time."""

    file: Path


class ExecPlugin(Struct, frozen=True):
    """A program that hands out credentials."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    cluster_info: bytes = b""  # JSON for the program, where it asks for it


Identity = Anonymous | FixedToken | TokenFile | ExecPlugin


class Access(Struct, frozen=True):
    """All that is needed to talk to one cluster."""

    cluster: ClusterEndpoint
    identity: Identity
    certificate: Certificate | None = None
    namespace: str = ""  # our own, inside a cluster; empty outside


def server_url(text: str, server_name: str = "") -> ServerUrl:
    """Raises ValueError saying what was expected."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected a URL such as https://host:6443, got {text!r}")
    if parts.query or parts.fragment or parts.username:
        raise ValueError(f"expected a URL of host, port and path only, got {text!r}")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise ValueError(f"expected a port between 1 and 65535, got {text!r}") from None
    return ServerUrl(Address(parts.hostname, port, server_name), parts.scheme == "https", parts.path.rstrip("/"))


def is_loopback(host: str) -> bool:
    """Whether the address is one of this host alone; a name is, only if it is `localhost`."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
