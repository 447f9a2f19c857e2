"""Readers of message fields: each returns a value of the expected type, or raises an error that names the field."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from google.protobuf.struct_pb2 import Struct, Value

from skein_kit.json_values import exact as exact_json
from skein_kit.json_values.exact import InvalidJson
from skein_kit.json_values.number_marks import mark_numbers, number_in
from skein_kit.json_values.structs import plain_number
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError

# Each JSON level is three protobuf levels, of which protobuf parses a hundred.
_MAX_LEVELS = 30


def invalid(field: str, rule: str) -> RequestError:
    """Return the error for an invalid value; the message is `field` followed by `rule`."""
    return RequestError(VALIDATION_ERROR, f"{field} {rule}", field=field)


def text(values: Mapping[str, Any], name: str, field: str = "") -> str:
    """Read a text; a missing one is ""."""
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise invalid(field or name, "is a text")
    require_text(value, field or name)
    return value


def required_text(values: Mapping[str, Any], name: str, field: str = "") -> str:
    """Read a text that is not blank."""
    result = text(values, name, field)
    if not result.strip():
        raise invalid(field or name, "is needed")
    return result


def texts(value: object, field: str) -> list[str]:
    """Read texts without duplicates; a single text is a list of one."""
    if value is None:
        return []
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise invalid(field, "is a list of texts")
    for item in items:
        require_text(item, field)
    return list(dict.fromkeys(item for item in items if item))


def require_text(value: str, field: str) -> None:
    """Raise RequestError for half a surrogate pair, which JSON can express and protobuf cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid(field, "holds half of a surrogate pair, which is no character") from None


def mapping(value: object, field: str) -> dict[str, Any]:
    """Read an object; a missing one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(field, "is an object")
    return value


def integer(value: object, field: str, *, default: int, minimum: int, maximum: int | None = None) -> int:
    """Read a whole number; a missing one is `default`."""
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise invalid(field, f"is a whole number of at least {minimum}")
    if maximum is not None and value > maximum:
        raise invalid(field, f"is a whole number from {minimum} to {maximum}")
    return value


def read_time(value: object, field: str) -> datetime:
    """Read a time: ISO 8601, in UTC without a zone, or seconds since 1970."""
    try:
        if isinstance(value, str):
            result = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            result = datetime.fromtimestamp(value, UTC)
        else:
            raise invalid(field, "is a time such as 2023-06-15T08:30:45Z")
    except (ValueError, OverflowError, OSError):
        raise invalid(field, "is a time such as 2023-06-15T08:30:45Z") from None
    try:
        return result.replace(tzinfo=UTC) if result.tzinfo is None else result.astimezone(UTC)
    except OverflowError:
        raise invalid(field, "is a time between the years 1 and 9999") from None


def struct(value: dict[str, Any], field: str) -> Struct:
    """Read an object of any shape."""
    if _is_deeper(value, _MAX_LEVELS):
        raise invalid(field, f"is nested more than {_MAX_LEVELS} levels deep")
    result = Struct()
    try:
        exact_json.check_numbers(exact_json.to_decimals(value))
        result.update(mark_numbers(value))
    except InvalidJson as error:
        raise invalid(field, str(error)) from None
    except (ValueError, OverflowError, TypeError):
        raise invalid(field, "holds something too large or not text for a JSON object") from None
    return result


def _is_deeper(value: object, max_levels: int) -> bool:
    """Say whether objects and lists are nested deeper than `max_levels` levels."""
    if isinstance(value, dict):
        return max_levels < 1 or any(_is_deeper(item, max_levels - 1) for item in value.values())
    if isinstance(value, list):
        return max_levels < 1 or any(_is_deeper(item, max_levels - 1) for item in value)
    return False


def to_json(values: Struct) -> dict[str, Any]:
    """Return an object of any shape; numbers without a fraction become whole numbers, as they were sent."""
    return {name: _to_json_value(value) for name, value in values.fields.items()}


def _to_json_value(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            exact = number_in(value.string_value)
            return value.string_value if exact is None else exact
        case "number_value":
            return plain_number(value.number_value)
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return to_json(value.struct_value)
        case "list_value":
            return [_to_json_value(item) for item in value.list_value.values]
        case _:
            return None
