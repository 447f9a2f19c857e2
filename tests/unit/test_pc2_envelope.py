"""The orchestrator's payloads as messages of the public RPCs, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from fix_catalogue import over
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_kit import errors as service_errors
from skein_kit.calls.call import status_metadata
from skein_pc2.envelope import convert as wire
from skein_pc2.envelope.dialect import SearchRequest
from skein_pc2.envelope.request import Request
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError, to_request_error
from skein_pc2.protocol.frames import repeat_key

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def memory(**payload: Any) -> memory_pb2.Memory:
    return wire.parse_create({"memory_type": "context", "content": {"text": "a"}, **payload}, session_id="", at=AT)


@over("priority", range(1, 11))
def test_a_priority_comes_back_as_it_was(priority: int) -> None:
    assert wire.memory_data(memory(priority=priority))["priority"] == priority


def test_priorities_one_and_ten_are_the_bounds_of_importance() -> None:
    assert (memory(priority=1).importance, memory(priority=10).importance) == (0.0, 1.0)


def test_a_ttl_is_a_time_from_now() -> None:
    assert wire.memory_data(memory(ttl=90.5))["expires_at"] == "2026-01-02T03:05:35.500Z"
    assert wire.memory_data(memory())["expires_at"] is None


def test_content_may_be_a_text_alone() -> None:
    stored = wire.parse_create({"memory_type": "context", "content": "only words"}, session_id="s", at=AT)

    assert (stored.content, stored.session_id) == ("only words", "s")
    assert wire.memory_data(stored)["content"]["text"] == "only words"


def test_a_text_changed_by_another_client_is_returned() -> None:
    stored = memory(content={"text": "before", "room": "kitchen"})
    stored.content = "after"

    assert wire.memory_data(stored)["content"]["text"] == "after"
    assert wire.memory_data(stored)["content"]["room"] == "kitchen"


def test_spaces_around_a_text_are_returned() -> None:
    stored = memory(content={"text": " a "})
    stored.content = "a"

    assert wire.memory_data(stored)["content"]["text"] == " a "


@over(
    "content",
    [
        {"text": "a", "role": "user", "timestamp": "2026-01-02T03:04:05"},
        {"text": "a", "source_agent": "x", "metadata": {"n": 1}},
        {"text": "a", "source_agent": None, "metadata": {}},
        {"text": "a", "source_agent": "", "metadata": None},
        {"text": "", "history": [1, {"de": "Tee"}]},
        {"history": []},
    ],
)
def test_a_content_is_returned_as_it_was_sent(content: dict[str, Any]) -> None:
    assert wire.memory_data(memory(content=content))["content"] == content


def test_content_without_a_text_needs_data() -> None:
    assert wire.memory_data(memory(content={"state": {"volume": 3}}))["content"]["state"] == {"volume": 3}
    with pytest.raises(RequestError):
        memory(content={"source_agent": "x", "metadata": {"a": 1}})


@over(
    ("given", "type_"), [("user_preference", "user_preference"), ("User-Preference", "user_preference"), ("a b", "a_b")]
)
def test_a_type_is_written_as_skein_writes_types(given: str, type_: str) -> None:
    assert memory(memory_type=given).type == type_


def test_tags_are_unique_and_in_order() -> None:
    assert list(memory(tags=["b", "a", "b", ""]).tags) == ["b", "a"]


def test_repeat_keys_are_equal_for_repeats_alone() -> None:
    request = {"request_id": "r", "timestamp": "2023-06-15T08:30:45.123Z", "payload": {"content": {"text": "é"}}}

    first = repeat_key(request)

    assert repeat_key(dict(reversed(request.items()))) == first
    assert repeat_key({**request, "timestamp": "2023-06-15T08:30:49.123Z"}) == first
    assert repeat_key({**request, "request_id": "s"}) != first
    assert repeat_key({**request, "payload": {}}) != first
    assert repeat_key({**request, "request_id": ""}) == ""


@over("request_id", ["", "r"])
def test_ids_have_the_protocols_form(request_id: str) -> None:
    message = {"action": "create", "request_id": request_id}
    request = Request.of(message, request_id="r", deadline=0)

    assert len(request.new_id("mem")) == len(wire.new_memory_id()) == len("mem-") + 16
    assert (request.new_id("mem") == request.new_id("mem")) is bool(request_id)


def test_only_a_search_by_meaning_has_a_threshold() -> None:
    def threshold(**payload: Any) -> float:
        return SearchRequest({"query": "q", **payload}, session_id="s").recall_request().min_similarity

    assert threshold(search_type="semantic") == pytest.approx(0.7)
    assert threshold(search_type="semantic", filters={"min_similarity": 0.3}) == pytest.approx(0.3)
    assert threshold(search_type="keyword") == 0
    assert threshold(filters={"min_similarity": 0.9}) == 0


def test_search_times_are_read_in_any_usual_form() -> None:
    time_range = {"start": "2026-01-02T03:04:05", "end": 1767323045}
    search_ids = (
        SearchRequest({"query": "q", "filters": {"time_range": time_range}}, session_id="s").recall_request().filter
    )

    assert search_ids.start_time.ToDatetime(tzinfo=UTC) == AT
    assert search_ids.end_time.ToDatetime(tzinfo=UTC) == AT


def test_keyword_hits_pass_the_threshold_of_a_hybrid_search() -> None:
    def hit(name: str, *, similarity: float | None, has_query_words: bool) -> recall_pb2.Hit:
        memory = memory_pb2.Memory(memory_id=name, importance=0.5)
        return recall_pb2.Hit(score=0.5, similarity=similarity, has_query_words=has_query_words, memory=memory)

    response = recall_pb2.RecallResponse(
        hits=[
            hit("alike", similarity=0.9, has_query_words=False),
            hit("neither", similarity=0.6, has_query_words=False),
            hit("literal", similarity=None, has_query_words=True),
        ]
    )

    def search_ids(**filters: Any) -> list[str]:
        results = SearchRequest({"query": "q", "filters": filters}, session_id="s").results(response)
        return [result["memory_id"] for result in results]

    assert search_ids(min_similarity=0.7) == ["alike", "literal"]
    assert search_ids() == ["alike", "neither", "literal"]


@over(
    "payload",
    [
        {"memory_type": None},
        {"memory_type": ""},
        {"content": None},
        {"content": []},
        {"content": {"text": "a", "metadata": [1]}},
        {"content": {"text": "a", "source_agent": 1}},
        {"priority": 0},
        {"priority": 5.5},
        {"priority": True},
        {"ttl": 0},
        {"ttl": "60"},
        {"ttl": 10**400},
        {"tags": [1]},
        {"tags": {"a": 1}},
        {"memory_type": "1x"},
        {"memory_type": "x" * 65},
    ],
)
def test_an_invalid_payload_is_a_validation_error(payload: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as error_info:
        memory(**payload)

    assert error_info.value.code == "validation_error"


@over(
    "filters",
    [
        {"limit": "5"},
        {"min_similarity": 2},
        {"time_range": [1]},
        {"time_range": {"start": "yesterday"}},
        {"time_range": {"start": True}},
        {"time_range": {"end": 1e30}},
        {"time_range": {"end": "0001-01-01T00:00:00+14:00"}},
        {"memory_types": [5]},
    ],
)
def test_an_invalid_filter_is_a_validation_error(filters: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as error_info:
        SearchRequest({"query": "q", "filters": filters}, session_id="s")

    assert error_info.value.code == "validation_error"


@over(
    ("service_error", "code"),
    [
        (service_errors.FieldInvalid(violations=[("memory.tags", "too many")]), "validation_error"),
        (service_errors.PermissionMissing(permission="memory.read"), "permission_denied"),
        (service_errors.CredentialExpired(), "permission_denied"),
        (service_errors.DatabaseBusy(), "search_error"),
        (service_errors.DeadlineExceeded(), "search_error"),
        (service_errors.MessageTooLarge(), "validation_error"),
        (service_errors.InternalError(), "internal_error"),
    ],
)
def test_service_errors_become_codes_of_the_protocol(service_error: service_errors.RpcError, code: str) -> None:
    status = service_error.status()
    error = aio.AioRpcError(
        service_error.code, aio.Metadata(), aio.Metadata(*status_metadata(status)), details=status.message
    )

    request_error = to_request_error(error, transient_code="search_error")

    assert (request_error.code, request_error.message) == (code, service_error.message)
    assert request_error.details["reason"] == service_error.reason


def test_texts_of_the_transport_are_not_in_replies() -> None:
    error = aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), details="failed to connect to 10.1.2.3:50050"
    )

    request_error = to_request_error(error, transient_code="storage_error")

    assert request_error.code == "storage_error"
    assert "10.1.2.3" not in request_error.message


@over(
    "read",
    [
        lambda half: wire.parse_memory_id({"memory_id": half}),
        lambda half: SearchRequest({"query": "tea", "filters": {"tags": [half]}}, session_id="s"),
        lambda half: SearchRequest({"query": half}, session_id="s").recall_request(),
        lambda half: wire.parse_create(
            {"memory_type": "context", "content": "tea", "tags": [half]}, session_id="", at=AT
        ),
    ],
)
def test_half_a_surrogate_pair_is_rejected_in_every_field(read: Callable[[str], object]) -> None:
    with pytest.raises(RequestError) as error_info:
        read("\ud800")

    assert error_info.value.code == VALIDATION_ERROR
