"""Reads a cluster once, as it is now: all objects of some kinds, or a single one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Raw, Struct, structs

from headgate.api.configuration import InvalidConfiguration, settings_from
from headgate.api.decode import MalformedAnswer, decode, decode_list
from headgate.api.kinds import RESOURCES, collection_path, object_path
from headgate.api.requests import Call, decode_status
from headgate.api.wire import InvalidObject
from headgate.live.access import Access
from headgate.live.client import Client
from headgate.live.connection import Disconnected, HttpResponse
from headgate.live.credentials import CredentialsUnavailable
from headgate.live.kubeconfig import InvalidKubeconfig, find_access, find_namespace, load_yaml, worker_access
from headgate.live.kubeconfig_source import kubeconfig_in
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object
from headgate.model.queues import MultiKueueCluster
from headgate.model.settings import Settings

PAGE = 500  # objects
WORKER_SECONDS = 5.0  # for one worker cluster

Perform = Callable[[Call], Awaitable[HttpResponse]]
Read = Callable[[Kind, int], None]
"""Is told of every page: its kind, and how many objects it has."""


class ClusterUnreadable(Exception):
    """The server refuses to serve what is needed; the text says what and why."""


class ClusterObjects(Struct, frozen=True):
    """What was read. `unserved` are kinds the server does not know, `left_out` says what could not be decoded.

    `unreadable` are kinds of which there may be more than was read, because the rights are missing.
    """

    objects: tuple[Object, ...]
    unserved: tuple[Kind, ...] = ()
    left_out: tuple[str, ...] = ()
    unreadable: tuple[Kind, ...] = ()


class KindsToRead(Struct, frozen=True):
    """The kinds to read: all their objects, or those of `namespace` where the rights suffice for no more.

    Of those `nearby`, what is namespaced is read in that namespace only.
    """

    kinds: tuple[Kind, ...]
    nearby: tuple[Kind, ...] = ()
    namespace: str = ""


class _Listed(Struct, frozen=True):
    """The objects of a kind; None if the server does not know it. Not `complete` without the rights to see all."""

    items: list[Raw] | None
    complete: bool = True


async def read_all(reads: KindsToRead, perform: Perform, read: Read) -> ClusterObjects:
    """Raises ClusterUnreadable if Workloads cannot be read even in the namespace, and Disconnected."""
    lister = _Lister(reads.namespace, perform, read)
    everywhere = [lister.everywhere(kind) for kind in reads.kinds]
    nearby = [lister.nearby(kind) for kind in reads.nearby]
    listed = dict(zip((*reads.kinds, *reads.nearby), await asyncio.gather(*everywhere, *nearby), strict=True))
    objects: list[Object] = []
    left_out: list[str] = []
    for kind, found in listed.items():
        for raw in found.items or ():
            try:
                objects.append(decode(kind, raw))
            except InvalidObject as error:
                left_out.append(str(error))
    return ClusterObjects(
        tuple(objects),
        tuple(kind for kind, found in listed.items() if found.items is None),
        tuple(left_out),
        tuple(kind for kind, found in listed.items() if not found.complete),
    )


async def read_one(key: Key, perform: Perform) -> Object | None:
    """None when there is no such object, or no right to see it. Raises ClusterUnreadable and Disconnected."""
    answer = await perform(Call("GET", object_path(key), {}, "", b""))
    if answer.status in (403, 404):
        return None
    if answer.status != 200:
        raise _refusal(key.kind, answer)
    try:
        return decode(key.kind, Raw(answer.body))
    except InvalidObject as error:
        raise ClusterUnreadable(str(error)) from None


class _NotServed(Exception):
    """There are no objects of the kind, since the server does not know it."""


class _Forbidden(Exception):
    """The rights do not suffice; the text is the server's."""


