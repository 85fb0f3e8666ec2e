"""Who asks the API server that we serve: its administrator, by token or by client certificate, and components.

The authority, the certificates and the token are made anew for each server, and handed out in a kubeconfig that only
its owner can read. Components of the same process have tokens that nobody is told.
"""

from __future__ import annotations

import os
import secrets
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from headgate.apiserver.messages import AUTHENTICATED, ClientIdentity, account_of, groups_of
from headgate.live.certificates import ClusterCertificates, made_for_cluster
from headgate.live.health import certified_user
from headgate.live.http_server import HttpRequest

ADMINISTRATOR = "headgate-admin"
ADMINISTRATORS = "system:masters"
BEARER = "bearer "


class Administrator(Struct, frozen=True):
    """The administrator, and the `components` of the cluster that ask with tokens of their own: service accounts as
    such, all others as administrators.
    """

    certificates: ClusterCertificates
    token: str
    components: Mapping[str, str] = {}  # their tokens by their names

    def authenticate(self, request: HttpRequest) -> ClientIdentity | None:
        """Whoever asks: by the token, or by a certificate that the handshake has verified."""
        if given := bearer_token(request):
            token, users = given.encode(), {ADMINISTRATOR: self.token, **self.components}
            user = next((user for user, its in users.items() if secrets.compare_digest(token, its.encode())), None)
            return None if user is None else ClientIdentity(user, _component_groups(user))
        certified = certified_user(request.certificate)
        return None if certified is None else ClientIdentity(certified.username, certified.groups)

    def kubeconfig(self, url: str, name: str) -> dict[str, Any]:
        """A kubeconfig with a context of this name."""
        client, authority = self.certificates.client, self.certificates.server.authority
        user = {
            "token": self.token,
            "client-certificate-data": _text(client.chain),
            "client-key-data": _text(client.key),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": _text(authority)}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
            "current-context": name,
        }


def _component_groups(user: str) -> tuple[str, ...]:
    return groups_of(user) if account_of(user) is not None else (ADMINISTRATORS, AUTHENTICATED)


def bearer_token(request: HttpRequest) -> str:
    """The token in a request; empty if there is none."""
    given = request.headers.get("authorization", "")
    return given[len(BEARER) :].strip() if given[: len(BEARER)].lower() == BEARER else ""


def merged(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One kubeconfig with the contexts of all of them; the first one's is current."""
    parts = {part: [one for document in documents for one in document[part]] for part in _LISTS}
    return {**documents[0], **parts}


_LISTS = ("clusters", "users", "contexts")


def new_administrator(hosts: Sequence[str], components: Sequence[str], now: float) -> Administrator:
    """With the certificates of a server of these names."""
    certificates = made_for_cluster(hosts, ADMINISTRATOR, ADMINISTRATORS, now)
    return Administrator(certificates, new_token(), {name: new_token() for name in components})


def new_token() -> str:
    return secrets.token_urlsafe(32)


def write_private(file: Path, document: dict[str, Any]) -> None:
    """Writes the file whole or not at all; nobody but its owner can read it. Raises OSError."""
    made = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:  # noqa: PTH123
        yaml.safe_dump(document, out, sort_keys=False)
    made.replace(file)


def _text(pem: bytes) -> str:
    return b64encode(pem).decode()
