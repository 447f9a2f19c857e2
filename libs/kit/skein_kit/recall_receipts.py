"""What the signatures of a receipt cover, and the receipt's file. No database, no clock.

The content is signed together with the ids of the tenant and of the receipt. The request and the text of the query stay
outside, because the erasure of a person removes them; the content has their digest, under a salt that goes with them.
The receipt of a context is signed for itself in the same way, and its inputs stay outside.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from google.protobuf.message import DecodeError

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.erasure_certificates.document import canonical_json

FORMAT = "skein-recall-receipt/1"
CONTEXT_FORMAT = "skein-context-receipt/1"
ALGORITHM = "Ed25519"
SALT_BYTES = 16
QUERY_DIGEST_BYTES = 16
TEXT_DIGEST_BYTES = 12
_KEY_CHECK_BYTES = 4
_FIELDS = {"algorithm", "content", "format", "key_id", "receipt_id", "signature", "tenant_id"}
_OPTIONAL_FIELDS = {"query", "request", "context"}
_CONTEXT_FIELDS = {"content", "key_id", "signature"}
_OPTIONAL_CONTEXT_FIELDS = {"inputs"}


class ReceiptInvalid(Exception):
    """The receipt is damaged or was changed; the message is the reason."""

    def __init__(self, part: str, message: str) -> None:
        """`part` is the damaged one: content, signature, key, request or context."""
        super().__init__(message)
        self.part = part


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedContext:
    """The receipt of a context with its signature, which may be valid or not."""

    # A serialized ContextStatement.
    content: bytes
    key_id: str
    signature: bytes
    # A salt and serialized ContextInputs; None after an erasure.
    salted_inputs: bytes | None

    @property
    def statement(self) -> pb.ContextStatement:
        """What was signed. Verify before."""
        return pb.ContextStatement.FromString(self.content)

    @property
    def inputs(self) -> pb.ContextInputs | None:
        """What the text was packed from; None after an erasure. Verify before."""
        return None if self.salted_inputs is None else pb.ContextInputs.FromString(self.salted_inputs[SALT_BYTES:])

    def verify(self, keys: Mapping[str, Ed25519PublicKey], tenant_id: UUID, receipt_id: UUID) -> None:
        """Raise ReceiptInvalid if the statement is not the signed one, or the inputs are not those that it names."""
        key = keys.get(self.key_id)
        if key is None:
            raise ReceiptInvalid("context", f"no published key has the id {self.key_id} of its context")
        try:
            key.verify(self.signature, signed_bytes(tenant_id, receipt_id, context_digest(self.content)))
            inputs_digest = self.statement.inputs_digest
        except InvalidSignature:
            raise ReceiptInvalid("context", "the signature of its context does not match") from None
        except DecodeError:
            raise ReceiptInvalid("context", "its context cannot be read") from None
        if self.salted_inputs is not None and hashlib.sha256(self.salted_inputs).digest() != inputs_digest:
            raise ReceiptInvalid("context", "the inputs of its context are not those that were signed")

    def fields(self) -> dict[str, object]:
        """Return the fields of the file."""
        fields: dict[str, object] = {
            "content": _base64(self.content),
            "key_id": self.key_id,
            "signature": _base64(self.signature),
        }
        if self.salted_inputs is not None:
            fields["inputs"] = _base64(self.salted_inputs)
        return fields

    @classmethod
    def read(cls, fields: Mapping[str, object]) -> SignedContext:
        """Read the fields of a file. Raises ReceiptInvalid, and ValueError and TypeError for damaged ones."""
        if fields.keys() - _OPTIONAL_CONTEXT_FIELDS != _CONTEXT_FIELDS:
            raise ReceiptInvalid("context", "its context is not in canonical form")
        return cls(
            content=_bytes(fields["content"]),
            key_id=str(fields["key_id"]),
            signature=_bytes(fields["signature"]),
            salted_inputs=_bytes(fields["inputs"]) if "inputs" in fields else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedReceipt:
    """A receipt with its signature, which may be valid or not."""

    tenant_id: UUID
    receipt_id: UUID
    # A serialized ReceiptContent.
    content: bytes
    key_id: str
    signature: bytes
    # A salt and a serialized ReceiptRequest; None after an erasure.
    request: bytes | None
    # None: a digest of the text is in the content, or the text was erased.
    query: str | None
    # The text that was packed from the answer; None for an answer of Recall.
    context: SignedContext | None = None

    def verify(self, keys: Mapping[str, Ed25519PublicKey]) -> pb.ReceiptContent:
        """Return what was signed, once signature, request and context match. Raises ReceiptInvalid."""
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
        if self.context is not None:
            self.context.verify(keys, self.tenant_id, self.receipt_id)
        return content

    @property
    def receipt_request(self) -> pb.ReceiptRequest | None:
        """The request without its text, and what it searched for; None after an erasure. Verify before."""
        return None if self.request is None else pb.ReceiptRequest.FromString(self.request[SALT_BYTES:])

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
        if self.context is not None:
            fields["context"] = self.context.fields()
        return canonical_json(fields).decode()


def signed_bytes(tenant_id: UUID, receipt_id: UUID, content_digest: bytes) -> bytes:
    """Return the bytes that are signed for a content with this SHA-256."""
    return FORMAT.encode() + b"\0" + tenant_id.bytes + receipt_id.bytes + content_digest


def sign(key: Ed25519PrivateKey, tenant_id: UUID, receipt_id: UUID, content_digest: bytes) -> bytes:
    """Return the signature of a receipt."""
    return key.sign(signed_bytes(tenant_id, receipt_id, content_digest))


def context_digest(content: bytes) -> bytes:
    """Return the digest that is signed for the content of a context: never that of the content of a recall."""
    return hashlib.sha256(CONTEXT_FORMAT.encode() + b"\0" + content).digest()


def context_text_digest(salt: bytes, text: str) -> bytes:
    """Return the digest by which a statement names its text."""
    return hashlib.sha256(salt + text.encode()).digest()


def item_text_digest(salt: bytes, item_id: UUID, texts: Sequence[str | None]) -> bytes:
    """Return the digest by which a receipt names the texts of a hit."""
    encoded = json.dumps(list(texts), ensure_ascii=False, separators=(",", ":")).encode()
    return hashlib.sha256(salt + item_id.bytes + encoded).digest()[:TEXT_DIGEST_BYTES]


def request_digest(request: bytes, query: str | None) -> bytes:
    """Return the digest by which the content names its salted request and the text of the query, if that is stored."""
    return hashlib.sha256(hashlib.sha256(request).digest() + (query or "").encode()).digest()


def query_digest(query: str, principal: str, secret: bytes) -> bytes:
    """Return the digest of a principal's text that is not stored.

    Equal texts of two principals have different digests: no principal finds the text of another one by asking it too.
    """
    return hashlib.blake2b(f"{principal}\0{query}".encode(), digest_size=QUERY_DIGEST_BYTES, key=secret).digest()


def query_key_check(secret: bytes) -> bytes:
    """Return the bytes that tell which secret a digest of a text has."""
    return hashlib.blake2b(secret, digest_size=_KEY_CHECK_BYTES).digest()


def read(file: bytes) -> SignedReceipt:
    """Read a receipt's file, which must be in the canonical form of JSON. Raises ReceiptInvalid."""
    try:
        fields = json.loads(file)
        is_canonical = canonical_json(fields) == file
        names = set(fields) if isinstance(fields, dict) else set()
        if not is_canonical or names - _OPTIONAL_FIELDS != _FIELDS or fields["format"] != FORMAT:
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
            context=SignedContext.read(fields["context"]) if "context" in fields else None,
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ReceiptInvalid("content", "its file cannot be read") from None


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: object) -> bytes:
    if not isinstance(text, str):
        raise TypeError(text)
    value = base64.b64decode(text, validate=True)
    if _base64(value) != text:
        raise ValueError(text)
    return value
