"""Webhooks: what they wait for, how long a failed delivery waits, and how it is signed."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import webhooks_pb2 as pb
from skein_kit.errors import FieldInvalid, RpcError
from skein_memory.errors import EventTypeUnknown
from skein_memory.events.model import EVENT_TYPES
from skein_memory.webhooks import rpc as webhooks_convert
from skein_memory.webhooks.model import (
    INITIAL_BACKOFF,
    MAX_ATTEMPTS,
    MAX_BACKOFF,
    MAX_DESTINATION_BACKOFF,
    WebhookDraft,
    body_of,
    destination_pauses,
    headers_of,
    is_healthy,
    jitter,
    retry_delay,
    secret_text,
    signature_of,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)


def draft(**values: object) -> WebhookDraft:
    fields: dict[str, object] = {"display_name": "w", "event_types": ["*"], "webhook_url": "https://example.com/"}
    return webhooks_convert.read_draft(pb.Webhook(**(fields | values)))  # type: ignore[arg-type]


def test_a_delivery_is_signed_as_the_standard_s_example_is() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    key = base64.b64decode(secret.removeprefix("whsec_"))

    signature = signature_of(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert secret_text(key) == secret


def test_a_delivery_tried_again_has_the_same_id_and_a_signature_of_its_time() -> None:
    delivery_id, body = uuid4(), b"{}"

    first, again = (headers_of(b"k" * 32, delivery_id, body, at) for at in (AT, AT + timedelta(seconds=9)))

    assert first["webhook-id"] == again["webhook-id"] == str(delivery_id)
    assert first["webhook-signature"] != again["webhook-signature"]


def test_a_delivery_names_its_event_and_its_entity() -> None:
    webhook_id = uuid4()
    event = {"event_type": "memory_created", "entity_type": "memory", "entity_id": "m", "summary": "s", "payload": {}}

    payload = json.loads(body_of(webhook_id, event, AT))

    assert payload == {
        "type": "memory_created",
        "timestamp": AT.isoformat(),
        "data": {"webhook_id": str(webhook_id), **event, "created_at": AT.isoformat()},
    }


@given(attempts=st.integers(1, 1000), chance=st.floats(0, 1))
def test_a_pause_is_never_nothing_and_never_longer_than_the_longest(attempts: int, chance: float) -> None:
    assert INITIAL_BACKOFF * 0.2 <= retry_delay(attempts, chance) <= MAX_BACKOFF


@given(chance=st.floats(0, 1))
def test_pauses_grow(chance: float) -> None:
    pauses = [retry_delay(attempts, chance) for attempts in range(1, MAX_ATTEMPTS)]

    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1]


@given(chance=st.floats(0, 1))
def test_the_pauses_of_a_destination_grow_up_to_the_longest(chance: float) -> None:
    pauses = destination_pauses(chance)

    assert pauses == sorted(pauses)
    assert pauses[0] == INITIAL_BACKOFF * jitter(chance)
    assert pauses[-1] == MAX_DESTINATION_BACKOFF * jitter(chance)


def test_a_webhook_waits_for_the_types_that_it_names_or_for_all() -> None:
    assert draft().matches_type("memory_created")
    assert draft(event_types=["memory_created"]).matches_type("memory_created")
    assert not draft(event_types=["memory_created"]).matches_type("memory_deleted")


@over("values", [{"display_name": ""}, {"event_types": []}, {"webhook_url": ""}])
def test_a_webhook_without_a_name_a_type_or_a_place_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(FieldInvalid):
        draft(**values)


def test_a_webhook_for_what_never_happens_is_refused() -> None:
    with pytest.raises(EventTypeUnknown) as caught:
        draft(event_types=["memory_created", "memory_crated"])

    ((field, error_text),) = caught.value.violations
    assert field == "event_types"
    assert error_text.startswith("'memory_crated' is no event type")
    # The message names the valid types.
    assert all(name in error_text for name in EVENT_TYPES)
    assert len(error_text) < 1000


def test_a_webhook_with_a_condition_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(RpcError):
        draft(where="type = ")


@over(("status", "expected"), [(200, True), (404, True), (429, False), (500, False), (503, False), (None, False)])
def test_a_destination_that_fails_or_limits_the_rate_gets_a_pause(status: int | None, *, expected: bool) -> None:
    assert is_healthy(status) == expected
