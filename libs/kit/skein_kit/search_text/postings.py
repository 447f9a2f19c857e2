"""Rows of the search index: documents and their postings, for memories and messages.

The owner of an item writes them in the transaction that writes the item. So recall finds an item by its words from its
commit on, until the commit of its deletion.

Here too: whether a text is a name, ends with a question, or has an expression of time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypedDict
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray

from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Insert, Transaction
from skein_kit.ids import new_id, now
from skein_kit.policies.store import shared_policy_cache
from skein_kit.search_text import vector_columns
from skein_kit.search_text.segmentation import WORDS_VERSION, segment
from skein_kit.search_text.vector_columns import ActiveModel

# A name: words of letters. Other ids are no words for a search.
_NAME: Final = re.compile(r"[^\W\d_]+(?:[ .'’-]{1,2}[^\W\d_]+){0,5}\.?")
_MAX_NAME_CHARACTERS: Final = 64

# Longer terms are data, not words, and the size of a B-tree key is limited.
MAX_TERM_CHARACTERS = 200
_QUERIES = Queries.load("skein_kit")
# A question mark is the last mark that ends a sentence. A closing quote or a note may follow it.
_QUESTION: Final = re.compile(r"[?？؟][^.!?。！？؟]*$")  # noqa: RUF001 - marks of other scripts are meant.
# Characters that are read: of the end for a question, of the beginning for a time.
_READ_CHARACTERS: Final = 10_000
# Left out are words that mean something else more often: "May" and "mayo", and "Tag", "an" and "mar" in English texts.
_ENGLISH: Final = """
yesterday today tomorrow tonight last next ago since recently weekend day days week weeks month months year years
monday tuesday wednesday thursday friday saturday sunday
january february march april june july august september october november december
"""
_GERMAN: Final = """
gestern vorgestern heute morgen letzte letzten letzter letztes nächste nächsten nächster nächstes seit kürzlich
wochenende tage tagen woche wochen monat monate monaten jahr jahre jahren
montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag januar februar märz mai juni juli oktober dezember
"""
_SPANISH: Final = """
ayer anteayer hoy mañana pasado pasada próximo próxima desde hace día días semana semanas mes meses año años
lunes martes miércoles jueves viernes sábado domingo
enero febrero marzo abril junio julio agosto septiembre octubre noviembre diciembre
"""
_FRENCH: Final = """
hier demain dernier dernière prochain prochaine depuis jours semaine semaines mois année années
lundi mardi mercredi jeudi vendredi samedi dimanche
janvier février avril juin juillet août septembre octobre novembre décembre
"""
_WORDS: Final = frozenset((_ENGLISH + _GERMAN + _SPANISH + _FRENCH).split())
_NUMBER: Final = re.compile(r"(?<!\w)(?:\d{4}|\d+(?:st|nd|rd|th)|\d{1,2}\.\d{1,2}\.(?:\d{4})?)(?!\w)", re.IGNORECASE)
# Chinese and Japanese have no spaces between words.
_SIGNS: Final = re.compile(
    "[昨今明前后後]天|[昨今明]日|[去今明前后後昨]年|星期|礼拜|[周週][一二三四五六日末]|"
    "[上下这這本先来來](?:个|個)?[周週月]|曜日|[0-9一二三四五六七八九十][年月日号號]|[天周週年月]前"
)
_LETTERS: Final = re.compile(r"[^\W\d_]+")


class TermCount(TypedDict):
    """How often a document has a term."""

    term: str
    # In its text; in its header.
    frequency: int
    header_frequency: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """An item of the search index."""

    item_id: UUID
    kind: Literal["memory", "message"]
    # The text whose words are searched.
    text: str
    # Title, key, tags, speaker and subject. They count for the item, not for its neighbours.
    header: str = ""
    # The text whose meaning is searched, if it differs from `text`.
    embedded_text: str = ""
    revision: int = 1
    type: str | None = None
    scope: str | None = None
    source: str | None = None
    key: str | None = None
    importance: float | None = None
    agent_id: str | None = None
    subject_id: str | None = None
    session_id: str | None = None
    # Of a message.
    role: str | None = None
    # Who speaks in a message. Of a memory: its subject, where that precedes the embedded text.
    speaker: str | None = None
    expire_time: datetime | None = None
    # The caller vector, float32 of shape (dimensions,) and unit length; None: recall embeds the text later.
    embedding: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)


async def add_documents(tx: Transaction, tenant_id: UUID, documents: Sequence[Document]) -> None:
    """Add documents to the index, as `new_documents` says."""
    await tx.insert_all(tenant_id, await new_documents(tx, tenant_id, documents))


async def new_documents(
    tx: Transaction, tenant_id: UUID, documents: Sequence[Document], terms: Sequence[Sequence[TermCount]] | None = None
) -> list[Insert]:
    """Return the rows that add documents to the index, with their postings and caller vectors, and how to insert them.

    `terms` are those of each document, if `count_terms` has returned them already.

    A new document is pending until it has vectors, unless it has a caller vector and no model is followed. Remove a
    document that is in the index first. Raises DimensionsMismatch for a caller vector that does not fit the
    tenant's model.
    """
    if not documents:
        return []
    model = await _model_of_caller_vectors(tx, tenant_id, documents)
    postings = await count_terms(tx, tenant_id, documents) if terms is None else terms
    is_followed = model is not None and model.is_followed
    document_rows = await run_by_size(
        _size(documents),
        lambda: [
            _document(document, length=sum(posting["frequency"] for posting in rows))
            | {"pending": document.embedding is None or is_followed}
            for document, rows in with_pauses(zip(documents, postings, strict=True))
        ],
    )
    vectors = [
        (document.item_id, document.kind, [document.embedding])
        for document in documents
        if document.embedding is not None
    ]
    inserts: list[Insert] = [(_QUERIES["insert_documents"], document_rows)]
    if model is not None:
        inserts.append(vector_columns.new_vectors(model.table_name, vectors))
        inserts.append(vector_columns.new_vector_origins(model.model, [item_id for item_id, _, _ in vectors]))
    return [*inserts, _new_postings(documents, postings)]


async def count_terms(tx: Transaction, tenant_id: UUID, documents: Sequence[Document]) -> list[list[TermCount]]:
    """Count the terms of each document, in its text and in its header."""
    if not documents:
        return []
    language = (await shared_policy_cache(tx.database).get(tx, tenant_id)).search_language
    counts: list[dict[str, TermCount]] = [{} for _ in documents]
    texts = await run_by_size(_size(documents), _segmented, documents)
    for place, lexeme, count in await tx.rows(_QUERIES["analyse"], texts=texts, language=language):
        number, is_header = divmod(place - 1, 2)
        term_count = counts[number].setdefault(lexeme, {"term": lexeme, "frequency": 0, "header_frequency": 0})
        term_count["header_frequency" if is_header else "frequency"] = count
    return [list(terms.values()) for terms in counts]


def _size(documents: Sequence[Document]) -> int:
    return sum(len(document.text) for document in documents)


def _segmented(documents: Sequence[Document]) -> list[str]:
    return [segment(text) for document in with_pauses(documents) for text in (document.text, document.header)]


def _new_postings(documents: Sequence[Document], postings: Sequence[Sequence[TermCount]]) -> Insert:
    rows = [
        {**row, "kind": document.kind, "item_id": document.item_id, "length": length}
        for document, rows in zip(documents, postings, strict=True)
        for length in [sum(row["frequency"] for row in rows)]
        for row in rows
        if len(row["term"]) <= MAX_TERM_CHARACTERS
    ]
    return _QUERIES["insert_postings"], rows


async def remove_documents(tx: Transaction, tenant_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Remove items from the index, with their postings and vectors; unknown ids are ignored."""
    if item_ids:
        rows = await tx.rows(_QUERIES["delete_documents"], tenant_id=tenant_id, item_ids=list(item_ids))
        await _insert_count_deltas(tx, tenant_id, rows)


