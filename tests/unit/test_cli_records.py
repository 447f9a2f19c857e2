from __future__ import annotations

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from fix_catalogue import over

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_importers.locomo import read_locomo
from skein_importers.records import FIELDS, Kind, Record, RecordInvalid, UnreadableRecord, line_of, parse, read_jsonl


def line(**values: Any) -> str:
    return json.dumps(values)


def test_every_record_of_the_sample_is_written_as_it_was_read() -> None:
    with as_file(files("skein_cluster") / "sample" / "household.jsonl") as path:
        payloads = [json.loads(text) for text in path.read_text("utf-8").splitlines()]
        records = list(read_jsonl(path))

    written = [json.loads(line_of(record.kind, record.item)) for record in records if isinstance(record, Record)]

    assert written == payloads


def test_every_field_that_a_record_can_have_survives_a_round_trip() -> None:
    examples: dict[str, Any] = {
        **dict.fromkeys(
            ("start_time", "create_time", "update_time", "end_time", "expire_time", "archive_time", "hide_time"),
            "2026-03-02T07:12:00.250Z",
        ),
        **dict.fromkeys(("valid_from_time", "valid_to_time"), "2026-03-02T07:12:00Z"),
        **{name: {"a": [1, "b", None, {"c": 0.5}]} for name in ("metadata", "data")},
        **{name: [{"a": "b"}] for name in ("parts", "tool_calls", "tool_returns")},
        **dict.fromkeys(("importance", "confidence", "weight"), 0.25),
        "tags": ["b", "a"],
        "role": "tool",
        "state": "paused",
        "scope": "agent",
        "level": "tactical",
    }

    for kind, fields in FIELDS.items():
        record = {"record": str(kind)} | {name: examples.get(name, f"some {name}") for name in fields}
        assert json.loads(line_of(kind, parse("line 1", json.dumps(record)).item)) == record


def test_zero_is_a_value_and_not_an_absence() -> None:
    record = parse("line 1", line(record="memory", external_id="m", content="c", importance=0))

    assert isinstance(record.item, memory_pb2.Memory)
    assert record.item.HasField("importance")
    assert '"importance": 0.0' in line_of(record.kind, record.item)


@over(
    ("text", "reason"),
    [
        ("{", "is not JSON in UTF-8"),
        ("[]", "is no JSON object"),
        (line(record="note"), "record: should be one of session, message, memory, link"),
        (line(session_id="s"), "record: should be one of"),
        (line(text="c"), "content: is needed for a memory; record: should be one of"),
        (line(content=""), "content: is needed"),
        (line(content="c", role="user"), "role: no such field in a memory"),
        (line(record="session"), "session_id: is needed"),
        (line(record="session", session_id=""), "session_id: is needed"),
        (line(record="session", session_id=None), "session_id: is needed"),
        (line(record="session", session_id="s", titel="t"), "titel: no such field in a session"),
        (line(record="session", session_id=7), "session_id: should be a text"),
        (line(record="session", session_id="s", start_time="yesterday"), "start_time: should be a time"),
        (line(record="session", session_id="s", start_time="2026-03-02T07:12:00"), "should be a time in UTC"),
        (line(record="session", session_id="s", metadata=[]), "metadata: should be a JSON object"),
        (line(record="message", external_id="m", session_id="s", role="bot", content="c"), "role: should be one of"),
        (line(record="message", external_id="m", session_id="s", role=["user"], content="c"), "role: should be one"),
        (line(record="message", external_id="m", session_id="s", role="user"), "content: is needed"),
        (line(record="memory", external_id="m", content="c", importance="high"), "importance: should be a number"),
        (line(record="memory", external_id="m", content="c", importance=True), "importance: should be a number"),
        (line(record="memory", external_id="m", content="c", tags="a"), "tags: should be a list of texts"),
        (line(record="memory", external_id="m", content="a lone half \ud800"), "content: cannot be read"),
        (line(record="link", **{"from": "a"}), "to: is needed"),
    ],
)
def test_a_record_that_cannot_be_read_says_which_field_and_why(text: str, reason: str) -> None:
    with pytest.raises(RecordInvalid, match=r".") as caught:
        parse("line 1", text)

    assert reason in str(caught.value)


