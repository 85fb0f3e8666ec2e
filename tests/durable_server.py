"""A `headgate apiserver` with a data directory, that is killed in the middle of a storm of writes and started again."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from headgate.api.requests import JSON, Call
from headgate.live.client import Client
from headgate.live.connection import Disconnected
from headgate.live.kubeconfig import find_access

MAPS = "/api/v1/namespaces/default/configmaps"
WRITERS = 8
MERGE = "application/merge-patch+json"


class DurableServer:
    """The process; `acknowledged` is what it said it had written, by name, and None for what it removed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.kubeconfig = folder, folder / "kubeconfig"
        self.acknowledged: dict[str, int | None] = {}
        self.version = 0  # the highest that anybody was told
        self._number = 0

    async def start(self) -> None:
        command = [sys.executable, "-m", "headgate", "apiserver"]
        options = ["--kubeconfig", str(self.kubeconfig), "--data-dir", str(self._folder / "data")]
        self._process = await asyncio.create_subprocess_exec(*command, *options, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        said = await self._process.stdout.readline()
        assert said.startswith(b"export"), said

    async def stop(self, how: signal.Signals) -> int:
        """How it ended, which may have been before."""
        if self._process.returncode is None:
            self._process.send_signal(how)
        return await self._process.wait()

    def client(self) -> Client:
        return Client(find_access(str(self.kubeconfig), "", {}), time.monotonic, time.time, asyncio.sleep)

    async def storm(self, count: int) -> None:
        """Creates, changes and deletes until so many were acknowledged, and is killed in the middle of the next."""
        client, enough = self.client(), asyncio.Event()
        target = self._number + count
        writers = [asyncio.ensure_future(self._write(client, enough, target)) for _ in range(WRITERS)]
        await asyncio.wait((asyncio.ensure_future(enough.wait()), *writers), return_when=asyncio.FIRST_COMPLETED)
        await self.stop(signal.SIGKILL)
        for one in writers:
            one.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        client.close()

    async def _write(self, client: Client, enough: asyncio.Event, target: int) -> None:
        while True:
            self._number += 1
            number, name = self._number, f"m-{self._number}"
            try:
                made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": "0"}}
                await self._ask(client, Call("POST", MAPS, {}, JSON, msgspec.json.encode(made)), name, 0)
                if number % 3 == 0:
                    patch = msgspec.json.encode({"data": {"n": str(number)}})
                    self.acknowledged.pop(name)  # either is right until this is answered
                    await self._ask(client, Call("PATCH", f"{MAPS}/{name}", {}, MERGE, patch), name, number)
                if number % 5 == 0:
                    self.acknowledged.pop(name)
                    await self._ask(client, Call("DELETE", f"{MAPS}/{name}", {}, JSON, b""), name, None)
            except Disconnected:
                return
            if number >= target:
                enough.set()

    async def _ask(self, client: Client, call: Call, name: str, content: int | None) -> None:
        answer = await client.perform(call)
        assert answer.status in (200, 201), answer.body
        self.acknowledged[name] = content
        told = msgspec.json.decode(answer.body)["metadata"].get("resourceVersion", "0")
        self.version = max(self.version, int(told))

    async def missing(self) -> list[str]:
        """What was acknowledged and is not so."""
        client = self.client()
        try:
            answer = await client.perform(Call("GET", MAPS, {}, JSON, b""))
        finally:
            client.close()
        listed = msgspec.json.decode(answer.body)
        assert int(listed["metadata"]["resourceVersion"]) >= self.version, "versions never go back"
        found = {item["metadata"]["name"]: int(item["data"]["n"]) for item in listed["items"]}
        return [name for name, content in self.acknowledged.items() if found.get(name) != content]


async def killed_often(folder: Path, times: int, count: int) -> None:
    """Fails if anything that was acknowledged is missing after any of the kills."""
    server = DurableServer(folder)
    await server.start()
    try:
        for _ in range(times):
            await server.storm(count)
            await server.start()
            assert await server.missing() == []
        assert len(server.acknowledged) > times * count // 2
        assert await server.stop(signal.SIGTERM) == 0
    finally:
        await server.stop(signal.SIGKILL)
