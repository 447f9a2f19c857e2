"""Agent states and short-term items, and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from skein.session.v1 import states_pb2 as pb
from skein_kit.errors import FieldInvalid, PageTokenInvalid, RevisionStale
from skein_kit.ids import EPOCH
from skein_kit.json_values import exact
from skein_kit.json_values.exact import MAX_JSON_BYTES
from skein_kit.rpc.row_times import ImportTimes
from skein_kit.rpc.well_known_types import json_text, read_time
from skein_session.errors import AgentStateExists, AgentStateNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from google.protobuf.message import Message

DEFAULT_ITEM_TTL = timedelta(days=1)
MAX_ITEM_TTL = timedelta(days=30)
MIN_TTL = timedelta(seconds=1)
# Items of one session, those included that have expired and are not removed yet.
MAX_ITEMS = 1000
# A time further ahead is a slip of the pen.
_MAX_STATE_TTL = timedelta(days=36_525)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredAgentState:
    """A state as it is stored. `state_data` is JSON text."""

    state_data: str
    revision: int
    expire_time: datetime | None
    create_time: datetime
    created_by: str

    def over(self, at: datetime) -> bool:
        """Say whether it has expired."""
        return self.expire_time is not None and self.expire_time <= at


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentStatePut:
    """A state to store, in place of the one that is there or merged into it."""

    agent_id: str
    # Empty: in no session.
    session_id: str
    # JSON text of an object.
    state_data: str
    merges: bool
    must_not_exist: bool
    # 0: whatever is current.
    revision: int
    # None: for good, but for a merge, which leaves the time as it is.
    expire_time: datetime | None
    at: datetime
    by: str
    # None: it is put there now.
    times: ImportTimes | None = None

    @classmethod
    def of(
        cls,
        request: pb.PutAgentStateRequest,
        *,
        at: datetime,
        by: str,
        agent_id: str = "",
        times: ImportTimes | None = None,
    ) -> Self:
        """Read a request at the time `at`; `agent_id` stands in for an agent that is not named.

        `times` are those that an import keeps; it may put a state there that has expired.
        """
        state = request.state
        if not (state.agent_id or agent_id):
            raise FieldInvalid(violations=[("state.agent_id", "says whose state it is")])
        if not state.HasField("state_data"):
            raise FieldInvalid(violations=[("state.state_data", "is the state: a JSON object, perhaps an empty one")])
        if request.must_not_exist and state.revision:
            raise FieldInvalid(violations=[("must_not_exist", "contradicts the revision given")])
        return cls(
            agent_id=state.agent_id or agent_id,
            session_id=state.session_id,
            state_data=json_text(state, "state_data") or "{}",
            merges=request.mode == pb.STATE_MODE_MERGE,
            must_not_exist=request.must_not_exist,
            revision=state.revision,
            expire_time=_end_of_state(request, at),
            at=at,
            by=by,
            times=times,
        )

    def onto(self, current: StoredAgentState | None) -> dict[str, object]:
        """Return the columns to store, given what is there; an expired state counts as none.

        Raises AgentStateExists, AgentStateNotFound and RevisionStale where what is there is not what was expected.
        """
        standing = None if current is None or current.over(self.at) else current
        if standing is not None and self.must_not_exist:
            raise AgentStateExists(revision=standing.revision)
        if self.revision:
            if standing is None:
                raise AgentStateNotFound
            if self.revision != standing.revision:
                raise RevisionStale(given=self.revision, current=standing.revision)
        state_data, expire_time = self.state_data, self.expire_time
        if self.merges and standing is not None:
            state_data = merge_patch(standing.state_data, self.state_data)
            expire_time = self.expire_time or standing.expire_time
        elif self.merges:
            state_data = merge_patch("{}", self.state_data)
        first = self.times.create_time if self.times else self.at
        return {
            "agent_id": self.agent_id,
            "session_id": self.session_id,
            "state_data": state_data,
            "revision": first_revision(self.at) if current is None else current.revision + 1,
            "expire_time": expire_time,
            "create_time": first if standing is None else standing.create_time,
            "update_time": self.times.update_time if self.times else self.at,
            "created_by": self.by if standing is None else standing.created_by,
            "updated_by": self.by,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemPut:
    """A value to store under a key of a session. `value` is JSON text."""

    session_id: str
    key: str
    value: str
    expire_time: datetime
    times: ImportTimes

    @classmethod
    def of(cls, request: pb.PutItemRequest, *, at: datetime, times: ImportTimes | None = None) -> Self:
        """Read a request at the time `at`; `times` are those that an import keeps."""
        if not request.HasField("value") or request.value.WhichOneof("kind") is None:
            raise FieldInvalid(violations=[("value", "is any JSON value, null included")])
        lifetime = _lifetime(request, "ttl", MAX_ITEM_TTL) or DEFAULT_ITEM_TTL
        expire_time = read_time(request, "expire_time") if request.keep_times else None
        if expire_time is not None and expire_time > at + MAX_ITEM_TTL:
            raise FieldInvalid(violations=[("expire_time", f"lies more than {MAX_ITEM_TTL.days} days ahead")])
        return cls(
            session_id=request.session_id,
            key=request.key,
            value=json_text(request, "value") or "null",
            expire_time=expire_time or at + lifetime,
            times=times or ImportTimes(create_time=at, update_time=at),
        )


def keys_from_page_token(place: Sequence[str] | None) -> tuple[str, str]:
    """Read the names that a page token says a list goes on after; nothing comes before the first page's."""
    if place is None:
        return "", ""
    try:
        first, second = place
    except ValueError:
        raise PageTokenInvalid from None
    return first, second


def first_revision(at: datetime) -> int:
    """Return the revision that a state begins with: later than any that one of the same name had before."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def merge_patch(document: str, patch: str) -> str:
    """Apply a JSON Merge Patch (RFC 7396): members given replace, null removes, objects are merged in turn.

    All are JSON text. Raises FieldInvalid when more comes out than a state may hold.
    """
    text = exact.dumps(_patched(exact.loads(document), exact.loads(patch)))
    if len(text.encode()) > MAX_JSON_BYTES:
        raise FieldInvalid(
            violations=[("state.state_data", f"makes a state of more than {MAX_JSON_BYTES // 1024} KiB of JSON")]
        )
    return text


def _patched(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _patched(result.get(name), value)
    return result


def _end_of_state(request: pb.PutAgentStateRequest, at: datetime) -> datetime | None:
    expire_time = read_time(request.state, "expire_time")
    lifetime = _lifetime(request, "ttl", _MAX_STATE_TTL)
    if lifetime is None:
        if expire_time is not None and expire_time <= at and not request.keep_times:
            raise FieldInvalid(violations=[("state.expire_time", "lies in the past")])
        return expire_time
    if expire_time is not None:
        raise FieldInvalid(violations=[("ttl", "and expire_time are two ways to say the same: give one")])
    return at + lifetime


def _lifetime(request: Message, field: str, most: timedelta) -> timedelta | None:
    """Read an optional Duration within bounds; None when unset."""
    if not request.HasField(field):
        return None
    try:
        lifetime: timedelta = getattr(request, field).ToTimedelta()
    except (ValueError, OverflowError):
        raise FieldInvalid(violations=[(field, "is not a valid duration")]) from None
    if not MIN_TTL <= lifetime <= most:
        raise FieldInvalid(violations=[(field, f"must be between 1 second and {most.days} days")])
    return lifetime
