"""Checks items that a text has: which of them changed, are outdated, or are no longer the reader's to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import EPOCH
from skein_recall.search.filter import Filter
from skein_recall.search.model import SearchOptions
from skein_recall.search.store import QueryStore, QueryTransaction
from skein_recall.vector_cache.item_ids import to_uuids

if TYPE_CHECKING:
    from skein_recall.search.model import ItemRow


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownItem:
    """An item that a text has."""

    item_id: UUID
    # "memory" or "message".
    kind: str
    revision: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedItem:
    """An item that is not as it was known."""

    item_id: UUID
    state: pb.KnownItemState
    kind: str = ""
    # As it is, if it was changed.
    row: ItemRow | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """Who reads the text: the conditions of a filter, and a session whose messages the reader may see."""

    filter: Filter
    subject_id: str
    session_id: str

    def sees_by_session(self, row: ItemRow) -> bool:
        """Return whether an item is a message of the session, about the reader's subject or about none."""
        if not self.session_id or "message_id" not in row or row["session_id"] != self.session_id:
            return False
        return not self.subject_id or row["subject_id"] in (None, self.subject_id)


class KnownItems:
    """Checks items in the present."""

    def __init__(self, store: QueryStore) -> None:
        self._store = store

    async def check(
        self, tenant_id: UUID, items: Sequence[KnownItem], reader: Reader, at: datetime
    ) -> list[CheckedItem]:
        """Return those of some items that are not as they were known."""
        kinds = {item.item_id: item.kind for item in items}
        async with self._store.transaction(tenant_id, SearchOptions()) as tx:
            rows = await tx.items(kinds, at, show_superseded=False)
            missing = {id_: kind for id_, kind in kinds.items() if id_ not in rows and kind == "memory"}
            # At that time nothing has expired yet.
            outdated = await tx.items(missing, EPOCH, show_superseded=True) if missing else {}
            visible_ids = await _visible_ids(tx, reader, {**rows, **outdated}, kinds)
        checked = []
        for item in items:
            row = rows.get(item.item_id)
            outdated_row = outdated.get(item.item_id)
            if item.item_id not in visible_ids:
                checked.append(CheckedItem(item_id=item.item_id, state=pb.KNOWN_ITEM_STATE_GONE))
            elif row is not None and row["revision"] != item.revision:
                checked.append(
                    CheckedItem(item_id=item.item_id, state=pb.KNOWN_ITEM_STATE_CHANGED, kind=item.kind, row=row)
                )
            elif outdated_row is not None:
                checked.append(CheckedItem(item_id=item.item_id, state=_outdated_state(outdated_row, at)))
        return checked


async def _visible_ids(
    tx: QueryTransaction, reader: Reader, rows: Mapping[UUID, ItemRow], kinds: Mapping[UUID, str]
) -> set[UUID]:
    """Return which of some items the reader may see."""
    trusted = [id_ for id_, row in rows.items() if reader.filter.admits_trust_of(row)]
    if not reader.filter.has_index_conditions or not trusted:
        return set(trusted)
    passing = await tx.filter_candidates(reader.filter, sorted({kinds[id_] for id_ in trusted}), trusted)
    return {*to_uuids(passing), *(id_ for id_ in trusted if reader.sees_by_session(rows[id_]))}


def _outdated_state(row: ItemRow, at: datetime) -> pb.KnownItemState:
    times = (row["expire_time"], row["valid_to_time"])
    if any(time is not None and time <= at for time in times):
        return pb.KNOWN_ITEM_STATE_EXPIRED
    return pb.KNOWN_ITEM_STATE_SUPERSEDED
