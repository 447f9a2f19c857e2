"""Converts rows of other systems to messages, and notes every conversion.

Values without a field are kept under metadata. Values out of range are moved to the nearest valid one. Unreadable
values are rejected by the caller. Each is noted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct
from google.protobuf.timestamp_pb2 import Timestamp

from skein_importers.records import Kind
from skein_importers.sources.base import Notes
from skein_kit.json_values import exact
from skein_kit.json_values.number_marks import mark_numbers

MAX_TAGS = 100
# Why a value is left out, in a source whose columns are all accounted for.
_NO_FIELD = "left out: there is no such field here"
_MAX_TAG_LENGTH = 255
_MAX_NAME_LENGTH = 64
# Seconds of the year 5138; larger numbers are milliseconds, and those beyond a thousand times that microseconds.
_SECONDS = 100_000_000_000
# Three levels of messages hold one of JSON, and a message has 100.
_MAX_DEPTH = 30
_MAX_TIME = datetime(9999, 1, 1, tzinfo=UTC)
_MIN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
_NUMBER = re.compile(r"-?\d{1,18}(\.\d+)?")


class InvalidRow(Exception):
    """A row cannot be imported; the message follows the row's name in the report."""


def parse_json(text: str) -> Any:
    """Read standard JSON. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=_reject_constant, parse_float=exact.ExactFloat.read)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ArithmeticError:
        raise ValueError(exact.NO_NUMBER) from None


def make_storable(value: Any, depth: int = 0) -> Any:
    """Return JSON that the cluster can store: without NUL and half surrogates, and with NaN and huge numbers as text.

    Raises ValueError for JSON that is nested too deeply.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("is nested too deeply")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
    if isinstance(value, dict):
        return {make_storable(str(name)): make_storable(element, depth + 1) for name, element in value.items()}
    if isinstance(value, list):
        return [make_storable(element, depth + 1) for element in value]
    if isinstance(value, bool):
        return value
    return value if not isinstance(value, int | float) or _is_storable(value) else str(value)


def _is_storable(number: float) -> bool:
    try:
        exact.check_numbers(exact.to_decimals(number))
    except exact.InvalidJson:
        return False
    return True


def struct(values: Mapping[str, Any]) -> Struct:
    """Return a JSON object as a Struct, with marks for numbers that no double holds. Raises ValueError."""
    try:
        return json_format.ParseDict(mark_numbers(dict(values)), Struct())
    except (json_format.ParseError, OverflowError, RecursionError, UnicodeError) as error:
        raise ValueError("is too deep or no text") from error


def list_value(values: Iterable[Any]) -> ListValue:
    """Return a JSON array as a ListValue. Raises ValueError for unstorable values."""
    try:
        return json_format.ParseDict(mark_numbers(list(values)), ListValue())
    except (json_format.ParseError, OverflowError, RecursionError, UnicodeError) as error:
        raise ValueError("is too deep or no text") from error


def parse_time(value: object) -> tuple[datetime, str]:
    """Return a time and its conversion, "" for none. Raises ValueError."""
    try:
        time_value, conversion = _to_time(value)
    except OverflowError:
        raise ValueError("is no time") from None
    if not _MIN_TIME <= time_value < _MAX_TIME:
        raise ValueError("is a time before 1970 or after 9998")
    return time_value, conversion


def _to_time(value: object) -> tuple[datetime, str]:
    conversion = ""
    if isinstance(value, str):
        value, conversion = _parse_time_text(value.strip())
    if isinstance(value, datetime):
        conversion = conversion or ("" if value.tzinfo else "a time without a zone, taken as UTC")
        time_value = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        time_value, unit = _parse_time_number(float(value))
        conversion = unit or conversion
    else:
        raise ValueError("is no time")
    return time_value, conversion


def _parse_time_text(text: str) -> tuple[object, str]:
    if _NUMBER.fullmatch(text):
        return float(text), "a number in a text"
    try:
        return (datetime.fromisoformat(text), "") if _ISO.fullmatch(text) else (None, "")
    except ValueError:
        return None, ""


