"""What the signature of a recall's receipt covers, and the receipt's file. No database, no clock.

The content is signed together with the ids of the tenant and of the receipt. The request and the text of the query stay
outside, because the erasure of a person removes them; the content has their digest, under a salt that goes with them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from google.protobuf.message import DecodeError

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.erasure_certificates.document import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT = "skein-recall-receipt/1"
ALGORITHM = "Ed25519"
SALT_BYTES = 16
QUERY_DIGEST_BYTES = 16
_KEY_CHECK_BYTES = 4
_FIELDS = {"algorithm", "content", "format", "key_id", "receipt_id", "signature", "tenant_id"}
_ERASABLE_FIELDS = {"query", "request"}


class ReceiptInvalid(Exception):
    """The receipt is damaged or was changed; the message is the reason."""

    def __init__(self, part: str, message: str) -> None:
        """`part` is the damaged one: content, signature, key or request."""
        super().__init__(message)
        self.part = part


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedReceipt:
    """A receipt with its signature, which may be valid or not."""

    tenant_id: UUID
    receipt_id: UUID
    # A serialized ReceiptContent.
    content: bytes
    key_id: str
    signature: bytes
    # A salt and a serialized RecallRequest without its text; None after an erasure.
    request: bytes | None
    # None: a digest of the text is in the content, or the text was erased.
    query: str | None

    def verify(self, keys: Mapping[str, Ed25519PublicKey]) -> pb.ReceiptContent:
        """Return what was signed, once signature and request match. Raises ReceiptInvalid."""
        key = keys.get(self.key_id)
        if key is None:
            raise ReceiptInvalid("key", f"no published key has the id {self.key_id}")
        try:
            key.verify(
                self.signature, signed_bytes(self.tenant_id, self.receipt_id, hashlib.sha256(self.content).digest())
            )
        except InvalidSignature:
            raise ReceiptInvalid("signature", "its signature does not match") from None
        try:
            content = pb.ReceiptContent.FromString(self.content)
        except DecodeError:
            raise ReceiptInvalid("content", "its content cannot be read") from None
        if self.request is None:
            if self.query is not None:
                raise ReceiptInvalid("request", "its query has no request")
        elif request_digest(self.request, self.query) != content.request_digest:
            raise ReceiptInvalid("request", "its request is not the one that was signed")
        return content

    @property
    def recall_request(self) -> pb.RecallRequest | None:
        """The request without its text; None after an erasure. Verify before."""
        return None if self.request is None else pb.RecallRequest.FromString(self.request[SALT_BYTES:])

    def file(self) -> str:
        """Return the receipt as a file."""
        fields: dict[str, object] = {
            "algorithm": ALGORITHM,
            "content": _base64(self.content),
            "format": FORMAT,
            "key_id": self.key_id,
            "receipt_id": str(self.receipt_id),
            "signature": _base64(self.signature),
            "tenant_id": str(self.tenant_id),
        }
        if self.request is not None:
            fields["request"] = _base64(self.request)
        if self.query is not None:
            fields["query"] = self.query
        return canonical_json(fields).decode()


def signed_bytes(tenant_id: UUID, receipt_id: UUID, content_digest: bytes) -> bytes:
    """Return the bytes that are signed for a content with this SHA-256."""
    return FORMAT.encode() + b"\0" + tenant_id.bytes + receipt_id.bytes + content_digest


def sign(key: Ed25519PrivateKey, tenant_id: UUID, receipt_id: UUID, content_digest: bytes) -> bytes:
    """Return the signature of a receipt."""
    return key.sign(signed_bytes(tenant_id, receipt_id, content_digest))


def request_digest(request: bytes, query: str | None) -> bytes:
    """Return the digest by which the content names its salted request and the text of the query, if that is stored."""
    return hashlib.sha256(hashlib.sha256(request).digest() + (query or "").encode()).digest()


def query_digest(query: str, secret: bytes) -> bytes:
    """Return the digest of a text that is not stored."""
    return hashlib.blake2b(query.encode(), digest_size=QUERY_DIGEST_BYTES, key=secret).digest()


def query_key_check(secret: bytes) -> bytes:
    """Return the bytes that tell which secret a digest of a text has."""
    return hashlib.blake2b(secret, digest_size=_KEY_CHECK_BYTES).digest()


def read(file: bytes) -> SignedReceipt:
    """Read a receipt's file, which must be in the canonical form of JSON. Raises ReceiptInvalid."""
    try:
        fields = json.loads(file)
        is_canonical = canonical_json(fields) == file
        names = set(fields) if isinstance(fields, dict) else set()
        if not is_canonical or names - _ERASABLE_FIELDS != _FIELDS or fields["format"] != FORMAT:
            raise ReceiptInvalid("content", "its file is no receipt in canonical form")
        if fields["algorithm"] != ALGORITHM:
            raise ReceiptInvalid("signature", "its algorithm is unknown")
        return SignedReceipt(
            tenant_id=UUID(fields["tenant_id"]),
            receipt_id=UUID(fields["receipt_id"]),
            content=_bytes(fields["content"]),
            key_id=str(fields["key_id"]),
            signature=_bytes(fields["signature"]),
            request=_bytes(fields["request"]) if "request" in fields else None,
            query=str(fields["query"]) if "query" in fields else None,
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ReceiptInvalid("content", "its file cannot be read") from None


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    value = base64.b64decode(text, validate=True)
    if _base64(value) != text:
        raise ValueError(text)
    return value
