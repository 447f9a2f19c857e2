"""The sample that ships is whole: every line parses, every id leads somewhere, every question has its evidence."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pytest

SAMPLE = files("skein_cluster") / "sample"

Record = dict[str, Any]

CONTENT_LIMIT = 100_000
ID_LIMIT = 255

# The fields of each record: those that must be there, then those that may be.
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "session": ({"session_id"}, {"title", "subject_id", "agent_id", "start_time", "metadata"}),
    "message": ({"external_id", "session_id", "role", "content"}, {"name", "subject_id", "create_time"}),
    "memory": (
        {"external_id", "content"},
        {
            *("type", "key", "title", "tags", "subject_id", "session_id", "agent_id", "scope"),
            *("importance", "confidence", "create_time", "source", "metadata"),
        },
    ),
    "link": ({"from", "to"}, {"relation"}),
}

KINDS = {"single", "changed_fact", "multi", "temporal", "paraphrase"}

# Words too common to give an answer away.
COMMON = set(
    re.findall(
        r"\w+",
        "a about all am an and any are as at be because been but by can could did do does for from had has have he her "
        "him his how i if in is it its me my must no not of on or our she so than that the their them then there these "
        "they this those to up us was we were what when where which who why will with would you your",
    )
)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return [json.loads(line) for line in (SAMPLE / "household.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def questions() -> list[Record]:
    loaded: list[Record] = json.loads((SAMPLE / "questions.json").read_text("utf-8"))
    return loaded


def only(records: list[Record], kind: str) -> list[Record]:
    return [record for record in records if record["record"] == kind]


def by_external_id(records: list[Record]) -> dict[str, Record]:
    return {record["external_id"]: record for record in records if "external_id" in record}


def moment(text: str) -> datetime:
    """Read a time in the one form that the sample uses; anything else raises."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def stems(text: str) -> set[str]:
    """First five letters of every telling word: blunter than a stemmer, so it errs towards finding a shared word."""
    return {word[:5] for word in re.findall(r"[a-z0-9]+", text.lower().replace("'s", "")) if word not in COMMON}


def test_every_line_holds_the_documented_fields_and_no_other(records: list[Record]) -> None:
    for record in records:
        required, optional = FIELDS[record["record"]]
        fields = record.keys() - {"record"}

        assert required <= fields <= required | optional, record


def test_the_conversation_is_long_enough_to_recall_from(records: list[Record]) -> None:
    counts = Counter(record["record"] for record in records)

    assert counts["session"] >= 10
    assert counts["message"] >= 120
    assert counts["memory"] >= 25
    assert moment(records[0]["start_time"]).year == 2026


def test_ids_are_unique_and_fit(records: list[Record]) -> None:
    external = [record["external_id"] for record in records if "external_id" in record]
    sessions = [record["session_id"] for record in only(records, "session")]
    links = [(link["from"], link["to"], link["relation"]) for link in only(records, "link")]

    for ids in (external, sessions):
        assert len(set(ids)) == len(ids)
        assert all(0 < len(id_) <= ID_LIMIT for id_ in ids)
    assert len(set(links)) == len(links)


def test_content_is_present_distinct_and_fits(records: list[Record]) -> None:
    memories = [memory["content"] for memory in only(records, "memory")]
    contents = memories + [message["content"] for message in only(records, "message")]

    assert all(content == content.strip() and 0 < len(content) <= CONTENT_LIMIT for content in contents)
    assert len(set(memories)) == len(memories)


def test_a_record_refers_only_to_what_stands_above_it(records: list[Record]) -> None:
    sessions: set[str] = set()
    messages: set[str] = set()
    memories: set[str] = set()

    for record in records:
        match record["record"]:
            case "session":
                sessions.add(record["session_id"])
            case "message":
                assert record["session_id"] in sessions
                messages.add(record["external_id"])
            case "memory":
                assert "session_id" not in record or record["session_id"] in sessions
                assert set(record["metadata"]["said_in"]) <= messages
                memories.add(record["external_id"])
            case "link":
                assert {record["from"], record["to"]} <= memories
                assert record["from"] != record["to"]


def test_links_come_last(records: list[Record]) -> None:
    kinds = [record["record"] for record in records]

    assert set(kinds[kinds.index("link") :]) == {"link"}


def test_times_rise_within_a_session_and_from_one_to_the_next(records: list[Record]) -> None:
    turns = [record for record in records if record["record"] in {"session", "message"}]
    times = [moment(turn["start_time" if turn["record"] == "session" else "create_time"]) for turn in turns]

    assert all(earlier < later for earlier, later in pairwise(times))


def test_a_memory_is_younger_than_what_it_was_distilled_from(records: list[Record]) -> None:
    everything = by_external_id(records)

    for memory in only(records, "memory"):
        source_times = [moment(everything[id_]["create_time"]) for id_ in memory["metadata"]["said_in"]]
        assert moment(memory["create_time"]) > max(source_times)


