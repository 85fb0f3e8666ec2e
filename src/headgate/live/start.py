"""From a command line to a running process, and from there to an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct, structs

from headgate.api.configuration import InvalidConfiguration, plain_profile, settings_from
from headgate.api.install_manifests import Manifest
from headgate.api.wire import InvalidDuration, parse_duration
from headgate.gates.pre_enqueue import InvalidPlugin, PreEnqueue
from headgate.live.access import Access
from headgate.live.certificates import InvalidCertificate
from headgate.live.client import Client
from headgate.live.cluster_reading import ClusterFlags
from headgate.live.connection import Disconnected
from headgate.live.credentials import CredentialsUnavailable
from headgate.live.election import LeaseSettings
from headgate.live.http_server import CannotListen, Listen
from headgate.live.install import NotInstalled, install
from headgate.live.kubeconfig import InvalidKubeconfig, find_access, load_yaml
from headgate.live.logs import FORMATS, Log, LogLevel, LogStream, ReadProgress
from headgate.live.service import MetricsPlan, RunPlan, serve
from headgate.live.term import BrokenEngine
from headgate.live.webhooks import WebhookPlan
from headgate.model.settings import Profile, Role, Settings

try:
    import uvloop
except ImportError:  # it halves the cost of a request, but does not exist everywhere
    NEW_LOOP = asyncio.new_event_loop
else:
    NEW_LOOP = uvloop.new_event_loop

DONE, FAILED, WRONG_INPUT = 0, 1, 2  # exit codes
Tell = Callable[[str], None]


QUEUE_ROLES = frozenset({Role.QUOTA.value, Role.INTEGRATIONS.value})
"""Who admits the Jobs and pods that our webhooks hold back."""
NOBODY_ADMITS = (
    "--webhook-listen: the webhooks suspend Jobs and gate pods that name a queue, and this process admits none: "
    "expected --roles quota,integrations (and scheduler, if it is to place pods), or --no-queues as for "
    "`headgate install --no-queues`"
)


class InvalidFlag(Exception):
    """A flag whose value cannot be used."""


class Flags(Struct, frozen=True, kw_only=True):
    """The command line of `headgate run`."""

    kubeconfig: str = ""
    context: str = ""
    insecure: bool = False
    config: Path | None = None
    scheduler_names: tuple[str, ...] = ()
    listen: str = ""
    leader_elect: bool = True
    lease_namespace: str = ""
    webhook_listen: str = ""
    queues: bool = True
    roles: tuple[str, ...] = ("scheduler",)
    webhook_cert: Path | None = None
    webhook_key: Path | None = None
    metrics_listen: str = ""
    metrics_cert: Path | None = None
    metrics_key: Path | None = None
    metrics_client_ca: Path | None = None
    log_format: str = "text"
    log_level: str = "info"
    record: Path | None = None
    plugin_timeout: str = "100ms"


class Installed(Protocol):
    """The plugins that others have written and that are there to be enabled."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def enabled_by(self, settings: Settings) -> tuple[PreEnqueue, ...]:
        """Raises InvalidPlugin."""


class StartConsole(LogStream, ReadProgress, Protocol):
    """Standard error, and what is shown there while the cluster is read."""


def start(flags: Flags, installed: Installed, console: StartConsole) -> int:
    """Runs until a signal; the exit code. What is wrong with the input is said in one line."""
    log = Log(console, FORMATS[flags.log_format], LogLevel[flags.log_level.upper()], time.time)
    try:
        with _recording(flags.record) as out, asyncio.Runner(loop_factory=NEW_LOOP) as runner:
            runner.run(_until_signalled(_plan(flags, installed, out, console), log))
    except (InvalidFlag, InvalidKubeconfig, InvalidConfiguration, InvalidPlugin, InvalidCertificate) as error:
        sys.stderr.write(f"Error: {error}\n")
        return WRONG_INPUT
    except CannotListen as error:
        sys.stderr.write(f"Error: {error}\n")
        return FAILED
    except BrokenEngine as broken:
        log.error(f"stopped: an invariant is broken: {broken}")
        log.entries(broken.story)
        return FAILED
    return DONE


def _plan(flags: Flags, installed: Installed, out: BinaryIO | None, reading: ReadProgress) -> RunPlan:
    access = find_access(flags.kubeconfig, flags.context, os.environ, insecure=flags.insecure)
    settings = with_names(_settings(flags.config, installed.names), flags.scheduler_names)
    settings = structs.replace(settings, roles=frozenset(Role(role) for role in flags.roles))
    return RunPlan(
        access,
        settings,
        _listen("--listen", flags.listen),
        lease=_lease(access, flags.lease_namespace) if flags.leader_elect else None,
        webhooks=_webhooks(access, flags),
        metrics=_metrics(flags),
        record=out,
        plugins=installed.enabled_by(settings),
        plugin_timeout=_timeout(flags.plugin_timeout),
        reading=reading,
        namespace=_namespace(access, flags.lease_namespace),
    )


