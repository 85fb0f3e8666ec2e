"""Kubeconfig files, merged as kubectl does, in-cluster configuration, and kubeconfigs of worker clusters: how to reach
an API server.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headgate.api.yaml_documents import InvalidYaml, read_yaml
from headgate.live.access import (
    Access,
    Anonymous,
    Certificate,
    ClusterEndpoint,
    ExecPlugin,
    FixedToken,
    Identity,
    ServerUrl,
    TokenFile,
    is_loopback,
    server_url,
)
from headgate.live.connection import Address


class InvalidKubeconfig(Exception):
    """The user's mistake in a kubeconfig, a file it names, or the choice of one."""

    def __init__(self, file: str, path: str, expected: str) -> None:
        super().__init__(": ".join(part for part in (file, path, expected) if part))
        self.file, self.path, self.expected = file, path, expected


class InsecureKubeconfig(InvalidKubeconfig):
    """A kubeconfig of a worker cluster that names files or programs of this host, or that would not protect secrets."""


class YamlSection:
    """A mapping inside a file. A field that is missing or null counts as empty."""

    def __init__(self, file: Path, path: str, value: object) -> None:
        if not isinstance(value, dict):
            raise InvalidKubeconfig(str(file), path, f"expected a mapping, got {_describe(value)}")
        self.file, self.path = file, path
        self._fields: dict[str, Any] = value

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def refusal(self, name: str, expected: str) -> InvalidKubeconfig:
        return InvalidKubeconfig(str(self.file), self._path_of(name), expected)

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.refusal(name, f"expected a string, got {_describe(value)}")
        return value

    def raw(self, name: str) -> object:
        """A field of any shape, as it stands."""
        return self._fields.get(name)

    def required_text(self, name: str) -> str:
        if not (value := self.text(name)):
            raise self.refusal(name, "expected a string, got nothing")
        return value

    def flag(self, name: str) -> bool:
        value = self._fields.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.refusal(name, f"expected true or false, got {_describe(value)}")
        return value

    def section(self, name: str) -> YamlSection:
        return YamlSection(self.file, self._path_of(name), self._fields.get(name, {}) or {})

    def sections(self, name: str) -> list[YamlSection]:
        return [YamlSection(self.file, path, value) for path, value in self._list(name)]

    def texts(self, name: str) -> tuple[str, ...]:
        found = self._list(name)
        for path, value in found:
            if not isinstance(value, str):
                raise InvalidKubeconfig(str(self.file), path, f"expected a string, got {_describe(value)}")
        return tuple(value for _, value in found)

    def file_named(self, name: str) -> Path | None:
        """The file a field names; a relative path is relative to the file it stands in."""
        text = self.text(name)
        return (self.file.parent / text) if text else None

    def content(self, name: str) -> bytes:
        """What `name`-data holds in base64, else what the file in `name` holds; empty when neither is given."""
        if encoded := self.text(f"{name}-data"):
            return self._decoded(f"{name}-data", encoded)
        if (file := self.file_named(name)) is None:
            return b""
        try:
            return file.read_bytes()
        except OSError as error:
            raise self.refusal(name, f"expected a readable file, but {file}: {error.strerror}") from error

    def _decoded(self, name: str, encoded: str) -> bytes:
        try:
            return base64.b64decode("".join(encoded.split()), validate=True)
        except binascii.Error as error:
            raise self.refusal(name, f"expected base64: {error}") from error

    def _list(self, name: str) -> list[tuple[str, Any]]:
        value = self._fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refusal(name, f"expected a list, got {_describe(value)}")
        return [(f"{self._path_of(name)}[{index}]", item) for index, item in enumerate(value)]

    def _path_of(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def read_section(file: Path) -> YamlSection:
    """The file's one document; an empty file is an empty mapping."""
    return YamlSection(file, "", load_yaml(file) or {})


def load_yaml(file: Path) -> object:
    try:
        with file.open("rb") as stream:
            return read_yaml(stream)
    except OSError as error:
        raise InvalidKubeconfig(str(file), "", f"expected a readable file: {error.strerror}") from error
    except InvalidYaml as error:
        raise InvalidKubeconfig(str(file), error.place, error.problem) from error


def _describe(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return f"the string {value[:40]!r}"
        case _:
            return f"{value}"[:40]


EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
UNSUPPORTED_USER_FIELDS = {
    "username": "basic authentication is not supported by Kubernetes any more; use a token or a client certificate",
    "password": "basic authentication is not supported by Kubernetes any more; use a token or a client certificate",
    "auth-provider": "auth providers are not supported by Kubernetes any more; use an exec plugin",
    "as": "impersonation is not supported; use that user's own credentials",
}


def kubeconfig_files(explicit: str, environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Which files to read: the one given, else those of KUBECONFIG that exist, else the one in the home directory."""
    if explicit:
        return (Path(explicit),)
    named = [Path(part) for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    candidates = named or [home / ".kube" / "config"]
    return tuple(file for file in candidates if file.exists())


def load_kubeconfig(files: Sequence[Path], context: str = "") -> Access:
    """The access that `context`, or else the current context, describes."""
    cluster, user = _chosen([read_section(file) for file in files], context)
    return _access(cluster, user)


def _chosen(documents: Sequence[YamlSection], context: str) -> tuple[YamlSection, YamlSection | None]:
    """The cluster and the user of the context."""
    chosen = _context(documents, context)
    cluster = _named(documents, "clusters", "cluster", chosen.required_text("cluster"), chosen)
    user = _named(documents, "users", "user", name, chosen) if (name := chosen.text("user")) else None
    return cluster, user


def _access(cluster: YamlSection, user: YamlSection | None) -> Access:
    reached = _cluster(cluster)
    if user is None:
        return Access(reached, Anonymous())
    return Access(reached, _identity(user, cluster), _certificate(user))


_INLINE = "a kubeconfig of a worker cluster names no files of this host"
_NO_PASSWORDS = "expected a token or a client certificate, because passwords are not accepted"
INSECURE_CLUSTER_FIELDS = {
    "certificate-authority": f"expected certificate-authority-data instead, because {_INLINE}",
    "insecure-skip-tls-verify": "expected false and certificate-authority-data, because certificates must be verified",
}
INSECURE_USER_FIELDS = {
    "tokenFile": f"expected the token itself in the field token, because {_INLINE}",
    "client-certificate": f"expected client-certificate-data instead, because {_INLINE}",
    "client-key": f"expected client-key-data instead, because {_INLINE}",
    "username": _NO_PASSWORDS,
    "password": _NO_PASSWORDS,
    "exec": "expected a token or a client certificate, because no programs are run for a worker cluster",
    "auth-provider": "expected a token or a client certificate, because auth providers are not accepted",
}


def worker_access(content: bytes, source: str) -> Access:
    """The access that the current context of a worker cluster's kubeconfig describes; `source` is where it is from.

    Raises InsecureKubeconfig for what MultiKueue does not accept either, and InvalidKubeconfig.
    """
    try:
        document = read_yaml(content)
    except InvalidYaml as error:
        raise InvalidKubeconfig(source, error.place, error.problem) from None
    if not isinstance(document, dict):  # what it is instead is not told: it may be a token
        raise InvalidKubeconfig(source, "", "expected a kubeconfig, which is a mapping")
    cluster, user = _chosen([YamlSection(Path(source), "", document)], "")
    _refuse_insecure(cluster, INSECURE_CLUSTER_FIELDS)
    if not cluster.required_text("server").startswith("https://"):
        raise _insecure(cluster, "server", "expected a URL such as https://host:6443, because secrets are sent there")
    if user is not None:
        _refuse_insecure(user, INSECURE_USER_FIELDS)
    return _access(cluster, user)


def _refuse_insecure(section: YamlSection, fields: Mapping[str, str]) -> None:
    for name, expected in fields.items():
        if section.raw(name) not in (None, "", False):
            raise _insecure(section, name, expected)


def _insecure(section: YamlSection, name: str, expected: str) -> InsecureKubeconfig:
    refusal = section.refusal(name, expected)
    return InsecureKubeconfig(refusal.file, refusal.path, refusal.expected)


def context_namespace(files: Sequence[Path], context: str = "") -> str:
    """The namespace that `context`, or else the current context, is for; empty when it names none."""
    return _context([read_section(file) for file in files], context).text("namespace")


def _context(documents: Sequence[YamlSection], wanted: str) -> YamlSection:
    if wanted:
        return _find(documents, "contexts", "context", wanted, _missing_context(documents, wanted))
    for document in documents:
        if name := document.text("current-context"):
            missing = document.refusal("current-context", f"expected the name of a context, got {name!r}")
            return _find(documents, "contexts", "context", name, missing)
    raise documents[0].refusal("current-context", "expected the name of a context; or choose one with --context")


def _missing_context(documents: Sequence[YamlSection], wanted: str) -> InvalidKubeconfig:
    names = [entry.text("name") for document in documents for entry in document.sections("contexts")]
    return documents[0].refusal(
        "contexts", f"expected a context named {wanted!r}; there are: {', '.join(names) or 'none'}"
    )


def _named(
    documents: Sequence[YamlSection], plural: str, singular: str, name: str, context: YamlSection
) -> YamlSection:
    missing = context.refusal(singular, f"expected the name of one of the {plural}, got {name!r}")
    return _find(documents, plural, singular, name, missing)


def _find(
    documents: Sequence[YamlSection], plural: str, singular: str, name: str, missing: InvalidKubeconfig
) -> YamlSection:
    """The first entry of that name in any file wins."""
    for document in documents:
        for entry in document.sections(plural):
            if entry.required_text("name") == name:
                return entry.section(singular)
    raise missing


def _cluster(section: YamlSection) -> ClusterEndpoint:
    text = section.required_text("server")
    try:
        url = server_url(text, section.text("tls-server-name"))
    except ValueError as error:
        raise section.refusal("server", str(error)) from error
    if section.text("proxy-url"):
        raise section.refusal("proxy-url", "proxies are not supported; expected no such field")
    verify = not section.flag("insecure-skip-tls-verify")
    authority = section.content("certificate-authority")
    if authority and not verify:
        raise section.refusal("insecure-skip-tls-verify", "expected false beside a certificate authority")
    return ClusterEndpoint(url, f"{section.file}: {section.path}", authority, verify)


def _certificate(user: YamlSection) -> Certificate | None:
    chain, key = user.content("client-certificate"), user.content("client-key")
    if chain and not key:
        raise user.refusal("client-key", "expected a key beside the client certificate")
    if key and not chain:
        raise user.refusal("client-certificate", "expected a certificate beside the client key")
    return Certificate(chain, key, f"{user.file}: {user.path}.client-certificate") if chain else None


def _identity(user: YamlSection, cluster: YamlSection) -> Identity:
    for name, expected in UNSUPPORTED_USER_FIELDS.items():
        if name in user:
            raise user.refusal(name, expected)
    if file := user.file_named("tokenFile"):
        return TokenFile(file)
    if token := user.text("token"):
        return FixedToken(_printable(user, token))
    if "exec" in user:
        return exec_plugin(user.section("exec"), cluster, shutil.which)
    return Anonymous()


def _printable(user: YamlSection, token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise user.refusal("token", "expected a token of printable ASCII characters without spaces")
    return token


def exec_plugin(section: YamlSection, cluster: YamlSection, which: Callable[[str], str | None]) -> ExecPlugin:
    """`which` finds programs on the search path; a command with a slash is relative to the kubeconfig."""
    version = section.required_text("apiVersion")
    if version not in EXEC_VERSIONS:
        raise section.refusal("apiVersion", f"expected one of {', '.join(EXEC_VERSIONS)}, got {version!r}")
    _check_interaction(section, version)
    hint = section.text("installHint").strip()
    variables = tuple((entry.required_text("name"), entry.text("value")) for entry in section.sections("env"))
    return ExecPlugin(
        version,
        _program(section, hint, which),
        section.texts("args"),
        variables,
        hint,
        _cluster_info(cluster) if section.flag("provideClusterInfo") else b"",
    )


def _check_interaction(section: YamlSection, version: str) -> None:
    mode = section.text("interactiveMode")
    if mode == "Always":
        raise section.refusal("interactiveMode", "expected Never or IfAvailable: nobody can be asked here")
    if mode not in ("Never", "IfAvailable") and (mode or version == EXEC_VERSIONS[0]):
        raise section.refusal("interactiveMode", f"expected Never or IfAvailable, got {mode or 'nothing'}")


def _program(section: YamlSection, hint: str, which: Callable[[str], str | None]) -> str:
    command = section.required_text("command")
    wanted = str(section.file.parent.absolute() / command) if "/" in command else command
    if found := which(wanted):
        return found
    raise section.refusal("command", f"expected a program, but {wanted!r} was not found{_hinted(hint)}")


def _hinted(hint: str) -> str:
    return f"; {hint}" if hint else ""


def _cluster_info(cluster: YamlSection) -> bytes:
    info: dict[str, object] = {"server": cluster.text("server")}
    if name := cluster.text("tls-server-name"):
        info["tls-server-name"] = name
    if cluster.flag("insecure-skip-tls-verify"):
        info["insecure-skip-tls-verify"] = True
    if authority := cluster.content("certificate-authority"):
        info["certificate-authority-data"] = authority  # msgspec writes bytes as base64
    info["config"] = _extension(cluster)
    return msgspec.json.encode(info)


def _extension(cluster: YamlSection) -> object:
    for entry in cluster.sections("extensions"):
        if entry.text("name") == "client.authentication.k8s.io/exec":
            return entry.raw("extension")
    return None


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def inside_cluster(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST"))


def load_in_cluster(environment: Mapping[str, str], mounted: Path = SERVICE_ACCOUNT) -> Access:
    """The pod's own access; the token is re-read as it rotates."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidKubeconfig("environment", "KUBERNETES_SERVICE_PORT", f"expected a port, got {port!r}")
    token = mounted / "token"
    if not token.exists():
        raise InvalidKubeconfig(str(token), "", "expected a service account token; is its mounting turned off?")
    url = ServerUrl(Address(host, int(port)), tls=True, prefix="")
    authority = _content(mounted / "ca.crt").encode()
    cluster = ClusterEndpoint(url, str(mounted / "ca.crt"), authority)
    return Access(cluster, TokenFile(token), namespace=_content(mounted / "namespace").strip())


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidKubeconfig(str(file), "", f"expected a readable file: {error}") from error


WITHOUT_CLUSTER = "expected --kubeconfig FILE, KUBECONFIG, ~/.kube/config or to run in a pod"

DEFAULT_NAMESPACE = "default"


def find_access(kubeconfig: str, context: str, environment: Mapping[str, str], *, insecure: bool = False) -> Access:
    """A token leaves this host over TLS only, unless the user wants it `insecure`. Raises InvalidKubeconfig."""
    access = _found_access(kubeconfig, context, environment)
    url = access.cluster.url
    if not (insecure or url.tls or isinstance(access.identity, Anonymous) or is_loopback(url.address.host)):
        expected = f"expected https, because a token is sent to {url}; --insecure sends it in the clear all the same"
        raise InvalidKubeconfig(access.cluster.source, "", expected)
    return access


def _found_access(kubeconfig: str, context: str, environment: Mapping[str, str]) -> Access:
    if files := kubeconfig_files(kubeconfig, environment, Path.home()):
        return load_kubeconfig(files, context)
    if inside_cluster(environment) and not context:
        return load_in_cluster(environment)
    raise InvalidKubeconfig("no cluster", "", WITHOUT_CLUSTER)


def find_namespace(kubeconfig: str, context: str, environment: Mapping[str, str]) -> str:
    """The namespace that is meant where none is said, as kubectl would take it. Raises InvalidKubeconfig."""
    if files := kubeconfig_files(kubeconfig, environment, Path.home()):
        return context_namespace(files, context) or DEFAULT_NAMESPACE
    return _found_access(kubeconfig, context, environment).namespace or DEFAULT_NAMESPACE
