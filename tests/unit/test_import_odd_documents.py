"""Documents of other systems with any value at any place are read or refused, and never end an import with a bug."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skein_importers.errors import SourceInvalid
from skein_importers.records import Record, UnreadableRecord
from skein_importers.sources import FORMATS
from skein_importers.sources.base import Notes

AT = "2026-03-02T07:12:00Z"
MEM0 = {
    "results": [
        {"id": "m1", "memory": "Tea", "user_id": "anna", "run_id": "r", "metadata": {"a": 1}, "categories": ["x"],
         "expiration_date": "2090-01-31", "created_at": AT, "hash": "ab"},
        {"id": "m2", "payload": {"data": "Cups", "entity_type": "THING", "linked_memory_ids": ["m1"]}},
        {"result": {"points": [{"id": "m3", "payload": {"data": "Milk"}}]}},
    ],
    "relations": [{"source": "anna", "relationship": "likes", "target": "tea"}],
}  # fmt: skip
LETTA = {
    "agents": [
        {"id": "agent-0", "name": "Juno", "tool_ids": ["tool-0"], "block_ids": ["block-0"], "metadata": {"a": 1},
         "llm_config": {"model": "small"}, "tool_rules": [{"type": "x"}], "tags": ["x"], "messages": [
             {"id": "message-0", "role": "user", "content": [{"type": "text", "text": "Hello"}], "created_at": AT,
              "tool_calls": [{"id": "c"}], "tool_returns": [{"ok": True}]}]},
    ],
    "blocks": [{"id": "block-0", "label": "human", "value": "Anna", "limit": 10, "metadata": {}}],
    "tools": [{"id": "tool-0", "name": "find", "json_schema": {"name": "find"}, "tags": ["x"]}],
    "files": [{"id": "file-0", "file_name": "a.txt", "content": "text", "file_creation_date": AT}],
    "skills": [{"name": "tidy", "files": {"SKILL.md": "Tidy.", "more": "text"}}],
    "groups": [{"id": "group-0"}],
}  # fmt: skip
LETTA_FIRST = {
    "name": "Ceres", "tags": [{"tag": "x"}], "core_memory": [{"label": "human", "value": "Anna", "limit": 9}],
    "messages": [{"role": "user", "content": "Hello", "created_at": AT}], "tools": [{"name": "water"}],
}  # fmt: skip
GRAPHITI = {
    "nodes": [{"uuid": "n1", "name": "Anna", "labels": ["Person"], "attributes": {"age": 4}, "group_id": "g"}],
    "edges": [{"uuid": "e1", "name": "KNOWS", "fact": "Anna knows Anna", "source_node_uuid": "n1", "valid_at": AT,
               "target_node_uuid": "n1", "invalid_at": AT, "episodes": ["p1"], "fact_embedding": [0.5]}],
    "episodes": [{"uuid": "p1", "content": "talk", "valid_at": AT, "created_at": AT}],
    "community_edges": [{"source_node_uuid": "n1", "target_node_uuid": "n1"}],
    "users": [{"uuid": "u1", "user_id": "anna", "first_name": "Anna", "metadata": {"a": 1}}],
    "threads": [{"uuid": "t1", "thread_id": "t", "user_uuid": "u1"}],
    "messages": [{"uuid": "x1", "thread_uuid": "t1", "role": "user", "content": "Hello", "metadata": {"a": 1}}],
}  # fmt: skip
MIF = {
    "mif_version": "2.0",
    "memories": [{"id": "m1", "content": "Tea", "memory_type": "x", "created_at": AT, "tags": ["x"], "parent_id": "m1",
                  "source": {"source_type": "chat", "session_id": "s"}, "metadata": {"a": 1}, "skein": {"title": "T"},
                  "embeddings": {"model": "m", "vector": [0.5]}, "related_memory_ids": ["m1"]}],
    "knowledge_graph": {
        "entities": [{"id": "e1", "name": "Anna", "types": ["x"], "attributes": {"a": 1}}],
        "relationships": [{"id": "r1", "source_entity_id": "e1", "target_entity_id": "e1", "relation_type": "x",
                           "confidence": 0.5, "context": "c"}],
    },
    "vendor_extensions": {"another": {}},
}  # fmt: skip
MIF_OWN = {
    "mif_version": "2.0",
    "memories": [{"id": "m1", "content": "Tea", "created_at": AT}],
    "vendor_extensions": {"skein": {"records": [{"record": "session", "session_id": "s"},
                                                {"record": "link", "from": "m1", "to": "m1"}]}},
}  # fmt: skip
HINDSIGHT = {
    "manifest.json": {"schema_version": 1, "source_bank_id": "b"},
    "documents/000000.json": {
        "id": "d1", "original_text": "text", "tags": ["x"], "created_at": AT, "chunks": [{"chunk_index": 0}],
        "facts": [{"text": "A", "source_id": "f1", "fact_type": "world", "entities": ["Anna"], "metadata": {"a": "b"},
                   "causal_relations": [{"relation_type": "causes", "target_fact_index": 0}], "occurred_start": AT}],
    },
    "observations.json": [{"source_id": "o1", "text": "B", "sources": [{"document_id": "d1", "fact_index": 0}]}],
    "mental_models.json": [{"id": "m1", "name": "n", "content": "c", "tags": ["x"]}],
    "banks.json": [{"bank_id": "b"}],
}  # fmt: skip
DOCUMENTS: dict[str, tuple[str, Any]] = {
    "mem0": ("mem0-json", MEM0),
    "letta": ("letta-af", LETTA),
    "letta first": ("letta-af", LETTA_FIRST),
    "graphiti": ("graphiti-json", GRAPHITI),
    "mif": ("mif", MIF),
    "mif own": ("mif", MIF_OWN),
    "hindsight": ("hindsight-zip", HINDSIGHT),
}
DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
ODD: tuple[Any, ...] = (
    *(None, True, 7, -1, 10**40, 1.5, "", " ", "x", "\0\ud800", "2026-13-99", "y" * 2000),
    *([], {}, [None], [7], [[]], [{}], [{"id": 7}], {"id": None}, {"a": {"b": [1]}}, DEEP),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a document."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[name], (*path, name))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a document with another value at a path."""
    result = copy.deepcopy(document)
    place = result
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return result


