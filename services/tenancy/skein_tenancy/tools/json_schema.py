"""Validation of JSON Schemas, which follows no reference and compiles no regular expression."""

from __future__ import annotations

import asyncio
import json

from jsonschema import Draft202012Validator, FormatChecker, SchemaError
from jsonschema.validators import validator_for

from skein_tenancy.errors import JsonSchemaInvalid

# Checking takes about 0.1 ms per character, so longer texts are checked in a thread.
_SMALL_CHARACTERS = 4000
_MAX_PATH_CHARACTERS = 200
# The uniqueness of values of mixed types is checked pair by pair, which is quadratic.
_MAX_MIXED = 100
# Formats are not checked: compiling a regular expression of a few hundred characters can take seconds.
_NO_FORMATS = FormatChecker(formats=())


async def check_json_schema(text: str) -> None:
    """Raise JsonSchemaInvalid for a JSON object that breaks the rules of its draft; unknown drafts mean 2020-12.

    The caller bounds the depth and length of the text.
    """
    schema = json.loads(text)
    if len(text) <= _SMALL_CHARACTERS:
        _check(schema)
    else:
        await asyncio.to_thread(_check, schema)


def _check(schema: dict[str, object]) -> None:
    if not isinstance(schema.get("$schema", ""), str):
        raise JsonSchemaInvalid(violations=[("tool.json_schema", "$schema is no text")])
    try:
        if _is_mixed(schema):
            violation = f"holds a list of more than {_MAX_MIXED} values that are neither all texts nor all numbers"
            raise JsonSchemaInvalid(violations=[("tool.json_schema", violation)])
        validator_for(schema, default=Draft202012Validator).check_schema(
            schema,
            format_checker=_NO_FORMATS,  # type: ignore[call-arg]  # The stubs lack it.
        )
    except SchemaError as error:
        path = error.json_path[:_MAX_PATH_CHARACTERS]
        raise JsonSchemaInvalid(violations=[("tool.json_schema", f"breaks `{error.validator}` at {path}")]) from None
    except RecursionError:
        raise JsonSchemaInvalid(violations=[("tool.json_schema", "is nested too deep")]) from None


def _is_mixed(value: object) -> bool:
    """Return whether a long list holds values that are neither all texts nor all numbers."""
    if isinstance(value, dict):
        return any(map(_is_mixed, value.values()))
    if not isinstance(value, list):
        return False
    if len(value) > _MAX_MIXED:
        types = {type(item) for item in value}
        return not (types == {str} or types <= {int, float})
    return any(map(_is_mixed, value))
