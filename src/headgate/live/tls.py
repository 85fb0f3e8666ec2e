"""TLS as a cluster and a user demand it."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from headgate.live.access import Certificate, Cluster
from headgate.live.document import InvalidKubeconfig


def tls_context(cluster: Cluster, certificate: Certificate | None) -> ssl.SSLContext | None:
    """None for a server that is asked without TLS. Raises InvalidKubeconfig for unusable PEM."""
    if not cluster.url.tls:
        return None
    context = ssl.create_default_context()
    if not cluster.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif cluster.authority:
        context = _trusting(cluster)
    if certificate is not None:
        _present(context, certificate)
    return context


def _trusting(cluster: Cluster) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=cluster.authority.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        where = f"{cluster.source}.certificate-authority"
        raise InvalidKubeconfig(where, "", "expected certificates in PEM") from error


def _present(context: ssl.SSLContext, certificate: Certificate) -> None:
    """The ssl module reads certificates from files only; these are ours alone and gone at once."""
    with tempfile.TemporaryDirectory() as folder:
        chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_bytes(certificate.chain)
        key.write_bytes(certificate.key)
        try:
            context.load_cert_chain(chain, key, password=lambda: b"")  # never ask at the terminal
        except (ssl.SSLError, ValueError, OSError) as error:
            expected = f"expected a certificate and its unencrypted key in PEM: {_said(error)}"
            raise InvalidKubeconfig(certificate.source, "", expected) from error


def _said(error: Exception) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else "") or str(error)
