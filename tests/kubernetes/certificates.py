"""A certificate authority for one test cluster, and what it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path

SERVER_NAMES = "subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.0.0.1"


class Authority:
    """Keys and certificates as files of one folder, made with openssl and good for a day."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = folder / "ca.crt"
        subject = ["-subj", "/CN=test-cluster"]
        _openssl("req", "-x509", *_new_key(folder / "ca.key"), *subject, "-days", "1", "-out", self.certificate)

    def issue(self, name: str, subject: str, extension: str) -> tuple[Path, Path]:
        """A certificate and its key for that subject."""
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(extension)
        _openssl("req", "-new", *_new_key(key), "-subj", subject, "-out", request)
        signed_by: list[str | Path] = ["-CA", self.certificate, "-CAkey", self.folder / "ca.key", "-CAcreateserial"]
        _openssl("x509", "-req", "-in", request, *signed_by, "-days", "1", "-extfile", extensions, "-out", certificate)
        return certificate, key

    def issue_to_server(self) -> tuple[Path, Path]:
        return self.issue("server", "/CN=kube-apiserver", SERVER_NAMES)

    def issue_to_client(self, user: str, group: str) -> tuple[Path, Path]:
        return self.issue(f"client-{user.replace(':', '-')}", f"/O={group}/CN={user}", "extendedKeyUsage=clientAuth")

    def signing_key(self) -> Path:
        """The key service account tokens are signed with."""
        key = self.folder / "service-accounts.key"
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        return key


def _new_key(path: Path) -> list[str | Path]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path]


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
