"""The file of an erasure certificate: canonical JSON (RFC 8785) with an Ed25519 signature. No database, no clock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from skein_kit.erasure_certificates import merkle

FORMAT = "skein-erasure-certificate/1"
ALGORITHM = "Ed25519"
# Services with tombstones, in the order of the leaves.
SERVICES = ("memory", "session")
# Integers beyond it have no exact form in JSON (RFC 8785, section 3.2.2.3).
_MAX_INTEGER = 2**53 - 1
_SIGNED_FIELDS = {"certificate", "format", "key_id"}
_FIELDS = _SIGNED_FIELDS | {"algorithm", "signature"}
_LISTS = "tombstones"


class CertificateInvalid(Exception):
    """The certificate is damaged or was changed; the message is the reason."""


class CertificateKeyUnknown(CertificateInvalid):
    """None of the published keys signed the certificate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifiedCertificate:
    """A certificate with a valid signature."""

    # The signed statement.
    statement: Mapping[str, Any]
    key_id: str
    # Tombstones by service; None when the file has only their root.
    tombstones: Mapping[str, Sequence[bytes]] | None


def canonical_json(value: object) -> bytes:
    """Return the canonical form of strings, integers, booleans, lists and dicts with ASCII keys (RFC 8785).

    Raises ValueError for any other value: floats have a form of their own there.
    """
    _check(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def leaves(tombstones: Mapping[str, Iterable[bytes]]) -> list[bytes]:
    """Return the leaves of the Merkle tree: for each service its sorted digests, each after the service's name."""
    return [service.encode() + b":" + digest for service in SERVICES for digest in _sorted(tombstones.get(service, ()))]


def tombstone_fields(tombstones: Mapping[str, Iterable[bytes]]) -> dict[str, Any]:
    """Return the fields of a statement that cover tombstones."""
    all_leaves = leaves(tombstones)
    return {"tombstone_count": len(all_leaves), "tombstone_root": merkle.root(all_leaves).hex()}


def sign(statement: Mapping[str, Any], key: Ed25519PrivateKey, key_id: str) -> bytes:
    """Return the signature of a statement."""
    return key.sign(_signed_bytes(statement, key_id))


def write(
    statement: Mapping[str, Any], key_id: str, signature: bytes, tombstones: Mapping[str, Iterable[bytes]] | None
) -> bytes:
    """Return the bytes of a certificate's file."""
    document: dict[str, Any] = {
        "algorithm": ALGORITHM,
        "certificate": dict(statement),
        "format": FORMAT,
        "key_id": key_id,
        "signature": signature.hex(),
    }
    if tombstones is not None:
        document[_LISTS] = {
            service: [digest.hex() for digest in _sorted(tombstones.get(service, ()))] for service in SERVICES
        }
    return canonical_json(document)


def verify(file: bytes, keys: Mapping[str, Ed25519PublicKey]) -> VerifiedCertificate:
    """Verify a file with the published keys, by key id.

    The file must be in its canonical form, so that each of its bytes is covered by a check. Raises
    CertificateInvalid, and CertificateKeyUnknown when its key is not among them.
    """
    try:
        document = json.loads(file)
        canonical = canonical_json(document)
    except (ValueError, RecursionError):
        message = "it is not canonical JSON"
        raise CertificateInvalid(message) from None
    _require(canonical == file, "it is not in the canonical form of JSON")
    _require(isinstance(document, dict) and document.keys() - {_LISTS} == _FIELDS, "its fields are not those of a file")
    _require(document["format"] == FORMAT, "its format is unknown")
    _require(document["algorithm"] == ALGORITHM, "its algorithm is unknown")
    statement, key_id = document["certificate"], document["key_id"]
    _require(isinstance(statement, dict) and isinstance(key_id, str), "its fields are not those of a file")
    key = keys.get(key_id)
    if key is None:
        message = f"no published key has the id {key_id}"
        raise CertificateKeyUnknown(message)
    try:
        key.verify(_digest(document["signature"]), _signed_bytes(statement, key_id))
    except InvalidSignature:
        message = "its signature does not match"
        raise CertificateInvalid(message) from None
    return VerifiedCertificate(statement=statement, key_id=key_id, tombstones=_tombstones(document, statement))


def _tombstones(document: Mapping[str, Any], statement: Mapping[str, Any]) -> dict[str, list[bytes]] | None:
    """Read the tombstones of a file, which must have the root of the statement."""
    if _LISTS not in document:
        return None
    lists = document[_LISTS]
    _require(
        isinstance(lists, dict)
        and lists.keys() == set(SERVICES)
        and all(isinstance(digests, list) for digests in lists.values()),
        "its tombstones are not lists",
    )
    result = {service: [_digest(text) for text in lists[service]] for service in SERVICES}
    _require(
        all(digests == sorted(set(digests)) for digests in result.values()),
        "its tombstones are not sorted and distinct",
    )
    fields = tombstone_fields(result)
    _require(
        all(statement.get(name) == value for name, value in fields.items()),
        "its tombstones do not have the signed root",
    )
    return result


def _sorted(digests: Iterable[bytes]) -> list[bytes]:
    """Return distinct digests in order; those that are sorted already are only compared once."""
    return sorted(dict.fromkeys(digests))


def _signed_bytes(statement: Mapping[str, Any], key_id: str) -> bytes:
    return canonical_json({"certificate": statement, "format": FORMAT, "key_id": key_id})


def _digest(text: object) -> bytes:
    """Read lower-case hexadecimal digits, which have one form only."""
    try:
        value = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        value = b""
    _require(bool(value) and value.hex() == text, "a digest or the signature is not in hexadecimal digits")
    return value


def _require(condition: bool, reason: str) -> None:  # noqa: FBT001 - the condition of an assertion.
    if not condition:
        raise CertificateInvalid(reason)


def _check(value: object) -> None:
    """Raise ValueError for a value without a canonical form here."""
    if isinstance(value, dict):
        is_canonical = all(isinstance(key, str) and key.isascii() for key in value)
        for each in value.values():
            _check(each)
    elif isinstance(value, list):
        is_canonical = True
        for each in value:
            _check(each)
    elif isinstance(value, int):
        is_canonical = abs(value) <= _MAX_INTEGER
    else:
        is_canonical = isinstance(value, str)
    if not is_canonical:
        message = "no canonical form"
        raise ValueError(message)
