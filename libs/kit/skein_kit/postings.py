"""The search index's rows of an item: the one place that makes them, for memories and messages alike.

The owner of an item calls this in the transaction that writes the item, so that an item is found by its words the
moment it is committed, and is gone from search the moment its deletion is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from skein_kit.sql import Queries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database import Transaction

# Longer terms are data, not words, and a B-tree key has its limit.
MAX_TERM_CHARACTERS = 200
# Postgres refuses a text vector beyond 1 MiB; the longest content allowed stays far below.
_QUERIES = Queries.of("skein_kit")


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """What the index knows of an item."""

    item_id: UUID
    kind: Literal["memory", "message"]
    # Everything that is searched: title, key, content.
    text: str
    revision: int = 1
    type: str | None = None
    scope: str | None = None
    source: str | None = None
    key: str | None = None
    importance: float | None = None
    agent_id: str | None = None
    subject_id: str | None = None
    session_id: str | None = None
    expire_time: datetime | None = None


async def put(tx: Transaction, tenant_id: UUID, documents: Sequence[Document]) -> None:
    """Add items to the index: one read for the terms, one insert for the documents, one for the postings.

    Every new document is pending: its vectors are still to be made. An item that is in the index already must be
    removed first.
    """
    if not documents:
        return
    terms: list[list[tuple[str, int]]] = [[] for _ in documents]
    for row in await tx.rows(_QUERIES["analyse"], texts=[document.text for document in documents]):
        terms[row["place"] - 1].append((row["lexeme"], row["frequency"]))
    lengths = [sum(frequency for _, frequency in counted) for counted in terms]
    await tx.insert(
        _QUERIES["insert_documents"],
        tenant_id,
        [_document(document, length) for document, length in zip(documents, lengths, strict=True)],
    )
    await tx.insert(
        _QUERIES["insert_postings"],
        tenant_id,
        [
            {
                "term": term,
                "kind": document.kind,
                "item_id": document.item_id,
                "frequency": frequency,
                "length": length,
            }
            for document, counted, length in zip(documents, terms, lengths, strict=True)
            for term, frequency in counted
            if len(term) <= MAX_TERM_CHARACTERS
        ],
    )


async def remove(tx: Transaction, tenant_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Take items out of the index, with their postings and vectors; ids that are not there are passed over."""
    if item_ids:
        await tx.execute(_QUERIES["delete_documents"], tenant_id=tenant_id, item_ids=list(item_ids))


async def update(tx: Transaction, tenant_id: UUID, document: Document) -> bool:
    """Change what filters ask of an item whose text is the same as before; say whether it was in the index.

    Its postings and vectors stay, and so does the revision that they were made from.
    """
    columns = _document(document, length=0)
    return bool(
        await tx.execute(
            _QUERIES["update_document"],
            tenant_id=tenant_id,
            **{name: columns[name] for name in _QUERIES["update_document"].parameters if name != "tenant_id"},
        )
    )


async def remove_expired(
    tx: Transaction, tenant_id: UUID, kind: Literal["memory", "message"], *, at: datetime, count: int
) -> int:
    """Take up to `count` items that are past their time out of the index; return how many."""
    query = _QUERIES["delete_expired_documents"]
    return await tx.execute(query, tenant_id=tenant_id, kind=kind, at=at, count=count)


def _document(document: Document, length: int) -> dict[str, object]:
    return {
        "item_id": document.item_id,
        "kind": document.kind,
        "type": document.type,
        "scope": document.scope,
        "source": document.source,
        "key": document.key,
        "importance": document.importance,
        "agent_id": document.agent_id,
        "subject_id": document.subject_id,
        "session_id": document.session_id,
        "expire_time": document.expire_time,
        "length": length,
        "revision": document.revision,
    }
