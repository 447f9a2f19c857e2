"""Filters of session lists, and cursors over sessions that change during the listing. No SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self
from uuid import UUID

from skein_kit.errors import PageTokenInvalid
from skein_kit.filters.json_properties import Property
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_session.sessions.model import DEFAULT_TYPE, HIDDEN

# As many as a request may have and the list queries have parameters for.
MAX_PROPERTIES = 5
# The passes as page tokens name them.
_FIRST_PASS, _SECOND_PASS = "first", "again"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionFilter:
    """Conditions that every listed session meets; None restricts nothing."""

    # None: every state but hidden.
    states: list[str] | None
    session_type: str | None
    subject_id: str | None
    agent_id: str | None
    start_time: datetime | None
    end_time: datetime | None
    properties: Sequence[Property]

    def conditions(self) -> dict[str, object]:
        """Return the query parameters that each scanned session is compared with."""
        conditions: dict[str, object] = {
            "current": self.states is None or self.states != [HIDDEN],
            "hidden": self.states is not None and HIDDEN in self.states,
            "states": self.states,
            "session_type": self.session_type,
            "subject_id": self.subject_id,
            "agent_id": self.agent_id,
            "start_time": self.start_time,
            "end_time": self.end_time,
        }
        properties = [*self.properties, *[(None, None)] * (MAX_PROPERTIES - len(self.properties))]
        for number, (path, value) in enumerate(properties, 1):
            conditions |= {f"path_{number}": path, f"value_{number}": value}
        return conditions

    def scan_source(self, session_ids_with_property: list[str] | None) -> Mapping[str, object]:
        """Return the query parameters that choose the narrowest index to scan.

        `session_ids_with_property` are all sessions with a rare property; None when no property is rare.
        """
        source: dict[str, object] = dict.fromkeys(("of_session_ids", "of_subject_id", "of_agent_id", "of_session_type"))
        if session_ids_with_property is not None:
            return source | {"of_session_ids": session_ids_with_property}
        if self.subject_id is not None:
            return source | {"of_subject_id": self.subject_id}
        if self.agent_id is not None:
            return source | {"of_agent_id": self.agent_id}
        if self.session_type not in {None, DEFAULT_TYPE}:
            return source | {"of_session_type": self.session_type}
        return source


@dataclass(frozen=True, kw_only=True, slots=True)
class ListCursor:
    """The position of a listing of sessions, newest update first.

    An update moves a session to the front of the list, before the pages that are read already. Therefore a second pass
    follows a first pass of several pages. It reads sessions updated after the first pass began (`newest_update_time`)
    and created before (`start_time`), in the order of their ids, which no update changes. So the listing misses no
    session, and it ends at any rate of updates and creations.
    """

    # The last session scanned by the first pass, with its space; None at its start and in the second pass.
    after: tuple[datetime, str, UUID] | None = None
    # The newest update when the first pass began.
    newest_update_time: datetime | None = None
    # When the first page was read.
    start_time: datetime | None = None
    # The last session scanned by the second pass, "" at its start; None in the first pass.
    after_id: str | None = None
    after_space_id: UUID = DEFAULT_SPACE

    @classmethod
    def of(cls, token: Sequence[str] | None) -> Self:
        """Read the position in a page token. Raises PageTokenInvalid."""
        if token is None:
            return cls()
        try:
            pass_name, time, session_id, space_id, newest_update_time, start_time = token
            if pass_name not in {_FIRST_PASS, _SECOND_PASS}:
                raise PageTokenInvalid
            return cls(
                after=(_parse_time(time), session_id, UUID(space_id)) if pass_name == _FIRST_PASS else None,
                newest_update_time=_parse_time(newest_update_time),
                start_time=_parse_time(start_time),
                after_id=session_id if pass_name == _SECOND_PASS else None,
                after_space_id=UUID(space_id) if pass_name == _SECOND_PASS else DEFAULT_SPACE,
            )
        except (ValueError, OverflowError):
            raise PageTokenInvalid from None

    @property
    def is_second_pass(self) -> bool:
        """Whether the first pass is complete."""
        return self.after_id is not None

    def to_page_token(self) -> list[str]:
        """Return the parts of the page token."""
        times = [time.isoformat() if time else "" for time in (self.newest_update_time, self.start_time)]
        if self.after is not None:
            return [_FIRST_PASS, self.after[0].isoformat(), self.after[1], str(self.after[2]), *times]
        return [_SECOND_PASS, "", self.after_id or "", str(self.after_space_id), *times]

    def advance(
        self,
        time: datetime | None,
        session_id: str,
        space_id: UUID,
        *,
        newest_update_time: datetime | None,
        at: datetime,
    ) -> ListCursor:
        """Return the cursor after a session of a space; `newest_update_time` and `at` are those of the first page."""
        if self.is_second_pass or time is None:
            return ListCursor(
                newest_update_time=self.newest_update_time,
                start_time=self.start_time,
                after_id=session_id,
                after_space_id=space_id,
            )
        return ListCursor(
            after=(time, session_id, space_id),
            newest_update_time=self.newest_update_time or newest_update_time,
            start_time=self.start_time or at,
        )

    def second_pass(self) -> ListCursor:
        """Return the start of the second pass."""
        return ListCursor(newest_update_time=self.newest_update_time, start_time=self.start_time, after_id="")


def _parse_time(text: str) -> datetime:
    """Parse a time of a page token. Raises OverflowError for a time outside of UTC's calendar."""
    return datetime.fromisoformat(text).astimezone(UTC)
