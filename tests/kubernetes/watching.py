"""What became of the pods of one namespace, seen from outside through a watch of our own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec
from children import PATIENCE
from msgspec import Struct
from objects import pods_path
from wire import Client, Server


class Condition(Struct):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Metadata(Struct):
    name: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815


class _Spec(Struct):
    nodeName: str = ""  # noqa: N815
    schedulingGates: list[dict[str, str]] = []  # noqa: N815


class _Status(Struct):
    conditions: list[Condition] = []


class PodSeen(Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    def condition(self, kind: str) -> Condition | None:
        return next((each for each in self.status.conditions if each.type == kind), None)


class _Line(Struct):
    type: str
    object: PodSeen


class _Page(Struct):
    metadata: _Metadata
    items: list[PodSeen]


class PodWatch:
    """Follows a namespace while the context lasts; every node name a pod ever had is kept with its time."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._client, self._path = Client(server), pods_path(namespace)
        self._changed = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None
        self._line, self._page = msgspec.json.Decoder(_Line).decode, msgspec.json.Decoder(_Page).decode
        self.pods: dict[str, PodSeen] = {}  # by name, as last seen
        self.nodes_by_uid: dict[str, list[str]] = {}
        self.bound_at: dict[str, float] = {}  # by uid

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._follow(await self._look()))
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._reader is not None
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._client.__aexit__()

    @property
    def bound(self) -> int:
        return len(self.bound_at)

    def node_of(self, name: str) -> str:
        return self.pods[name].spec.nodeName if name in self.pods else ""

    async def until(self, what: str, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait for the pods to be so; fails with `what` when they are not in time."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: holds() or self._ended())
        except TimeoutError:
            raise AssertionError(f"not within {seconds:.0f} s: {what} ({self.bound} pods bound)") from None
        assert holds(), f"the watch ended before: {what}"

    def _ended(self) -> bool:
        return self._reader is None or self._reader.done()

    async def _look(self) -> str:
        """Record all pods as they are now, and return the version to follow from."""
        page = self._page(await self._client.get_bytes(self._path))
        for seen in page.items:
            self._record(seen)
        async with self._changed:
            self._changed.notify_all()
        return page.metadata.resourceVersion

    async def _follow(self, version: str) -> None:
        """Read on from `version`, also when the server goes away for a while."""
        while True:
            try:
                await self._read_from(version)
                version = await self._look()  # a server that was restarted no longer knows the way from there
            except OSError:
                await asyncio.sleep(0.2)

    async def _read_from(self, version: str) -> None:
        async for line in self._client.lines(f"{self._path}?watch=true&resourceVersion={version}"):
            change = self._line(line)
            if change.type == "ERROR":
                return
            self._record(change.object)
            async with self._changed:
                self._changed.notify_all()

    def _record(self, seen: PodSeen) -> None:
        self.pods[seen.metadata.name] = seen
        names = self.nodes_by_uid.setdefault(seen.metadata.uid, [""])
        if seen.spec.nodeName != names[-1]:
            names.append(seen.spec.nodeName)
            self.bound_at.setdefault(seen.metadata.uid, time.monotonic())