DEEP = "[" * 500 + "]" * 500


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"content": "x", "metadata": {"a": NaN}}', ""),
        ('{"content": "x", "metadata": {"a": -Infinity}}', ""),
        ('{"content": "x", "metadata": {"a": 1e9999999999999999999999}}', ""),
        ('{"content": "x", "metadata": {"a": 1e-9999999999999999999999}}', ""),
        ('{"content": "x", "metadata": {"a": 1e99999}}', "metadata: "),
        ('{"content": "x", "data": {"a": ' + "9" * 5000 + "}}", ""),
        ('{"content": "x", "metadata": {"a": ' + DEEP + "}}", "metadata: is nested"),
        ('{"content": "x", "importance": NaN}', ""),
        ('{"content": "x", "importance": 1e99999}', "importance: "),
        ('{"content": "x", "importance": 1' + "0" * 400 + "}", "importance: "),
        ('{"content": "x", "create_time": "0001-01-01T00:00:00+23:00"}', "create_time: "),
        ('{"record": "block", "item": {"block_id": "b", "metadata": {"a": NaN}}}', ""),
        ('{"record": "block", "item": {"block_id": "b", "metadata": {"a": 1e9999999999999999999999}}}', ""),
        ('{"record": "trust", "item": {"source": "s", "trust": 1e9999999999999999999999}}', ""),
        ('{"record": "trust", "item": {"source": "s", "trust": 1' + "0" * 400 + "}}", "item: "),
    ],
)
def test_a_number_that_no_field_takes_is_a_refusal_of_its_line_alone(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(f"{text}\n{line(content='c')}\n", "utf-8")

    bad, good = read_jsonl(path)

    assert isinstance(bad, UnreadableRecord)
    assert bad.reason.startswith(reason or ("is not JSON", "metadata: ", "importance: ", "data: ", "item: "))
    assert isinstance(good, Record)


def test_a_line_with_content_alone_is_a_memory_whose_id_is_that_of_the_line() -> None:
    first, again, other = (
        parse(f"line {number}", text)
        for number, text in enumerate([line(content="c"), line(record="memory", content="c"), line(content="d")])
    )

    assert (first.kind, first.item.content) == (Kind.MEMORY, "c")
    assert first.name == again.name != other.name


@over(
    ("text", "needs"),
    [
        ("nonsense", "A line is a JSON object"),
        (line(record="note"), "A line is a JSON object"),
        (line(record="session"), "A session needs session_id; it may have title,"),
        (line(record="message"), "A message needs external_id, session_id, role, content (or parts,"),
        (line(record="memory", content="c", titel="t"), "A memory needs content (or data); it may have external_id,"),
        (line(record="link"), "A link needs from, to; it may have relation,"),
    ],
)
def test_a_refusal_names_the_fields_and_shows_a_line_that_can_be_read(text: str, needs: str) -> None:
    with pytest.raises(RecordInvalid, match=r".") as caught:
        parse("line 1", text)
    wanted, example = caught.value.hint.splitlines()

    assert wanted.startswith(needs)
    assert wanted.endswith("A line that works:")
    assert isinstance(parse("line 1", example), Record)


def test_a_refused_record_of_the_contract_names_the_fields_of_its_item() -> None:
    with pytest.raises(RecordInvalid, match="item: a subject has this field alone") as caught:
        parse("line 1", line(record="subject"))

    assert "one field, `item`, an object of subject_id, display_name," in caught.value.hint


def test_one_bad_line_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(
        b'{"record": "session", "session_id": "s"}\n\nnonsense\n\xff\xfe\n{"record": "link", "from": "a", "to": "b"}'
    )

    records = list(read_jsonl(path))

    assert [isinstance(record, Record) for record in records] == [True, False, False, True]
    assert [record.where for record in records] == ["line 1", "line 3", "line 4", "line 5"]


def test_a_locomo_conversation_becomes_sessions_with_named_and_dated_messages(tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    turns = [
        {"speaker": "Ann", "dia_id": "D2:1", "text": "Hello!"},
        {"speaker": "Ben", "dia_id": "D2:2", "text": "Look.", "blip_caption": "a photo of a dog", "img_url": ["x"]},
    ]
    conversation = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_10": [],
        "session_10_date_time": "12:05 am on 1 July, 2023",
        "session_2": turns,
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_3_date_time": "no session",
    }
    path.write_text(json.dumps([{"sample_id": "conv-1", "conversation": conversation, "qa": []}]), "utf-8")

    records = [record for record in read_locomo(path) if isinstance(record, Record)]

    assert [record.name for record in records] == [
        *("conv-1/session_2", "conv-1/D2:1", "conv-1/D2:2", "conv-1/session_10"),
    ]
    last = records[2].item
    assert isinstance(last, session_pb2.Message)
    assert (last.name, last.content, last.session_id) == ("Ben", "Look. [shares a photo of a dog]", "conv-1/session_2")
    assert last.create_time.ToJsonString() == "2023-05-08T13:56:00Z"
    assert {record.kind for record in records} == {Kind.SESSION, Kind.MESSAGE}


@pytest.mark.parametrize("text", ["{", '{"a": 1}', '["a"]'])
def test_a_file_that_is_no_locomo_is_refused_as_a_whole(tmp_path: Path, text: str) -> None:
    path = tmp_path / "locomo.json"
    path.write_text(text, "utf-8")

    with pytest.raises(RecordInvalid):
        list(read_locomo(path))


def test_a_damaged_part_of_a_locomo_file_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    conversation = {
        "session_1": [{"speaker": "Ann"}],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [],
        "session_2_date_time": "some day",
    }
    path.write_text(json.dumps([{"qa": []}, {"sample_id": "c", "conversation": conversation}]), "utf-8")

    records = list(read_locomo(path))

    assert [(isinstance(record, Record), record.where) for record in records] == [
        (False, "sample 1"),
        (True, "c/session_1"),
        (False, "c/session_1 turn 1"),
        (False, "c/session_2"),
    ]
