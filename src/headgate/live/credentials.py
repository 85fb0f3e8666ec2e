"""Credentials: tokens and client certificates, from files or exec plugins, renewed before they expire."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import assert_never

import msgspec
from msgspec import Struct

from headgate.api.wire import parse_time
from headgate.live.access import Access, Anonymous, Certificate, ExecPlugin, FixedToken, TokenFile
from headgate.live.connection import NeverSent

PATIENCE = 60.0  # seconds a plugin may take


class PluginGrant(Struct, frozen=True):
    """What a plugin handed out; `expires` is in seconds since the epoch, None for never."""

    token: str
    certificate: Certificate | None
    expires: float | None


class _ExecCredentialStatus(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(Struct, rename="camel"):
    api_version: str
    kind: str
    status: _ExecCredentialStatus | None = None


async def ask_plugin(plugin: ExecPlugin) -> PluginGrant:
    """Raises ValueError, with the plugin's name and its install hint, when no credentials came out of it."""
    try:
        return _read(await _run(plugin), plugin)
    except ValueError as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        raise ValueError(f"exec plugin {plugin.command}: {error}{hint}") from error


async def _run(plugin: ExecPlugin) -> bytes:
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command, *plugin.arguments, stdin=null, stdout=pipe, stderr=pipe, env=_environment(plugin)
        )
    except OSError as error:
        raise ValueError(f"could not be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(PATIENCE):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise ValueError(f"did not finish within {PATIENCE:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ValueError(f"exit status {process.returncode}: {complaint.decode(errors='replace').strip()[-500:]}")
    return output


def _environment(plugin: ExecPlugin) -> dict[str, str]:
    spec: dict[str, object] = {"interactive": False}
    if plugin.cluster_info:
        spec["cluster"] = msgspec.Raw(plugin.cluster_info)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    ours = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    return dict(os.environ) | dict(plugin.environment) | ours


def _read(output: bytes, plugin: ExecPlugin) -> PluginGrant:
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.MsgspecError as error:
        raise ValueError(f"expected an ExecCredential in JSON: {error}") from error
    if (answer.api_version, answer.kind) != (plugin.api_version, "ExecCredential"):
        found = f"{answer.kind} of {answer.api_version}"
        raise ValueError(f"expected an ExecCredential of {plugin.api_version}, got {found}")
    if answer.status is None:
        raise ValueError("expected status in its ExecCredential")
    return _granted(answer.status, plugin)


def _granted(status: _ExecCredentialStatus, plugin: ExecPlugin) -> PluginGrant:
    chain, key = status.client_certificate_data, status.client_key_data
    if bool(chain) != bool(key):
        raise ValueError("expected status.clientCertificateData and status.clientKeyData together")
    if not status.token and not chain:
        raise ValueError("expected status.token or a client certificate")
    if not status.token.isascii() or not (status.token or "-").isprintable():
        raise ValueError("expected status.token in printable ASCII")
    certificate = Certificate(chain.encode(), key.encode(), f"exec plugin {plugin.command}") if chain else None
    expires = status.expiration_timestamp
    return PluginGrant(status.token, certificate, parse_time(expires) if expires else None)


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
