"""Tokens of service accounts: the `token` subresource that issues them, and whose they are.

A token is a JWT of the claims a real one has, signed with a key of the server. It is good until it expires or its
account is deleted.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import Any

import msgspec
from msgspec import Struct

from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.handlers.writing import OTHER_NAMESPACE, get_existing
from headgate.apiserver.messages import Json
from headgate.apiserver.metadata import timestamp
from headgate.apiserver.registry import RequestInfo
from headgate.apiserver.status import bad_request, invalid
from headgate.apiserver.storage import Store
from headgate.apiserver.users import account_user

TOKEN = "token"
ISSUER = "https://kubernetes.default.svc"
API_VERSION, GROUP, KIND = "authentication.k8s.io/v1", "authentication.k8s.io", "TokenRequest"
SHORTEST, USUAL, LONGEST = 600, 3600, 1 << 32  # seconds
ACCOUNTS = ("", "serviceaccounts")


class _TokenMetadata(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _TokenSpec(Struct, frozen=True, rename="camel"):
    audiences: list[str] | None = None
    expiration_seconds: int | None = None


class _TokenRequest(Struct, frozen=True):
    metadata: _TokenMetadata = _TokenMetadata()
    spec: _TokenSpec = _TokenSpec()


class _AccountClaim(Struct, frozen=True):
    name: str
    uid: str


class _PlaceClaim(Struct, frozen=True):
    namespace: str
    serviceaccount: _AccountClaim


class _Claims(Struct, frozen=True, rename={"place": "kubernetes.io"}):
    aud: list[str]
    exp: int
    iat: int
    iss: str
    place: _PlaceClaim
    nbf: int
    sub: str


class TokenIssuer:
    """Issues tokens and knows them again."""

    def __init__(self, store: Store, key: bytes) -> None:
        self._accounts, self._key = store.collection(*ACCOUNTS), key

    def issue(self, info: RequestInfo, body: bytes) -> Json:
        """The TokenRequest with the token; refuses one that is invalid or meant for another account."""
        asked = _decoded_request(body)
        _refuse_other(info, asked.metadata)
        account = get_existing(info).value["metadata"]
        seconds = USUAL if asked.spec.expiration_seconds is None else asked.spec.expiration_seconds
        _refuse_duration(seconds)
        now, audiences = int(info.now), asked.spec.audiences or [ISSUER]
        place = _PlaceClaim(info.namespace, _AccountClaim(info.name, account["uid"]))
        subject = account_user(info.namespace, info.name)
        token = self._signed(_Claims(audiences, now + seconds, now, ISSUER, place, now, subject))
        return {
            "kind": KIND,
            "apiVersion": API_VERSION,
            "metadata": {
                "name": info.name,
                "namespace": info.namespace,
                "uid": account["uid"],
                "creationTimestamp": timestamp(now),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None},
            "status": {"token": token, "expirationTimestamp": timestamp(now + seconds)},
        }

    def user_of(self, token: str, now: float) -> str | None:
        """The account a token was issued for; None if it is none of ours, has expired or is for somebody else."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(signed)):
            return None
        try:
            claims = msgspec.json.decode(_unpacked(signed.rpartition(".")[2]), type=_Claims)
        except (msgspec.DecodeError, NotBase64):
            return None
        account = claims.place.serviceaccount
        found = self._accounts.get(claims.place.namespace, account.name)
        if found is None or found.value["metadata"]["uid"] != account.uid:
            return None
        return claims.sub if claims.nbf <= now < claims.exp and ISSUER in claims.aud else None

    def _signed(self, claims: _Claims) -> str:
        head = _packed(msgspec.json.encode({"alg": "HS256", "typ": "JWT"}))
        signed = f"{head}.{_packed(msgspec.json.encode(claims))}"
        return f"{signed}.{self._signature(signed).decode()}"

    def _signature(self, signed: str) -> bytes:
        return _packed(hmac.digest(self._key, signed.encode(), "sha256")).encode()


def _decoded_request(body: bytes) -> _TokenRequest:
    try:
        kind = msgspec.json.decode(body, type=dict[str, Any])
        if kind.get("kind", KIND) != KIND:
            raise bad_request(f"the object provided is unrecognized (must be of type {KIND})")
        return msgspec.json.decode(body, type=_TokenRequest)
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type {KIND}): {error}") from None


def _refuse_other(info: RequestInfo, metadata: _TokenMetadata) -> None:
    if metadata.namespace not in ("", info.namespace):
        raise bad_request(OTHER_NAMESPACE)
    if metadata.name not in ("", info.name):
        detail = "must match the service account name if specified"
        raise invalid(KIND, GROUP, info.name, [invalid_field("metadata.name", metadata.name, detail)])


def _refuse_duration(seconds: int) -> None:
    detail = ""
    if seconds < SHORTEST:
        detail = "may not specify a duration less than 10 minutes"
    elif seconds > LONGEST:
        detail = "may not specify a duration larger than 2^32 seconds"
    if detail:
        raise invalid(KIND, GROUP, "", [invalid_field("spec.expirationSeconds", seconds, detail)])


def _packed(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _unpacked(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