def write(path: Path, form: str, document: Any) -> str:
    if form == "hindsight-zip":
        with zipfile.ZipFile(path, "w") as file:
            for name, member in document.items():
                file.writestr(name, json.dumps(member))
    else:
        path.write_text(json.dumps(document), "utf-8")
    return str(path)


def read(form: str, source: str) -> list[Any]:
    with FORMATS[form].open(source) as opened:
        return [record for realm in opened.tenants() for record in opened.records(realm, Notes())]


@pytest.mark.system
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_with_an_odd_value_anywhere_is_read_or_refused(tmp_path: Path, name: str) -> None:
    form, document = DOCUMENTS[name]
    path = tmp_path / "document"

    for place in places(document):
        for value in ODD:
            source = write(path, form, replaced(document, place, value))
            try:
                records = read(form, source)
            except SourceInvalid:
                continue
            except Exception as error:
                message = f"{name}: {place} = {str(value)[:40]!r}"
                raise AssertionError(message) from error
            assert all(isinstance(record, Record | UnreadableRecord) for record in records)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_whole_document_is_read_without_a_refusal(tmp_path: Path, name: str) -> None:
    form, document = DOCUMENTS[name]

    records = read(form, write(tmp_path / "document", form, document))

    assert records
    assert [record for record in records if isinstance(record, UnreadableRecord)] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_element_that_is_no_object_is_counted(tmp_path: Path, name: str) -> None:
    form, document = DOCUMENTS[name]
    # Tags of an agent's first form are values of any kind.
    lists = [member for member, value in document.items() if isinstance(value, list) and member != "tags"]

    for member in lists:
        notes, source = Notes(), write(tmp_path / "document", form, {**document, member: [*document[member], 7]})
        with FORMATS[form].open(source) as opened:
            list(opened.records(opened.tenants()[0], notes))
        assert sum(notes.ignored.values()) > 0, member
