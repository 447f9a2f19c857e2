"""The search index's rows of an item: the one place that makes them, for memories and messages alike.

The owner of an item calls this in the transaction that writes the item, so that an item is found by its words the
moment it is committed, and is gone from search the moment its deletion is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from skein_kit.database import batch_insert
from skein_kit.database.batch_insert import InsertRows
from skein_kit.database.named_queries import FEW_ROWS, Queries
from skein_kit.ids import new_id, now
from skein_kit.policies.store import shared_policy_cache
from skein_kit.search_text import vector_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg
    import numpy as np
    from numpy.typing import NDArray

    from skein_kit.database.transactions import Transaction
    from skein_kit.search_text.vector_columns import ActiveModel

# Longer terms are data, not words, and a B-tree key has its limit.
MAX_TERM_CHARACTERS = 200
# Postgres refuses a text vector beyond 1 MiB; the longest content allowed stays far below.
_QUERIES = Queries.load("skein_kit")
# A question mark is the last mark that ends a sentence. A closing quote or a note may follow it.
_QUESTION: Final = re.compile(r"[?？؟][^.!?。！？؟]*$")  # noqa: RUF001 - marks of other scripts are meant.
# English: in other languages only numbers are expressions of time. "May" is left out: the verb is far more frequent.
_TIME: Final = re.compile(
    r"(?<!\w)(?:yesterday|today|tomorrow|tonight|last|next|ago|since|recently|weekend|days?|weeks?|months?|years?|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
    r"january|february|march|april|june|july|august|september|october|november|december|"
    r"\d{4}|\d+(?:st|nd|rd|th))(?!\w)",
    re.IGNORECASE,
)
# Characters that are read: of the end for a question, of the beginning for a time.
_READ_CHARACTERS: Final = 10_000


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
    # The vector of its text, of unit length, where the caller brought one; else it is made later.
    embedding: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)


async def add_documents(
    tx: Transaction, tenant_id: UUID, documents: Sequence[Document], *, extra_rows: Sequence[InsertRows] = ()
) -> None:
    """Add items to the index: one statement reads their terms, another writes what is written of a single item.

    `extra_rows` are rows that the first statement inserts too: the items themselves. A new document is pending until it
    has vectors, unless it brought one and no other model follows. Remove an item that is already in the index first.
    Raises DimensionsMismatch for a vector that does not fit the active model.
    """
    if not documents:
        await batch_insert.insert_batch(tx, tenant_id, extra_rows)
        return
    space = await _space(tx, documents)
    language = (await shared_policy_cache(tx.database).get(tx, tenant_id)).search_language
    terms: list[list[tuple[str, int]]] = [[] for _ in documents]
    texts = [document.text for document in documents]
    for place, lexeme, frequency in await batch_insert.insert_batch_and_fetch(
        tx, tenant_id, extra_rows, _QUERIES["analyse"], texts=texts, language=language
    ):
        terms[place - 1].append((lexeme, frequency))
    lengths = [sum(frequency for _, frequency in counted) for counted in terms]
    kept = [
        _document(document, length)
        | {"pending": document.embedding is None or (space is not None and space.is_followed(tenant_id))}
        for document, length in zip(documents, lengths, strict=True)
    ]
    brought = [(one.item_id, one.kind, [one.embedding]) for one in documents if one.embedding is not None]
    listed = [
        {"term": term, "kind": document.kind, "item_id": document.item_id, "frequency": frequency, "length": length}
        for document, counted, length in zip(documents, terms, lengths, strict=True)
        for term, frequency in counted
        if len(term) <= MAX_TERM_CHARACTERS
    ]
    shared = ("kind", "item_id", "length") if len(documents) == 1 else ()
    await batch_insert.insert_batch(
        tx,
        tenant_id,
        [
            InsertRows(_QUERIES["insert_documents"], kept),
            *([] if space is None else [vector_columns.vector_rows(space.table_name, brought)]),
            *(
                []
                if space is None
                else [vector_columns.origin_rows(space.model, [item_id for item_id, _, _ in brought])]
            ),
            # As many as go together, and the others after them.
            InsertRows(
                _QUERIES["insert_postings"], listed[:FEW_ROWS], single_statement_rows=FEW_ROWS, shared_parameters=shared
            ),
            InsertRows(_QUERIES["insert_postings"], listed[FEW_ROWS:], single_statement_rows=0),
        ],
    )


async def remove_documents(tx: Transaction, tenant_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Take items out of the index, with their postings and vectors; ids that are not there are passed over."""
    if item_ids:
        gone = await tx.rows(_QUERIES["delete_documents"], tenant_id=tenant_id, item_ids=list(item_ids))
        await _insert_count_deltas(tx, tenant_id, gone)


async def subtract_counts(tx: Transaction, tenant_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Keep the counts right for items that the transaction is about to delete by a statement of its own."""
    if item_ids:
        gone = await tx.rows(_QUERIES["list_counted"], tenant_id=tenant_id, item_ids=list(item_ids))
        await _insert_count_deltas(tx, tenant_id, gone)


async def subtract_session_counts(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
    """Keep the counts right for a session's messages that the transaction is about to take out of the index."""
    gone = await tx.rows(_QUERIES["list_counted_of_session"], tenant_id=tenant_id, session_id=session_id)
    await _insert_count_deltas(tx, tenant_id, gone)


async def update_document(tx: Transaction, tenant_id: UUID, document: Document) -> bool:
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
    gone = await tx.rows(query, tenant_id=tenant_id, kind=kind, at=at, count=count)
    await _insert_count_deltas(tx, tenant_id, gone)
    return len(gone)


async def _insert_count_deltas(tx: Transaction, tenant_id: UUID, gone: Iterable[asyncpg.Record]) -> None:
    """Say what left the counts, in rows that nobody waits for; the worker takes it off the sums."""
    lengths: dict[str, list[int]] = {}
    for row in gone:
        if row["counted"]:
            lengths.setdefault(row["kind"], []).append(row["length"])
    rows = [
        {"departure_id": new_id(now()), "kind": kind, "documents": len(all_), "length": sum(all_)}
        for kind, all_ in lengths.items()
    ]
    await tx.insert(_QUERIES["insert_departures"], tenant_id, rows)


async def _space(tx: Transaction, documents: Sequence[Document]) -> ActiveModel | None:
    """Return the model that vectors were brought for; None when none were, or no model is in force."""
    brought = [document.embedding for document in documents if document.embedding is not None]
    space = await vector_columns.active_model(tx) if brought else None
    for embedding in brought:
        vector_columns.require_dimensions(0 if space is None else space.dimensions, embedding)
    return space


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
        "asks": ends_with_question(document.text),
        "dated": mentions_time(document.text),
        "expire_time": document.expire_time,
        "length": length,
        "revision": document.revision,
    }


def ends_with_question(text: str) -> bool:
    """Return whether a text ends with a question: an answer tends to follow it."""
    return _QUESTION.search(text[-_READ_CHARACTERS:]) is not None


def mentions_time(text: str) -> bool:
    """Return whether a text has an expression of time: a date, a weekday, "last week"."""
    return _TIME.search(text[:_READ_CHARACTERS]) is not None