class _Lister:
    """Lists objects of one kind, all of them or those of the namespace."""

    def __init__(self, namespace: str, perform: Perform, read: Read) -> None:
        self._namespace, self._perform, self._read = namespace, perform, read

    async def everywhere(self, kind: Kind) -> _Listed:
        """All objects of the kind, or else those that the rights for the namespace show."""
        try:
            return await self._list(kind, "")
        except _Forbidden:
            found = await self.nearby(kind)
            return structs.replace(found, complete=False)

    async def nearby(self, kind: Kind) -> _Listed:
        if kind is Kind.NAMESPACE:  # whoever has rights for a namespace may get it, though not list it
            answer = await self._perform(Call("GET", object_path(Key(kind, "", self._namespace)), {}, "", b""))
            return _Listed([Raw(answer.body)] if answer.status == 200 else [], complete=False)
        try:
            return await self._list(kind, self._namespace)
        except _Forbidden as refusal:
            if kind is Kind.KUEUE_WORKLOAD:
                raise ClusterUnreadable(f"{refusal}; expected the right to list {kind}") from None
            return _Listed([], complete=False)

    async def _list(self, kind: Kind, namespace: str) -> _Listed:
        try:
            return _Listed([raw async for page in self._pages(kind, namespace) for raw in page])
        except _NotServed:
            return _Listed(None)
        except MalformedAnswer as error:
            raise ClusterUnreadable(f"{kind}: {error}") from None

    async def _pages(self, kind: Kind, namespace: str) -> AsyncIterator[list[Raw]]:
        resource, continuation = RESOURCES[kind], ""
        while True:
            query = {"limit": str(PAGE)} | ({"continue": continuation} if continuation else {})
            answer = await self._perform(Call("GET", collection_path(resource, namespace), query, "", b""))
            if answer.status == 404 and resource.optional:
                raise _NotServed
            if answer.status == 403:
                raise _Forbidden(str(_refusal(kind, answer)))
            if answer.status != 200:
                raise _refusal(kind, answer)
            page = decode_list(answer.body)
            self._read(kind, len(page.items))
            yield page.items
            if not (continuation := page.continuation):
                return


def _refusal(kind: Kind, answer: HttpResponse) -> ClusterUnreadable:
    said = decode_status(answer.body).message or f"the server answered {answer.status}"
    return ClusterUnreadable(f"cannot read {kind}: {said}")


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


def read_cluster(flags: ClusterFlags, reads: KindsToRead, further: Further, read: Read) -> ClusterObjects:
    """All objects of these kinds, and what is read further. Raises ClusterReadError."""
    try:
        return asyncio.run(_read_cluster(flags, reads, further, read))
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


def read_workers(
    flags: ClusterFlags, clusters: Iterable[MultiKueueCluster], namespace: str, key: Key
) -> dict[str, Object]:
    """The object of that key on each worker cluster that can be reached with the kubeconfig in its Secret.

    Whoever may not read the Secrets in `namespace` sees none of them.
    """
    try:
        return asyncio.run(_read_workers(flags, tuple(clusters), namespace, key))
    except (InvalidKubeconfig, Disconnected):
        return {}


async def _read_workers(
    flags: ClusterFlags, clusters: Sequence[MultiKueueCluster], namespace: str, key: Key
) -> dict[str, Object]:
    home = Client(flags.access(), time.monotonic, time.time, asyncio.sleep)
    try:
        found = await asyncio.gather(*(_read_worker(one, namespace, key, home) for one in clusters))
    finally:
        home.close()
    return {cluster.name: one for cluster, one in zip(clusters, found, strict=True) if one is not None}


async def _read_worker(cluster: MultiKueueCluster, namespace: str, key: Key, home: Client) -> Object | None:
    """None when it cannot be had within a few seconds, for whatever reason."""
    if not cluster.secret:
        return None
    with contextlib.suppress(TimeoutError, InvalidKubeconfig, Disconnected, ClusterUnreadable):
        async with asyncio.timeout(WORKER_SECONDS):
            path = f"/api/v1/namespaces/{namespace}/secrets/{cluster.secret}"
            answer = await home.perform(Call("GET", path, {}, "", b""))
            content = kubeconfig_in(Raw(answer.body)) if answer.status == 200 else None
            if content is None:
                return None
            access = worker_access(content, f"Secret {namespace}/{cluster.secret}")
            client = Client(access, time.monotonic, time.time, asyncio.sleep)
            try:
                return await read_one(key, client.perform)
            finally:
                client.close()
    return None


async def _read_cluster(flags: ClusterFlags, reads: KindsToRead, further: Further, read: Read) -> ClusterObjects:
    client = Client(flags.access(), time.monotonic, time.time, asyncio.sleep)
    try:
        found = await read_all(reads, client.perform, read)
        more = [await read_one(key, client.perform) for key in further(found)]
        return structs.replace(found, objects=(*found.objects, *(one for one in more if one is not None)))
    finally:
        client.close()
