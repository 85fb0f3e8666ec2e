"""The API server of a cluster on this machine: the small Kubernetes in this process, or a real kube-apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from secrets import randbits, token_bytes
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec import Struct, structs

from headgate.api.install_manifests import OWN_ACCOUNT, AtUrl, Manifest
from headgate.api.requests import JSON, Call
from headgate.apiserver.authorization import AuthorizationMode
from headgate.apiserver.kinds import INITIAL_OBJECTS
from headgate.apiserver.server import ApiServer
from headgate.live.access import Access, FixedToken
from headgate.live.api_credentials import ADMINISTRATOR, ADMINISTRATORS, Administrator, new_administrator
from headgate.live.api_front import LOOPBACK, ServedApi, served
from headgate.live.client import Client
from headgate.live.connection import Disconnected
from headgate.live.data_dir import opened
from headgate.live.http_server import Listen
from headgate.live.install import NotInstalled, install, manifests
from headgate.live.kubeconfig import worker_access
from headgate.live.loop import WallClock
from headgate.live.webhooks import WebhookPlan
from headgate.model.settings import Role, Settings
from headgate.simulator.cluster import CONTROLLER_MANAGER, admission_for, installed_objects, lookup_in, our_webhooks

HOST = "127.0.0.1"
OWN_NAMESPACE = "headgate-system"
COMPONENTS = (OWN_ACCOUNT, CONTROLLER_MANAGER)
ASSETS = "KUBEBUILDER_ASSETS"
READY_SECONDS, STOP_SECONDS, LOOK_SECONDS = 60.0, 1.5, 0.1


class NoServer(Exception):
    """A real kube-apiserver cannot be started; the text says why."""


class StartedCluster(Struct, frozen=True):
    """A cluster whose API server can be asked: by its administrator, by our process and by the other controllers.

    Without `webhooks` ours are called in process.
    """

    name: str
    kubeconfig: dict[str, Any]
    administrator: Access
    headgate: Access
    controllers: Access
    webhooks: WebhookPlan | None = None
    served: ServedApi | None = None  # by this process

    async def keep(self) -> None:
        """Saves what is written, where that is ours to do. Raises CannotSave."""
        if self.served is not None:
            await self.served.keep()


def _started(name: str, url: str, administrator: Administrator, webhooks: WebhookPlan | None = None) -> StartedCluster:
    kubeconfig = administrator.kubeconfig(url, name)
    access = worker_access(msgspec.json.encode(kubeconfig), name)
    own, others = (
        structs.replace(access, identity=FixedToken(administrator.components[user]), certificate=None)
        for user in COMPONENTS
    )
    return StartedCluster(name, kubeconfig, access, own, others, webhooks)


@contextlib.asynccontextmanager
async def small_kubernetes(
    name: str, settings: Settings, clock: WallClock, folder: Path | None, port: int, *, mode: AuthorizationMode
) -> AsyncIterator[StartedCluster]:
    """The small Kubernetes with all that `headgate install` installs; our webhooks are called in process.

    With a folder it keeps its data there. Raises InvalidDataDir, CannotSave and CannotListen.
    """
    webhooks = our_webhooks(settings, lookup_in(lambda: server))
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN_NAMESPACE}}
    with opened(folder) as data:
        server = ApiServer(
            randbits(64),
            admission=(*admission_for(settings.features), webhooks),
            objects=(*INITIAL_OBJECTS, own, *installed_objects(settings), *_roles_and_policies(settings)),
            now=clock(),
            saved=data.load() if data is not None else None,
            tracks_fields=True,
            token_key=token_bytes(32),
            authorization=mode,
            calls_webhooks=True,
        )
        async with served(server, Listen(HOST, port), now=clock, components=COMPONENTS, data=data) as api:
            yield structs.replace(_started(name, api.url, api.administrator), served=api)


def _roles_and_policies(settings: Settings) -> tuple[Manifest, ...]:
    """The service account, roles and admission policies that `headgate install` installs."""
    wanted = manifests(None, volcano=True, fleet=Role.FLEET in settings.roles)
    return tuple(one for one in wanted if one["kind"] not in ("Namespace", "CustomResourceDefinition"))


@contextlib.asynccontextmanager
async def kube_apiserver(
    name: str, settings: Settings, assets: Path, folder: Path, port: int
) -> AsyncIterator[StartedCluster]:
    """etcd and kube-apiserver of these assets, with their data in the folder, after `headgate install`.

    Raises NoServer.
    """
    for program in ("etcd", "kube-apiserver"):
        if not os.access(assets / program, os.X_OK):
            raise NoServer(f"--kube-apiserver: expected the program {program} in {ASSETS}={assets}")
    administrator = new_administrator(LOOPBACK, COMPONENTS, time.time())
    files = _write_files(folder, administrator)
    etcd_port, port, webhook_port = _free_port(), port or _free_port(), _free_port()
    plan = WebhookPlan(Listen(HOST, webhook_port), OWN_NAMESPACE)
    cluster = _started(name, f"https://{HOST}:{port}", administrator, plan)
    with contextlib.ExitStack() as running:
        running.enter_context(_program(assets / "etcd", folder, _etcd_flags(folder, etcd_port, _free_port())))
        flags = _apiserver_flags(files, etcd_port, port)
        server = running.enter_context(_program(assets / "kube-apiserver", folder, flags))
        client = Client(cluster.administrator, time.monotonic, time.time, asyncio.sleep)
        running.callback(client.close)
        await _ready(client, server, folder)
        wanted = manifests(
            AtUrl(f"https://{HOST}:{webhook_port}"),
            volcano=True,
            fleet=Role.FLEET in settings.roles,
            schedulers=[each.scheduler_name for each in settings.profiles],
        )
        try:
            async for _ in install(wanted, client.perform, asyncio.sleep):
                pass
        except (NotInstalled, Disconnected) as error:
            raise NoServer(f"--kube-apiserver: {error}") from error
        yield cluster


def _write_files(folder: Path, administrator: Administrator) -> Mapping[str, Path]:
    """Certificates, keys and tokens for the server, in files of ours alone."""
    shown, signing = administrator.certificates.server, rsa.generate_private_key(65537, 2048)
    plain = serialization.NoEncryption()
    tokens = {ADMINISTRATOR: administrator.token, **administrator.components}
    contents = {
        "server.crt": shown.chain,
        "server.key": shown.key,
        "authority.crt": shown.authority,
        "accounts.key": signing.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
        "tokens.csv": "".join(f'{token},{user},{user},"{ADMINISTRATORS}"\n' for user, token in tokens.items()).encode(),
    }
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file, content in contents.items():
        with open(os.open(folder / file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:  # noqa: PTH123
            out.write(content)
    return {file: folder / file for file in contents}


def _etcd_flags(folder: Path, port: int, peer_port: int) -> Mapping[str, object]:
    clients, peers = f"http://{HOST}:{port}", f"http://{HOST}:{peer_port}"
    return {
        "data-dir": folder / "etcd",
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": peers,
        "initial-advertise-peer-urls": peers,
        "initial-cluster": f"default={peers}",
    }


def _apiserver_flags(files: Mapping[str, Path], etcd_port: int, port: int) -> Mapping[str, object]:
    return {
        "etcd-servers": f"http://{HOST}:{etcd_port}",
        "bind-address": HOST,
        "secure-port": port,
        "tls-cert-file": files["server.crt"],
        "tls-private-key-file": files["server.key"],
        "client-ca-file": files["authority.crt"],
        "token-auth-file": files["tokens.csv"],
        "authorization-mode": "RBAC",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": files["accounts.key"],
        "service-account-signing-key-file": files["accounts.key"],
        "service-cluster-ip-range": "10.0.0.0/24",
        # One would refuse every pod until a controller manager has made the namespace's default account, the other
        # taint every node until a controller manager has seen that it is ready.
        "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
        "endpoint-reconciler-type": "none",  # a loopback address is no valid endpoint
    }


@contextlib.contextmanager
def _program(file: Path, folder: Path, flags: Mapping[str, object]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs while the block lasts, in a session of its own, so that Ctrl-C stops us first."""
    with (folder / f"{file.name}.log").open("ab") as log:
        running = subprocess.Popen(
            [file, *(f"--{name}={value}" for name, value in flags.items())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


async def _ready(client: Client, server: subprocess.Popen[bytes], folder: Path) -> None:
    """Returns when the server says it is. Raises NoServer."""
    for _ in range(int(READY_SECONDS / LOOK_SECONDS)):
        if server.poll() is not None:
            break
        with contextlib.suppress(Disconnected):
            if (await client.perform(Call("GET", "/readyz", {}, JSON, b""))).status == 200:
                return
        await asyncio.sleep(LOOK_SECONDS)
    raise NoServer(f"--kube-apiserver: it does not become ready; see {folder / 'kube-apiserver.log'}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
