"""Sessions and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

from skein.session.v1 import session_pb2 as pb
from skein_kit.errors import FieldInvalid
from skein_kit.filters.json_properties import extract_properties
from skein_kit.ids import new_id
from skein_kit.rpc.well_known_types import json_text, read_time, updated_fields
from skein_session.sessions.convert import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skein_kit.filters.json_properties import Property
    from skein_kit.rpc.row_times import ImportTimes

DEFAULT_TYPE = "conversation"
# Characters of a title that is taken from the first user message.
MAX_AUTOMATIC_TITLE = 100
# A time further ahead would sort before every row written until then.
MAX_CLOCK_SKEW = timedelta(minutes=5)
UPDATABLE = frozenset({"title", "state", "session_type", "subject_id", "agent_id", "metadata", "summary"})
# The states that updates may set; the others have RPCs of their own.
_SETTABLE_STATES = (pb.SESSION_STATE_ACTIVE, pb.SESSION_STATE_PAUSED, pb.SESSION_STATE_COMPLETED)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDraft:
    """The validated content of a session to be created. `metadata` is JSON text."""

    session_id: str
    title: str | None
    state: str
    session_type: str
    subject_id: str | None
    agent_id: str | None
    metadata: str | None
    # Values of the metadata that lists can filter by.
    properties: frozenset[Property]
    summary: str | None
    create_time: datetime
    update_time: datetime

    @classmethod
    def of(cls, session: pb.Session, *, at: datetime, agent_id: str = "", times: ImportTimes | None = None) -> Self:
        """Read a request at the time `at`; `agent_id` is the default agent. Raises FieldInvalid.

        `times` are those that an import keeps.
        """
        create_time = read_time(session, "create_time") or at
        if create_time > at + MAX_CLOCK_SKEW:
            raise FieldInvalid(violations=[("session.create_time", "lies in the future")])
        metadata = json_text(session, "metadata")
        return cls(
            session_id=session.session_id or str(new_id(at)),
            title=session.title or None,
            state=_settable_state(session.state or pb.SESSION_STATE_ACTIVE),
            session_type=session.session_type or DEFAULT_TYPE,
            subject_id=session.subject_id or None,
            agent_id=session.agent_id or agent_id or None,
            metadata=metadata,
            properties=extract_properties({"metadata": metadata}, owner="session"),
            summary=session.summary or None,
            create_time=create_time,
            update_time=times.update_time if times else create_time,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionChange:
    """An update of a session; only the values of `fields` take effect."""

    session_id: str
    # 0 for any revision.
    revision: int
    fields: frozenset[str]
    title: str | None
    state: str | None
    session_type: str
    subject_id: str | None
    agent_id: str | None
    metadata: str | None
    # Values of the metadata that lists can filter by.
    properties: frozenset[Property]
    summary: str | None

    @classmethod
    def of(cls, request: pb.UpdateSessionRequest) -> Self:
        """Read an update; without a mask an unset state is kept. Raises FieldInvalid."""
        session = request.session
        if not session.session_id:
            raise FieldInvalid(violations=[("session.session_id", "names the session to update")])
        fields = updated_fields(request.update_mask, UPDATABLE)
        if not request.update_mask.paths and not session.state:
            fields -= {"state"}
        metadata = json_text(session, "metadata")
        return cls(
            session_id=session.session_id,
            revision=session.revision,
            fields=fields,
            title=session.title or None,
            state=_settable_state(session.state) if "state" in fields else None,
            session_type=session.session_type or DEFAULT_TYPE,
            subject_id=session.subject_id or None,
            agent_id=session.agent_id or None,
            metadata=metadata,
            properties=extract_properties({"metadata": metadata}, owner="session"),
            summary=session.summary or None,
        )


def _settable_state(state: pb.SessionState) -> str:
    if state not in _SETTABLE_STATES:
        raise FieldInvalid(violations=[("session.state", "must be active, paused or completed")])
    return STATES[state]


def default_title(messages: Sequence[pb.Message]) -> str | None:
    """Return the default title of a session: the start of its first user message; None without one."""
    for message in messages:
        if message.role == pb.MESSAGE_ROLE_USER and message.content.strip():
            return message.content.strip()[:MAX_AUTOMATIC_TITLE]
    return None
