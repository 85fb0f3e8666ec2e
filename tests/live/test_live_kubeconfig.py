"""Kubeconfigs: merged as kubectl merges them; everything malformed is named by file, path and expectation."""

from __future__ import annotations

import base64
import copy
from pathlib import Path

import pytest
import yaml
from throwaway_ca import ThrowawayCa

from headgate.live.access import Anonymous, ExecPlugin, FixedToken, TokenFile
from headgate.live.certificates import tls_context
from headgate.live.kubeconfig import (
    InvalidKubeconfig,
    find_access,
    inside_cluster,
    kubeconfig_files,
    load_in_cluster,
    load_kubeconfig,
)

CONTEXT, CLUSTER, USER = "contexts[0].context", "clusters[0].cluster", "users[0].user"
PLUGIN = f"{USER}.exec"
V1 = "client.authentication.k8s.io/v1"
GOOD = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://example:6443"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}],
}


def write(folder: Path, name: str, document: object) -> Path:
    file = folder / name
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return file


def with_(path: str, value: object) -> dict:
    """GOOD with one field changed; the path is dotted, list entries by number."""
    document = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    place = document
    for part in parents:
        place = place[int(part)] if part.isdecimal() else place[part]
    place[int(last) if last.isdecimal() else last] = value
    return document


def user(**fields: object) -> dict:
    return with_("users.0.user", {name.replace("_", "-"): value for name, value in fields.items()})


def cluster(**fields: object) -> dict:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return with_("clusters.0.cluster", {"server": "https://example:6443", **named})


def plugin(**fields: object) -> dict:
    return user(exec={"apiVersion": V1, "command": "sh", "interactiveMode": "Never", **fields})


@pytest.mark.parametrize(
    "document, where, expected",
    [
        pytest.param("a: ]", "line 1, column 4", "did not find expected node content", id="broken YAML"),
        pytest.param("just words", "", "expected a mapping, got the string 'just words'", id="no mapping"),
        pytest.param({}, "current-context", "expected the name of a context", id="an empty file"),
        pytest.param(
            with_("current-context", 7), "current-context", "expected a string, got 7", id="a number for a name"
        ),
        pytest.param(with_("current-context", "x"), "current-context", "got 'x'", id="a context that does not exist"),
        pytest.param(with_("contexts", "x"), "contexts", "expected a list", id="contexts that are no list"),
        pytest.param(with_("contexts.0", "x"), "contexts[0]", "expected a mapping", id="a context that is no mapping"),
        pytest.param(with_("contexts.0.name", None), "contexts[0].name", "got nothing", id="a context without a name"),
        pytest.param(
            with_("contexts.0.context.cluster", "x"),
            CONTEXT + ".cluster",
            "one of the clusters, got 'x'",
            id="a cluster that does not exist",
        ),
        pytest.param(
            with_("contexts.0.context.user", "x"),
            CONTEXT + ".user",
            "one of the users, got 'x'",
            id="a user that does not exist",
        ),
        pytest.param(
            with_("contexts.0.context", {}), CONTEXT + ".cluster", "got nothing", id="a context without a cluster"
        ),
        pytest.param(
            with_("clusters.0.cluster", {}), CLUSTER + ".server", "got nothing", id="a cluster without a server"
        ),
        pytest.param(cluster(server="ftp://x"), CLUSTER + ".server", "expected a URL such as", id="another scheme"),
        pytest.param(
            cluster(server="https://x:y"), CLUSTER + ".server", "expected a port", id="a port that is no number"
        ),
        pytest.param(cluster(server="https://x?a=b"), CLUSTER + ".server", "path only", id="a server with a query"),
        pytest.param(cluster(proxy_url="http://p"), CLUSTER + ".proxy-url", "not supported", id="a proxy"),
        pytest.param(
            cluster(insecure_skip_tls_verify="yes please"),
            CLUSTER + ".insecure-skip-tls-verify",
            "expected true or false",
            id="a flag that is none",
        ),
        pytest.param(
            cluster(certificate_authority="nowhere.crt"),
            CLUSTER + ".certificate-authority",
            "nowhere.crt: No such file",
            id="an authority file that is missing",
        ),
        pytest.param(
            cluster(certificate_authority_data="%%"),
            CLUSTER + ".certificate-authority-data",
            "expected base64",
            id="authority data that is not base64",
        ),
        pytest.param(
            cluster(certificate_authority_data="eHg=", insecure_skip_tls_verify=True),
            CLUSTER + ".insecure-skip-tls-verify",
            "expected false beside",
            id="an authority nobody would check",
        ),
        pytest.param(
            user(username="a", password="b"), USER + ".username", "basic authentication", id="a user name and password"
        ),
        pytest.param(
            user(auth_provider={"name": "x"}), USER + ".auth-provider", "use an exec plugin", id="an auth provider"
        ),
        pytest.param(user(**{"as": "root"}), USER + ".as", "impersonation", id="impersonation"),
        pytest.param(user(token="a b"), USER + ".token", "printable ASCII", id="a token with a space"),
        pytest.param(
            user(client_certificate_data="eHg="),
            USER + ".client-key",
            "expected a key",
            id="a certificate without a key",
        ),
        pytest.param(
            user(client_key_data="eHg="),
            USER + ".client-certificate",
            "expected a certificate",
            id="a key without a certificate",
        ),
        pytest.param(
            plugin(apiVersion="v1alpha1"), PLUGIN + ".apiVersion", "expected one of", id="a plugin protocol too old"
        ),
        pytest.param(plugin(command=None), PLUGIN + ".command", "got nothing", id="a plugin without a command"),
        pytest.param(
            plugin(command="no-such-program", installHint="get it"),
            PLUGIN + ".command",
            "not found; get it",
            id="a plugin that is not installed",
        ),
        pytest.param(
            plugin(interactiveMode="Always"),
            PLUGIN + ".interactiveMode",
            "nobody can be asked",
            id="a plugin that wants to ask",
        ),
        pytest.param(
            plugin(interactiveMode=None), PLUGIN + ".interactiveMode", "got nothing", id="v1 without interactiveMode"
        ),
        pytest.param(
            plugin(args=["a", 1]), PLUGIN + ".args[1]", "expected a string, got 1", id="an argument that is a number"
        ),
        pytest.param(
            plugin(env=[{"value": "x"}]), PLUGIN + ".env[0].name", "got nothing", id="a variable without a name"
        ),
    ],
)
def test_a_malformed_kubeconfig_gets_one_precise_error(tmp_path: Path, document: object, where: str, expected: str):
    file = write(tmp_path, "config", document)
    with pytest.raises(InvalidKubeconfig) as refusal:
        load_kubeconfig([file])
    assert str(refusal.value).startswith(": ".join(part for part in (str(file), where) if part))
    assert expected in refusal.value.expected


