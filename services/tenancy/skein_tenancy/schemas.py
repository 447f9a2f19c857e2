"""What is a JSON Schema. A reference in one is never followed, neither here nor into the network."""

from __future__ import annotations

import asyncio
import json

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.validators import validator_for

from skein_tenancy.errors import JsonSchemaInvalid

# Checking takes about 0.1 ms for each of these: longer ones would keep others waiting.
_SMALL_CHARACTERS = 4000
_MAX_PLACE_CHARACTERS = 200


async def must_be_schema(text: str) -> None:
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
        # Checks the document against the rules of the draft, which come with the library.
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        place = error.json_path[:_MAX_PLACE_CHARACTERS]
        raise JsonSchemaInvalid(violations=[("tool.json_schema", f"breaks `{error.validator}` at {place}")]) from None
    except RecursionError:
        raise JsonSchemaInvalid(violations=[("tool.json_schema", "is nested too deep")]) from None
