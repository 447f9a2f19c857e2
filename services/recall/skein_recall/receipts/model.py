"""Receipts of answers: which answers get one, and what is signed. No gRPC, no SQL, no clock."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit import recall_receipts
from skein_kit.identity.identity_token import Caller
from skein_kit.policies.store import Policy
from skein_recall.search.model import RecallResult

# Share of the answers that get a receipt where the policy samples.
SAMPLED_SHARE = 0.01
# The permission to read receipts of other callers.
READ_ALL = "audit.read"


def wants_receipt(policy: Policy, random_number: float) -> bool:
    """Return whether an answer gets a receipt; `random_number` is from 0 to 1."""
    if policy.recall_receipts == "sampled":
        return random_number < SAMPLED_SHARE
    return policy.recall_receipts == "all"


def may_read(caller: Caller, principal: str) -> bool:
    """Return whether a caller may read the receipt of an answer that a principal got.

    A filter may have shown more to one principal than to another, so permissions to read memories are not enough.
    """
    return caller.principal == principal or READ_ALL in caller.permissions


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedItem:
    """A block or profile that a context's text had. Its id is free in each space; the time tells which one it is."""

    # "block" or "profile".
    kind: str
    item_id: str
    create_time: datetime


# A memory or message by its id, or a block or profile.
ItemName = UUID | PinnedItem


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedAnswer:
    """An answer of which a receipt is to be made, as the search left it."""

    tenant_id: UUID
    receipt_id: UUID
    principal: str
    # Of the caller: signs the receipts, and expires within a minute.
    identity_token: str
    request_id: str
    request: pb.RecallRequest
    result: RecallResult
    # The hits that fit the response.
    hit_count: int
    # The receipt has the text of the query.
    keeps_query: bool
    # The spaces that the search reached; None in a tenant without spaces.
    space_ids: tuple[UUID, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class UnsignedReceipt:
    """A receipt without its signature."""

    tenant_id: UUID
    receipt_id: UUID
    identity_token: str
    principal: str
    # Of the call, by which the access log knows what it returned.
    request_id: str
    content: bytes
    # With its salt.
    request: bytes
    query: str | None
    # The people whom items of the answer are about.
    subject_ids: Sequence[str]
    # Seconds of the event loop's clock.
    create_seconds: float
    # Of the text that was packed from the answer; `request` has its inputs.
    is_context: bool = False

    @property
    def content_digest(self) -> bytes:
        """The digest of the content, which is signed."""
        return (
            recall_receipts.context_digest(self.content) if self.is_context else hashlib.sha256(self.content).digest()
        )

    def columns(self, key_id: str, signature: bytes) -> dict[str, object]:
        """Return the row of the receipt with its signature."""
        return {
            "receipt_id": self.receipt_id,
            "is_context": self.is_context,
            "principal": self.principal,
            "request_id": self.request_id,
            "content": self.content,
            "key_id": key_id,
            "signature": signature,
            "request": self.request,
            "query": self.query,
            "subject_ids": list(self.subject_ids),
        }
