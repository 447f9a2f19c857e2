from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_calls import stamp, struct
from fix_catalogue import over
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import (
    ContentEmpty,
    FieldInvalid,
    RpcError,
    TextNotStorable,
)
from skein_memory.errors import MemoryNotFound
from skein_memory.memories import convert as memories_convert
from skein_memory.memories.model import Draft, Memory, create_memories, documents_of
from skein_memory.validation import MEMORIES

NOW = datetime(2026, 5, 17, 12, 0, 0, 123456, tzinfo=UTC)


def draft_of(**fields: Any) -> Draft:
    return memories_convert.draft(pb.Memory(**{"content": "tea", **fields}), at=NOW, max_content=100)


def memory_of(**fields: Any) -> Memory:
    (memory,) = create_memories([draft_of(**fields)], at=NOW, by="api_key:1")
    return memory


def test_zero_is_a_confidence_and_an_importance() -> None:
    draft = draft_of(confidence=0.0, importance=0.0)

    assert (draft.confidence, draft.importance) == (0.0, 0.0)


def test_spaces_around_content_are_removed_and_those_within_stay() -> None:
    assert draft_of(content=" \n  two  words\t\u2003").content == "two  words"


@over("content", ["", "   ", "\n\t\u00a0\u2003"])
def test_content_of_spaces_is_empty(content: str) -> None:
    with pytest.raises(ContentEmpty):
        draft_of(content=content)


def test_data_may_stand_for_content() -> None:
    assert draft_of(content="", data=struct(a=1)).data == '{"a":1}'


def test_an_empty_object_does_not_stand_for_content() -> None:
    with pytest.raises(ContentEmpty):
        draft_of(content="", data=Struct())


@over(
    "fields",
    [
        {"content": "a\0b"},
        {"title": "\0"},
        {"key": "a\0"},
        {"external_id": "\0a"},
        {"session_id": "a\0"},
        {"tags": ["fine", "not\0fine"]},
        {"data": struct(a=["\0"])},
        {"data": struct(**{"a\0": 1})},
        {"metadata": struct(a="\\\0")},
    ],
)
def test_a_nul_character_is_refused_wherever_it_is(fields: dict[str, Any]) -> None:
    with pytest.raises(TextNotStorable):
        draft_of(**fields)


def test_text_that_only_looks_like_an_escaped_nul_is_kept() -> None:
    assert draft_of(data=struct(a="\\u0000", b="\\\\u0000")).data is not None


def test_json_has_no_infinity() -> None:
    with pytest.raises(FieldInvalid):
        draft_of(data=struct(a=float("inf")))


def test_a_source_too_long_for_an_index_is_refused() -> None:
    assert draft_of(source="s" * 1000).source == "s" * 1000
    with pytest.raises(FieldInvalid):
        draft_of(source="語" * 1000)


def test_a_fact_may_be_valid_before_1970() -> None:
    draft = draft_of(valid_from_time=stamp(datetime(1912, 6, 23, tzinfo=UTC)))

    assert draft.valid_from_time == datetime(1912, 6, 23, tzinfo=UTC)


def test_validity_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(FieldInvalid):
        draft_of(valid_from_time=stamp(NOW), valid_to_time=stamp(NOW - timedelta(seconds=1)))


def test_validity_may_end_when_it_begins() -> None:
    assert draft_of(valid_from_time=stamp(NOW), valid_to_time=stamp(NOW)).valid_to_time == NOW


def test_a_memory_of_the_future_is_refused_but_for_what_clocks_differ() -> None:
    assert draft_of(create_time=stamp(NOW + timedelta(minutes=5))).create_time == NOW + timedelta(minutes=5)
    with pytest.raises(FieldInvalid):
        draft_of(create_time=stamp(NOW + timedelta(minutes=6)))


def test_a_memory_from_before_ids_began_is_refused() -> None:
    with pytest.raises(FieldInvalid):
        draft_of(create_time=Timestamp(seconds=-1))


def test_the_text_is_title_key_and_content() -> None:
    assert draft_of(title="T", key="k", content="c").text == "T\nk\nc"
    assert draft_of(content="c").text == "c"


def test_the_hash_is_of_type_and_text() -> None:
    assert draft_of(type="fact", content=" tea ").content_hash == hashlib.sha256(b"fact\ntea").digest()


