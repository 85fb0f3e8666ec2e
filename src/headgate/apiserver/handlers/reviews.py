"""Who somebody is and what they may do: tokens of service accounts, and reviews.

A token is a JWT of the claims a real one has, signed with a key of the server. The `token` subresource issues it; it is
good until it expires or its account is deleted. Reviews are answered by the authorizer of the server and not stored.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headgate.apiserver.authorization import AccessAttributes, Authorizer, aggregated
from headgate.apiserver.field_errors import FieldError
from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.handlers.writing import OTHER_NAMESPACE, get_existing
from headgate.apiserver.messages import Groups, Json, Request, account_user, groups_of, user_info
from headgate.apiserver.metadata import timestamp
from headgate.apiserver.registry import RequestInfo
from headgate.apiserver.status import bad_request, invalid, method_not_allowed
from headgate.apiserver.storage import Store

TOKEN = "token"
ISSUER = "https://kubernetes.default.svc"
API_VERSION, GROUP, KIND = "authentication.k8s.io/v1", "authentication.k8s.io", "TokenRequest"
SHORTEST, USUAL, LONGEST = 600, 3600, 1 << 32  # seconds
ACCOUNTS = ("", "serviceaccounts")

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
_PATH = re.compile(r"/apis/(authentication|authorization)\.k8s\.io/v1/(?:namespaces/([^/]+)/)?(\w+reviews)/?")
_BOTH = "cannot be specified in combination with resourceAttributes"
_NEITHER = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_NOBODY = "at least one of user or group must be specified"
_Answer = Callable[[Request, str, Json, float], Json]
"""The status of a review: of a request, in a namespace, with this spec, at that time."""


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


class _ResourceAttributes(Struct, frozen=True):
    verb: str | None = None
    group: str | None = None
    version: str | None = None
    namespace: str | None = None
    resource: str | None = None
    subresource: str | None = None
    name: str | None = None
    path: str | None = None


class _ReviewSpec(Struct, frozen=True, rename="camel"):
    """The fields of all reviews' specs that are read, and their types."""

    resource_attributes: _ResourceAttributes | None = None
    non_resource_attributes: _ResourceAttributes | None = None
    user: str | None = None
    groups: list[str] | None = None
    namespace: str | None = None


