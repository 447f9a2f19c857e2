"""A tenant's documents and postings as arrays: the words of a query are searched and measured in them. No SQL.

Rows are documents. A new version of a document gets a row of its own, and the old row is dead. The rows of a term are
an array, as it was loaded, and a list of those added since. The documents of a session are linked in the order of their
ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import numpy as np

from skein_recall.search.query_terms import K1, TITLE_WEIGHT, B, ItemMeasurements, corrected_items

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from skein_recall.search.query_terms import QueryTerms
    from skein_recall.vector_cache.store import TransactionHorizon

    _Rows = NDArray[np.intp]

MEMORY, MESSAGE = "memory", "message"
# Memory of a row, of a posting and of a term, about.
_ROW_BYTES, _POSTING_BYTES, _TERM_BYTES = 350, 8, 200
# Fewer dead rows, and added postings, slow down no search.
_MIN_WORN_ROWS, _MIN_WORN_POSTINGS = 256, 5000
# The row before the first document of a session, and after the last one.
_NONE = -1
# A posting as the database sends it.
_SENT_POSTING = np.dtype([("high", ">u8"), ("low", ">u8"), ("frequency", ">i4"), ("header_frequency", ">i4")])


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedDocument:
    """A document as a search measures it."""

    item_id: UUID
    kind: str
    # In stems.
    length: int
    session_id: str | None
    is_question: bool
    is_assistant: bool
    mentions_time: bool
    # The transaction that wrote it.
    transaction: int


class TermPostings(NamedTuple):
    """The documents that have a term: arrays (n,), by row."""

    # int32.
    rows: NDArray[np.int32]
    # uint16: counts in the text, and in the header.
    frequencies: NDArray[np.uint16]
    header_frequencies: NDArray[np.uint16]

    def of_mask(self, mask: NDArray[np.bool_]) -> TermPostings:
        """Return the postings where a mask (n,) is true."""
        return TermPostings(self.rows[mask], self.frequencies[mask], self.header_frequencies[mask])

    def with_more(self, more: TermPostings) -> TermPostings:
        """Return these postings and more."""
        return TermPostings(
            np.concatenate((self.rows, more.rows)),
            np.concatenate((self.frequencies, more.frequencies)),
            np.concatenate((self.header_frequencies, more.header_frequencies)),
        )


@dataclass(slots=True)
class _AddedPostings:
    """The postings of a term that were added after the load."""

    rows: list[int] = field(default_factory=list)
    frequencies: list[int] = field(default_factory=list)
    header_frequencies: list[int] = field(default_factory=list)


class _Columns:
    """The columns of the rows, with room for more."""

    def __init__(self, capacity: int) -> None:
        # The id, in two halves.
        self.high = np.zeros(capacity, dtype=np.uint64)
        self.low = np.zeros(capacity, dtype=np.uint64)
        self.lengths = np.zeros(capacity, dtype=np.int32)
        self.transactions = np.zeros(capacity, dtype=np.int64)
        self.sessions = np.full(capacity, _NONE, dtype=np.int32)
        self.previous = np.full(capacity, _NONE, dtype=np.int32)
        self.following = np.full(capacity, _NONE, dtype=np.int32)
        self.is_message = np.zeros(capacity, dtype=np.bool_)
        self.is_question = np.zeros(capacity, dtype=np.bool_)
        self.is_assistant = np.zeros(capacity, dtype=np.bool_)
        self.mentions_time = np.zeros(capacity, dtype=np.bool_)
        self.is_alive = np.zeros(capacity, dtype=np.bool_)

    def grow(self, capacity: int) -> None:
        """Make room for so many rows."""
        larger = _Columns(capacity)
        for name, column in vars(self).items():
            getattr(larger, name)[: len(column)] = column
        self.__dict__.update(vars(larger))


class TermTable:
    """The documents of one tenant that its database has. Methods change it in place, on the event loop."""

    def __init__(self, horizon: TransactionHorizon, read_time: float) -> None:
        """Make an empty table. Documents of transactions below the horizon are loaded, later ones are added."""
        self.horizon = horizon
        # By the clock of the cache.
        self.read_time = read_time
        self.item_ids: list[UUID] = []
        # The living row of each document.
        self.row_of: dict[UUID, int] = {}
        # Transactions of the documents at the horizon and later.
        self.changed: dict[UUID, int] = {}
        # Documents and their length of each kind.
        self._documents = {MEMORY: 0, MESSAGE: 0}
        self._lengths = {MEMORY: 0, MESSAGE: 0}
        self._columns = _Columns(0)
        self._count = 0
        self._dead_count = 0
        self._session_codes: dict[str, int] = {}
        # The last row of each session.
        self._last_rows: list[int] = []
        self._loaded: dict[str, TermPostings] = {}
        self._loaded_count = 0
        self._added: dict[str, _AddedPostings] = {}
        self._added_count = 0

    @property
    def byte_size(self) -> int:
        """Its memory in bytes, about."""
        postings = self._loaded_count + 4 * self._added_count
        terms = len(self._loaded) + len(self._added)
        return _ROW_BYTES * len(self._columns.high) + _POSTING_BYTES * postings + _TERM_BYTES * terms

    @property
    def is_worn(self) -> bool:
        """Whether so many rows are dead or were added that loading all again makes searches faster."""
        return self._dead_count > max(_MIN_WORN_ROWS, self._count // 4) or self._added_count > max(
            _MIN_WORN_POSTINGS, self._loaded_count // 2
        )

    def has_totals(self, totals: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether the documents of each kind are as many, and as long together, as these totals."""
        return all(
            totals.get(kind, (0, 0)) == (self._documents[kind], self._lengths[kind]) for kind in (MEMORY, MESSAGE)
        )

    def load_documents(self, documents: Sequence[CachedDocument]) -> None:
        """Add documents, those before the horizon alone, in the order of their ids. Their postings follow."""
        for document in documents:
            if document.transaction < self.horizon.transaction:
                self._add_row(document)

    def load_postings(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Add whole terms with their postings, as `postings_after` sends them, of the documents loaded before."""
        if not self._count:
            return
        order = np.lexsort((self._columns.low[: self._count], self._columns.high[: self._count]))
        high = self._columns.high[order]
        for term, sent in rows:
            postings = np.frombuffer(sent, dtype=_SENT_POSTING)
            sent_high, sent_low = postings["high"].astype(np.uint64), postings["low"].astype(np.uint64)
            # Ids of one millisecond may share their first half: the search goes on from there by the second one.
            places = np.minimum(np.searchsorted(high, sent_high), self._count - 1)
            found = order[places]
            is_same = (self._columns.high[found] == sent_high) & (self._columns.low[found] == sent_low)
            for index in np.flatnonzero(~is_same).tolist():
                row = self._row_of_halves(int(sent_high[index]), int(sent_low[index]))
                if row is not None:
                    found[index], is_same[index] = row, True
            rows_of_term = found[is_same].astype(np.int32)
            if len(rows_of_term):
                self._loaded[term] = TermPostings(
                    rows_of_term,
                    postings["frequency"][is_same].astype(np.uint16),
                    postings["header_frequency"][is_same].astype(np.uint16),
                )
                self._loaded_count += len(rows_of_term)

    def put(self, document: CachedDocument, terms: Sequence[str], counts: Sequence[tuple[int, int]]) -> None:
        """Add or replace a document of a transaction at the horizon or later, with its terms and their counts."""
        self.remove(document.item_id)
        row = self._add_row(document)
        self.changed[document.item_id] = document.transaction
        for term, (frequency, header_frequency) in zip(terms, counts, strict=True):
            added = self._added.setdefault(term, _AddedPostings())
            added.rows.append(row)
            added.frequencies.append(frequency)
            added.header_frequencies.append(header_frequency)
        self._added_count += len(terms)

    def remove(self, item_id: UUID) -> None:
        """Remove a document, if it is there."""
        self.changed.pop(item_id, None)
        row = self.row_of.pop(item_id, None)
        if row is None:
            return
        columns = self._columns
        columns.is_alive[row] = False
        self._dead_count += 1
        kind = self._kind(row)
        self._documents[kind] -= 1
        self._lengths[kind] -= int(columns.lengths[row])
        before, after = int(columns.previous[row]), int(columns.following[row])
        if before != _NONE:
            columns.following[before] = after
        if after != _NONE:
            columns.previous[after] = before
        elif columns.sessions[row] != _NONE:
            self._last_rows[int(columns.sessions[row])] = before

    def remove_missing(self, present: bytes) -> None:
        """Remove the documents that are not among some, as `list_document_ids` sends them."""
        halves = np.frombuffer(present, dtype=">u8").astype(np.uint64).reshape(-1, 2)
        columns, end = self._columns, self._count
        # Halves of two ids look like one that is present. The totals show it, should that ever happen.
        is_present = np.isin(columns.high[:end], halves[:, 0]) & np.isin(columns.low[:end], halves[:, 1])
        for row in np.flatnonzero(columns.is_alive[:end] & ~is_present).tolist():
            self.remove(self.item_ids[row])

    def advance(self, horizon: TransactionHorizon) -> None:
        """Set a later horizon, up to which every document is in the table."""
        self.horizon = horizon
        self.changed = {id_: number for id_, number in self.changed.items() if number >= horizon.transaction}

    def count(self, term: str, kinds: Sequence[str]) -> int:
        """Return the number of documents of some kinds that have a term."""
        return len(self._postings(term, kinds).rows)

    def match(
        self, weights: Mapping[str, float], mean_length: float, kinds: Sequence[str], count: int
    ) -> list[tuple[UUID, float]]:
        """Return up to `count` documents, the best by BM25 first, as match_terms computes it; equal ones by id."""
        scores = np.zeros(self._count)
        per_stem = K1 * B / mean_length
        free = 0.225 + self._columns.lengths[: self._count] * per_stem
        for term, weight in weights.items():
            postings = self._postings(term, kinds)
            frequencies = postings.frequencies.astype(np.float64) + postings.header_frequencies
            # A document has a term once, so no row is there twice.
            scores[postings.rows] += weight * frequencies / (frequencies + free[postings.rows])
        scores *= 1.9
        rows = np.flatnonzero(scores)
        if len(rows) > count:
            kth = np.partition(scores[rows], len(rows) - count)[len(rows) - count]
            rows = rows[scores[rows] >= kth]
        best = rows[np.lexsort((self._columns.low[rows], self._columns.high[rows], -scores[rows]))][:count]
        return [(self.item_ids[row], score) for row, score in zip(best.tolist(), scores[best].tolist(), strict=True)]

    def measure(
        self,
        terms: QueryTerms,
        kinds: Sequence[str],
        item_ids: Iterable[UUID],
        centres: Iterable[UUID],
        titles: Mapping[str, AbstractSet[str]],
        *,
        reach: int,
        changed_since: int | None,
    ) -> ItemMeasurements:
        """Measure documents and their neighbours as `QueryTransaction.measure` does, without the backlog.

        `titles` has the sessions whose title has a term. Documents of the transaction `changed_since` or a later one
        count as changed.
        """
        columns, row_of = self._columns, self.row_of
        rows_of_items = [row for item_id in item_ids if (row := row_of.get(item_id)) is not None]
        rows_of_centres = [row for item_id in centres if (row := row_of.get(item_id)) is not None]
        later, former = self._neighbours(np.array(rows_of_centres, dtype=np.intp), reach)
        rows = np.unique(np.concatenate((np.array(rows_of_items, dtype=np.intp), later, former)))
        rows = rows[self._mask(rows, kinds)]
        rows = rows[np.lexsort((columns.low[rows], columns.high[rows]))]
        counts, header_counts = np.zeros((2, len(rows), len(terms.counts)))
        place_of = np.full(self._count, _NONE, dtype=np.int32)
        place_of[rows] = np.arange(len(rows))
        sessions = columns.sessions[rows]
        for column, term in enumerate(terms.counts):
            postings = self._postings(term, kinds)
            places = place_of[postings.rows]
            is_measured = places != _NONE
            places = places[is_measured]
            counts[places, column] = postings.frequencies[is_measured]
            header_counts[places, column] = postings.header_frequencies[is_measured]
            codes = [self._session_codes[id_] for id_ in titles.get(term, ()) if id_ in self._session_codes]
            if codes:
                header_counts[np.isin(sessions, codes), column] += TITLE_WEIGHT
        previous = np.full(len(rows), _NONE, dtype=np.intp)
        places, places_before = place_of[later], place_of[former]
        is_measured = (places != _NONE) & (places_before != _NONE)
        previous[places[is_measured]] = places_before[is_measured]
        frequencies = terms.frequencies(counts)
        ids = [self.item_ids[row] for row in rows.tolist()]
        return ItemMeasurements(
            item_ids=ids,
            kinds=[MESSAGE if is_message else MEMORY for is_message in columns.is_message[rows].tolist()],
            lengths=columns.lengths[rows].astype(np.float64),
            is_question=columns.is_question[rows],
            is_assistant=columns.is_assistant[rows],
            mentions_time=columns.mentions_time[rows],
            changed=columns.transactions[rows] >= changed_since
            if changed_since is not None
            else np.zeros(len(rows), dtype=np.bool_),
            frequencies=frequencies,
            header_frequencies=terms.frequencies(counts + header_counts) - frequencies,
            corrected=corrected_items(terms, ids, counts + header_counts),
            previous=previous,
            pending_count=0,
        )

    def unchanged_and_changed(self, item_ids: Sequence[UUID], horizon: int) -> tuple[list[UUID], list[UUID]]:
        """Return the documents that are there: those written before the transaction `horizon`, and the others."""
        known = [(item_id, row) for item_id in item_ids if (row := self.row_of.get(item_id)) is not None]
        transactions = self._columns.transactions[[row for _, row in known]] if known else _NO_ROWS
        unchanged: list[UUID] = []
        changed: list[UUID] = []
        for (item_id, _), is_unchanged in zip(known, (transactions < horizon).tolist(), strict=True):
            (unchanged if is_unchanged else changed).append(item_id)
        return unchanged, changed

    def kinds_of(self, item_ids: Iterable[UUID]) -> list[str]:
        """Return the kinds of documents that are there."""
        rows = [self.row_of[item_id] for item_id in item_ids]
        return [MESSAGE if is_message else MEMORY for is_message in self._columns.is_message[rows].tolist()]

    def _neighbours(self, centres: _Rows, reach: int) -> tuple[_Rows, _Rows]:
        """Return pairs of neighbours, up to `reach` before and after some rows: the later rows and the former ones."""
        later, former = [_NO_ROWS], [_NO_ROWS]
        before = after = centres
        for _ in range(reach):
            previous = self._columns.previous[before]
            following = self._columns.following[after]
            has_previous, has_following = previous != _NONE, following != _NONE
            later += [before[has_previous], following[has_following].astype(np.intp)]
            before, after = previous[has_previous].astype(np.intp), following[has_following].astype(np.intp)
            former += [before, self._columns.previous[after].astype(np.intp)]
        return np.concatenate(later), np.concatenate(former)

    def _postings(self, term: str, kinds: Sequence[str]) -> TermPostings:
        """Return the postings of living documents of some kinds."""
        postings = self._loaded.get(term)
        if (added := self._added.get(term)) is not None:
            parts = TermPostings(
                np.array(added.rows, dtype=np.int32),
                np.array(added.frequencies, dtype=np.uint16),
                np.array(added.header_frequencies, dtype=np.uint16),
            )
            postings = parts if postings is None else postings.with_more(parts)
        if postings is None:
            return _NO_POSTINGS
        if self._dead_count or self._mixes_kinds(kinds):
            postings = postings.of_mask(self._mask(postings.rows, kinds))
        return postings

    def _mixes_kinds(self, kinds: Sequence[str]) -> bool:
        """Return whether there are documents of another kind than these."""
        return any(self._documents[kind] for kind in (MEMORY, MESSAGE) if kind not in kinds)

    def _mask(self, rows: NDArray[np.integer], kinds: Sequence[str]) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self._columns.is_alive[rows]
        if self._mixes_kinds(kinds):
            is_message = self._columns.is_message[rows]
            mask &= (is_message & (MESSAGE in kinds)) | (~is_message & (MEMORY in kinds))
        return mask

    def _add_row(self, document: CachedDocument) -> int:
        row, columns = self._count, self._columns
        if row == len(columns.high):
            columns.grow(max(256, row + row // 8))
        high, low = divmod(document.item_id.int, 1 << 64)
        columns.high[row], columns.low[row] = high, low
        columns.lengths[row] = document.length
        columns.transactions[row] = document.transaction
        columns.is_message[row] = document.kind == MESSAGE
        columns.is_question[row] = document.is_question
        columns.is_assistant[row] = document.is_assistant
        columns.mentions_time[row] = document.mentions_time
        columns.is_alive[row] = True
        self.item_ids.append(document.item_id)
        self.row_of[document.item_id] = row
        self._documents[document.kind] += 1
        self._lengths[document.kind] += document.length
        self._count += 1
        if document.session_id is not None:
            self._link(row, document.session_id)
        return row

    def _link(self, row: int, session_id: str) -> None:
        """Link a row to its session's rows, which are in the order of their ids. Most are the last of theirs."""
        columns = self._columns
        code = self._session_codes.setdefault(session_id, len(self._session_codes))
        if code == len(self._last_rows):
            self._last_rows.append(_NONE)
        columns.sessions[row] = code
        before, after = self._last_rows[code], _NONE
        while before != _NONE and self.item_ids[before] > self.item_ids[row]:
            before, after = int(columns.previous[before]), before
        columns.previous[row], columns.following[row] = before, after
        if before != _NONE:
            columns.following[before] = row
        if after == _NONE:
            self._last_rows[code] = row
        else:
            columns.previous[after] = row

    def _row_of_halves(self, high: int, low: int) -> int | None:
        return self.row_of.get(UUID(int=(high << 64) | low))

    def _kind(self, row: int) -> str:
        return MESSAGE if self._columns.is_message[row] else MEMORY


_NO_ROWS = np.empty(0, dtype=np.intp)
_NO_POSTINGS = TermPostings(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint16), np.empty(0, dtype=np.uint16))
