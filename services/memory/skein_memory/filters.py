"""What a list of memories is restricted to, and how it is read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self
from uuid import UUID

from skein_kit.ids import EPOCH, first_id, time_of
from skein_kit.wire import moment
from skein_memory import wire
from skein_memory.memories import MAX_AHEAD, speaking_of

if TYPE_CHECKING:
    from skein.memory.v1 import memory_pb2 as pb

_MILLISECOND = timedelta(milliseconds=1)
_NO_ID = UUID(int=0)
# Planning a query costs some 0.1 ms for each month that it may touch, so the newest are asked first.
_SPANS = (timedelta(days=62), timedelta(days=366))


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """The conditions of a list; None does not restrict."""

    # One type is asked for by itself: it is read in order from the index of types.
    type: str | None
    types: list[str] | None
    tags_any: list[str] | None
    tags_all: list[str] | None
    agent_id: str | None
    subject_id: str | None
    session_id: str | None
    scopes: list[str] | None
    source: str | None
    start_time: datetime | None
    end_time: datetime | None
    min_importance: float | None
    key: str | None
    show_archived: bool
    show_deleted: bool

    @classmethod
    def of(cls, request: pb.ListMemoriesRequest) -> Self:
        """Read the conditions of a request."""
        asked = request.filter
        with speaking_of("filter"):
            start_time, end_time = moment(asked, "start_time"), moment(asked, "end_time")
        return cls(
            type=asked.types[0] if len(asked.types) == 1 else None,
            types=list(asked.types) if len(asked.types) > 1 else None,
            tags_any=list(asked.tags_any) or None,
            tags_all=sorted(set(asked.tags_all)) or None,
            agent_id=asked.agent_id or None,
            subject_id=asked.subject_id or None,
            session_id=asked.session_id or None,
            scopes=[wire.SCOPES[scope] for scope in asked.scopes if scope in wire.SCOPES] or None,
            source=asked.source or None,
            start_time=start_time,
            end_time=end_time,
            min_importance=asked.min_importance or None,
            key=asked.key or None,
            show_archived=request.show_archived,
            show_deleted=request.show_deleted,
        )

    @property
    def tags(self) -> list[str]:
        """Return every tag that is spoken of; empty when tags do not matter."""
        return sorted({*(self.tags_all or ()), *(self.tags_any or ())})

    @property
    def one_tag_is_enough(self) -> bool:
        """Say whether any of the tags spoken of lets a memory pass."""
        return self.tags_all is None or (len(self.tags_all) == 1 and self.tags_any is None)

    def spans(self, after: UUID | None, at: datetime) -> Iterator[tuple[UUID, UUID]]:
        """Yield ranges of ids, lower end inclusive, upper exclusive, newest first, that hold all that may pass.

        `after` is the last id of the page before. No memory lies further ahead of `at` than MAX_AHEAD.
        """
        lowest = _NO_ID if self.start_time is None else first_id(self.start_time)
        end = at + 2 * MAX_AHEAD
        if self.end_time is not None and self.end_time < end:
            # Ids carry milliseconds: what was created in the last one is held against end_time itself.
            end = self.end_time + _MILLISECOND
        before = first_id(end) if after is None else min(after, first_id(end))
        for span in _SPANS:
            since = max(time_of(before) - span, EPOCH)
            from_id = max(lowest, first_id(since))
            if from_id < before:
                yield from_id, before
            before = min(before, from_id)
        if lowest < before:
            yield lowest, before
