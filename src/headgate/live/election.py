"""Leader election on a Lease: of several processes, one decides and the others stand by.

A candidate never compares its clock with another's: it measures, by its own clock, how long the lease has not changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct

from headgate.api.requests import Call, decode_status
from headgate.api.wire import format_micro_time
from headgate.live.client import Client
from headgate.live.connection import Disconnected, HttpResponse
from headgate.live.logs import Outages

JSON = "application/json"


class LeaseSettings(Struct, frozen=True):
    """Where the lease is, who we are, and the times (seconds) every candidate agrees on."""

    namespace: str
    identity: str
    name: str = "headgate"
    duration: float = 15.0  # others may take the lease when it has not changed for this long
    renew_deadline: float = 10.0  # a holder that could not renew for this long stops
    retry: float = 2.0  # between two tries

    @property
    def collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"


class Clocks(Struct, frozen=True):
    monotonic: Callable[[], float]
    wall: Callable[[], float]  # only written into the lease, never compared
    sleep: Callable[[float], Awaitable[None]]


class _LeaseSpec(Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Metadata(Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    resource_version: str = ""


class _Lease(Struct, rename="camel"):
    metadata: _Metadata
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


class LeaseRefused(Exception):
    """The server did not do what was asked."""


class Election:
    """One candidate. Call `acquire`, then `hold`; `release` on a clean stop lets the next one take over at once."""

    def __init__(self, client: Client, settings: LeaseSettings, clocks: Clocks, outages: Outages) -> None:
        self._client, self._settings, self._clocks, self._outages = client, settings, clocks, outages
        self._seen: _Lease | None = None
        self._seen_at = 0.0  # when the lease was first seen as it is
        self._renewed_at = 0.0

    @property
    def holder(self) -> str:
        """Who holds the lease as far as we know; empty for nobody."""
        return (self._seen.spec.holder_identity or "") if self._seen else ""

    @property
    def path(self) -> str:
        return self._settings.path

    async def acquire(self) -> None:
        """Returns when the lease is ours."""
        while not await self._try():
            await self._clocks.sleep(self._settings.retry)

    async def hold(self) -> None:
        """Renews; returns as soon as the lease is, or may soon be, somebody else's."""
        while self.holder == self._settings.identity and (left := self._time_left()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._clocks.sleep(min(left, self._settings.retry))
                    await self._try()
            except TimeoutError:
                return

    async def release(self) -> None:
        """Best effort: an unreachable server only means that the next one waits out the lease."""
        try:
            if not await self._give_up():
                await self._look()  # a renewal may have taken hold whose answer nobody waited for
                await self._give_up()
        except (LeaseRefused, Disconnected):
            return

    async def _give_up(self) -> bool:
        """False when the lease is not as last seen."""
        if self.holder != self._settings.identity or self._seen is None:
            return True
        given_up = msgspec.structs.replace(self._seen.spec, holder_identity="", lease_duration_seconds=1)
        return await self._write("PUT", self._settings.path, self._lease(given_up))

    def _time_left(self) -> float:
        """Seconds in which the lease must be renewed; counted from before the last renewal was asked for."""
        return self._renewed_at + self._settings.renew_deadline - self._clocks.monotonic()

    async def _try(self) -> bool:
        """Whether the lease is ours and was renewed just now."""
        asked_at = self._clocks.monotonic()
        try:
            renewed = await self._take_or_renew()
        except LeaseRefused as refusal:
            self._outages.failing(f"lease {self._settings.path}", "election", str(refusal))
            return False
        except Disconnected as trouble:
            self._outages.failing(f"API server {self._client.server}", "election", str(trouble))
            return False
        self._outages.recovered("election")
        if renewed:
            self._renewed_at = asked_at
        return renewed

    async def _take_or_renew(self) -> bool:
        lease = await self._look()
        if lease is None:
            return await self._write("POST", self._settings.collection, self._lease(self._mine(None)))
        ours = self.holder == self._settings.identity
        if not ours and self.holder and not self._lapsed(lease):
            return False
        return await self._write("PUT", self._settings.path, self._lease(self._mine(lease)))

    async def _look(self) -> _Lease | None:
        """The lease as it is now; None when there is none."""
        lease = await self._read()
        if lease is None:
            self._seen = None
        else:
            self._look_at(lease)
        return lease

    async def _read(self) -> _Lease | None:
        answer = await self._ask(Call("GET", self._settings.path, {}, "", b""))
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise _refusal(answer)
        return _decoded(answer)

    async def _write(self, method: str, path: str, lease: _Lease) -> bool:
        """False when somebody else was faster."""
        answer = await self._ask(Call(method, path, {}, JSON, msgspec.json.encode(lease)))
        if answer.status == 409:
            return False
        if not 200 <= answer.status < 300:
            raise _refusal(answer)
        self._look_at(_decoded(answer))
        return True

    async def _ask(self, call: Call) -> HttpResponse:
        return await self._client.perform(call, self._settings.renew_deadline / 2)

    def _look_at(self, lease: _Lease) -> None:
        if self._seen is None or self._seen.metadata.resource_version != lease.metadata.resource_version:
            self._seen, self._seen_at = lease, self._clocks.monotonic()

    def _lapsed(self, lease: _Lease) -> bool:
        allowed = lease.spec.lease_duration_seconds or self._settings.duration
        return self._clocks.monotonic() - self._seen_at >= allowed

    def _mine(self, lease: _Lease | None) -> _LeaseSpec:
        """The lease held by us. Who held it last shows whether this is a renewal or a transition."""
        now = format_micro_time(self._clocks.wall())
        before = lease.spec if lease else _LeaseSpec()
        renewal = before.holder_identity == self._settings.identity
        return _LeaseSpec(
            self._settings.identity,
            round(self._settings.duration),
            before.acquire_time if renewal and before.acquire_time else now,
            now,
            (before.lease_transitions or 0) + (0 if renewal or lease is None else 1),
        )

    def _lease(self, spec: _LeaseSpec) -> _Lease:
        """Guarded by the version last seen, so that two candidates cannot both succeed."""
        version = self._seen.metadata.resource_version if self._seen else ""
        return _Lease(_Metadata(self._settings.name, self._settings.namespace, version), spec)


def _decoded(answer: HttpResponse) -> _Lease:
    try:
        return msgspec.json.decode(answer.body, type=_Lease)
    except msgspec.DecodeError as error:
        raise LeaseRefused(f"expected a Lease: {error}") from error


def _refusal(answer: HttpResponse) -> LeaseRefused:
    message = decode_status(answer.body).message
    return LeaseRefused(f"{message or 'no reason given'} ({answer.status})")