async def purge_history(tx: Transaction, tenant_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Purge the former documents, postings and vectors of items whose documents are purged already."""
    if item_ids:
        await tx.value(_QUERIES["purge_history"], tenant_id=tenant_id, item_ids=list(item_ids))


async def subtract_counts(tx: Transaction, tenant_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Subtract items from the counts before the transaction deletes them, or has them counted again."""
    if item_ids:
        rows = await tx.rows(_QUERIES["list_counted"], tenant_id=tenant_id, item_ids=list(item_ids))
        await _insert_count_deltas(tx, tenant_id, rows)


async def subtract_session_counts(tx: Transaction, tenant_id: UUID, session_id: str) -> None:
    """Subtract a session's messages from the counts before the transaction removes them from the index."""
    rows = await tx.rows(_QUERIES["list_counted_of_session"], tenant_id=tenant_id, session_id=session_id)
    await _insert_count_deltas(tx, tenant_id, rows)


async def update_document(
    tx: Transaction, tenant_id: UUID, document: Document, *, has_new_header: bool, has_new_session: bool
) -> bool:
    """Update the filtered columns of an item with an unchanged text; return whether it is in the index.

    Its vectors and the revision that they belong to stay. When it has a new header, its postings are replaced and
    counted again. With a new header or session a search measures it differently, so that cached terms are read again.
    """
    if has_new_header:
        await subtract_counts(tx, tenant_id, [document.item_id])
    transaction = None
    if has_new_header or has_new_session:
        transaction = await tx.value(_QUERIES["read_transaction_id"])
    values = {
        **_document(document, length=0),
        "tenant_id": tenant_id,
        "has_new_header": has_new_header,
        "transaction": transaction,
    }
    query = _QUERIES["update_document"]
    is_updated = bool(await tx.execute(query, **{name: values[name] for name in query.parameters}))
    if is_updated and has_new_header:
        await tx.execute(_QUERIES["delete_postings"], tenant_id=tenant_id, item_ids=[document.item_id])
        await tx.insert_all(tenant_id, [_new_postings([document], await count_terms(tx, tenant_id, [document]))])
    return is_updated


async def renew_words(tx: Transaction, tenant_id: UUID, documents: Sequence[Document]) -> None:
    """Give locked documents, which another version of the rule wrote, the words of today's; vectors stay.

    Of each document, `text` and `header` count. One whose words are the same keeps its postings: they make no former
    rows, and the tenant's counts stay.
    """
    item_ids = [document.item_id for document in documents]
    postings = await count_terms(tx, tenant_id, documents)
    stored: dict[UUID, set[tuple[str, int, int]]] = {item_id: set() for item_id in item_ids}
    for row in await tx.rows(_QUERIES["read_postings"], tenant_id=tenant_id, item_ids=item_ids):
        stored[row["item_id"]].add((row["term"], row["frequency"], row["header_frequency"]))
    changed = [
        (document, rows)
        for document, rows in zip(documents, postings, strict=True)
        if stored[document.item_id] != _stored_form(rows)
    ]
    changed_ids = [document.item_id for document, _ in changed]
    await tx.execute(
        _QUERIES["set_words_version"],
        tenant_id=tenant_id,
        item_ids=list(set(item_ids).difference(changed_ids)),
        words_version=WORDS_VERSION,
    )
    if not changed:
        return
    await subtract_counts(tx, tenant_id, changed_ids)
    await tx.execute(
        _QUERIES["set_renewed_words"],
        tenant_id=tenant_id,
        item_ids=changed_ids,
        lengths=[sum(row["frequency"] for row in rows) for _, rows in changed],
        are_questions=[ends_with_question(document.text) for document, _ in changed],
        mention_times=[mentions_time(document.text) for document, _ in changed],
        words_version=WORDS_VERSION,
        transaction=await tx.value(_QUERIES["read_transaction_id"]),
    )
    await tx.execute(_QUERIES["delete_postings"], tenant_id=tenant_id, item_ids=changed_ids)
    await tx.insert_all(
        tenant_id, [_new_postings([document for document, _ in changed], [rows for _, rows in changed])]
    )


def _stored_form(rows: Iterable[TermCount]) -> set[tuple[str, int, int]]:
    return {
        (row["term"], row["frequency"], row["header_frequency"])
        for row in rows
        if len(row["term"]) <= MAX_TERM_CHARACTERS
    }


def header_of_memory(title: str | None, key: str | None, tags: Iterable[str], ids: Iterable[str | None]) -> str:
    """Return the header of a memory's text: title, key, tags, and the ids that are names."""
    names = dict.fromkeys(name for name in ids if is_name(name))
    return "\n".join(part for part in (title, key, *tags, *names) if part)


async def remove_expired(
    tx: Transaction, tenant_id: UUID, kind: Literal["memory", "message"], *, at: datetime, count: int
) -> int:
    """Remove up to `count` items that have expired at `at` from the index; return how many."""
    query = _QUERIES["delete_expired_documents"]
    rows = await tx.rows(query, tenant_id=tenant_id, kind=kind, at=at, count=count)
    await _insert_count_deltas(tx, tenant_id, rows)
    return len(rows)


async def _insert_count_deltas(tx: Transaction, tenant_id: UUID, removed_rows: Iterable[asyncpg.Record]) -> None:
    """Insert the decreases of the counts. The worker applies them, so that writers do not wait for one row."""
    lengths: dict[str, list[int]] = {}
    for row in removed_rows:
        if row["is_counted"]:
            lengths.setdefault(row["kind"], []).append(row["length"])
    rows = [
        {"removal_id": new_id(now()), "kind": kind, "documents": len(kind_lengths), "length": sum(kind_lengths)}
        for kind, kind_lengths in lengths.items()
    ]
    await tx.insert(_QUERIES["insert_removals"], tenant_id, rows)


async def _model_of_caller_vectors(
    tx: Transaction, tenant_id: UUID, documents: Sequence[Document]
) -> ActiveModel | None:
    """Return the model that the tenant searches; None without caller vectors. Raises DimensionsMismatch."""
    vectors = [document.embedding for document in documents if document.embedding is not None]
    model = await vector_columns.active_model(tx, tenant_id) if vectors else None
    for vector in vectors:
        vector_columns.require_dimensions(0 if model is None else model.dimensions, vector)
    return model


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
        "role": document.role,
        "speaker": document.speaker,
        "is_question": ends_with_question(document.text),
        "mentions_time": mentions_time(document.text),
        "expire_time": document.expire_time,
        "length": length,
        "revision": document.revision,
        "words_version": WORDS_VERSION,
    }


def is_name(text: str | None) -> bool:
    """Return whether an id or a name reads as a person's name, not as a number or a code."""
    return text is not None and len(text) <= _MAX_NAME_CHARACTERS and _NAME.fullmatch(text) is not None


def ends_with_question(text: str) -> bool:
    """Return whether a text ends with a question: an answer tends to follow it."""
    return _QUESTION.search(text[-_READ_CHARACTERS:]) is not None


def mentions_time(text: str) -> bool:
    """Return whether a text has an expression of time: a date, a weekday, "last week"."""
    text = text[:_READ_CHARACTERS]
    if _NUMBER.search(text) or (not text.isascii() and _SIGNS.search(text)):
        return True
    return not _WORDS.isdisjoint(_LETTERS.findall(text.casefold()))
