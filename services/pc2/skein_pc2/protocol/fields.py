"""Reading what a message says: each value of the kind that it should be, or a refusal that names its field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from google.protobuf.struct_pb2 import Struct, Value

from skein_kit.json_values import exact as exact_json
from skein_kit.json_values.exact import InvalidJson
from skein_kit.json_values.number_marks import mark_numbers, number_in
from skein_kit.json_values.structs import plain_number
from skein_pc2.protocol.errors import VALIDATION_ERROR, RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each level is three messages within one another, of which protobuf takes a hundred.
_DEEPEST = 30


def invalid(field: str, rule: str) -> RequestError:
    """Refuse a value: `rule` ends the sentence that `field` begins."""
    return RequestError(VALIDATION_ERROR, f"{field} {rule}", field=field)


def text(values: Mapping[str, Any], name: str, field: str = "") -> str:
    """Read a text, which is "" when it is not there."""
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise invalid(field or name, "is a text")
    require_text(value, field or name)
    return value


def required_text(values: Mapping[str, Any], name: str, field: str = "") -> str:
    """Read a text that must be there."""
    found = text(values, name, field)
    if not found.strip():
        raise invalid(field or name, "is needed")
    return found


def texts(value: object, field: str) -> list[str]:
    """Read texts, each once; a text alone is a list of one."""
    if value is None:
        return []
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise invalid(field, "is a list of texts")
    for item in items:
        require_text(item, field)
    return list(dict.fromkeys(item for item in items if item))


def require_text(value: str, field: str) -> None:
    """Refuse half of a surrogate pair, which JSON can say and protobuf cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid(field, "holds half of a surrogate pair, which is no character") from None


def mapping(value: object, field: str) -> dict[str, Any]:
    """Read an object, which is empty when it is not there."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(field, "is an object")
    return value


def integer(value: object, field: str, *, default: int, least: int, most: int | None = None) -> int:
    """Read a whole number, which is `default` when it is not there."""
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise invalid(field, f"is a whole number of at least {least}")
    if most is not None and value > most:
        raise invalid(field, f"is a whole number from {least} to {most}")
    return value


def read_time(value: object, field: str) -> datetime:
    """Read a time: as ISO 8601, where no zone means UTC, or in seconds since 1970."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found = datetime.fromtimestamp(value, UTC)
        else:
            raise invalid(field, "is a time such as 2023-06-15T08:30:45Z")
    except (ValueError, OverflowError, OSError):
        raise invalid(field, "is a time such as 2023-06-15T08:30:45Z") from None
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise invalid(field, "is a time between the years 1 and 9999") from None


def struct(value: dict[str, Any], field: str) -> Struct:
    """Read an object of any shape."""
    if _is_deeper(value, _DEEPEST):
        raise invalid(field, f"is nested more than {_DEEPEST} levels deep")
    result = Struct()
    try:
        exact_json.check_numbers(exact_json.to_decimals(value))
        result.update(mark_numbers(value))
    except InvalidJson as no:
        raise invalid(field, str(no)) from None
    except (ValueError, OverflowError, TypeError):
        raise invalid(field, "holds something too large or not text for a JSON object") from None
    return result


def _is_deeper(value: object, than: int) -> bool:
    """Say whether objects and lists are nested deeper than so many levels."""
    if isinstance(value, dict):
        return than < 1 or any(_is_deeper(item, than - 1) for item in value.values())
    if isinstance(value, list):
        return than < 1 or any(_is_deeper(item, than - 1) for item in value)
    return False


def to_json(values: Struct) -> dict[str, Any]:
    """Write an object of any shape; a number without a fraction is a whole one, as it was when it came."""
    return {name: _plain(value) for name, value in values.fields.items()}


def _plain(value: Value) -> Any:
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
            return [_plain(item) for item in value.list_value.values]
        case _:
            return None
