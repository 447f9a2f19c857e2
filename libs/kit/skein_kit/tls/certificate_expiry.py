"""When the certificates end that this process shows or trusts, as a metric: every call ends with them, at once."""

from __future__ import annotations

from contextlib import suppress

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from prometheus_client import Gauge

EXPIRY = Gauge(
    "skein_certificate_expiry_timestamp_seconds",
    "Unix time at which a certificate expires: the gateway's (tls), the services' (mtls) or their authority's.",
    ["use"],
)
# The gateway's own for the world; what services show each other; what vouches for that.
PUBLIC, MUTUAL, AUTHORITY = "tls", "mtls", "mtls_authority"


def record_server_certificate(certificate: bytes) -> None:
    """Show when a certificate (PEM) with those above it ends, as the gateway's."""
    _show(PUBLIC, min(map(_end, _read(certificate)), default=None))


def record_mutual_tls_certificates(certificate: bytes, authority: bytes) -> None:
    """Show when the certificate ends that services show each other, and the authority that vouches for it.

    While one authority takes another's place the file has both: the one that counts is the one in use.
    """
    own, known = _read(certificate), _read(authority)
    in_use = [one for one in known if any(_is_issued_by(one, each) for each in own)]
    _show(MUTUAL, min(map(_end, own), default=None))
    _show(AUTHORITY, max(map(_end, in_use or known), default=None))


def _read(pem: bytes) -> list[x509.Certificate]:
    """Read certificates; none when there is one among them that TLS takes and this library does not."""
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


def _show(use: str, end: float | None) -> None:
    if end is not None:
        EXPIRY.labels(use).set(end)
    else:
        with suppress(KeyError):
            EXPIRY.remove(use)
