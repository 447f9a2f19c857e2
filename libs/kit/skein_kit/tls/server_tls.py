"""TLS of public ports: one certificate and its key, TLS 1.2 or newer; and when certificates expire, as a metric."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Self

import grpc
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from prometheus_client import Gauge

from skein_kit.settings import SettingInvalid

CERTIFICATE = "SKEIN_TLS_CERTIFICATE"
KEY = "SKEIN_TLS_KEY"
# Every call fails when one of them expires.
EXPIRY = Gauge(
    "skein_certificate_expiry_timestamp_seconds",
    "Unix time at which a certificate expires: tls (the gateway's), mtls (a service's), mtls_authority.",
    ["use"],
)
# Uses: the gateway's public certificate, the certificate of mutual TLS, and its authority.
PUBLIC, MUTUAL, AUTHORITY = "tls", "mtls", "mtls_authority"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerTls:
    """A certificate with its intermediate certificates, and its key, both PEM."""

    certificate: Path
    key: Path = field(repr=False)

    @classmethod
    def read(cls, certificate: Path | None, key: Path | None) -> Self | None:
        """Read both files; return None if neither is set. Raises SettingInvalid with the name of the setting."""
        if certificate is None and key is None:
            return None
        if certificate is None:
            raise SettingInvalid(f"{CERTIFICATE} is missing: {KEY} alone is no TLS.")
        if key is None:
            raise SettingInvalid(f"{KEY} is missing: {CERTIFICATE} alone is no TLS.")
        tls = cls(certificate=certificate, key=key)
        # Fails now, not at the first connection.
        tls.context()
        return tls

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of HTTP servers. Raises SettingInvalid."""
        return load_server_context(self.certificate, self.key, settings=(CERTIFICATE, KEY))

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of gRPC servers from the files as they are now; gRPC allows TLS 1.2 and 1.3."""
        certificate = self.certificate.read_bytes()
        record_server_certificate(certificate)
        return grpc.ssl_server_credentials([(self.key.read_bytes(), certificate)])


def load_server_context(certificate: Path, key: Path, *, settings: tuple[str, str]) -> ssl.SSLContext:
    """Return the TLS context of a certificate and its key. Raises SettingInvalid with the name of the setting."""
    certificates, keys = settings
    _pem(certificates, certificate, "CERTIFICATE")
    _pem(keys, key, "PRIVATE KEY")

    def no_password() -> NoReturn:
        # Without this, OpenSSL would ask for a password on the terminal.
        raise SettingInvalid(f"{keys} is encrypted with a password; use a key without one.")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingInvalid(f"{keys} is not the key of the certificate in {certificates}.") from None
        raise SettingInvalid(f"{certificates} or {keys} cannot be used: {error.reason or error}.") from None
    return context


def _pem(setting: str, path: Path, kind: str) -> None:
    try:
        text = path.read_text("ascii")
    except OSError as error:
        raise SettingInvalid(f"{setting} names a file that cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        text = ""
    if f"{kind}-----" not in text:
        raise SettingInvalid(f"{setting} names a file that is no PEM {kind.lower()}.")


def record_server_certificate(certificate: bytes) -> None:
    """Record the expiry of the gateway's certificate chain (PEM)."""
    _record(PUBLIC, min(map(_end, _read(certificate)), default=None))


def record_mutual_tls_certificates(certificate: bytes, authority: bytes) -> None:
    """Record the expiry of the certificate of mutual TLS, and of its authority.

    While one authority replaces another the file has both: the one that issued the certificate counts.
    """
    certificates, authorities = _read(certificate), _read(authority)
    issuers = [
        issuer for issuer in authorities if any(_is_issued_by(issuer, certificate_) for certificate_ in certificates)
    ]
    _record(MUTUAL, min(map(_end, certificates), default=None))
    _record(AUTHORITY, max(map(_end, issuers or authorities), default=None))


def _read(pem: bytes) -> list[x509.Certificate]:
    """Parse certificates; return none if the library cannot parse one that TLS accepts."""
    with suppress(ValueError):
        return x509.load_pem_x509_certificates(pem)
    return []


def _is_issued_by(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _end(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def _record(use: str, end: float | None) -> None:
    if end is not None:
        EXPIRY.labels(use).set(end)
    else:
        with suppress(KeyError):
            EXPIRY.remove(use)
