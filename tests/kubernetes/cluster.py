"""A real Kubernetes of one node each of etcd and kube-apiserver, on loopback ports of its own, with TLS and RBAC."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from assets import program
from certificates import Authority
from children import Child, eventually, free_port
from wire import Server

RIGHTS = Path(__file__).resolve().parents[2] / "deploy" / "rbac.yaml"
START_PATIENCE = 180.0  # seconds a kube-apiserver may take to be ready
ADMINISTRATOR = ("administrator", "system:masters")
KUBE_SCHEDULER = ("system:kube-scheduler", "system:none")
OWN_NAMESPACE, OWN_ACCOUNT = "headgate-system", "headgate"
OWN_RIGHTS = ("watch nodes", "watch limitranges", "create tokenreviews.authentication.k8s.io", "create secrets")
"""One of each role in deploy/rbac.yaml that is bound to our account."""

Manifest = dict[str, Any]


class Cluster:
    """Runs while the context lasts. Nodes, pods and namespaces in it are up to the tests.

    One `beside` another has its data in the same etcd, under a prefix of its own; it knows nothing of the other.
    """

    def __init__(self, folder: Path, beside: Cluster | None = None) -> None:
        self.folder, self._beside = folder, beside
        self._authority = Authority(folder)
        self._server_certificate = self._authority.issue_to_server()
        self._signing_key = self._authority.signing_key()
        self._etcd_port: int = free_port() if beside is None else beside._etcd_port
        self._etcd_peer_port, self.port = free_port(), free_port()
        self.administrator = self.kubeconfig_of_user(*ADMINISTRATOR)

    def __enter__(self) -> Cluster:
        self.etcd: Child = self._start_etcd() if self._beside is None else self._beside.etcd
        try:
            self.start_apiserver()
        except BaseException:
            self._stop_etcd()
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.apiserver.stop()
        self._stop_etcd()

    def _stop_etcd(self) -> None:
        if self._beside is None:
            self.etcd.stop()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def server(self) -> Server:
        """Access for the administrator."""
        return Server("127.0.0.1", self.port, self._administrators_tls())

    def start_apiserver(self) -> None:
        """Start it, again on the same port and data after an outage, and wait until it is ready."""
        self.apiserver = Child(self._apiserver_command(), self.folder / "kube-apiserver.log")
        try:
            eventually("kube-apiserver is ready", self._ready, START_PATIENCE)
        except BaseException:
            self.apiserver.stop()
            raise

    @contextmanager
    def outage(self) -> Iterator[None]:
        """The API server is gone while this lasts; afterwards it is ready again, whatever happened meanwhile."""
        self.apiserver.kill()
        try:
            yield
        finally:
            self.start_apiserver()

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """What kubectl prints as the administrator; `text` is its standard input."""
        done = self._run_kubectl(self.administrator, *arguments, text=text)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def accepts(self, manifest: Manifest) -> bool:
        """Whether the server would create it, as it is now and as much as its admission has heard of."""
        create = ("create", "--dry-run=server", "--filename=-")
        return self._run_kubectl(self.administrator, *create, text=json.dumps(manifest)).returncode == 0

    def served(self) -> set[str]:
        """The kinds that are served, such as jobs.batch. While some come or go, a server may fail to say."""

        def said() -> str:
            done = self._run_kubectl(self.administrator, "api-resources", "--output=name")
            return "" if done.returncode else done.stdout

        return set(eventually("it is said which kinds are served", said).split())

    def wait_until_served(self, *kinds: str) -> None:
        """That a kind is established is known before it is served."""
        eventually(f"{kinds} are served", lambda: set(kinds) <= self.served())

    def define(self, *definitions: Manifest) -> None:
        """Apply CustomResourceDefinitions; returns when their kinds are served."""
        for each in definitions:
            self.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", text=json.dumps(each))
        self.wait_until_served(*(each["metadata"]["name"] for each in definitions))

    def wait_until_allowed(self, kubeconfig: Path, *rights: str) -> Path:
        """The kubeconfig, once its user has rights such as `list nodes`: an authorizer learns of roles from watches."""

        def missing() -> list[str]:
            asked = {right: ("auth", "can-i", *right.split(" "), "--quiet") for right in rights}
            return [right for right in rights if self._run_kubectl(kubeconfig, *asked[right]).returncode]

        eventually(f"{kubeconfig.stem} may {rights}", lambda: not missing())
        return kubeconfig

    def _run_kubectl(self, kubeconfig: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(program("kubectl")), f"--kubeconfig={kubeconfig}", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    def kubeconfig_of_user(self, user: str, group: str) -> Path:
        certificate, key = self._authority.issue_to_client(user, group)
        return self._kubeconfig(user, {"client-certificate": str(certificate), "client-key": str(key)})

    def kubeconfig_of_own_account(self) -> Path:
        """For the service account our process runs as, with the rights of deploy/rbac.yaml only."""
        self.kubectl("apply", "--filename", str(RIGHTS))
        return self.wait_until_allowed(self.kubeconfig_of_account(OWN_NAMESPACE, OWN_ACCOUNT), *OWN_RIGHTS)

    def kubeconfig_of_account(self, namespace: str, account: str) -> Path:
        """For a service account, and for its namespace."""
        asked = ("create", "token", account, f"--namespace={namespace}", "--duration=2h")
        return self._kubeconfig(f"{namespace}-{account}", {"token": self.kubectl(*asked).strip()}, namespace)

    def _kubeconfig(self, user: str, access: dict[str, str], namespace: str = "default") -> Path:
        place = {"server": self.url, "certificate-authority": str(self._authority.certificate)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": place}],
            "users": [{"name": user, "user": access}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user, "namespace": namespace}}],
        }
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    def _administrators_tls(self) -> ssl.SSLContext:
        access = yaml.safe_load(self.administrator.read_text())["users"][0]["user"]
        tls = ssl.create_default_context(cafile=self._authority.certificate)
        tls.load_cert_chain(access["client-certificate"], access["client-key"])
        return tls

    def _ready(self) -> bool:
        assert self.apiserver.running, f"kube-apiserver ended: {self.apiserver.written()[-2000:]}"
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", context=self._administrators_tls(), timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _start_etcd(self) -> Child:
        clients, peers = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._etcd_peer_port}"
        flags = {
            "data-dir": self.folder / "etcd",
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "quota-backend-bytes": 2**32,
            "unsafe-no-fsync": "true",  # the data dies with the test; waiting for disks would be all we measure
        }
        return Child([program("etcd"), *_as_flags(flags)], self.folder / "etcd.log")

    def _apiserver_command(self) -> list[str | Path]:
        certificate, key = self._server_certificate
        flags = {
            "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
            "etcd-prefix": "/registry" if self._beside is None else f"/{self.folder.name}",
            "bind-address": "127.0.0.1",
            "secure-port": self.port,
            "tls-cert-file": certificate,
            "tls-private-key-file": key,
            "client-ca-file": self._authority.certificate,
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": self._signing_key,
            "service-account-signing-key-file": self._signing_key,
            "service-cluster-ip-range": "10.0.0.0/24",
            # It would refuse every pod until a controller manager has made the namespace's default account.
            "disable-admission-plugins": "ServiceAccount",
            "endpoint-reconciler-type": "none",  # a loopback address is no valid endpoint
            "delete-collection-workers": 8,  # tests empty whole namespaces
            # A client gets a share of these under priority and fairness; this many, and none waits.
            "max-requests-inflight": 2000,
            "max-mutating-requests-inflight": 2000,
        }
        return [program("kube-apiserver"), *_as_flags(flags)]


def _as_flags(flags: dict[str, object]) -> list[str | Path]:
    return [f"--{name}={value}" for name, value in flags.items()]
