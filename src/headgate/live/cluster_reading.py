"""Reads a cluster once, as it is now: all objects of some kinds, or a single one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

from msgspec import Raw, Struct, structs

from headgate.api.configuration import InvalidConfiguration, settings_from
from headgate.api.decode import MalformedAnswer, decode, decode_list
from headgate.api.errors import InvalidObject
from headgate.api.kinds import RESOURCES, collection_path, object_path
from headgate.api.requests import Call, decode_status
from headgate.live.access import Access
from headgate.live.client import Client
from headgate.live.connection import Disconnected, HttpResponse
from headgate.live.credentials import CredentialsUnavailable
from headgate.live.kubeconfig import InvalidKubeconfig, find_access, find_namespace, load_yaml
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.model.settings import Settings

PAGE = 500  # objects

Perform = Callable[[Call], Awaitable[HttpResponse]]


class ClusterUnreadable(Exception):
    """The server refuses to serve what is needed; the text says what and why."""


class ClusterObjects(Struct, frozen=True):
    """What was read. `unserved` are kinds the server does not know, `left_out` says what could not be decoded."""

    objects: tuple[Object, ...]
    unserved: tuple[Kind, ...] = ()
    left_out: tuple[str, ...] = ()


async def read_all(kinds: Iterable[Kind], perform: Perform) -> ClusterObjects:
    """Raises ClusterUnreadable and Disconnected."""
    wanted = list(kinds)
    listed = await asyncio.gather(*(_items(kind, perform) for kind in wanted))
    objects: list[Object] = []
    left_out: list[str] = []
    for kind, items in zip(wanted, listed, strict=True):
        for raw in items or ():
            try:
                objects.append(decode(kind, raw))
            except InvalidObject as error:
                left_out.append(str(error))
    unserved = tuple(kind for kind, items in zip(wanted, listed, strict=True) if items is None)
    return ClusterObjects(tuple(objects), unserved, tuple(left_out))


async def read_one(key: Key, perform: Perform) -> Object | None:
    """None when there is no such object. Raises ClusterUnreadable and Disconnected."""
    answer = await perform(Call("GET", object_path(key), {}, "", b""))
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise _refusal(key.kind, answer)
    try:
        return decode(key.kind, Raw(answer.body))
    except InvalidObject as error:
        raise ClusterUnreadable(str(error)) from None


async def _items(kind: Kind, perform: Perform) -> list[Raw] | None:
    """None when the server does not serve the kind."""
    try:
        return [raw async for page in _pages(kind, perform) for raw in page]
    except _NotServed:
        return None
    except MalformedAnswer as error:
        raise ClusterUnreadable(f"{kind}: {error}") from None


class _NotServed(Exception):
    """There are no objects of the kind, since the server does not know it."""


async def _pages(kind: Kind, perform: Perform) -> AsyncIterator[list[Raw]]:
    resource, continuation = RESOURCES[kind], ""
    while True:
        query = {"limit": str(PAGE)} | ({"continue": continuation} if continuation else {})
        answer = await perform(Call("GET", collection_path(resource), query, "", b""))
        if answer.status == 404 and resource.optional:
            raise _NotServed
        if answer.status != 200:
            raise _refusal(kind, answer)
        page = decode_list(answer.body)
        yield page.items
        if not (continuation := page.continuation):
            return


def _refusal(kind: Kind, answer: HttpResponse) -> ClusterUnreadable:
    said = decode_status(answer.body).message or f"the server answered {answer.status}"
    hint = f"; expected the right to list {kind} in all namespaces" if answer.status == 403 else ""
    return ClusterUnreadable(f"cannot read {kind}: {said}{hint}")


Further = Callable[[ClusterObjects], Iterable[Key]]
"""Single objects to read as well, given the others."""


class ClusterReadError(Exception):
    """The cluster could not be read; the text says why."""


class ClusterFlags(Struct, frozen=True):
    """The cluster that flags name; empty ones leave it to the environment."""

    kubeconfig: str = ""
    context: str = ""
    insecure: bool = False

    def access(self) -> Access:
        """Raises InvalidKubeconfig."""
        return find_access(self.kubeconfig, self.context, os.environ, insecure=self.insecure)


def default_namespace(flags: ClusterFlags) -> str:
    """The namespace meant where none is said. Raises ClusterReadError."""
    try:
        return find_namespace(flags.kubeconfig, flags.context, os.environ)
    except InvalidKubeconfig as error:
        raise ClusterReadError(str(error)) from error


def read_cluster(flags: ClusterFlags, kinds: Iterable[Kind], further: Further) -> ClusterObjects:
    """All objects of these kinds, and what is read further. Raises ClusterReadError."""
    try:
        return asyncio.run(_read_cluster(flags, kinds, further))
    except (InvalidKubeconfig, ClusterUnreadable, CredentialsUnavailable) as error:
        raise ClusterReadError(str(error)) from error
    except Disconnected as error:
        server = flags.access().cluster.url
        raise ClusterReadError(f"API server {server}: {error}") from error


def load_settings(config: Path | None, installed: Iterable[str]) -> Settings:
    """What the configuration file says, or the defaults. Raises ClusterReadError."""
    if config is None:
        return Settings()
    try:
        return settings_from(load_yaml(config), str(config), tuple(installed))
    except (InvalidKubeconfig, InvalidConfiguration) as error:
        raise ClusterReadError(str(error)) from error


async def _read_cluster(flags: ClusterFlags, kinds: Iterable[Kind], further: Further) -> ClusterObjects:
    client = Client(flags.access(), time.monotonic, time.time, asyncio.sleep)
    try:
        found = await read_all(kinds, client.perform)
        more = [await read_one(key, client.perform) for key in further(found)]
        return structs.replace(found, objects=(*found.objects, *(one for one in more if one is not None)))
    finally:
        client.close()
