"""Certificates that a test makes: an authority of its own, and what that vouches for."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from skein_cluster.registry import NAMES
from skein_kit.identity.service_identity import certificate_name


@dataclass(frozen=True)
class Certificates:
    """PEM files: an authority's certificate, and a certificate with its key for 127.0.0.1."""

    authority: Path
    certificate: Path
    key: Path


def made_in(folder: Path, name: str = "127.0.0.1", *, days: int = 1) -> Certificates:
    """Make new ones: the certificate names every service, and is good for so many days, its authority for ten times."""
    now = dt.datetime.now(dt.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's authority")])

    def builder(subject: x509.Name, public: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + dt.timedelta(days=days))
        )

    authority = (
        builder(authority_name, authority_key.public_key(), 10 * days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(name))]
    names += [x509.DNSName(certificate_name(service)) for service in NAMES]
    leaf = (
        builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    result = Certificates(folder / "authority.pem", folder / "certificate.pem", folder / "key.pem")
    result.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    result.certificate.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    result.key.write_bytes(private(key))
    return result


def private(key: ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    """Return a key as PEM."""
    encryption: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
