"""Reading rows of other systems: passwords, secrets, times, names, URLs. What is written is looked at elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fix_catalogue import over

from skein_importers.errors import SourceInvalid
from skein_importers.records import Record
from skein_importers.sources import memoryvault_json
from skein_importers.sources.assistant_store import vector_of
from skein_importers.sources.base import Notes, slug_of
from skein_importers.sources.memoryvault_d1 import password_hash_of, sha256_of
from skein_importers.sources.orchestrator_pg import open_source
from skein_importers.sources.rows import Row, parse_time

SALT = bytes(range(250, 256)) + bytes(10)
DIGEST = hashlib.pbkdf2_hmac("sha256", b"a long password", SALT, 100_000)
WANTED = f"pbkdf2_sha256$100000${base64.b64encode(SALT).decode()}${base64.b64encode(DIGEST).decode()}"


def url_safe(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


@over(
    "stored",
    [
        WANTED,
        f"pbkdf2_sha256$100000${url_safe(SALT)}${url_safe(DIGEST)}",
        f"pbkdf2$100000${SALT.hex()}${DIGEST.hex()}",
        f"pbkdf2-sha256:100000:{SALT.hex()}:{DIGEST.hex().upper()}",
        f"{SALT.hex()}:{DIGEST.hex()}",
        f" {url_safe(SALT)}:{url_safe(DIGEST)} ",
    ],
)
def test_a_password_hash_is_read_in_each_of_its_forms(stored: str) -> None:
    assert password_hash_of(stored) == WANTED


@over(
    "stored",
    ["", "plain", "ab:cd", "$2b$12$abcdefghijklmnopqrstuv", "pbkdf2_sha256$x$AAAA$BBBB",
     f"pbkdf2_sha256$1$${url_safe(DIGEST)}",
     f"pbkdf2_sha512$100000${url_safe(SALT)}${url_safe(DIGEST)}",
     f"pbkdf2_sha256$1${SALT.hex()}${DIGEST.hex()[:-2]}"],
)  # fmt: skip
def test_a_hash_in_another_form_is_no_password(stored: str) -> None:
    assert password_hash_of(stored) == ""


def test_a_secret_s_digest_is_read_as_hexadecimal_and_as_base64() -> None:
    forms = [DIGEST.hex(), url_safe(DIGEST), base64.b64encode(DIGEST).decode(), f"sha256:{DIGEST.hex()}"]

    assert {sha256_of(form) for form in forms} == {DIGEST.hex()}
    assert [sha256_of(form) for form in ("", "zz", DIGEST.hex()[2:])] == ["", "", ""]


@over(
    ("value", "how"),
    [
        (1_709_281_800, ""),
        (1_709_281_800_000, "milliseconds"),
        (1_709_281_800_000_000, "microseconds"),
        ("1709281800", "a number in a text"),
        ("2024-03-01T08:30:00Z", ""),
        ("2024-03-01 08:30:00", "a time without a zone, taken as UTC"),
        ("2024-03-01T10:30:00+02:00", ""),
        (datetime(2024, 3, 1, 8, 30), "a time without a zone, taken as UTC"),  # noqa: DTZ001 - that is the point.
    ],
)
def test_a_time_is_read_whatever_its_form_and_its_unit(value: object, how: str) -> None:
    assert parse_time(value) == (datetime(2024, 3, 1, 8, 30, tzinfo=UTC), how)


@over(
    "value",
    ["soon", True, float("nan"), float("inf"), -1, 10**18, 10**400, [], {"$date": "2024-03-01"}, "2024-13-01",
     "9999-12-31T23:59:59-05:00", datetime.max.replace(tzinfo=UTC)],
)  # fmt: skip
def test_an_invalid_time_is_none(value: object) -> None:
    with pytest.raises(ValueError, match="is "):
        parse_time(value)


@over(
    ("source_name", "name"),
    [
        ("reply_to", "reply_to"),
        ("Reply-To", "reply_to"),
        ("UserPreference", "user_preference"),
        ("  ", "note"),
        ("42", "x_42"),
        ("!!", "x"),
        ("é", "x"),
        ("a" * 99, "a" * 64),
    ],
)
def test_a_name_is_written_as_names_are_here(source_name: str, name: str) -> None:
    assert Row("table", "1", {"type": source_name}, Notes()).name("type", "note") == name


def test_slugs_tell_realms_of_one_name_apart_and_keep_those_that_they_have() -> None:
    assert slug_of("Acme Corp", "1") != slug_of("Acme Corp", "2")
    assert slug_of("Acme Corp", "1").startswith("acme-corp-")
    assert slug_of("名", "1") == slug_of("名", "1") != ""
    assert slug_of("Acme", "1", "acme") == "acme"
    assert slug_of("Acme", "1", "Not A Slug").startswith("acme-")
    assert len(slug_of("x" * 200, "1")) <= 63


@over(
    ("url", "words"),
    [
        ("postgresql://somebody:hushhush@127.0.0.1:1/orchestrator", "No Postgres answers at 127.0.0.1:1/orchestrator"),
        ("mysql://somebody:hushhush@127.0.0.1/x", "SOURCE is the URL of a Postgres database"),
        ("hushhush", "SOURCE is the URL of a Postgres database"),
        ("", "SOURCE is the URL of a Postgres database"),
        ("postgresql://somebody:hushhush@[::1/x", "SOURCE is the URL of a Postgres database"),
        ("postgresql://somebody:hushhush@127.0.0.1:99999/x", "SOURCE is the URL of a Postgres database"),
        ("postgresql://somebody:hushhush@127.0.0.1:1/x?sslmode=hushhush", "has a part that Postgres does not know"),
    ],
)
def test_a_wrong_url_is_reported_without_its_password(url: str, words: str) -> None:
    with pytest.raises(SourceInvalid) as caught, open_source(url):
        pass

    assert words in str(caught.value)
    assert "hushhush" not in str(caught.value)


def row(**values: Any) -> tuple[Row, Notes]:
    notes = Notes()
    return Row("table", "1", values, notes), notes


def test_a_number_out_of_range_is_moved_and_what_is_none_is_left_out() -> None:
    result, notes = row(high=7.5, low=-1, text="0.5", none="much", nan=float("nan"))

    assert [result.share(name) for name in ("high", "low", "text", "none", "nan", "missing")] == [
        1,
        0,
        0.5,
        None,
        None,
        None,
    ]
    assert {column for _, column, _ in notes.conversions} == {"high", "low", "none", "nan"}


def test_tags_are_split_trimmed_and_kept_once() -> None:
    result, _ = row(commas=" tea, ,coffee,tea ", json='["tea", 7, null, "tea"]', none=None)

    assert [result.tags(name) for name in ("commas", "json", "none")] == [["tea", "coffee"], ["tea", "7"], []]


def test_a_number_beyond_all_bounds_makes_a_column_text() -> None:
    result, notes = row(small='{"a": 1e-9999999999999999999999}')
    rest: dict[str, Any] = {}

    result.document("small", rest)

    assert ("table", "small") in {(table, column) for table, column, _ in notes.conversions}


@over("value", [[10**400], f"[{10**400}]", "[NaN]", [float("inf")], "[1e999]"])
def test_numbers_that_no_vector_holds_are_no_vector(value: object) -> None:
    assert vector_of(value) is None


@pytest.mark.parametrize(
    "time", [{"$date": "2020-01-01"}, ["2020-01-01"], 10**400, "9999-12-31T23:59:59-05:00", "soon"]
)
def test_a_time_that_cannot_be_read_is_left_out_and_noted(tmp_path: Path, time: object) -> None:
    times = {"created_at": time, "updated_at": time}
    memories = [{"id": name, "content": name, "type": "fact", "key": name, **times} for name in ("a", "b")]
    links = [{"id": "l", "from_id": "a", "to_id": "b", "relation": "related", **times}]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"memories": memories, "links": links}), "utf-8")
    notes = Notes()

    with memoryvault_json.open_source(str(path)) as source:
        (realm,) = source.tenants()
        records = list(source.records(realm, notes))

    assert [str(record.kind) for record in records if isinstance(record, Record)] == ["memory", "memory", "link"]
    assert not any(record.item.HasField("create_time") for record in records if isinstance(record, Record))
    assert ("memories", "created_at") in {(table, column) for table, column, _ in notes.conversions}


@pytest.mark.parametrize("text", ["{", '{"memories": [{"id": "a", "n": 1e-9999999999999999999999}', "["])
def test_an_export_that_is_no_json_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(text, "utf-8")

    with pytest.raises(SourceInvalid, match="is no JSON"), memoryvault_json.open_source(str(path)):
        pass
