"""Reading a cluster once, as it is now: all objects of some kinds, or a single one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from msgspec import Raw, Struct

from headgate.api.decode import InvalidObject, MalformedAnswer, decode, decode_list
from headgate.api.kinds import RESOURCES, collection_path, object_path
from headgate.api.requests import Call, decode_status
from headgate.live.connection import Answer
from headgate.model.keys import Key, Kind
from headgate.model.objects import Object

PAGE = 500  # objects

Perform = Callable[[Call], Awaitable[Answer]]


class Unreadable(Exception):
    """The server does not let us see what is needed; the text names it and says why."""


class Readings(Struct, frozen=True):
    """What was read. `unserved` are kinds the server does not know, `left_out` says what could not be decoded."""

    objects: tuple[Object, ...]
    unserved: tuple[Kind, ...] = ()
    left_out: tuple[str, ...] = ()


async def read_all(kinds: Iterable[Kind], perform: Perform) -> Readings:
    """Raises Unreadable and Disconnected."""
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
    return Readings(tuple(objects), unserved, tuple(left_out))


async def read_one(key: Key, perform: Perform) -> Object | None:
    """None when there is no such object. Raises Unreadable and Disconnected."""
    answer = await perform(Call("GET", object_path(key), {}, "", b""))
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise _refusal(key.kind, answer)
    try:
        return decode(key.kind, Raw(answer.body))
    except InvalidObject as error:
        raise Unreadable(str(error)) from None


async def _items(kind: Kind, perform: Perform) -> list[Raw] | None:
    """None when the server does not serve the kind."""
    try:
        return [raw async for page in _pages(kind, perform) for raw in page]
    except _NotServed:
        return None
    except MalformedAnswer as error:
        raise Unreadable(f"{kind}: {error}") from None


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


def _refusal(kind: Kind, answer: Answer) -> Unreadable:
    said = decode_status(answer.body).message or f"the server answered {answer.status}"
    hint = f"; expected the right to list {kind} in all namespaces" if answer.status == 403 else ""
    return Unreadable(f"cannot read {kind}: {said}{hint}")
