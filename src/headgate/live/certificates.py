"""TLS: serving certificates for our webhooks, and the contexts that verify servers."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct, structs

from headgate.live.access import Certificate, ClusterEndpoint
from headgate.live.kubeconfig import InvalidKubeconfig
from headgate.live.logs import Log

VALID_FOR = timedelta(days=365)
RENEWED_BEFORE = timedelta(days=30)
CLOCK_SKEW = timedelta(hours=1)
REREAD_SECONDS = 60.0  # how often certificates in files are looked at, because somebody replaces them


class InvalidCertificate(Exception):
    """Not a certificate and its key; the text says which files and what was expected."""


class ServingCertificate(Struct, frozen=True):
    """All PEM. `authority` is the CA bundle that clients must trust; older CAs may follow."""

    chain: bytes
    key: bytes
    authority: bytes = b""


def made_for(hosts: Sequence[str], now: float, before: ServingCertificate | None = None) -> ServingCertificate:
    """A new certificate for these names, of an authority that signs nothing else.

    The authority of the one before stays trusted, so that processes that still show it are believed.
    """
    authority = _Authority("headgate webhook authority", now)
    trusted = authority.pem + (_first(before.authority) if before is not None else b"")
    return structs.replace(authority.server("headgate webhook", hosts), authority=trusted)


class ClusterCertificates(Struct, frozen=True):
    """What a server shows and what its administrator shows, both of the same authority."""

    server: ServingCertificate
    client: ServingCertificate


def made_for_cluster(hosts: Sequence[str], user: str, group: str, now: float) -> ClusterCertificates:
    """New certificates of a new authority: for a server of these names, and for a client of that name and group."""
    authority = _Authority("headgate cluster authority", now)
    return ClusterCertificates(authority.server("headgate apiserver", hosts), authority.client(user, group))


class _Authority:
    """A new certificate authority, which is forgotten with this value."""

    def __init__(self, name: str, now: float) -> None:
        self._name, self._since = name, datetime.fromtimestamp(now, UTC) - CLOCK_SKEW
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(name), _name(name), self._key.public_key(), self._since)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = _pem(certificate)

    def server(self, name: str, hosts: Sequence[str]) -> ServingCertificate:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issued(_name(name), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, group: str) -> ServingCertificate:
        return self._issued(_name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issued(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> ServingCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = _builder(subject, _name(self._name), key.public_key(), self._since)
        leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        leaf = leaf.add_extension(names, critical=False) if names is not None else leaf
        leaf = leaf.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        return ServingCertificate(_pem(leaf.sign(self._key, hashes.SHA256())), _key_pem(key), self.pem)


def serves(certificate: ServingCertificate, hosts: Sequence[str], now: float) -> bool:
    """Whether it is good for these names, and for a while yet."""
    try:
        leaf = x509.load_pem_x509_certificate(certificate.chain)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    fresh = leaf.not_valid_after_utc - datetime.fromtimestamp(now, UTC) > RENEWED_BEFORE
    return fresh and bool(certificate.authority) and all(_general_name(host) in names for host in hosts)


class ServerTls:
    """The TLS of a server whose certificate may change while it runs.

    With a `client_authority` (PEM) clients may show certificates, which it must have signed. Raises InvalidCertificate.
    """

    def __init__(self, client_authority: bytes = b"") -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self._shown: ServingCertificate | None = None
        if client_authority:
            try:
                self.context.load_verify_locations(cadata=client_authority.decode("ascii"))
            except (ssl.SSLError, ValueError) as error:
                raise InvalidCertificate("expected the certificates of an authority in PEM") from error
            self.context.verify_mode = ssl.CERT_OPTIONAL

    @property
    def shows_a_certificate(self) -> bool:
        """Whether any client can connect."""
        return self._shown is not None

    def show(self, certificate: ServingCertificate) -> bool:
        """Connections made from here on see this certificate; whether it is another. Raises InvalidCertificate."""
        if certificate == self._shown:
            return False
        with tempfile.TemporaryDirectory() as folder:  # the ssl module reads certificates from files only
            chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
            chain.write_bytes(certificate.chain)
            key.write_bytes(certificate.key)
            try:
                self.context.load_cert_chain(chain, key, password=lambda: b"")  # never ask at the terminal
            except (ssl.SSLError, ValueError, OSError) as error:
                raise InvalidCertificate("expected a certificate and its unencrypted key in PEM") from error
        self._shown = certificate
        return True


def load_certificate(chain: Path, key: Path) -> ServingCertificate:
    """Raises InvalidCertificate."""
    return ServingCertificate(read_pem(chain), read_pem(key))


def read_pem(file: Path) -> bytes:
    """Raises InvalidCertificate."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidCertificate(f"{error.filename}: {error.strerror}") from error


async def follow(chain: Path, key: Path, tls: ServerTls, log: Log, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Reloads the certificate files when they change; runs until cancelled."""
    while True:
        await sleep(REREAD_SECONDS)
        try:
            if tls.show(load_certificate(chain, key)):
                log.info("serving the new certificate", file=chain)
        except InvalidCertificate as error:  # perhaps only one of them has been replaced yet
            log.warning(f"still serving the old certificate: {error}", file=chain)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, since: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(since + VALID_FOR)
    )


def _name(common: str, group: str = "") -> x509.Name:
    """As Kubernetes reads it: the user is the common name, the group the organization."""
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def _first(bundle: bytes) -> bytes:
    """The first certificate of a bundle; nothing of one that cannot be read."""
    try:
        return _pem(x509.load_pem_x509_certificates(bundle)[0])
    except (ValueError, IndexError):
        return b""


def tls_context(cluster: ClusterEndpoint, certificate: Certificate | None) -> ssl.SSLContext | None:
    """None for a server that is asked without TLS. Raises InvalidKubeconfig for unusable PEM."""
    if not cluster.url.tls:
        return None
    context = _trusting(cluster)
    if certificate is not None:
        _present(context, certificate)
    return context


def _trusting(cluster: ClusterEndpoint) -> ssl.SSLContext:
    """Trusts every server, the cluster's authority, or, which takes long to read, those of the system."""
    if not cluster.verify:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    if not cluster.authority:
        return ssl.create_default_context()
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
