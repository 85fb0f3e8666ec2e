"""Reviews: who somebody is and what they may do. They are answered and not stored.

Whoever is authenticated may do everything: there is no authorizer, as in a real server with `AlwaysAllow`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headgate.apiserver.field_errors import invalid as invalid_field
from headgate.apiserver.handlers.tokens import USER_PREFIX, TokenIssuer
from headgate.apiserver.messages import Json, Request
from headgate.apiserver.status import bad_request, invalid, method_not_allowed

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
_PATH = re.compile(r"/apis/(authentication|authorization)\.k8s\.io/v1/(?:namespaces/[^/]+/)?(\w+reviews)/?")
_ATTRIBUTES = ("resourceAttributes", "nonResourceAttributes")
_BOTH = "cannot be specified in combination with resourceAttributes"
_NEITHER = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_ANY: Json = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
_ANYWHERE: Json = {"verbs": ["*"], "nonResourceURLs": ["*"]}


class Reviews:
    """Answers reviews; knows service accounts by their tokens."""

    def __init__(self, tokens: TokenIssuer) -> None:
        self._tokens = tokens
        self._answers: Mapping[str, tuple[str, str, Callable[[Request, Json, float], Json]]] = {
            "selfsubjectaccessreviews": (AUTHORIZATION, "SelfSubjectAccessReview", _access),
            "subjectaccessreviews": (AUTHORIZATION, "SubjectAccessReview", _access),
            "localsubjectaccessreviews": (AUTHORIZATION, "LocalSubjectAccessReview", _access),
            "selfsubjectrulesreviews": (AUTHORIZATION, "SelfSubjectRulesReview", _rules),
            "selfsubjectreviews": (AUTHENTICATION, "SelfSubjectReview", _self),
            "tokenreviews": (AUTHENTICATION, "TokenReview", self._token),
        }

    def answered(self, request: Request, now: float) -> Json | None:
        """The review with its status; None if the path names none."""
        path = _PATH.fullmatch(request.path)
        found = self._answers.get(path[2]) if path else None
        if path is None or found is None or found[0] != f"{path[1]}.k8s.io":
            return None
        group, kind, answer = found
        if request.method != "POST":
            raise method_not_allowed()
        review = _decoded(request.body, kind)
        named = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}}
        return {**named, "spec": review.get("spec") or {}, "status": answer(request, review.get("spec") or {}, now)}

    def _token(self, _request: Request, spec: Json, now: float) -> Json:
        user = self._tokens.user_of(str(spec.get("token") or ""), now)
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _user(user)}


def _decoded(body: bytes, kind: str) -> Json:
    try:
        review = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {error}") from None
    if review.get("kind", kind) != kind or not isinstance(review.get("spec") or {}, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    return review


def _access(request: Request, spec: Json, _now: float) -> Json:
    given = [name for name in _ATTRIBUTES if spec.get(name)]
    if len(given) != 1:
        kind = "SelfSubjectAccessReview" if "self" in request.path else "SubjectAccessReview"
        field, detail = ("spec.nonResourceAttributes", _BOTH) if given else ("spec.resourceAttributes", _NEITHER)
        raise invalid(kind, AUTHORIZATION, "", [invalid_field(field, spec.get("nonResourceAttributes"), detail)])
    return {"allowed": True}


def _rules(_request: Request, _spec: Json, _now: float) -> Json:
    return {"resourceRules": [_ANY], "nonResourceRules": [_ANYWHERE], "incomplete": False}


def _self(request: Request, _spec: Json, _now: float) -> Json:
    return {"userInfo": _user(request.user)}


def _user(name: str) -> Json:
    groups = ["system:authenticated"]
    if name.startswith(USER_PREFIX):
        namespace = name.split(":")[2]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", *groups]
    return {"username": name, "groups": groups}