def _parse_time_number(seconds: float) -> tuple[datetime, str]:
    unit = ""
    if abs(seconds) >= _SECONDS * 1000:
        seconds, unit = seconds / 1_000_000, "microseconds"
    elif abs(seconds) >= _SECONDS:
        seconds, unit = seconds / 1000, "milliseconds"
    return _MIN_TIME + timedelta(microseconds=round(seconds * 1_000_000)), unit


def to_timestamp(value: datetime) -> Timestamp:
    """Return a time as a message."""
    result = Timestamp()
    result.FromDatetime(value)
    return result


def format_iso(value: datetime) -> str:
    """Return a time as metadata keeps it."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Row:
    """One row with readers of its columns; conversions go to the notes."""

    table: str
    # The row's id in its source.
    key: str
    values: Mapping[str, Any]
    notes: Notes
    # The path of values without a field, as reports name it.
    metadata_path: str = "metadata"
    # Columns that were read.
    read: set[str] = field(default_factory=set, compare=False)

    @property
    def where(self) -> str:
        """Return the row's name in reports."""
        return f"{self.table} {self.key}"

    def count_converted(self, column: str, conversion: str) -> None:
        """Count a converted value."""
        self.notes.count_converted(self.table, column, conversion, self.where)

    def count_unread(self, reasons: Mapping[str, str]) -> None:
        """Count each value that nothing read as left out; `reasons` say why by column, "" for one told elsewhere."""
        for column in sorted({*self.values.keys()} - self.read):
            reason = reasons.get(column, _NO_FIELD)
            if reason and self.values[column] not in (None, ""):
                self.count_converted(column, reason)

    def value(self, column: str) -> Any:
        """Return a raw value; None when it or the column is missing."""
        self.read.add(column)
        return self.values.get(column)

    def text(self, column: str, max_length: int = 0) -> str:
        """Return a text, "" for none; a text longer than `max_length` is cut."""
        value = self.value(column)
        if value is None:
            return ""
        if isinstance(value, bytes):
            text = value.decode("utf-8", "replace")
            self.count_converted(column, "bytes read as UTF-8")
        elif isinstance(value, str):
            text = value
        else:
            text = str(value)
            self.count_converted(column, "a number became a text")
        readable = text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
        if readable != text:
            self.count_converted(column, "characters that text cannot store were removed")
        if max_length and len(readable) > max_length:
            self.count_converted(column, f"cut to {max_length} characters")
            return readable[:max_length]
        return readable

    def required_text(self, column: str) -> str:
        """Return a text that is not blank. Raises InvalidRow."""
        text = self.text(column)
        if not text.strip():
            raise InvalidRow(f"{column} is empty")
        return text

    def time(self, column: str) -> datetime | None:
        """Return a time; None when it is missing or unreadable."""
        value = self.value(column)
        if value is None or value == "":
            return None
        try:
            result, conversion = parse_time(value)
        except ValueError as error:
            self.count_converted(column, f"{error}: left out")
            return None
        if conversion:
            self.count_converted(column, conversion)
        return result

    def number(self, column: str) -> float | None:
        """Return a number; None when it is missing."""
        value = self.value(column)
        if value is None or value == "":
            return None
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isnan(number):
            self.count_converted(column, "no number: left out")
            return None
        return number

    def share(self, column: str) -> float | None:
        """Return a number moved into 0 to 1; None when it is missing."""
        number = self.number(column)
        if number is None:
            return None
        clamped = min(max(number, 0.0), 1.0)
        if clamped != number:
            self.count_converted(column, "moved into 0 to 1")
        return clamped

    def boolean(self, column: str, *, default: bool) -> bool:
        """Return a boolean of any form."""
        value = self.value(column)
        if value is None or value == "":
            return default
        if isinstance(value, str):
            return value.strip().lower() in {"1", "t", "true", "y", "yes", "on"}
        return bool(value)

    def document(self, column: str, extra: dict[str, Any]) -> Any:
        """Return a column's JSON, None for none; a text that is not JSON is kept in `extra` as <column>_text."""
        value = self.value(column)
        if value is None or isinstance(value, bool):
            return value
        is_read = isinstance(value, int | float | list | dict)
        text = "" if is_read else self.text(column)
        if not is_read and not text.strip():
            return None
        try:
            parsed = value if is_read else parse_json(text)
            storable = make_storable(parsed)
            list_value([storable])
        except (ValueError, RecursionError):
            self.count_converted(column, f"no JSON: kept as {self.metadata_path}.{column}_text")
            extra[f"{column}_text"] = text or make_storable(repr(value))
            return None
        if storable != parsed:
            self.count_converted(column, "values that JSON cannot store became text or were removed")
        return storable

    def mapping(self, column: str, extra: dict[str, Any]) -> dict[str, Any]:
        """Return a JSON object, empty for none; any other JSON is kept in `extra` under the column's name."""
        result = self.document(column, extra)
        if isinstance(result, dict):
            return result
        if result is not None:
            self.count_converted(column, f"no JSON object: kept as {self.metadata_path}.{column}")
            extra[column] = result
        return {}

    def sequence(self, column: str, extra: dict[str, Any]) -> list[Any]:
        """Return a JSON array, empty for none; one value becomes an array of it."""
        result = self.document(column, extra)
        if result is None:
            return []
        if not isinstance(result, list):
            self.count_converted(column, "one value became a list of one")
            return [result]
        return result

    def tags(self, column: str, values: Iterable[object] | None = None) -> list[str]:
        """Return tags without duplicates, from a list, a JSON array, or a text with commas."""
        if values is None:
            text = self.text(column)
            values = text.split(",")
            if text.lstrip().startswith("["):
                try:
                    parsed = parse_json(text)
                    values = parsed if isinstance(parsed, list) else values
                    self.count_converted(column, "a JSON array of tags")
                except ValueError:
                    pass
        tags: dict[str, None] = {}
        for value in values:
            tag = ("" if value is None else str(value)).strip()
            if len(tag) > _MAX_TAG_LENGTH:
                tag = tag[:_MAX_TAG_LENGTH].strip()
                self.count_converted(column, f"a tag was cut to {_MAX_TAG_LENGTH} characters")
            if not tag:
                continue
            if tag in tags:
                self.count_converted(column, "a duplicate tag was removed")
            tags[tag] = None
        if len(tags) > MAX_TAGS:
            self.count_converted(column, f"tags after the first {MAX_TAGS} were left out")
        return list(tags)[:MAX_TAGS]

    def name(self, column: str, default: str) -> str:
        """Return a name in the form of types and relations: lower-case letters, digits and underscores."""
        text = self.text(column).strip()
        if not text:
            return default
        name = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()).strip("_")
        name = name if name[:1].isalpha() else f"x_{name}".rstrip("_")
        name = name[:_MAX_NAME_LENGTH].rstrip("_")
        if name != text:
            self.count_converted(column, "written with small letters, digits and underscores")
        return name


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


# Kinds whose readers set create_time themselves.
_KINDS_WITH_TIME = frozenset({Kind.SESSION, Kind.MESSAGE, Kind.MEMORY})


def set_times(row: Row, kind: Kind, item: Message) -> Message:
    """Set a record's times from its row: created_at, unless the reader did it, and updated_at."""
    if kind is Kind.WEBHOOK:
        # A webhook starts with its import.
        return item
    for column, name in (("created_at", "create_time"), ("updated_at", "update_time")):
        if name not in item.DESCRIPTOR.fields_by_name or item.HasField(name):
            continue
        value = row.value(column)
        if value is None or value == "" or (kind in _KINDS_WITH_TIME and name == "create_time"):
            continue
        # The row's reader notes unreadable times.
        with suppress(ValueError):
            getattr(item, name).CopyFrom(to_timestamp(parse_time(value)[0]))
    return item
