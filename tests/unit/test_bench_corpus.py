from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_cluster.bench.corpus import read_corpus
from skein_importers.records import RecordInvalid

TIME = "2026-03-02T07:12:00Z"
MESSAGE = {
    "kind": "message",
    "id": "m1",
    "session_id": "s1",
    "role": "user",
    "name": "Ann",
    "content": "Tea, please",
    "create_time": "2026-03-02T07:12:00Z",
}
MEMORY = {"kind": "memory", "id": "m2", "content": "Ann drinks tea."}
QUESTION: dict[str, Any] = {
    "kind": "question",
    "id": "q1",
    "query": "What does Ann drink?",
    "expected_ids": ["m1", "m2"],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "corpus.jsonl"


def write(path: Path, *lines: object) -> None:
    """Write lines; a text as it is, and everything else as JSON."""
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")


def test_ids_become_external_ids_and_names_and_times_are_kept(path: Path) -> None:
    memory = {**MEMORY, "title": "Drinks", "type": "fact", "tags": ["tea"], "agent_id": "a", "subject_id": "ann"}
    write(path, MESSAGE, "", {**memory, "session_id": "s1", "create_time": "2026-03-03T00:00:00Z"}, QUESTION)

    (group,) = read_corpus(path)

    (message,), (memory_read,) = group.messages, group.memories
    assert (message.external_id, message.session_id, message.name) == ("m1", "s1", "Ann")
    assert (message.role, message.content) == (session_pb2.MESSAGE_ROLE_USER, "Tea, please")
    assert message.create_time.ToDatetime(UTC) == datetime(2026, 3, 2, 7, 12, tzinfo=UTC)
    assert (memory_read.external_id, memory_read.content, memory_read.title) == ("m2", "Ann drinks tea.", "Drinks")
    assert (memory_read.type, list(memory_read.tags)) == ("fact", ["tea"])
    assert (memory_read.agent_id, memory_read.subject_id, memory_read.session_id) == ("a", "ann", "s1")
    assert memory_read.create_time.ToDatetime(UTC) == datetime(2026, 3, 3, tzinfo=UTC)


def test_questions_have_a_category_and_may_precede_their_answers(path: Path) -> None:
    write(path, {**QUESTION, "category": "drinks"}, {**QUESTION, "id": "q2", "expected_ids": []}, MESSAGE, MEMORY)

    (group,) = read_corpus(path)

    assert [(one.question_id, one.text, one.category, one.evidence) for one in group.questions] == [
        ("q1", "What does Ann drink?", "drinks", frozenset({"m1", "m2"})),
        ("q2", "What does Ann drink?", "other", frozenset()),
    ]


def test_groups_have_items_and_ids_of_their_own(path: Path) -> None:
    question = {**QUESTION, "expected_ids": ["m2"]}
    write(
        path, MEMORY, {**MEMORY, "group": "two"}, {**question, "group": "two"}, question, {**MEMORY, "group": "three"}
    )

    groups = read_corpus(path)

    # Without a question, group three measures nothing.
    assert [(group.name, len(group.memories), len(group.questions)) for group in groups] == [
        ("default", 1, 1),
        ("two", 1, 1),
    ]


def test_a_question_is_exact_and_asked_by_a_reader_for_a_time(path: Path) -> None:
    reader = {"agent_id": "a", "subject_id": "ann", "session_id": "s1"}
    write(path, MESSAGE, MEMORY, QUESTION, {**QUESTION, **reader, "id": "q2", "exact": True, "valid_at_time": TIME})

    (group,) = read_corpus(path)

    plain, exact = group.questions
    assert (plain.is_exact, plain.filter) == (False, memory_pb2.MemoryFilter())
    assert exact.is_exact
    assert exact.filter.visible_to == memory_pb2.ScopeContext(**reader)
    assert exact.filter.valid_at_time.ToJsonString() == TIME


def test_memories_have_scopes_and_times_and_replace_or_name_earlier_ones(path: Path) -> None:
    newer = {**MEMORY, "id": "m3", "supersedes": "m2", "key": "drink", "type": "fact", "valid_from_time": TIME}
    scoped = {**MEMORY, "id": "m4", "alias_of": "m3", "scope": "agent", "agent_id": "a", "valid_to_time": TIME}
    write(path, MESSAGE, MEMORY, newer, scoped, {**MEMORY, "id": "m5", "alias_of": "m4"}, QUESTION)

    (group,) = read_corpus(path)

    _, replacing, alias, _ = group.memories
    assert (replacing.key, replacing.valid_from_time.ToJsonString()) == ("drink", TIME)
    assert (alias.scope, alias.agent_id, alias.valid_to_time.ToJsonString()) == (memory_pb2.SCOPE_AGENT, "a", TIME)
    assert [(link.from_memory_id, link.relation, link.to_memory_id) for link in group.links] == [
        ("m3", "supersedes", "m2")
    ]
    assert [(one.alias_memory_id, one.canonical_memory_id) for one in group.aliases] == [("m4", "m3"), ("m5", "m4")]
    assert group.aliases_of({"m3"}) == {"m4", "m5"}
    assert group.aliases_of({"m3", "m4"}) == {"m5"}
    assert group.aliases_of({"m2"}) == frozenset()


def test_the_corpus_of_beliefs_can_be_read() -> None:
    groups = read_corpus(Path(__file__).parents[1] / "bench" / "precision.jsonl")

    assert [group.name for group in groups] == ["team", "home"]
    assert all(question.is_exact for group in groups for question in group.questions)
    assert {question.category for group in groups for question in group.questions} == {
        *("plain", "alias", "typo", "paraphrase", "scope", "superseded", "several", "unanswerable")
    }


def test_null_means_left_out_and_a_question_may_share_its_id_with_an_item(path: Path) -> None:
    write(path, {**MEMORY, "title": None}, {**QUESTION, "id": "m2", "expected_ids": ["m2"], "category": None})

    (group,) = read_corpus(path)

    assert group.questions[0].category == "other"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", r"Line 2: is not JSON in UTF-8 .*write one object a line"),
        ({**QUESTION, "query": "\ud800"}, r"Line 2: is not JSON in UTF-8 .*surrogate"),
        ([1], r"Line 2: is no JSON object; write one object a line"),
        ({**MEMORY, "kind": "note"}, r'Line 2: kind: is "note"; use one of message, memory, question'),
        ({"id": "x"}, r"Line 2: kind: is null; use one of"),
        ({**MEMORY, "kind": ["memory"]}, r"Line 2: kind: "),
        ({**MEMORY, "text": "x"}, r"Line 2: text: no such field in a memory; remove it, or use one of id, content"),
        # A field of the import format that is none of a corpus.
        ({**MEMORY, "importance": 1}, r"Line 2: importance: no such field"),
        ({"kind": "memory", "id": "x"}, r"Line 2: content: a memory needs it; add it"),
        ({"kind": "memory", "content": "x"}, r"Line 2: id: a memory needs it; add it"),
        ({**MESSAGE, "session_id": None}, r"Line 2: session_id: a message needs it; add it"),
        ({"kind": "question", "id": "q2", "query": "x"}, r"Line 2: expected_ids: a question needs it; add it"),
        ({**MEMORY, "id": 7}, r"Line 2: id: should be a text .*quote a number"),
        ({**MEMORY, "id": "x", "content": "  "}, r"Line 2: content: should be a text that holds more than spaces"),
        ({**QUESTION, "query": ""}, r"Line 2: query: should be a text"),
        ({**MEMORY, "group": 1}, r"Line 2: group: should be a text"),
        ({**QUESTION, "expected_ids": [1]}, r"Line 2: expected_ids: should be a list of texts.*quote numbers"),
        ({**QUESTION, "expected_ids": "m2"}, r"Line 2: expected_ids: should be a list"),
        ({**MESSAGE, "role": "robot"}, r"Line 2: role: should be one of user, .*; correct it"),
        ({**MESSAGE, "session_id": ""}, r"Line 2: session_id: is needed; correct it"),
        ({**MESSAGE, "create_time": "2026-03-02"}, r"Line 2: create_time: should be a time in UTC.*; correct it"),
        ({**MEMORY, "id": "x", "tags": "tea"}, r"Line 2: tags: should be a list of texts; correct it"),
        ({**MEMORY, "id": "x" * 256}, r"Line 2: id: .*255 characters; correct it"),
        ({**MEMORY, "id": "x", "type": "A B"}, r"Line 2: type: .*; correct it"),
        ({**QUESTION, "query": "x" * 10_001}, r"Line 2: query: .*10000 characters; correct it"),
        ({**QUESTION, "exact": "yes"}, r"Line 2: exact: should be true or false, without quotes"),
        ({**QUESTION, "agent_id": 7}, r"Line 2: agent_id: should be a text that is not empty; quote a number"),
        ({**QUESTION, "subject_id": ""}, r"Line 2: subject_id: should be a text that is not empty"),
        ({**QUESTION, "session_id": "x" * 256}, r"Line 2: session_id: .*255 characters; correct it"),
        ({**QUESTION, "valid_at_time": "2026"}, r"Line 2: valid_at_time: should be a time.*; correct it"),
        ({**QUESTION, "scope": "agent"}, r"Line 2: scope: no such field in a question; remove it"),
        ({**MEMORY, "id": "x", "scope": "all"}, r"Line 2: scope: should be one of global, .*; correct it"),
        ({**MEMORY, "id": "x", "scope": "user"}, r'Line 2: scope: "user" needs subject_id; add it'),
        ({**MEMORY, "id": "x", "supersedes": 2}, r"Line 2: supersedes: should be a text"),
        (
            {**MEMORY, "id": "x", "supersedes": "m9"},
            r'Line 2: supersedes: no memory on an earlier line of the group "default" has the id "m9"; correct it, or',
        ),
        ({**MEMORY, "id": "x", "alias_of": "x"}, r"Line 2: alias_of: no memory on an earlier line"),
        ({**MEMORY, "group": "two", "alias_of": "m2"}, r'Line 2: alias_of: .*"two" has the id "m2"; correct it'),
        (MEMORY, r'Line 2: id: "m2" is the id of line 1 too; give each message and memory of a group its own'),
        ({**MESSAGE, "id": "m2"}, r'Line 2: id: "m2" is the id of line 1 too'),
        ({**QUESTION, "expected_ids": ["m2", "m9"]}, r'Line 2: expected_ids: .*"default" has the id "m9"; correct it'),
        (
            {**QUESTION, "expected_ids": ["m2"], "group": "two"},
            r'Line 2: expected_ids: .*"two" has the id "m2"; correct it, or give both lines the same group',
        ),
    ],
)
def test_a_line_at_fault_is_refused_with_its_number_and_what_to_do(path: Path, line: object, reason: str) -> None:
    write(path, MEMORY, line, {**QUESTION, "id": "q9", "expected_ids": ["m2"]})

    with pytest.raises(RecordInvalid, match=reason):
        read_corpus(path)


