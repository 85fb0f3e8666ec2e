"""Where the kubeconfig of a worker cluster is: a Secret of our namespace, or a file. Its changes are told."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from headgate.api.decode import MalformedAnswer, decode_list, decode_watch
from headgate.api.requests import Call, decode_status
from headgate.live.connection import Disconnected, HttpResponse, Stream
from headgate.live.reflector import JitteredBackoff, ReadingClient

KEY = "kubeconfig"
LARGEST = 1024 * 1024  # bytes of a file; a Secret is no larger
WATCH_SECONDS = 300  # how long the server is asked to keep a watch open
LOOK_SECONDS = 5.0  # between two looks at a file


class NoKubeconfig(Struct, frozen=True):
    """There is none, and why."""

    why: str


Kubeconfig = bytes | NoKubeconfig
Tell = Callable[[Kubeconfig], None]
"""Takes the kubeconfig as it is now; the same may be told again."""


class KubeconfigSource(Protocol):
    def __str__(self) -> str: ...

    async def follow(self, tell: Tell) -> None:
        """Tells it and its changes until cancelled."""


class _KubeconfigSecret(Struct, frozen=True):
    data: dict[str, str] | None = None


class SecretSource:
    """The key `kubeconfig` of a Secret. Only this Secret is asked for: rights by resource name suffice."""

    def __init__(
        self,
        name: str,
        namespace: str,
        client: ReadingClient,
        sleep: Callable[[float], Awaitable[None]],
        random: Callable[[], float],
    ) -> None:
        self._place, self._client, self._sleep = f"{namespace}/{name}", client, sleep
        self._path = f"/api/v1/namespaces/{namespace}/secrets"
        self._only = {"fieldSelector": f"metadata.name={name}"}
        self._backoff = JitteredBackoff(random)

    def __str__(self) -> str:
        return f"Secret {self._place}"

    async def follow(self, tell: Tell) -> None:
        """While our own server does not answer, the last one told holds."""
        while True:
            try:
                await self._watch(await self._list(tell), tell)
            except (Disconnected, MalformedAnswer):
                await self._sleep(self._backoff.pause())

    async def _list(self, tell: Tell) -> str:
        """Tells the Secret; the version from where to watch, empty if it cannot be read."""
        answer = await self._client.perform(Call("GET", self._path, self._only, "", b""))
        if answer.status != 200:
            tell(NoKubeconfig(f"{self} cannot be read: {_said(answer)}"))
            return ""
        page = decode_list(answer.body)
        tell(self._content(page.items[0]) if page.items else self._missing())
        return page.version

    async def _watch(self, version: str, tell: Tell) -> None:
        if not version:
            await self._sleep(self._backoff.pause())
            return
        seconds = str(WATCH_SECONDS)
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": seconds, **self._only}
        async with self._client.stream(Call("GET", self._path, query, "", b"")) as opened:
            if isinstance(opened, Stream):
                self._backoff.reset()
                await self._take_all(opened, tell)
        await self._sleep(self._backoff.pause())

    async def _take_all(self, stream: Stream, tell: Tell) -> None:
        async for line in stream.lines():
            news = decode_watch(line)
            if news.type in ("ADDED", "MODIFIED"):
                tell(self._content(news.object))
            elif news.type == "DELETED":
                tell(self._missing())

    def _content(self, raw: Raw) -> Kubeconfig:
        found = kubeconfig_in(raw)
        return NoKubeconfig(f"{self}: expected a kubeconfig under the key {KEY}") if found is None else found

    def _missing(self) -> NoKubeconfig:
        return NoKubeconfig(f"{self}: expected such a Secret with the key {KEY}; there is none")


def kubeconfig_in(secret: Raw) -> bytes | None:
    """What a Secret holds under the key `kubeconfig`; None if it has none."""
    try:
        encoded = (msgspec.json.decode(secret, type=_KubeconfigSecret).data or {}).get(KEY)
        return None if encoded is None else base64.b64decode(encoded, validate=True)
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error):
        return None


def _said(answer: HttpResponse) -> str:
    return decode_status(answer.body).message or f"the server answered {answer.status}"


class FileSource:
    """A file inside the directory for kubeconfigs; links count as what they lead to."""

    def __init__(self, path: str, directory: str, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._path, self._directory, self._sleep = Path(path), Path(directory), sleep

    def __str__(self) -> str:
        return str(self._path)

    async def follow(self, tell: Tell) -> None:
        seen: object = None
        while True:
            stamp, content = await asyncio.to_thread(self._look, seen)  # a disk may hang
            if content is not None:
                seen = stamp
                tell(content)
            await self._sleep(LOOK_SECONDS)

    def _look(self, seen: object) -> tuple[object, Kubeconfig | None]:
        """What tells this state of the file from others, and its content, unless it is the one seen before."""
        try:
            resolved = self._path.resolve()
            if not resolved.is_relative_to(self._directory.resolve()):
                outside = f"expected a file in {self._directory} (multiKueue.kubeConfigDirectory)"
                return "outside", NoKubeconfig(f"{self}: {outside}")
            found = resolved.stat()
            stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
            if stamp == seen:
                return seen, None
            if found.st_size > LARGEST:
                return stamp, NoKubeconfig(f"{self}: expected at most {LARGEST} bytes")
            return stamp, resolved.read_bytes()
        except (OSError, RuntimeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            return why, NoKubeconfig(f"{self}: expected a readable file: {why}")
