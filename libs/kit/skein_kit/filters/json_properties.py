"""Properties: the scalar values of JSON objects, in the form that the property index stores. No SQL.

A property is a path, names joined by dots, and a value as JSON text: `("preferences.languages", '"en"')`. An element of
a list has the list's path. Equal numbers have one text. Values that no request can name are left out: nulls, and values
with very long paths, empty names or names with a dot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Protocol

from google.protobuf.struct_pb2 import Value

from skein_kit.errors import FieldInvalid
from skein_kit.filters.fields import number_text
from skein_kit.json_values import exact, structs
from skein_kit.json_values.exact import InvalidJson

MAX_PROPERTIES = 500
# Limit of a path in the protos.
MAX_PATH_CHARACTERS = 500
# Longer texts are stored as their SHA-256: an index key holds 2,700 bytes, of which the owner's id may take 1,020.
_MAX_VALUE_BYTES = 256
_MAX_PATH_BYTES = 1000
_SCALARS = ("string_value", "number_value", "bool_value")

Property = tuple[str, str]


class Match(Protocol):
    """A condition of a request: the property at a path has a value."""

    @property
    def path(self) -> str:
        """Names joined by dots."""

    @property
    def value(self) -> Value:
        """A text, a number or a boolean."""

    @property
    def value_json(self) -> str:
        """The same value as JSON text; may be empty."""


def extract_properties(objects: Mapping[str, str | None], *, owner: str) -> frozenset[Property]:
    """Return the properties of JSON objects; `objects` maps the first name of their paths to JSON text.

    Raises FieldInvalid, for a field of `owner`, when they have more than MAX_PROPERTIES.
    """
    properties: set[Property] = set()
    for name, text in objects.items():
        for path, value in _leaves(name, exact.loads(text) if text else None):
            properties.add((_hash_if_long(path, _MAX_PATH_BYTES), _hash_if_long(_text(value), _MAX_VALUE_BYTES)))
        if len(properties) > MAX_PROPERTIES:
            names = " and ".join(objects)
            raise FieldInvalid(violations=[(f"{owner}.{name}", f"of {names} {MAX_PROPERTIES} values can be kept")])
    return frozenset(properties)


def parse_matches(matches: Iterable[Match]) -> list[Property]:
    """Return the properties of a request's conditions. Raises FieldInvalid for a value that is no scalar."""
    properties: list[Property] = []
    for index, match in enumerate(matches):
        if match.value.WhichOneof("kind") not in _SCALARS:
            raise FieldInvalid(violations=[(f"properties[{index}].value", "is no text, number or truth value")])
        try:
            value = exact.loads(match.value_json) if match.value_json else structs.value_of(match.value)
        except InvalidJson:
            raise FieldInvalid(
                violations=[(f"properties[{index}].value", "is a number that JSON cannot say")]
            ) from None
        properties.append((_hash_if_long(match.path, _MAX_PATH_BYTES), _hash_if_long(_text(value), _MAX_VALUE_BYTES)))
    return properties


def _leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name and "." not in name:
                yield from _leaves(f"{path}.{name}", inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(path, inner)
    elif value is not None and len(path) <= MAX_PATH_CHARACTERS:
        yield path, value


def _text(value: object) -> str:
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        # The stored rows have this spelling of fractions that are doubles.
        is_double = value != value.to_integral_value() and Decimal(repr(float(value))) == value
        return repr(float(value)) if is_double else number_text(value)
    return json.dumps(value, ensure_ascii=False)


def _hash_if_long(text: str, max_bytes: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= max_bytes else f"sha256:{hashlib.sha256(encoded).hexdigest()}"
