"""Who may read our metrics on a real cluster: tokens and certificates that a real kube-apiserver reviews."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from children import eventually, free_port
from cluster import Cluster
from ours import OurProcess

READER = "headgate-metrics-reader"


@pytest.fixture
def scrape(cluster: Cluster, start: Callable[..., OurProcess]) -> Callable[..., int]:
    """The status of a page over TLS, asked with a token or with a client certificate and its key."""
    port, authority = free_port(), yaml.safe_load(cluster.administrator.read_text())["clusters"][0]["cluster"]
    client_ca = ("--metrics-client-ca", authority["certificate-authority"])
    start("--no-leader-elect", "--metrics-listen", f"0.0.0.0:{port}", *client_ca)

    def ask(path: str = "/metrics", token: str = "", certificate: tuple[Path, Path] | None = None) -> int:
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if certificate is not None:
            tls.load_cert_chain(*certificate)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60, context=tls) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def is_served() -> bool:
        try:
            return ask() != 0
        except OSError:
            return False

    eventually("our process serves this port, too", is_served)
    return ask


def test_a_token_reads_what_rbac_lets_its_account_get(cluster: Cluster, namespace: str, scrape: Callable[..., int]):
    tokens = {}
    for account in ("prometheus", "tenant"):
        cluster.kubectl("create", "serviceaccount", account, "--namespace", namespace)
        tokens[account] = cluster.kubectl("create", "token", account, "--namespace", namespace).strip()
    assert [scrape(), scrape(token="nonsense"), scrape(token=tokens["prometheus"])] == [401, 401, 403]
    account = f"--serviceaccount={namespace}:prometheus"
    cluster.kubectl("create", "clusterrolebinding", f"{namespace}-reader", f"--clusterrole={READER}", account)
    eventually("the binding is known and the refusal forgotten", lambda: scrape(token=tokens["prometheus"]) == 200)
    assert scrape("/preemptions", tokens["prometheus"]) == 200
    assert scrape(token=tokens["tenant"]) == 403


def test_a_client_certificate_reads_what_rbac_lets_its_user_get(cluster: Cluster, scrape: Callable[..., int]):
    files = {}
    for user, group in (("administrator", "system:masters"), ("somebody", "developers")):
        access = yaml.safe_load(cluster.kubeconfig_of_user(user, group).read_text())["users"][0]["user"]
        files[user] = (Path(access["client-certificate"]), Path(access["client-key"]))
    assert scrape(certificate=files["administrator"]) == 200
    assert scrape(certificate=files["somebody"]) == 403
