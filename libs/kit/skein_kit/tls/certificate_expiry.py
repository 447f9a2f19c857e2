"""The expiry of the certificates of this process as a metric: every call fails when one expires."""

from __future__ import annotations

from contextlib import suppress

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from prometheus_client import Gauge

EXPIRY = Gauge(
    "skein_certificate_expiry_timestamp_seconds",
    "Unix time at which a certificate expires: tls (the gateway's), mtls (a service's), mtls_authority.",
    ["use"],
)
# Uses: the gateway's public certificate, the certificate of mutual TLS, and its authority.
PUBLIC, MUTUAL, AUTHORITY = "tls", "mtls", "mtls_authority"


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