def test_an_unreadable_file_is_named(tmp_path: Path):
    with pytest.raises(InvalidKubeconfig, match="missing: expected a readable file: No such file"):
        load_kubeconfig([tmp_path / "missing"])


def test_a_context_asked_for_in_vain_is_answered_with_those_there_are(tmp_path: Path):
    with pytest.raises(InvalidKubeconfig, match="expected a context named 'there'; there are: here"):
        load_kubeconfig([write(tmp_path, "config", GOOD)], "there")


def test_unusable_pem_is_named(tmp_path: Path):
    nonsense = base64.b64encode(b"no certificate").decode()
    bad_authority = load_kubeconfig([write(tmp_path, "a", cluster(certificate_authority_data=nonsense))])
    with pytest.raises(
        InvalidKubeconfig, match=r"clusters\[0\]\.cluster\.certificate-authority: expected certificates"
    ):
        tls_context(bad_authority.cluster, None)
    pair = user(client_certificate_data=nonsense, client_key_data=nonsense)
    bad_user = load_kubeconfig([write(tmp_path, "b", pair)])
    with pytest.raises(
        InvalidKubeconfig, match=r"users\[0\]\.user\.client-certificate: expected a certificate and its"
    ):
        tls_context(bad_user.cluster, bad_user.certificate)


def test_what_a_good_one_says(tmp_path: Path):
    access = load_kubeconfig([write(tmp_path, "config", GOOD)])
    assert str(access.cluster.url) == "https://example:6443"
    assert (access.identity, access.certificate, access.cluster.verify) == (FixedToken("secret"), None, True)


@pytest.mark.parametrize(
    "document, identity",
    [
        pytest.param(
            user(tokenFile="t", token="x"), lambda folder: TokenFile(folder / "t"), id="a token file before a token"
        ),
        pytest.param(user(token="x"), lambda _: FixedToken("x"), id="a token"),
        pytest.param(user(), lambda _: Anonymous(), id="nothing"),
        pytest.param(with_("contexts.0.context", {"cluster": "c"}), lambda _: Anonymous(), id="no user at all"),
    ],
)
def test_who_we_are(tmp_path: Path, document: object, identity):
    assert load_kubeconfig([write(tmp_path, "config", document)]).identity == identity(tmp_path)


def test_files_are_found_beside_the_kubeconfig_and_data_wins_over_files(tmp_path: Path, ca: ThrowawayCa):
    chain, key = ca.issue("beside")
    (tmp_path / "chain").write_bytes(chain.read_bytes())
    (tmp_path / "key").write_bytes(key.read_bytes())
    authority = base64.b64encode(ca.certificate.read_bytes()).decode()
    document = cluster(certificate_authority="ignored", certificate_authority_data=authority, tls_server_name="inside")
    document["users"][0]["user"] = {"client-certificate": "chain", "client-key": "key"}
    access = load_kubeconfig([write(tmp_path, "config", document)])
    assert access.cluster.authority == ca.certificate.read_bytes()
    assert access.cluster.url.address.server_name == "inside"
    assert access.certificate is not None
    assert tls_context(access.cluster, access.certificate) is not None