def test_ids_keep_the_order_of_a_batch_within_one_time_and_follow_time_otherwise() -> None:
    millisecond = NOW.replace(microsecond=123000)
    later_within = stamp(millisecond + timedelta(microseconds=900))
    messages = [
        pb.Memory(content="1"),
        pb.Memory(content="old", create_time=stamp(datetime(1999, 1, 1, tzinfo=UTC))),
        pb.Memory(content="3", create_time=later_within),
        pb.Memory(content="2"),
    ]
    drafts = memories_convert.drafts(messages, MEMORIES, at=NOW, max_content=100, agent_id="")

    memories = create_memories(drafts, at=NOW, by="x")

    by_id = sorted(memories, key=lambda memory: memory.memory_id)
    assert [memory.draft.content for memory in by_id] == ["old", "1", "2", "3"]
    assert [memory.draft.content for memory in memories] == ["1", "old", "3", "2"]


def test_a_batch_says_which_memory_is_at_fault() -> None:
    messages = [pb.Memory(content="fine"), pb.Memory(content="x", valid_to_time=Timestamp(nanos=-1))]

    with pytest.raises(RpcError) as caught:
        memories_convert.drafts(messages, MEMORIES, at=NOW, max_content=100, agent_id="")

    assert caught.value.metadata["index"] == "1"
    assert caught.value.violations[0][0] == "memories[1].valid_to_time"


def test_a_key_of_notes_may_come_twice_in_a_batch() -> None:
    messages = [pb.Memory(content="1", key="a"), pb.Memory(content="2", key="a")]

    assert len(memories_convert.drafts(messages, MEMORIES, at=NOW, max_content=100, agent_id="")) == 2


def test_the_index_knows_only_what_may_be_recalled() -> None:
    memory = memory_of()
    hidden = [
        memory.delete(at=NOW, by="x"),
        memory_of(archive_time=stamp(NOW)),
        memory_of(expire_time=stamp(NOW)),
    ]

    assert documents_of([memory, *hidden], at=NOW) == [memory.document(NOW)]


def test_a_document_carries_the_text_and_every_filter() -> None:
    memory = memory_of(
        title="T", key="k", type="fact", scope=pb.SCOPE_USER, source="s", importance=0.9, agent_id="a", tags=["hot"],
        subject_id="u", session_id="c", expire_time=stamp(NOW + timedelta(days=1)),
    )  # fmt: skip

    document = memory.document(NOW)

    assert document is not None
    assert (document.item_id, document.kind, document.text) == (memory.memory_id, "memory", "tea")
    assert (document.header, document.embedded_text) == ("T\nk\nhot\nu\na", "u: T\nk\ntea")
    assert (document.type, document.scope, document.source, document.key) == ("fact", "user", "s", "k")
    assert (document.importance, document.agent_id, document.subject_id) == (0.9, "a", "u")
    assert (document.session_id, document.expire_time) == ("c", NOW + timedelta(days=1))


@over(
    ("subject_id", "content", "embedded_text"),
    [
        ("Marta", "Keeps bees.", "Marta: Keeps bees."),
        ("Marta", "MARTA keeps bees.", "MARTA keeps bees."),
        ("Al", "Also keeps bees.", "Al: Also keeps bees."),
        ("Anna-Lena Berg", "Keeps bees.", "Anna-Lena Berg: Keeps bees."),
        ("user-4711", "Keeps bees.", "Keeps bees."),
        ("x" * 65, "Keeps bees.", "Keeps bees."),
    ],
)
def test_a_subject_that_is_a_name_precedes_a_text_that_lacks_it(
    subject_id: str, content: str, embedded_text: str
) -> None:
    document = memory_of(subject_id=subject_id, content=content).document(NOW)

    assert document is not None
    assert document.embedded_text == embedded_text


def test_every_change_is_a_revision_with_its_author() -> None:
    memory = memory_of()

    deleted = memory.delete(at=NOW + timedelta(seconds=1), by="api_key:2")

    assert (deleted.revision, deleted.created_by, deleted.updated_by) == (2, "api_key:1", "api_key:2")
    assert deleted.update_time == deleted.delete_time == NOW + timedelta(seconds=1)


def test_a_deleted_memory_is_as_if_it_were_not_there() -> None:
    with pytest.raises(MemoryNotFound):
        memory_of().delete(at=NOW, by="x").check_visible(NOW)


def test_a_memory_on_the_wire_reads_back_as_it_was() -> None:
    memory = memory_of(
        external_id="e", type="fact", title="T", key="k", content="c", data=struct(a=[1, None, {"b": "ü"}]),
        tags=["z", "a"], source="s", source_agent="sa", agent_id="a", subject_id="u", session_id="c",
        scope=pb.SCOPE_SESSION, level=pb.LEVEL_STRATEGIC, confidence=0.25, importance=1.0,
        expire_time=stamp(NOW), archive_time=stamp(NOW), valid_from_time=stamp(NOW), valid_to_time=stamp(NOW),
        metadata=struct(m=True), create_time=stamp(NOW),
    )  # fmt: skip

    assert memories_convert.draft(memories_convert.memory(memory), at=NOW, max_content=100) == memory.draft
