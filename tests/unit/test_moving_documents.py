from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skein_importers.errors import SourceInvalid
from skein_importers.sources.json_stream import entries

LONG = "x" * 200_000


def read(path: Path, text: str) -> list[tuple[str, Any]]:
    path.write_text(text, "utf-8")
    return list(entries(str(path), ("items",), ("id",)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", []),
        ("{}", []),
        (" [ 1 , 2 ] ", [("", 1), ("", 2)]),
        ('{"a": 1, "b": [2]}', [("a", 1), ("b", [2])]),
        ('{"v": 1, "items": [3, {"id": 4}], "w": 5}', [("v", 1), ("", 3), ("", {"id": 4}), ("w", 5)]),
        ('{"items": {"a": 1, "b": {}}}', [("a", 1), ("b", {})]),
        ('{"id": 1, "x": 2}', [("", {"id": 1, "x": 2})]),
        ('{"id": 1}\n{"id": 2}\n\n', [("", {"id": 1}), ("", {"id": 2})]),
        ('\ufeff[{"id": 1}]', [("", {"id": 1})]),
    ],
)
def test_a_document_is_read_entry_by_entry(tmp_path: Path, text: str, expected: list[tuple[str, Any]]) -> None:
    assert read(tmp_path / "document", text) == expected


def test_entries_may_be_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    values = [{"id": number, "text": LONG, "number": 10**40} for number in range(5)]

    assert [value for _, value in read(tmp_path / "document", json.dumps(values))] == values


def test_a_number_is_not_cut_where_a_piece_ends(tmp_path: Path) -> None:
    numbers = [1_234_567_890_123] * 20_000

    assert [value for _, value in read(tmp_path / "document", json.dumps(numbers))] == numbers


@pytest.mark.parametrize("text", ["", "7", '"text"', "[1", "[1 2]", '{"a" 1}', "{1: 2}", '{"a": 1} x', '{"id": 1} x'])
def test_an_invalid_document_is_refused_with_its_position(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceInvalid) as refused:
        read(tmp_path / "document", text)

    assert "cannot be read as JSON at character" in str(refused.value)


def test_a_whole_number_of_any_length_does_not_end_a_document(tmp_path: Path) -> None:
    result = read(tmp_path / "document", '[{"id": 1, "n": ' + "9" * 5000 + '}, {"id": 2}]')

    assert [value["id"] for _, value in result] == [1, 2]
