"""One real cluster for all tests; each test has its own namespace and its own nodes, and leaves neither behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from children import eventually
from cluster import Cluster
from objects import NODES, create_namespace, pods_path, remove_all
from ours import OurProcess
from watching import PodWatch
from wire import Client

Start = Callable[..., OurProcess]
LOG_SHOWN = 5000  # characters of each process's log that a failed test shows

TIMEOUT = 600.0  # seconds; a test that runs out of time ends the run for all others, so nothing but a hang may

_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests wait for other programs, and a busy machine may be many times slower than an idle one."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.fixture(scope="session", autouse=True)
def own_kubectl_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """kubectl remembers for hours what a port has served, and ports are used again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECACHEDIR", str(tmp_path_factory.mktemp("kubectl")))
        yield


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, own_kubectl_cache: None) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def own_account(cluster: Cluster) -> Path:
    """A kubeconfig with the rights of deploy/rbac.yaml and no more."""
    return cluster.kubeconfig_of_own_account()


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(cluster.server) as connected:
        yield connected


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"test-{next(_numbers)}"
    await create_namespace(client, name)
    yield name
    try:
        await remove_all(client, pods_path(name))
    finally:
        await remove_all(client, NODES)


@pytest.fixture
async def pods(cluster: Cluster, namespace: str) -> AsyncIterator[PodWatch]:
    async with PodWatch(cluster.server, namespace) as watch:
        yield watch


@pytest.fixture
def start(cluster: Cluster, own_account: Path, namespace: str, tmp_path: Path) -> Iterator[Start]:
    """Start our process with its own account, or with `kubeconfig`; all are stopped when the test ends."""
    started: list[OurProcess] = []
    apiserver = cluster.apiserver

    def run(*flags: str, kubeconfig: Path = own_account) -> OurProcess:
        started.append(OurProcess(kubeconfig, tmp_path / f"headgate-{len(started)}.log", *flags))
        eventually("our process is up", lambda: started[-1].answers("/healthz"))
        return started[-1]

    yield run
    for process in started:
        process.stop()
        print(f"--- {process.log.name}\n{process.written()[-LOG_SHOWN:]}")
    refused = [line for process in started for line in process.written().splitlines() if "forbidden" in line.lower()]
    # While it starts, a kube-apiserver refuses even what it is going to allow.
    assert cluster.apiserver is not apiserver or refused == [], (
        "deploy/rbac.yaml gives all the rights our process needs"
    )
