"""What is a JSON Schema. Nothing in one is acted on: no reference is followed and no regular expression compiled."""

from __future__ import annotations

import asyncio
import json

from jsonschema import Draft202012Validator, FormatChecker, SchemaError
from jsonschema.validators import validator_for

from skein_tenancy.errors import JsonSchemaInvalid

# Checking takes about 0.1 ms for each of these: longer ones would keep others waiting.
_SMALL_CHARACTERS = 4000
_MAX_PLACE_CHARACTERS = 200
# Whether values of several kinds are unique is found out pair by pair.
_MAX_MIXED = 100
# Compiling a regular expression of a few hundred characters can take seconds, and those here are of another dialect.
_NO_FORMATS = FormatChecker(formats=())


async def check_json_schema(text: str) -> None:
    """Refuse a JSON object that breaks the rules of its draft, 2020-12 where it names none that is known.

    Raises JsonSchemaInvalid. The text's depth and length are bounded by whoever read it.
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
        # Checks the document against the rules of the draft, which come with the library.
        validator_for(schema, default=Draft202012Validator).check_schema(
            schema,
            format_checker=_NO_FORMATS,  # type: ignore[call-arg]  # The stubs do not know it.
        )
    except SchemaError as error:
        place = error.json_path[:_MAX_PLACE_CHARACTERS]
        raise JsonSchemaInvalid(violations=[("tool.json_schema", f"breaks `{error.validator}` at {place}")]) from None
    except RecursionError:
        raise JsonSchemaInvalid(violations=[("tool.json_schema", "is nested too deep")]) from None


def _is_mixed(value: object) -> bool:
    """Say whether there is a long list anywhere whose values cannot be sorted."""
    if isinstance(value, dict):
        return any(map(_is_mixed, value.values()))
    if not isinstance(value, list):
        return False
    if len(value) > _MAX_MIXED:
        kinds = {type(inner) for inner in value}
        return not (kinds == {str} or kinds <= {int, float})
    return any(map(_is_mixed, value))