class Reviews:
    """Answers reviews; knows service accounts by their tokens."""

    def __init__(self, tokens: TokenIssuer, authorizer: Authorizer) -> None:
        self._tokens, self._authorizer = tokens, authorizer
        self._answers: Mapping[str, tuple[str, str, bool, _Answer]] = {
            "selfsubjectaccessreviews": (AUTHORIZATION, "SelfSubjectAccessReview", False, self._own_access),
            "subjectaccessreviews": (AUTHORIZATION, "SubjectAccessReview", False, self._access),
            "localsubjectaccessreviews": (AUTHORIZATION, "LocalSubjectAccessReview", True, self._local_access),
            "selfsubjectrulesreviews": (AUTHORIZATION, "SelfSubjectRulesReview", False, self._rules),
            "selfsubjectreviews": (AUTHENTICATION, "SelfSubjectReview", False, _self),
            "tokenreviews": (AUTHENTICATION, "TokenReview", False, self._token),
        }

    def answered(self, request: Request, now: float) -> Json | None:
        """The review with its status; None if the path names none."""
        path = _PATH.fullmatch(request.path)
        found = self._answers.get(path[3]) if path else None
        if path is None or found is None or found[:1] != (f"{path[1]}.k8s.io",) or found[2] != bool(path[2]):
            return None
        group, kind, _, answer = found
        if request.method != "POST":
            raise method_not_allowed()
        review = _decoded(request.body, kind)
        spec, place = review.get("spec") or {}, path[2] or ""
        named = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {"namespace": place} if place else {}}
        return {**named, "spec": spec, "status": answer(request, place, spec, now)}

    def _own_access(self, request: Request, _namespace: str, spec: Json, _now: float) -> Json:
        _refuse_invalid(_attribute_errors(spec))
        return self._decided(request.user, request.groups or groups_of(request.user), spec)

    def _access(self, _request: Request, _namespace: str, spec: Json, _now: float) -> Json:
        _refuse_invalid([*_attribute_errors(spec), *_subject_errors(spec)])
        return self._decided(spec.get("user") or "", tuple(spec.get("groups") or ()), spec)

    def _local_access(self, request: Request, namespace: str, spec: Json, now: float) -> Json:
        errors = [*_attribute_errors(spec), *_subject_errors(spec)]
        asked = spec.get("resourceAttributes")
        if asked is not None and (asked.get("namespace") or "") != namespace:
            path = "spec.resourceAttributes.namespace"
            errors.append(invalid_field(path, asked.get("namespace") or "", "must match metadata.namespace"))
        if spec.get("nonResourceAttributes") is not None:
            detail = "disallowed on this kind of request"
            errors.append(invalid_field("spec.nonResourceAttributes", spec["nonResourceAttributes"], detail))
        _refuse_invalid(errors)
        return self._decided(spec.get("user") or "", tuple(spec.get("groups") or ()), spec)

    def _decided(self, user: str, groups: Groups, spec: Json) -> Json:
        decision = self._authorizer.decide(user, groups, _asked(spec))
        return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}

    def _rules(self, request: Request, _namespace: str, spec: Json, _now: float) -> Json:
        namespace = spec.pop("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        found = self._authorizer.rules_for(request.user, request.groups or groups_of(request.user), namespace)
        kinds = (("resources", ("verbs", "apiGroups", "resources", "resourceNames")), ("nonResourceURLs", _OF_URLS))
        resources, others = (
            [{part: rule[part] for part in parts if rule.get(part)} for rule in found.rules if rule.get(kind)]
            for kind, parts in kinds
        )
        wrong = {"evaluationError": aggregated(found.errors)} if found.errors else {}
        return {"resourceRules": resources, "nonResourceRules": others, "incomplete": False, **wrong}

    def _token(self, _request: Request, _namespace: str, spec: Json, now: float) -> Json:
        user = self._tokens.user_of(str(spec.get("token") or ""), now)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user_info(user, ())}


_OF_URLS = ("verbs", "nonResourceURLs")


def _decoded(body: bytes, kind: str) -> Json:
    try:
        review = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {error}") from None
    try:
        msgspec.convert(review.get("spec") or {}, _ReviewSpec)
    except msgspec.ValidationError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {error}") from None
    if review.get("kind", kind) != kind:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    return review


def _asked(spec: Json) -> AccessAttributes:
    of, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes") or {}
    if of is None:
        return AccessAttributes(other.get("verb") or "", other.get("path") or "/")
    parts = ("group", "version", "namespace", "resource", "subresource", "name")
    return AccessAttributes(of.get("verb") or "", "", *((of.get(part) or "") for part in parts))


def _attribute_errors(spec: Json) -> list[FieldError]:
    given = [spec.get(name) is not None for name in ("resourceAttributes", "nonResourceAttributes")]
    if all(given):
        return [invalid_field("spec.nonResourceAttributes", spec["nonResourceAttributes"], _BOTH)]
    return [] if any(given) else [invalid_field("spec.resourceAttributes", None, _NEITHER)]


def _subject_errors(spec: Json) -> list[FieldError]:
    return [] if spec.get("user") or spec.get("groups") else [invalid_field("spec.user", "", _NOBODY)]


def _refuse_invalid(errors: Sequence[FieldError]) -> None:
    if errors:
        raise invalid("", AUTHORIZATION, "", errors)  # a real server does not name the kind either


def _self(request: Request, _namespace: str, _spec: Json, _now: float) -> Json:
    return {"userInfo": user_info(request.user, request.groups, request.details)}
