from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import blocks_pb2, memory_pb2, snapshots_pb2
from skein_kit.ids import new_id
from skein_kit.rpc.plain_names import make_names_plain
from skein_memory.errors import ImportFormatUnknown
from skein_memory.memories.model import Memory
from skein_memory.transfer import model as transfer_model
from skein_memory.transfer import rpc
from skein_memory.transfer.import_parsing import ImportItem, ImportMode, merge_imported, parse_import, reusable_id
from skein_memory.transfer.model import ImportLine, ImportProblem, TransferItem

AT = datetime(2026, 1, 2, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


def memory(content: str = "x", **fields: Any) -> Memory:
    message = memory_pb2.Memory(content=content, **fields)
    (arriving,) = arrivals(ImportLine(line_number=1, kind="memory", message=message))
    assert isinstance(arriving.draft, Memory)
    return arriving.draft


def arrivals(*lines: ImportLine | ImportProblem) -> list[ImportItem]:
    result = parse_import(lines, at=AT, by="test", max_content=100)
    assert result.errors == []
    return [item for items in result.items.values() for item in items]


@given(content=TEXT, tags=st.lists(TEXT, max_size=3))
def test_an_item_is_one_line_and_is_read_as_it_was_written(content: str, tags: list[str]) -> None:
    message = memory_pb2.Memory(content=content, tags=tags, importance=0.25)
    # What is stored has names in their plain form.
    make_names_plain(message)

    text = transfer_model.format_line(TransferItem(kind="memory", item_id="m", message=message))

    assert len(text.splitlines()) == 1
    assert list(transfer_model.parse_lines(text)) == [ImportLine(line_number=1, kind="memory", message=message)]


def test_fields_that_the_service_records_make_no_difference() -> None:
    one = memory_pb2.Memory(content="x", revision=1, importance=0.5)
    other = memory_pb2.Memory(content="x", revision=7, importance=0.75, updated_by="somebody")
    block = snapshots_pb2.PortableBlock(block=blocks_pb2.Block(value="v"), agent_ids=["a"])

    assert transfer_model.changed_fields(one, other) == ["importance"]
    assert transfer_model.changed_fields(block, snapshots_pb2.PortableBlock(agent_ids=["b"])) == ["value", "agent_ids"]


def test_only_an_id_that_was_made_from_the_creation_time_is_kept() -> None:
    id_ = new_id(AT)

    assert reusable_id(str(id_), AT, AT) == id_
    assert reusable_id(str(id_), AT - timedelta(days=9), AT) is None
    assert reusable_id(str(new_id(AT + timedelta(hours=1))), AT, AT) is None
    assert reusable_id("0b5c2a2e-7d6f-4d0c-9a43-3f0a6f0d9c11", AT, AT) is None
    assert reusable_id("mine", AT, AT) is None


def test_an_id_that_is_not_kept_is_the_external_id() -> None:
    assert memory(memory_id="mine").draft.external_id == "mine"
    assert memory(memory_id="mine", external_id="other").draft.external_id == "other"


@over(
    ("mode", "is_later", "content", "tags"),
    [
        (ImportMode.SKIP, True, "old", ("a",)),
        (ImportMode.MERGE, False, "old", ("a", "b")),
        (ImportMode.MERGE, True, "new", ("a", "b")),
        (ImportMode.OVERWRITE, False, "new", ("b",)),
    ],
)
def test_modes_decide_what_becomes_of_a_memory(
    mode: ImportMode, content: str, tags: tuple[str, ...], *, is_later: bool
) -> None:
    old, new = memory("old", tags=["a"], external_id="e"), memory("new", tags=["b"])

    changed, at = old.update_time + timedelta(minutes=1 if is_later else -1), AT + timedelta(hours=1)
    after = merge_imported(old, new, mode, changed, at=at, by="importer")

    assert (after.draft.content, after.draft.tags, after.draft.external_id) == (content, tags, "e")
    assert merge_imported(after, new, mode, changed, at=at, by="importer") is after
    assert after.update_time == (changed if content == "new" else old.update_time)


def test_a_deleted_memory_comes_back_only_where_the_import_wins() -> None:
    gone = memory().delete(at=AT, by="test")

    assert merge_imported(gone, memory(), ImportMode.MERGE, None, at=AT, by="x") is gone
    assert merge_imported(gone, memory(), ImportMode.OVERWRITE, None, at=AT, by="x").is_active


def test_json_that_is_written_otherwise_is_no_change() -> None:
    old = memory(metadata={"a": 1})
    spaced = replace(old, draft=replace(old.draft, metadata='{"a": 1.0}'))

    assert merge_imported(spaced, old, ImportMode.OVERWRITE, None, at=AT, by="x") is spaced


@over(
    "text",
    [
        "",
        "[]",
        "5",
        '{"memories": {}}',
        '{"format": "v2", "memories": []}',
        '{"x": []}',
        '{"memories": [{"id": NaN}]}',
    ],
)
def test_an_unknown_document_is_refused(text: str) -> None:
    with pytest.raises(ImportFormatUnknown):
        list(rpc.parse_document(text))


@given(
    row=st.dictionaries(
        st.sampled_from(["id", "content", "tags", "created_at", "type"]),
        # JSON has no NaN and no infinities.
        st.none() | TEXT | st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_no_row_of_memoryvault_s_breaks_the_reading(row: dict[str, Any]) -> None:
    text = json.dumps({"data": {"memories": [row], "links": [row], "aliases": [None], "conflict_resolutions": [[]]}})

    results = list(rpc.parse_document(text))

    assert len(results) == 4
    assert all(isinstance(one, ImportProblem) and one.reason == "LINE_INVALID" for one in results[1:])
