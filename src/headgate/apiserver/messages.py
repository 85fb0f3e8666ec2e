"""Requests and responses of the small Kubernetes, and users: names, and the groups that follow from a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

Json = dict[str, Any]

ADMINISTRATOR, ANONYMOUS = "system:admin", "system:anonymous"
MASTERS = "system:masters"
"""The group whose members may do everything, whatever roles and bindings say."""
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ACCOUNTS_GROUP = "system:serviceaccounts"
_ACCOUNT = "system:serviceaccount:"
Groups = tuple[str, ...]


class UserDetails(Struct, frozen=True):
    """What is known of a user besides name and groups."""

    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Request(Struct, frozen=True):
    """An HTTP request without transport. `query` holds one value per name."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"
    user: str = "system:admin"
    accept: str = ""  # media types, the preferred one first; empty: JSON
    user_agent: str = ""
    groups: tuple[str, ...] = ()  # of the user; empty: those that follow from the name
    details: UserDetails | None = None  # of the user


class Response(Struct, frozen=True):
    """The status code and the object that answer a request, and what its headers warn of."""

    code: int
    value: Json
    warnings: tuple[str, ...] = ()
    content_type: str = "application/json"

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.value)


class ClientIdentity(Struct, frozen=True):
    """Who asks, and the groups it is in."""

    user: str
    groups: Groups
    details: UserDetails | None = None


def account_user(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{_ACCOUNT}{namespace}:{name}"


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account of this user name; None for any other user."""
    namespace, colon, name = user.removeprefix(_ACCOUNT).partition(":")
    return (namespace, name) if user.startswith(_ACCOUNT) and colon and namespace and name else None


def groups_of(user: str) -> Groups:
    """The groups that follow from a user's name: those of its namespace for a service account."""
    if account := account_of(user):
        return (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{account[0]}", AUTHENTICATED)
    if user == ANONYMOUS:
        return (UNAUTHENTICATED,)
    return (MASTERS, AUTHENTICATED) if user == ADMINISTRATOR else (AUTHENTICATED,)


def impersonated_groups(user: str, groups: Sequence[str]) -> Groups:
    """The groups of a user that somebody else acts as: those asked for, else those of a service account; and whether
    it is authenticated.
    """
    known = tuple(groups) or (groups_of(user) if account_of(user) else ())
    if AUTHENTICATED in known or UNAUTHENTICATED in known:
        return known
    return (*known, UNAUTHENTICATED if user == ANONYMOUS else AUTHENTICATED)


def user_info(user: str, groups: Groups, details: UserDetails | None = None) -> Json:
    """A UserInfo; without groups, those that follow from the name."""
    info: Json = {"username": user, "groups": list(groups or groups_of(user))}
    if details is None:
        return info
    given = {"uid": details.uid, "extra": {key: list(values) for key, values in details.extra}}
    return {**info, **{name: part for name, part in given.items() if part}}
