"""Lists of sessions: what is asked for, and where a walk over sessions that change meanwhile goes on. No SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from skein_kit.errors import PageTokenInvalid
from skein_kit.filters import json_properties as properties
from skein_kit.rpc.well_known_types import read_time
from skein_session.sessions import convert as wire
from skein_session.sessions.lifecycle import ARCHIVED
from skein_session.sessions.model import DEFAULT_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skein.session.v1 import session_pb2 as pb
    from skein_kit.filters.json_properties import Property

# As many as one question may name, and the statements ask for.
MAX_PROPERTIES = 5
_FIRST, _AGAIN = "first", "again"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionFilter:
    """Which sessions are asked for: all that meet every condition; None restricts nothing."""

    # None: every one but archived.
    states: list[str] | None
    session_type: str | None
    subject_id: str | None
    agent_id: str | None
    start_time: datetime | None
    end_time: datetime | None
    properties: Sequence[Property]

    @classmethod
    def of(cls, request: pb.ListSessionsRequest) -> Self:
        """Read a request."""
        states = {wire.STATES[state] for state in (*request.states, request.state) if state in wire.STATES}
        return cls(
            states=sorted(states) or None,
            session_type=request.session_type or None,
            subject_id=request.subject_id or None,
            agent_id=request.agent_id or None,
            start_time=read_time(request, "start_time", may_be_infinite=True),
            end_time=read_time(request, "end_time", may_be_infinite=True),
            properties=properties.parse_matches(request.properties),
        )

    def conditions(self) -> dict[str, object]:
        """Return what the statements hold against each session that they look at."""
        places: dict[str, object] = {
            "current": self.states is None or self.states != [ARCHIVED],
            "archived": self.states is not None and ARCHIVED in self.states,
            "states": self.states,
            "session_type": self.session_type,
            "subject_id": self.subject_id,
            "agent_id": self.agent_id,
            "start_time": self.start_time,
            "end_time": self.end_time,
        }
        given = [*self.properties, *[(None, None)] * (MAX_PROPERTIES - len(self.properties))]
        for number, (path, value) in enumerate(given, 1):
            places |= {f"path_{number}": path, f"value_{number}": value}
        return places

    def source(self, holders: list[str] | None) -> Mapping[str, object]:
        """Return what the sessions that are looked at are taken of: the narrowest that has an index.

        `holders` are all sessions with a property that is rare; None when none is.
        """
        source: dict[str, object] = dict.fromkeys(("of_session_ids", "of_subject_id", "of_agent_id", "of_session_type"))
        if holders is not None:
            return source | {"of_session_ids": holders}
        if self.subject_id is not None:
            return source | {"of_subject_id": self.subject_id}
        if self.agent_id is not None:
            return source | {"of_agent_id": self.agent_id}
        if self.session_type not in {None, DEFAULT_TYPE}:
            return source | {"of_session_type": self.session_type}
        return source


@dataclass(frozen=True, kw_only=True, slots=True)
class ListCursor:
    """Where a listing of sessions, newest update first, goes on.

    A session that is updated while somebody pages leaves its place for the front, which was read already. So a walk
    that took more than one page is followed by another over what was updated since it began (`top`) and was there when
    it began (`started`): in order of ids, which no update changes. So it misses nothing, and it ends, however fast
    sessions are updated and opened meanwhile.
    """

    # The last session looked at in the first pass; None at its start, and in the second.
    after: tuple[datetime, str] | None = None
    # The newest update when the first pass began.
    top: datetime | None = None
    # When the first page was read.
    started: datetime | None = None
    # The last session looked at in the second pass, "" at its start; None in the first.
    after_id: str | None = None

    @classmethod
    def of(cls, place: Sequence[str] | None) -> Self:
        """Read the place that a page token names."""
        if place is None:
            return cls()
        try:
            which, time, session_id, top, started = place
            if which not in {_FIRST, _AGAIN}:
                raise PageTokenInvalid
            return cls(
                after=(_time(time), session_id) if which == _FIRST else None,
                top=_time(top),
                started=_time(started),
                after_id=session_id if which == _AGAIN else None,
            )
        except (ValueError, OverflowError):
            raise PageTokenInvalid from None

    @property
    def is_again(self) -> bool:
        """Say whether this is the second pass."""
        return self.after_id is not None

    def place(self) -> list[str]:
        """Return what the page token must say, after the first page."""
        top, started = (time.isoformat() if time else "" for time in (self.top, self.started))
        if self.after is not None:
            return [_FIRST, self.after[0].isoformat(), self.after[1], top, started]
        return [_AGAIN, "", self.after_id or "", top, started]

    def onward(self, time: datetime | None, session_id: str, *, top: datetime | None, at: datetime) -> ListCursor:
        """Return where the next page of this pass begins: after this session. `top` is the newest of the first page."""
        if self.is_again or time is None:
            return ListCursor(top=self.top, started=self.started, after_id=session_id)
        return ListCursor(after=(time, session_id), top=self.top or top, started=self.started or at)

    def again(self) -> ListCursor:
        """Return the start of the second pass."""
        return ListCursor(top=self.top, started=self.started, after_id="")


def _time(text: str) -> datetime:
    """Read a time of a page token, which anybody may have written: some have no place in UTC's calendar."""
    return datetime.fromisoformat(text).astimezone(UTC)
