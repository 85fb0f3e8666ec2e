"""A certificate authority for one test run, made by the openssl command."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


class ThrowawayCa:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate = folder / "ca.crt"
        _openssl(
            "req", "-x509", *_new_key(folder / "ca.key"), "-out", self.certificate, "-subj", "/CN=ca", "-days", "2"
        )

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate for localhost under that common name, and its key."""
        chain, key, request = (self._folder / f"{name}.{ending}" for ending in ("crt", "key", "csr"))
        names = self._folder / "names"
        names.write_text("subjectAltName=DNS:localhost,DNS:kubernetes.default,IP:127.0.0.1")
        _openssl("req", *_new_key(key), "-out", request, "-subj", f"/CN={name}")
        signing = ("-CA", self.certificate, "-CAkey", self._folder / "ca.key", "-CAcreateserial", "-extfile", names)
        _openssl("x509", "-req", "-in", request, "-out", chain, "-days", "2", *signing)
        return chain, key

    def server(self, name: str = "server", demand_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.certificate))
        context.load_cert_chain(*self.issue(name))
        context.verify_mode = ssl.CERT_REQUIRED if demand_certificate else ssl.CERT_NONE
        return context


def _new_key(file: Path) -> tuple[object, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", file)


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