def test_an_exec_plugin_with_all_it_may_say(tmp_path: Path):
    program = write(tmp_path, "helper", "#!/bin/sh\n")
    program.chmod(0o755)
    document = plugin(
        command="./helper", args=["a"], env=[{"name": "N", "value": "V"}], provideClusterInfo=True, installHint="h"
    )
    found = load_kubeconfig([write(tmp_path, "config", document)]).identity
    assert isinstance(found, ExecPlugin)
    assert Path(found.command).samefile(program)
    assert (found.arguments, found.environment, found.install_hint) == (("a",), (("N", "V"),), "h")
    assert b"https://example:6443" in found.cluster_info


def test_of_several_files_the_first_to_say_something_wins(tmp_path: Path):
    first = write(tmp_path, "1", {"current-context": "here", "users": [{"name": "u", "user": {"token": "first"}}]})
    second = write(tmp_path, "2", {**GOOD, "current-context": "other"})
    assert load_kubeconfig([first, second]).identity == FixedToken("first")


def test_which_files_are_read(tmp_path: Path):
    there = write(tmp_path, "there", GOOD)
    (tmp_path / ".kube").mkdir()
    home = write(tmp_path / ".kube", "config", GOOD)
    both = {"KUBECONFIG": f"{tmp_path / 'missing'}:{there}"}
    assert kubeconfig_files("given", both, tmp_path) == (Path("given"),)
    assert kubeconfig_files("", both, tmp_path) == (there,)
    assert kubeconfig_files("", {}, tmp_path) == (home,)
    assert kubeconfig_files("", {}, tmp_path / "nobody") == ()


NEVER_ASKS = {"apiVersion": V1, "command": "true", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    "server, user, refused",
    [
        pytest.param("http://192.0.2.1:8080", {"token": "secret"}, True, id="a token in the clear"),
        pytest.param("http://kube:8080", {"tokenFile": "/t"}, True, id="a token file, to a name"),
        pytest.param("http://192.0.2.1", {"exec": NEVER_ASKS}, True, id="whatever a plugin hands out"),
        pytest.param("https://192.0.2.1", {"token": "secret"}, False, id="over TLS"),
        pytest.param("http://127.0.0.1:8080", {"token": "secret"}, False, id="to this host"),
        pytest.param("http://[::1]:8080", {"token": "secret"}, False, id="to this host, by IPv6"),
        pytest.param("http://localhost:8080", {"token": "secret"}, False, id="to this host, by its name"),
        pytest.param("http://192.0.2.1:8080", {}, False, id="nothing to hide"),
    ],
)
def test_a_token_leaves_this_host_over_tls_only(tmp_path: Path, server, user, refused):
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    file = str(write(tmp_path, "config", document))
    if refused:
        with pytest.raises(InvalidKubeconfig, match="expected https, because a token is sent to http://") as told:
            find_access(file, "", {})
        assert "secret" not in str(told.value)
    assert find_access(file, "", {}, insecure=True) == load_kubeconfig([Path(file)])
    assert refused or find_access(file, "", {}) == load_kubeconfig([Path(file)])


def service_account(folder: Path, ca: ThrowawayCa) -> Path:
    for name, content in {"token": "t", "namespace": "ours\n", "ca.crt": ca.certificate.read_text()}.items():
        write(folder, name, content)
    return folder


def test_inside_a_cluster_the_service_account_is_used(tmp_path: Path, ca: ThrowawayCa):
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = load_in_cluster(environment, service_account(tmp_path, ca))
    assert inside_cluster(environment)
    assert not inside_cluster({})
    assert str(access.cluster.url) == "https://[fd00::1]:6443"
    assert (access.identity, access.namespace) == (TokenFile(tmp_path / "token"), "ours")
    assert tls_context(access.cluster, None) is not None


@pytest.mark.parametrize(
    "missing, port, expected",
    [
        pytest.param("token", "443", "token: expected a service account token", id="no token is mounted"),
        pytest.param("ca.crt", "443", "ca.crt: expected a readable file", id="no authority is mounted"),
        pytest.param("", "http", "KUBERNETES_SERVICE_PORT: expected a port, got 'http'", id="a port that is none"),
    ],
)
def test_what_is_wrong_inside_a_cluster_is_named(tmp_path: Path, ca: ThrowawayCa, missing, port, expected):
    mounted = service_account(tmp_path, ca)
    if missing:
        (mounted / missing).unlink()
    with pytest.raises(InvalidKubeconfig, match=expected):
        load_in_cluster({"KUBERNETES_SERVICE_HOST": "x", "KUBERNETES_SERVICE_PORT": port}, mounted)
