"""Agent states and the rules they obey. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from asyncpg import Record

from skein_kit.errors import FieldInvalid, RevisionStale
from skein_kit.ids import EPOCH
from skein_kit.json_values import exact
from skein_kit.json_values.exact import MAX_JSON_BYTES
from skein_kit.rpc.row_times import ImportTimes
from skein_session.errors import AgentStateExists, AgentStateNotFound


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentStatePut:
    """A state to store, in place of the current one or merged into it."""

    agent_id: str
    # Empty for a state outside of sessions.
    session_id: str
    # JSON text of an object.
    state_data: str
    is_merge: bool
    must_not_exist: bool
    # 0 for any revision.
    revision: int
    # None never expires; in a merge None keeps the current time.
    expire_time: datetime | None
    at: datetime
    principal: str
    # Times that an import keeps.
    times: ImportTimes | None = None

    def apply_to(self, current: Record | Mapping[str, Any] | None) -> dict[str, object]:
        """Return the columns to store in place of those of the current state; an expired state counts as none.

        Raises AgentStateExists, AgentStateNotFound and RevisionStale when the current state is not the expected one.
        """
        active = None if current is None or is_expired(current, self.at) else current
        if active is not None and self.must_not_exist:
            raise AgentStateExists(revision=active["revision"])
        if self.revision:
            if active is None:
                raise AgentStateNotFound
            if self.revision != active["revision"]:
                raise RevisionStale(requested=self.revision, current=active["revision"])
        state_data, expire_time = self.state_data, self.expire_time
        if self.is_merge and active is not None:
            state_data = merge_patch(active["state_data"], self.state_data)
            expire_time = self.expire_time or active["expire_time"]
        elif self.is_merge:
            state_data = merge_patch("{}", self.state_data)
        create_time = self.times.create_time if self.times else self.at
        return {
            "agent_id": self.agent_id,
            "session_id": self.session_id,
            "state_data": state_data,
            "revision": first_revision(self.at) if current is None else current["revision"] + 1,
            "expire_time": expire_time,
            "create_time": create_time if active is None else active["create_time"],
            "update_time": self.times.update_time if self.times else self.at,
            "created_by": self.principal if active is None else active["created_by"],
            "updated_by": self.principal,
        }


def is_expired(state: Record | Mapping[str, Any], at: datetime) -> bool:
    """Return whether a state, by its columns, has expired."""
    return state["expire_time"] is not None and state["expire_time"] <= at


def first_revision(at: datetime) -> int:
    """Return the first revision of a state: higher than that of any earlier state under the same keys."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def merge_patch(document: str, patch: str) -> str:
    """Apply a JSON Merge Patch (RFC 7396): a member replaces, null removes, objects are merged recursively.

    All are JSON text. Raises FieldInvalid when the result is longer than a state may be.
    """
    text = exact.dumps(_patch(exact.loads(document), exact.loads(patch)))
    if len(text.encode()) > MAX_JSON_BYTES:
        raise FieldInvalid(
            violations=[("state.state_data", f"must merge into at most {MAX_JSON_BYTES // 1024} KiB of JSON")]
        )
    return text


def _patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _patch(result.get(name), value)
    return result