def _settings(config: Path | None, installed: Sequence[str]) -> Settings:
    if config is None:
        return Settings()
    try:
        document = load_yaml(config)
    except InvalidKubeconfig as error:
        raise InvalidConfiguration(error.file, error.path, error.expected) from error
    return settings_from(document, str(config), installed)


def with_names(settings: Settings, names: Sequence[str]) -> Settings:
    """The settings for these schedulerNames; a name that is configured keeps its profile."""
    if not names:
        return settings
    return structs.replace(settings, profiles=tuple(_profile(name, settings) for name in names))


def _profile(name: str, settings: Settings) -> Profile:
    for profile in settings.profiles:
        if profile.scheduler_name == name:
            return profile
    return plain_profile(name, settings.features)


def _lease(access: Access, namespace: str) -> LeaseSettings:
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    return LeaseSettings(_namespace(access, namespace), identity)


def _namespace(access: Access, given: str) -> str:
    """Where we keep what is ours in the cluster."""
    return given or access.namespace or "kube-system"


def _webhooks(access: Access, flags: Flags) -> WebhookPlan | None:
    listen, files = _listen("--webhook-listen", flags.webhook_listen), (flags.webhook_cert, flags.webhook_key)
    if any(files) and (listen is None or not all(files)):
        raise InvalidFlag("--webhook-cert, --webhook-key: expected both of them, and --webhook-listen")
    if listen is None:
        return None
    if flags.queues and not QUEUE_ROLES.issubset(flags.roles):
        raise InvalidFlag(NOBODY_ADMITS)
    namespace = _namespace(access, flags.lease_namespace)
    return WebhookPlan(listen, namespace, flags.webhook_cert, flags.webhook_key, flags.queues)


def _metrics(flags: Flags) -> MetricsPlan | None:
    listen, files = _listen("--metrics-listen", flags.metrics_listen), (flags.metrics_cert, flags.metrics_key)
    if any(files) and not all(files):
        raise InvalidFlag("--metrics-cert, --metrics-key: expected both of them")
    if listen is None and (any(files) or flags.metrics_client_ca is not None):
        raise InvalidFlag("--metrics-cert, --metrics-key, --metrics-client-ca: expected --metrics-listen, too")
    return MetricsPlan(listen, *files, flags.metrics_client_ca) if listen is not None else None


def _listen(flag: str, text: str) -> Listen | None:
    try:
        return Listen.parse(text)
    except ValueError as error:
        raise InvalidFlag(f"{flag}: {error}") from error


def _timeout(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except InvalidDuration as error:
        raise InvalidFlag(f"--plugin-timeout: {error}") from error
    if seconds <= 0:
        raise InvalidFlag(f"--plugin-timeout: expected a duration above 0, got {text}")
    return seconds


@contextlib.contextmanager
def _recording(file: Path | None) -> Iterator[BinaryIO | None]:
    if file is None:
        yield None
        return
    try:
        out = open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")  # noqa: PTH123, SIM115
    except OSError as error:
        raise InvalidFlag(f"--record: expected a file to write, but {file}: {error.strerror}") from error
    with out:
        yield out


async def _until_signalled(plan: RunPlan, log: Log) -> None:
    await serve(plan, log, stop_signal(log))


def stop_signal(log: Log) -> asyncio.Event:
    """Is set by the first SIGTERM or Ctrl-C; another one ends the process at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def finish(received: signal.Signals) -> None:
        log.info("stopping", signal=received.name)
        stop.set()
        for each in signals:
            loop.remove_signal_handler(each)

    for each in signals:
        loop.add_signal_handler(each, finish, each)
    return stop


def start_install(flags: ClusterFlags, wanted: Sequence[Manifest], tell: Tell) -> int:
    """Installs what is wanted on the cluster of these flags and tells each step; the exit code."""
    try:
        asyncio.run(_install(flags.access(), wanted, tell))
    except InvalidKubeconfig as error:
        sys.stderr.write(f"Error: {error}\n")
        return WRONG_INPUT
    except (NotInstalled, Disconnected, CredentialsUnavailable) as error:
        sys.stderr.write(f"Error: {error}\n")
        return FAILED
    return DONE


async def _install(access: Access, wanted: Sequence[Manifest], tell: Tell) -> None:
    client = Client(access, time.monotonic, time.time, asyncio.sleep)
    try:
        async for step in install(wanted, client.perform, asyncio.sleep):
            tell(f"{step.manifest}: {step.outcome}")
    finally:
        client.close()
