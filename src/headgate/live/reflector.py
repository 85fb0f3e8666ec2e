"""A reflector per kind: lists, watches from there, and lists again when the resource version has expired."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from headgate.api.decode import (
    Identity,
    InvalidObject,
    MalformedAnswer,
    decode,
    decode_list,
    decode_watch,
    identity,
    unreadable,
)
from headgate.api.kinds import RESOURCES, collection_paths
from headgate.api.requests import Call
from headgate.live.connection import AnswerLost, Disconnected, HttpResponse, Stream
from headgate.live.logs import Log
from headgate.model.events import Gone, Observed, Unreadable
from headgate.model.keys import Key, Kind

PAGE = 500  # objects
WATCH_SECONDS = (300, 600)  # how long the server is asked to keep a watch open, so that not all end together
OVERTIME = 30  # seconds after which a watch that should have ended is given up
UNSERVED_SECONDS = 300  # after which a kind that the server does not serve is asked for again
MISSING = Raw(b"")
REMEMBERED_COMPLAINTS = 1000
FIRST_PAUSE, LONGEST_PAUSE = 0.8, 30.0  # seconds between two tries

Report = Callable[["Observed | Gone | Unreadable", Raw], None]
"""Takes an event and the JSON of the object it was read from (empty for an object found missing)."""


class ReadingClient(Protocol):
    """The part of a client that reading needs."""

    @property
    def server(self) -> str: ...

    async def perform(self, call: Call) -> HttpResponse: ...

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream | HttpResponse]: ...


class OutageObserver(Protocol):
    """Is told when reading a kind fails and when it works again; see `logs.Outages`."""

    def failing(self, what: str, who: str, why: str) -> None: ...

    def recovered(self, who: str) -> None: ...

    def dropped(self, who: str) -> None: ...


class ReflectorDependencies(Struct, frozen=True):
    """What every reflector of a cluster shares."""

    client: ReadingClient
    outages: OutageObserver
    log: Log
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    restarted: Callable[[Kind], None]  # a watch was opened again
    selector: str = ""  # the labels of the objects to read; empty: all are
    demanded: frozenset[Kind] = frozenset()  # kinds that a server must serve although others need not


class Expired(Exception):
    """The server does not have the history any more from which to go on."""


class ReadRefused(Exception):
    """The server answered, but not with what was asked for."""


class NotServed(Exception):
    """The server does not know the kind, at least not in the version asked for."""


class _WireStatus(Struct):
    code: int = 0
    message: str = ""


class JitteredBackoff:
    """Pauses between tries: doubled up to a limit, with jitter of half either way so that clients drift apart."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._next = FIRST_PAUSE

    def pause(self) -> float:
        nominal, self._next = self._next, min(self._next * 2, LONGEST_PAUSE)
        return nominal * (0.5 + self._random())

    def reset(self) -> None:
        self._next = FIRST_PAUSE


Known = dict[Key, tuple[str, str]]
"""The uid and version of every object that was reported."""


