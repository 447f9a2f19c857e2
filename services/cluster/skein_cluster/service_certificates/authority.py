"""An authority in a folder, and the certificates that it signs for the processes of a cluster.

    authority/NUMBER.crt, authority/NUMBER.key      the authorities, oldest first
    PROCESS/tls.crt, PROCESS/tls.key, PROCESS/ca.crt    the certificate of a process, its key, all authorities

`issue` may run at any time, and every process reads its files again when they change. A new authority is trusted for
an hour before it signs, so that each process knows it when the first certificate of it is shown.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from skein_kit.identity.service_identity import certificate_name

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
_AUTHORITY = "authority"
# A certificate is replaced when a third of its life is over, an authority when half of it is.
_CERTIFICATE_LIFE = timedelta(days=365)
_CERTIFICATE_USE = _CERTIFICATE_LIFE / 3
_AUTHORITY_LIFE = timedelta(days=3650)
_AUTHORITY_USE = _AUTHORITY_LIFE / 2
# Until then a new authority is trusted and signs nothing.
_SETTLE = timedelta(hours=1)
# The clocks of two machines differ.
_BACKDATE = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def has_signed(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def issue(folder: Path, processes: Mapping[str, Collection[str]], *, at: datetime | None = None) -> None:
    """Write certificates that are missing, old or of other services; `processes` has the services of each process."""
    now = at or datetime.now(UTC)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authorities = _authorities(folder / _AUTHORITY, now)
    bundle = b"".join(_pem(authority.certificate) for authority in authorities)
    signer = next(
        (each for each in reversed(authorities) if each.certificate.not_valid_before_utc + _SETTLE <= now),
        authorities[0],
    )
    for process, services in processes.items():
        own = folder / process
        own.mkdir(mode=0o700, exist_ok=True)
        _write(own / AUTHORITIES, bundle)
        if not _is_current(own, signer, services, now):
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = _sign(signer, process, services, key, now)
            _write(own / KEY, _private_pem(key))
            _write(own / CERTIFICATE, _pem(certificate))


def settings(folder: Path, process: str) -> dict[str, str]:
    """Return the settings with which a process uses its certificate."""
    own = folder / process
    return {
        "SKEIN_MTLS_CERTIFICATE": str(own / CERTIFICATE),
        "SKEIN_MTLS_KEY": str(own / KEY),
        "SKEIN_MTLS_CA": str(own / AUTHORITIES),
    }


def _authorities(folder: Path, now: datetime) -> Sequence[_Authority]:
    """Read the authorities that have not expired, oldest first; add one when the newest is old."""
    folder.mkdir(mode=0o700, exist_ok=True)
    numbers = sorted(int(path.stem) for path in folder.glob("*.crt"))
    stored = [_read_authority(folder / str(number)) for number in numbers]
    valid = [each for each in stored if each.certificate.not_valid_after_utc > now]
    if not valid or valid[-1].certificate.not_valid_before_utc + _AUTHORITY_USE <= now:
        created = _create_authority(now)
        path = folder / str(max(numbers, default=0) + 1)
        _write(path.with_suffix(".key"), _private_pem(created.key))
        _write(path.with_suffix(".crt"), _pem(created.certificate))
        valid.append(created)
    return valid


def _read_authority(path: Path) -> _Authority:
    key = serialization.load_pem_private_key(path.with_suffix(".key").read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        message = f"{path}.key is not a key that Skein made."
        raise TypeError(message)
    return _Authority(certificate=x509.load_pem_x509_certificate(path.with_suffix(".crt").read_bytes()), key=key)


def _create_authority(now: datetime) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Skein services {now:%Y-%m-%d %H:%M:%S}")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, key.public_key(), now, _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _Authority(certificate=certificate, key=key)


def _sign(
    authority: _Authority, process: str, services: Collection[str], key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.Certificate:
    names = [x509.DNSName(certificate_name(service)) for service in sorted(services)]
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer = authority.certificate
    return (
        _builder(_name(process), issuer.subject, key.public_key(), now, _CERTIFICATE_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + life)
    )


def _is_current(own: Path, authority: _Authority, services: Collection[str], now: datetime) -> bool:
    """Return whether a process has a certificate for these services, of this authority, and not old."""
    try:
        certificate = x509.load_pem_x509_certificate((own / CERTIFICATE).read_bytes())
        key = serialization.load_pem_private_key((own / KEY).read_bytes(), None)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    return (
        certificate.public_key() == key.public_key()
        and set(names.get_values_for_type(x509.DNSName)) == {certificate_name(service) for service in services}
        and authority.has_signed(certificate)
        and now < certificate.not_valid_before_utc + _CERTIFICATE_USE
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    """Replace a file at once, unless it has this content: a process may read it at any time. Mode 0600."""
    if path.exists() and path.read_bytes() == content:
        return
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(name).replace(path)
