"""Merges of agent states and what a put expects of the state that is there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from skein.session.v1 import states_pb2 as pb
from skein_kit.errors import FieldInvalid, PageTokenInvalid, RevisionStale
from skein_kit.rpc.row_times import ImportTimes
from skein_session.agent_states.convert import agent_state_put
from skein_session.agent_states.model import (
    AgentStatePut,
    first_revision,
    merge_patch,
)
from skein_session.errors import AgentStateExists, AgentStateNotFound
from skein_session.export.model import ExportPosition
from skein_session.items.convert import item_put
from skein_session.page_tokens import keys_from_page_token

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
TIMES = ImportTimes(create_time=NOW, update_time=NOW)
SCALARS = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
)
DOCUMENTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=4)


def merge(document: object, patch: object) -> object:
    payload: object = json.loads(merge_patch(json.dumps(document), json.dumps(patch)))
    return payload


def without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


# The examples of RFC 7396, appendix A, whose documents are objects.
@over(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_does_what_the_rfc_shows(document: object, patch: object, result: object) -> None:
    assert merge(document, patch) == result


@pytest.mark.system
@given(DOCUMENTS, DOCUMENTS)
def test_a_merge_repeated_changes_nothing_more(document: object, patch: object) -> None:
    once = merge(document, patch)

    assert merge(once, patch) == once


@pytest.mark.system
@given(DOCUMENTS)
def test_an_empty_patch_changes_nothing_and_a_patch_of_nothing_is_itself_without_nulls(document: object) -> None:
    assert merge(document, {}) == document
    assert merge({}, document) == without_nulls(document)


def put(**fields: object) -> AgentStatePut:
    defaults: dict[str, object] = {
        "agent_id": "a", "session_id": "", "state_data": '{"n":2}', "is_merge": False, "must_not_exist": False,
        "revision": 0, "expire_time": None, "at": NOW, "principal": "me",
    }  # fmt: skip
    return AgentStatePut(**{**defaults, **fields})  # type: ignore[arg-type]  # As the dataclass has them.


def current(revision: int = 7, expire_time: datetime | None = None) -> dict[str, Any]:
    before = NOW - timedelta(hours=1)
    return {
        "state_data": '{"m":1}',
        "revision": revision,
        "expire_time": expire_time,
        "create_time": before,
        "created_by": "her",
    }


def test_a_put_keeps_who_made_a_state_and_counts_on() -> None:
    columns = put().apply_to(current())

    assert (columns["revision"], columns["created_by"], columns["updated_by"]) == (8, "her", "me")
    assert columns["state_data"] == '{"n":2}'
    assert put(is_merge=True).apply_to(current())["state_data"] == '{"m":1,"n":2}'


def test_an_expired_state_counts_as_none_but_for_its_revision() -> None:
    over = current(expire_time=NOW)

    columns = put(is_merge=True, must_not_exist=True).apply_to(over)

    assert (columns["state_data"], columns["revision"], columns["created_by"]) == ('{"n":2}', 8, "me")
    with pytest.raises(AgentStateNotFound):
        put(revision=7).apply_to(over)


def test_a_put_checks_the_expected_state() -> None:
    assert put(revision=7).apply_to(current())["revision"] == 8
    with pytest.raises(RevisionStale):
        put(revision=6).apply_to(current())
    with pytest.raises(AgentStateExists):
        put(must_not_exist=True).apply_to(current())
    with pytest.raises(AgentStateNotFound):
        put(revision=1).apply_to(None)


def test_a_merge_without_a_time_leaves_the_time_and_a_replacement_ends_it() -> None:
    end = NOW + timedelta(hours=1)

    assert put(is_merge=True).apply_to(current(expire_time=end))["expire_time"] == end
    assert put().apply_to(current(expire_time=end))["expire_time"] is None


def test_a_later_state_begins_with_a_later_revision() -> None:
    assert first_revision(NOW) < first_revision(NOW + timedelta(milliseconds=1))


def test_an_agent_that_is_not_named_is_the_callers_own() -> None:
    request = pb.PutAgentStateRequest(state=pb.AgentState(state_data=Struct()))

    assert agent_state_put(request, at=NOW, principal="me", agent_id="own").agent_id == "own"
    with pytest.raises(FieldInvalid):
        agent_state_put(request, at=NOW, principal="me")


def test_the_lifetime_of_an_item_has_bounds() -> None:
    request = pb.PutSessionItemRequest(session_id="s", key="k")
    request.value.string_value = "x"

    assert item_put(request, at=NOW, times=TIMES).expire_time == NOW + timedelta(days=1)
    for seconds in (0, 30 * 86_400 + 1):
        request.ttl.CopyFrom(Duration(seconds=seconds))
        with pytest.raises(FieldInvalid):
            item_put(request, at=NOW, times=TIMES)


def test_a_forged_place_is_refused() -> None:
    for token in ([], ["sessions"], ["sessions", "", "", "x"], ["nowhere", "", "", ""]):
        with pytest.raises(PageTokenInvalid):
            ExportPosition.of(token)
    for after in ("x", "-1", str(2**63)):
        with pytest.raises(PageTokenInvalid):
            _ = ExportPosition("messages", "s", after).sequence
    with pytest.raises(PageTokenInvalid):
        _ = ExportPosition("elsewhere", "", "x").message_id
    with pytest.raises(PageTokenInvalid):
        keys_from_page_token(["only one"])