class Reflector:
    """Reports each change of each object once. Remembers uid and version of every object, not the objects.

    What an earlier reflector reported is `known`, and is reported as gone if it is not listed any more.
    """

    def __init__(
        self,
        kind: Kind,
        dependencies: ReflectorDependencies,
        report: Report,
        listed: Callable[[Kind], None],
        known: Known | None = None,
    ) -> None:
        self._kind, self._dependencies, self._report, self._listed = kind, dependencies, report, listed
        self._paths = deque(collection_paths(RESOURCES[kind]))  # the first is asked
        self._unserved = 0  # of them, as many in a row were not served
        self._known: Known = {} if known is None else known
        self._version = ""  # from where to watch; empty: list first
        self._told_off = False  # the last watch brought an error, so that the next one opens does not mean it works
        self._backoff = JitteredBackoff(dependencies.random)
        self._complaints: dict[str, None] = {}
        self._selected = {"labelSelector": dependencies.selector} if dependencies.selector else {}

    async def run(self) -> None:
        """Goes on until cancelled."""
        try:
            while True:
                await self._try()
                self._dependencies.restarted(self._kind)
        finally:
            self._dependencies.outages.dropped(self._kind)

    async def _try(self) -> None:
        try:
            await self._follow()
        except Expired:
            self._version = ""
            await self._pause()  # spread, so that not every client lists at the same moment
        except NotServed:
            await self._turn_to_next_version()
        except (ReadRefused, MalformedAnswer) as refusal:
            self._dependencies.outages.failing(f"reading {self._kind}", self._kind, str(refusal))
            await self._pause()
        except Disconnected as trouble:
            self._dependencies.outages.failing(
                f"API server {self._dependencies.client.server}", self._kind, str(trouble)
            )
            await self._pause()

    async def _follow(self) -> None:
        """Until a watch ends. One that told nothing, or broke off, is not opened again at once."""
        if not self._version:
            await self._list()
        if not await self._watch():
            await self._pause()

    async def _turn_to_next_version(self) -> None:
        """A kind that is served in no version has no objects."""
        self._version = ""
        self._paths.rotate(-1)
        self._unserved += 1
        if self._unserved == len(self._paths):
            self._has_none()
            await self._dependencies.sleep(UNSERVED_SECONDS)

    async def _pause(self) -> None:
        await self._dependencies.sleep(self._backoff.pause())

    def _works(self) -> None:
        self._unserved = 0
        self._backoff.reset()
        self._dependencies.outages.recovered(self._kind)

    # listing

    async def _list(self) -> None:
        seen: dict[Key, None] = {}
        continuation = ""
        while True:
            page = decode_list(await self._page(continuation))
            for raw in page.items:
                self._see(raw, seen)
            if not (continuation := page.continuation):
                break
        self._lose_all_but(seen)
        if not page.version:
            raise MalformedAnswer("expected metadata.resourceVersion in a list")
        self._version = page.version
        self._works()
        self._listed(self._kind)

    def _has_none(self) -> None:
        """As good as an empty list, but there is nothing to watch."""
        self._lose_all_but({})
        self._works()
        self._listed(self._kind)

    def _lose_all_but(self, seen: dict[Key, None]) -> None:
        for key in [key for key in self._known if key not in seen]:
            self._lose(key, MISSING)

    async def _page(self, continuation: str) -> bytes:
        query = {"limit": str(PAGE), **self._selected} | ({"continue": continuation} if continuation else {})
        answer = await self._dependencies.client.perform(Call("GET", self._paths[0], query, "", b""))
        if answer.status != 200:
            raise self._refusal(answer)
        return answer.body

    def _see(self, raw: Raw, seen: dict[Key, None]) -> None:
        try:
            about = identity(self._kind, raw)
            seen[about.key] = None
            self._observe(about, raw)
        except InvalidObject as error:
            self._complain(error)

    # watching

    async def _watch(self) -> bool:
        """Whether the watch was of use: news came, and then the server ended it.

        That one breaks off is no outage yet; opening the next one tells.
        """
        shortest, longest = WATCH_SECONDS
        seconds = round(shortest + (longest - shortest) * self._dependencies.random())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + OVERTIME), self._opened(seconds) as stream:
                with contextlib.suppress(AnswerLost):
                    return await self._take_all(stream)
        return False

    async def _take_all(self, stream: Stream) -> bool:
        arrived = False
        async for line in stream.lines():
            arrived = True
            self._take(line)
        return arrived

    @contextlib.asynccontextmanager
    async def _opened(self, seconds: int) -> AsyncIterator[Stream]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
            **self._selected,
        }
        async with self._dependencies.client.stream(Call("GET", self._paths[0], query, "", b"")) as opened:
            if isinstance(opened, HttpResponse):
                raise self._refusal(opened)
            if not self._told_off:
                self._works()
            yield opened

    def _take(self, line: bytes) -> None:
        news = decode_watch(line)
        if news.type == "ERROR":
            self._told_off = True
            raise _told(bytes(news.object))
        if self._told_off:
            self._told_off = False
            self._works()
        try:
            if news.type in {"ADDED", "MODIFIED"}:
                self._change(news.object)
                return
            about = identity(self._kind, news.object)
            self._version = about.version or self._version
            if news.type == "DELETED":
                self._lose(about.key, news.object)
        except InvalidObject as error:
            self._complain(error)

    def _change(self, raw: Raw) -> None:
        """Nearly everything that a watch brings is new and can be decoded, so that comes first."""
        try:
            seen = decode(self._kind, raw)
        except InvalidObject:
            about = identity(self._kind, raw)
            self._version = about.version or self._version
            self._observe(about, raw)
        else:
            self._version = seen.version or self._version
            if self._is_new(seen.key, seen.uid, seen.version):
                self._report(Observed(seen), raw)

    def _refusal(self, answer: HttpResponse) -> Exception:
        optional = RESOURCES[self._kind].optional and self._kind not in self._dependencies.demanded
        if answer.status == 404 and optional:
            return NotServed()
        return _told(answer.body, answer.status)

    # reporting

    def _observe(self, about: Identity, raw: Raw) -> None:
        if not self._is_new(about.key, about.uid, about.version):
            return
        try:
            seen = decode(self._kind, raw)
        except InvalidObject as error:
            self._report(unreadable(about, raw, f"{error.path}: {error.expected}"), raw)
            raise
        self._report(Observed(seen), raw)

    def _is_new(self, key: Key, uid: str, version: str) -> bool:
        """Whether the object was not reported in this version yet; from here on it counts as reported."""
        known = self._known.get(key)
        if known == (uid, version):
            return False
        if known is not None and known[0] != uid:
            self._lose(key, MISSING)
        self._known[key] = (uid, version)
        return True

    def _lose(self, key: Key, raw: Raw) -> None:
        if (known := self._known.pop(key, None)) is not None:
            self._report(Gone(key, known[0]), raw)

    def _complain(self, error: InvalidObject) -> None:
        """An object that cannot be read is quarantined, if it can be told which one it is; that is said once."""
        if str(error) not in self._complaints:
            self._complaints[str(error)] = None
            self._dependencies.log.warning(f"quarantined, because it cannot be decoded: {error}")
        while len(self._complaints) > REMEMBERED_COMPLAINTS:
            del self._complaints[next(iter(self._complaints))]


def _told(body: bytes, code: int = 0) -> Exception:
    """The server's Status as an exception."""
    try:
        status = msgspec.json.decode(body, type=_WireStatus)
    except msgspec.DecodeError:
        status = _WireStatus()
    code = code or status.code
    if code == 410:
        return Expired(status.message)
    return ReadRefused(f"{status.message or body[:200].decode(errors='replace')} ({code})")
