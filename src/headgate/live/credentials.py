"""Proof of who we are, obtained when needed and renewed before or when it stops working."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import assert_never

from msgspec import Struct

from headgate.live.access import Access, Anonymous, Certificate, ExecPlugin, FixedToken, TokenFile
from headgate.live.connection import NeverSent
from headgate.live.exec_plugin import ask_plugin

REREAD_AFTER = 60.0  # seconds a token read from a file is used without looking again


class CredentialsUnavailable(NeverSent):
    """No credentials could be obtained just now, so nothing was sent."""


class Proof(Struct, frozen=True):
    """What to show the server; `good_until` is on the clock the credentials were made with."""

    token: str = ""
    certificate: Certificate | None = None
    good_until: float = math.inf


Source = Callable[[], Awaitable[Proof]]


class Credentials:
    """Keeps one proof and obtains the next one when it expires or was refused; never two at the same time."""

    def __init__(self, access: Access, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._clock = clock
        self._source = _source(access, clock, wall)
        self._proof: Proof | None = None
        self._obtaining = asyncio.Lock()

    def current(self) -> Proof | None:
        """The proof at hand, if it is still good."""
        if self._proof is not None and self._clock() < self._proof.good_until:
            return self._proof
        return None

    async def obtain(self, refused: Proof | None = None) -> Proof:
        """A good proof, other than the one the server refused. Raises CredentialsUnavailable."""
        async with self._obtaining:
            if refused is not None and self._proof is refused:
                self._proof = None
            proof = self.current()
            if proof is None:
                proof = self._proof = await self._source()
            return proof


def _source(access: Access, clock: Callable[[], float], wall: Callable[[], float]) -> Source:
    match access.identity:
        case Anonymous():
            return _fixed(Proof("", access.certificate))
        case FixedToken(token):
            return _fixed(Proof(token, access.certificate))
        case TokenFile(file):
            return _from_file(file, access.certificate, clock)
        case ExecPlugin() as plugin:
            return _from_plugin(plugin, access.certificate, clock, wall)
        case _:
            assert_never(access.identity)


def _fixed(proof: Proof) -> Source:
    async def source() -> Proof:
        return proof

    return source


def _from_file(file: Path, certificate: Certificate | None, clock: Callable[[], float]) -> Source:
    async def source() -> Proof:
        try:
            token = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialsUnavailable(f"{file}: expected a token: {error}") from error
        if not token or not token.isprintable():
            raise CredentialsUnavailable(f"{file}: expected a token on one line")
        return Proof(token, certificate, clock() + REREAD_AFTER)

    return source


def _from_plugin(
    plugin: ExecPlugin, certificate: Certificate | None, clock: Callable[[], float], wall: Callable[[], float]
) -> Source:
    async def source() -> Proof:
        try:
            grant = await ask_plugin(plugin)
        except ValueError as error:
            raise CredentialsUnavailable(str(error)) from error
        good_for = math.inf if grant.expires is None else grant.expires - wall()
        return Proof(grant.token, grant.certificate or certificate, clock() + good_for)

    return source
