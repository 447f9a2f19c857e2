from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from skein.memory.v1 import memory_pb2 as pb
from skein_worker.extraction.drafts import Origin, request_of
from skein_worker.extraction.model import Message
from skein_worker.extraction.rules import extract

ZONE = ZoneInfo("Europe/Berlin")
TEXT = "Hi! I've been living in Taipei since 2019."
MESSAGE = Message(text=TEXT, speaker="Mira", time=datetime(2026, 3, 11, 10, tzinfo=ZONE), zone=ZONE)
ORIGIN = Origin(
    message_id="m",
    revision=1,
    session_id="s",
    subject_id="mira",
    agent_id="",
    change_time="t",
    is_of_person=True,
    is_new=True,
)


def request(origin: Origin = ORIGIN) -> pb.BatchCreateMemoriesRequest:
    return request_of(MESSAGE, origin, extract(MESSAGE).facts)


def test_a_fact_lies_where_its_message_lies_and_names_the_characters_that_say_it() -> None:
    (memory,) = request().memories

    (source,) = memory.derived_from
    assert (memory.subject_id, memory.session_id, memory.scope) == ("mira", "s", pb.SCOPE_USER)
    assert TEXT[source.start_character : source.end_character] == memory.content
    assert memory.content == "I've been living in Taipei since 2019"


def test_a_fact_is_true_since_the_day_that_is_said() -> None:
    (memory,) = request().memories

    assert memory.valid_from_time.ToDatetime(tzinfo=ZONE).date().isoformat() == "2019-01-01"


def test_the_same_revision_of_a_message_gives_the_same_request_and_another_one_another() -> None:
    assert request().request_id == request().request_id
    assert request(replace(ORIGIN, revision=2)).request_id != request().request_id


def test_what_an_assistant_says_stays_in_its_session_without_a_key() -> None:
    (memory,) = request(replace(ORIGIN, is_of_person=False)).memories

    assert (memory.scope, memory.key) == (pb.SCOPE_SESSION, "")


def test_a_fact_with_a_key_has_the_type_whose_keys_are_unique() -> None:
    message = replace(MESSAGE, text="I really like cilantro.")

    (memory,) = request_of(message, ORIGIN, extract(message).facts).memories

    assert (memory.type, memory.key) == ("fact", "taste:cilantro")


def test_a_message_that_is_read_again_takes_no_key_from_another_fact() -> None:
    assert request().on_conflict == pb.ON_CONFLICT_SUPERSEDE
    assert request(replace(ORIGIN, is_new=False)).on_conflict == pb.ON_CONFLICT_RETURN