def test_the_values_of_memories_are_the_documented_ones(records: list[Record]) -> None:
    memories = only(records, "memory")

    assert {memory["type"] for memory in memories} == {"fact", "user_preference", "note", "episodic", "semantic"}
    assert {memory["scope"] for memory in memories} == {"global", "agent", "user", "session"}
    for memory in memories:
        assert 0 <= memory["importance"] <= 1
        assert 0 <= memory["confidence"] <= 1
        assert memory["tags"]
        assert len(set(memory["tags"])) == len(memory["tags"])
        assert memory["scope"] != "user" or "subject_id" in memory
        assert memory["scope"] != "session" or "session_id" in memory


def test_every_role_has_its_speakers(records: list[Record]) -> None:
    messages = only(records, "message")

    assert {message["role"] for message in messages} == {"user", "assistant"}
    assert {message["name"] for message in messages if message["role"] == "assistant"} == {"Juno"}
    assert all(message["name"].lower() == message["subject_id"] for message in messages if message["role"] == "user")


def test_a_key_is_held_by_one_fact_and_handed_over_by_the_fact_before(records: list[Record]) -> None:
    everything = by_external_id(records)
    facts = [memory for memory in only(records, "memory") if memory["type"] == "fact"]
    keys = [fact["key"] for fact in facts if "key" in fact]

    assert len(set(keys)) == len(keys)
    for link in only(records, "link"):
        newer, older = everything[link["from"]], everything[link["to"]]
        if link["relation"] == "supersedes" and newer["type"] == "fact":
            assert "key" not in older
            assert older["metadata"]["former_key"] == newer["key"]
    replaced = {link["to"] for link in only(records, "link") if link["relation"] == "supersedes"}
    assert all("key" in fact or fact["external_id"] in replaced for fact in facts)


def test_at_least_eight_things_change(records: list[Record]) -> None:
    everything = by_external_id(records)
    changes = [link for link in only(records, "link") if link["relation"] == "supersedes"]

    assert len({link["to"] for link in changes}) >= 8
    for link in changes:
        newer, older = everything[link["from"]], everything[link["to"]]
        assert moment(newer["create_time"]) > moment(older["create_time"])
        assert newer["type"] == older["type"]
        assert newer.get("subject_id") == older.get("subject_id")


def test_links_show_more_than_change(records: list[Record]) -> None:
    relations = {link["relation"] for link in only(records, "link")}

    assert relations == {"supersedes", "supports", "related", "causes"}


def test_every_question_is_answered_by_records_that_exist(records: list[Record], questions: list[Record]) -> None:
    everything = by_external_id(records)

    for question in questions:
        assert question.keys() - {"demo"} == {"question", "answer", "evidence", "kind"}
        assert question["evidence"]
        assert set(question["evidence"]) <= everything.keys()
        assert len(set(question["evidence"])) == len(question["evidence"])


def test_there_are_questions_of_every_kind(questions: list[Record]) -> None:
    kinds = Counter(question["kind"] for question in questions)

    assert kinds.keys() == KINDS
    assert kinds.total() >= 24
    assert kinds["changed_fact"] >= 8
    assert len({question["question"] for question in questions}) == kinds.total()


def test_the_demo_asks_the_questions_that_convince(questions: list[Record]) -> None:
    kinds = Counter(question["kind"] for question in questions if question.get("demo"))

    assert kinds.total() >= 8
    assert kinds["changed_fact"] >= 2
    assert kinds["paraphrase"] >= 2


def test_the_evidence_of_a_changed_fact_is_never_what_was_replaced(
    records: list[Record], questions: list[Record]
) -> None:
    everything = by_external_id(records)
    replaced = {link["to"] for link in only(records, "link") if link["relation"] == "supersedes"}
    outdated = replaced.union(*(everything[id_]["metadata"]["said_in"] for id_ in replaced))

    for question in questions:
        if question["kind"] == "changed_fact":
            assert outdated.isdisjoint(question["evidence"])


def test_a_multi_question_needs_more_than_one_session(records: list[Record], questions: list[Record]) -> None:
    everything = by_external_id(records)

    for question in questions:
        if question["kind"] == "multi":
            messages = [id_ for id_ in question["evidence"] if everything[id_]["record"] == "message"]
            assert len({everything[id_]["session_id"] for id_ in messages}) > 1


def test_a_paraphrase_shares_no_word_with_its_evidence(records: list[Record], questions: list[Record]) -> None:
    everything = by_external_id(records)

    for question in questions:
        if question["kind"] == "paraphrase":
            for id_ in question["evidence"]:
                evidence = everything[id_].get("title", "") + " " + everything[id_]["content"]
                assert stems(question["question"]).isdisjoint(stems(evidence)), (question["question"], id_)
