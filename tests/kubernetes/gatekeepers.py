"""Controllers of other parties: each owns one gate and takes off that one only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

from objects import pods_path
from wire import JSON_PATCH, Client, Server


class Gatekeeper:
    """Agrees to every pod it sees in the namespace while the context lasts; `agreed` are those it let pass."""

    def __init__(self, server: Server, namespace: str, gate: str) -> None:
        self._client, self._pods, self._gate = Client(server), pods_path(namespace), gate
        self._work: asyncio.Task[None] | None = None
        self._asking = asyncio.Lock()
        self.agreed: list[str] = []

    async def __aenter__(self) -> Gatekeeper:
        self._work = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._work is not None
        async with self._asking:  # what was asked is also answered
            self._work.cancel()
        (ended,) = await asyncio.gather(self._work, return_exceptions=True)
        await self._client.__aexit__()
        assert isinstance(ended, asyncio.CancelledError), f"the keeper of {self._gate} ended: {ended!r}"

    async def _follow(self) -> None:
        """Agree to each; one whose gates another party changed meanwhile is seen again."""
        async for pod in self._seen():
            if (place := self._place(pod)) is not None:
                async with self._asking:
                    await self._agree(pod["metadata"]["name"], place)

    async def _seen(self) -> AsyncIterator[dict[str, Any]]:
        """All pods, and every change; anew when the server ends the watch, as a busy one may."""
        while True:
            page = await self._client.get(self._pods)
            for pod in page["items"]:
                yield pod
            version = page["metadata"]["resourceVersion"]
            async for line in self._client.lines(f"{self._pods}?watch=true&resourceVersion={version}"):
                change = json.loads(line)
                if change["type"] == "ERROR":
                    break
                yield change["object"]

    def _place(self, pod: dict[str, Any]) -> int | None:
        names = [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
        return names.index(self._gate) if self._gate in names else None

    async def _agree(self, name: str, place: int) -> None:
        """Take our gate off where we saw it, if that is where it still is."""
        where = f"/spec/schedulingGates/{place}"
        change = [{"op": "test", "path": f"{where}/name", "value": self._gate}, {"op": "remove", "path": where}]
        answer = await self._client.request("PATCH", f"{self._pods}/{name}", change, JSON_PATCH)
        if answer.code == 200:
            self.agreed.append(name)
        else:
            assert answer.code in (409, 422), f"{self._gate} off {name}: {answer.code} {answer.body.decode()}"
