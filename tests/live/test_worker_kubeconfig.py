"""Kubeconfigs of worker clusters: what would read files or run programs of this host, or send secrets in the clear, is
refused with the field and the fix.
"""

from __future__ import annotations

import base64

import pytest
import yaml
from test_live_kubeconfig import CLUSTER, GOOD, USER, V1, cluster, user, with_
from throwaway_ca import ThrowawayCa

from headgate.live.access import Anonymous, FixedToken
from headgate.live.kubeconfig import InsecureKubeconfig, InvalidKubeconfig, worker_access

SOURCE = "Secret headgate-system/worker1"


def read(document: object):
    return worker_access(document if isinstance(document, bytes) else yaml.safe_dump(document).encode(), SOURCE)


def test_a_token_and_a_verified_server_are_accepted(ca: ThrowawayCa):
    authority = base64.b64encode(ca.certificate.read_bytes()).decode()
    document = cluster(certificate_authority_data=authority)
    access = read(document)
    assert access.identity == FixedToken("secret")
    assert str(access.cluster.url) == "https://example:6443"
    assert access.cluster.authority == ca.certificate.read_bytes()
    assert access.cluster.verify


def test_a_client_certificate_in_the_kubeconfig_is_accepted(ca: ThrowawayCa):
    chain, key = (file.read_bytes() for file in ca.issue("worker-user"))
    encoded = {
        "client_certificate_data": base64.b64encode(chain).decode(),
        "client_key_data": base64.b64encode(key).decode(),
    }
    access = read(user(**encoded))
    assert access.identity == Anonymous()
    assert access.certificate is not None
    assert (access.certificate.chain, access.certificate.key) == (chain, key)


@pytest.mark.parametrize(
    "document, path, fix",
    [
        pytest.param(user(tokenFile="/etc/token"), f"{USER}.tokenFile", "field token", id="a token in a file"),
        pytest.param(
            user(token="t", tokenFile="/etc/token"), f"{USER}.tokenFile", "field token", id="a token and a token file"
        ),
        pytest.param(
            cluster(insecure_skip_tls_verify=True),
            f"{CLUSTER}.insecure-skip-tls-verify",
            "expected false and certificate-authority-data",
            id="a server that is not verified",
        ),
        pytest.param(
            cluster(certificate_authority="/etc/ca.crt"),
            f"{CLUSTER}.certificate-authority",
            "expected certificate-authority-data instead",
            id="an authority in a file",
        ),
        pytest.param(
            user(client_certificate="/a.crt", client_key_data="eA=="),
            f"{USER}.client-certificate",
            "expected client-certificate-data instead",
            id="a client certificate in a file",
        ),
        pytest.param(
            user(client_certificate_data="eA==", client_key="a.key"),
            f"{USER}.client-key",
            "expected client-key-data instead",
            id="a client key in a file",
        ),
        pytest.param(user(username="me", password="x"), f"{USER}.username", "expected a token", id="basic auth"),
        pytest.param(user(token="t", password="x"), f"{USER}.password", "expected a token", id="a password alone"),
        pytest.param(
            user(exec={"apiVersion": V1, "command": "sh", "interactiveMode": "Never"}),
            f"{USER}.exec",
            "no programs are run",
            id="an exec plugin",
        ),
        pytest.param(
            user(auth_provider={"name": "gcp"}), f"{USER}.auth-provider", "expected a token", id="an auth provider"
        ),
        pytest.param(
            cluster(server="http://example:8080"), f"{CLUSTER}.server", "https://host:6443", id="a server without TLS"
        ),
        pytest.param(
            cluster(server="example:6443"), f"{CLUSTER}.server", "https://host:6443", id="a server without scheme"
        ),
        pytest.param(
            cluster(server="http://127.0.0.1:8080"), f"{CLUSTER}.server", "https://", id="this host without TLS"
        ),
    ],
)
def test_an_insecure_one_is_refused_with_the_field_and_the_fix(document, path, fix):
    with pytest.raises(InsecureKubeconfig) as refused:
        read(document)
    assert (refused.value.file, refused.value.path) == (SOURCE, path)
    assert fix in refused.value.expected


@pytest.mark.parametrize(
    "document, path",
    [
        pytest.param(b"", "", id="nothing"),
        pytest.param(b"eyJhbGciOi.secret.token", "", id="a token in place of a kubeconfig"),
        pytest.param(b"a: [", "line 2, column 1", id="no YAML"),
        pytest.param(b"\xff\xfe", "", id="no text"),
        pytest.param({}, "current-context", id="no context"),
        pytest.param(with_("current-context", "gone"), "current-context", id="a context that is not there"),
        pytest.param(
            with_("contexts.0.context", {"cluster": "x"}), "contexts[0].context.cluster", id="no such cluster"
        ),
        pytest.param(cluster(proxy_url="http://proxy"), f"{CLUSTER}.proxy-url", id="a proxy"),
        pytest.param(user(**{"as": "admin"}), f"{USER}.as", id="impersonation"),
        pytest.param(user(token="two words"), f"{USER}.token", id="no token"),
        pytest.param(with_("users", "secret"), "users", id="a list that is none"),
    ],
)
def test_a_bad_one_is_refused_with_the_field_and_without_its_content(document, path):
    with pytest.raises(InvalidKubeconfig) as refused:
        read(document)
    assert not isinstance(refused.value, InsecureKubeconfig)
    assert refused.value.path == path
    assert str(refused.value).startswith(SOURCE)
    assert "eyJhbGciOi" not in str(refused.value)


def test_what_other_contexts_name_is_not_looked_at():
    document = {**GOOD, "users": [*GOOD["users"], {"name": "other", "user": {"tokenFile": "/etc/token"}}]}
    assert read(document).identity == FixedToken("secret")
