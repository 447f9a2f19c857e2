"""The scalar values of JSON objects, as they are looked for. No SQL.

A property is a path, names joined by dots, and a value as JSON text: `("preferences.languages", '"en"')`. An element of
a list stands under the list's path. Numbers that are equal have one text. What cannot be asked for is left out: nulls,
names that are empty or hold a dot, and very long paths.
"""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from skein_kit.errors import FieldInvalid
from skein_kit.filters.fields import number_text
from skein_kit.json_values import exact, structs
from skein_kit.json_values.exact import InvalidJson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from google.protobuf.struct_pb2 import Value

MAX_PROPERTIES = 500
# Of a path, as the protos say.
MAX_PATH_CHARACTERS = 500
# Longer texts are kept as their hash: a key of the index holds 2,700 bytes, and the id of what has the property may
# take 1,020 of them.
_MAX_VALUE_BYTES = 256
_MAX_PATH_BYTES = 1000
_SCALARS = ("string_value", "number_value", "bool_value")

Property = tuple[str, str]


class Match(Protocol):
    """A property as a request asks for it."""

    @property
    def path(self) -> str:
        """Names joined by dots."""

    @property
    def value(self) -> Value:
        """A text, a number or a truth value."""

    @property
    def value_json(self) -> str:
        """The same as JSON text; empty for none."""


def extract_properties(objects: Mapping[str, str | None], *, owner: str) -> frozenset[Property]:
    """Return the properties of JSON objects, by the name that their paths begin with.

    Raises FieldInvalid, about that field of `owner`, when there are too many.
    """
    found: set[Property] = set()
    for name, text in objects.items():
        for path, value in _leaves(name, exact.loads(text) if text else None):
            found.add((_kept(path, _MAX_PATH_BYTES), _kept(_text(value), _MAX_VALUE_BYTES)))
        if len(found) > MAX_PROPERTIES:
            names = " and ".join(objects)
            raise FieldInvalid(violations=[(f"{owner}.{name}", f"of {names} {MAX_PROPERTIES} values can be kept")])
    return frozenset(found)


def parse_matches(matches: Iterable[Match]) -> list[Property]:
    """Return the properties that are asked for. Raises FieldInvalid for what is no scalar."""
    found: list[Property] = []
    for index, match in enumerate(matches):
        if match.value.WhichOneof("kind") not in _SCALARS:
            raise FieldInvalid(violations=[(f"properties[{index}].value", "is no text, number or truth value")])
        try:
            value = exact.loads(match.value_json) if match.value_json else structs.value_of(match.value)
        except InvalidJson:
            raise FieldInvalid(
                violations=[(f"properties[{index}].value", "is a number that JSON cannot say")]
            ) from None
        found.append((_kept(match.path, _MAX_PATH_BYTES), _kept(_text(value), _MAX_VALUE_BYTES)))
    return found


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
        # Tables have the fractions that are doubles in this spelling.
        is_double = value != value.to_integral_value() and Decimal(repr(float(value))) == value
        return repr(float(value)) if is_double else number_text(value)
    return json.dumps(value, ensure_ascii=False)


def _kept(text: str, most: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= most else f"sha256:{hashlib.sha256(encoded).hexdigest()}"