def test_two_questions_of_one_id_are_refused(path: Path) -> None:
    write(path, MESSAGE, MEMORY, QUESTION, QUESTION)

    with pytest.raises(RecordInvalid, match=r'Line 4: id: "q1" is the id of line 3 too; give each question of a group'):
        read_corpus(path)


def test_text_that_is_no_utf_8_is_refused(path: Path) -> None:
    path.write_bytes(b'{"kind": "memory", "id": "x", "content": "\xff"}\n')

    with pytest.raises(RecordInvalid, match=r"Line 1: is not JSON in UTF-8"):
        read_corpus(path)


def test_a_file_without_a_question_is_refused(path: Path) -> None:
    write(path, MEMORY)

    with pytest.raises(RecordInvalid, match=r"no question: add a line for each") as refused:
        read_corpus(path)

    assert json.loads(refused.value.hint)["kind"] == "question"


def test_each_hint_is_a_line_that_works(path: Path) -> None:
    hints = set()
    for kind in ("message", "memory", "question"):
        write(path, {"kind": kind})
        with pytest.raises(RecordInvalid) as refused:
            read_corpus(path)
        hints.add(refused.value.hint)
    write(path, *hints)

    (group,) = read_corpus(path)

    assert (len(group.messages), len(group.memories), len(group.questions)) == (1, 1, 1)
