"""Types of memories: schemas of structured types, and which of their fields are searched. No gRPC, no SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator

from skein_kit.ids import parse_id
from skein_kit.json_values import exact
from skein_kit.policies.store import Policy
from skein_memory.errors import MemoryDataInvalid, MemoryTypeNotAllowed

VAULT = "knowledge_vault"
TASK = "task"
OBJECTIVE = "objective"
# Types whose data has a status.
TASK_TYPES = frozenset({TASK, OBJECTIVE})
OPEN = "open"
DONE = "done"
# The field with the length class of a secret; the service sets it, not the caller.
SECRET_LENGTH = "secret_length"  # noqa: S105 - the name of a field.
# What readers see instead of a secret.
MASK = "••••"
# Names that other systems give to secrets in plain text.
_SECRET_NAMES = frozenset({"secret", "secret_value", "value", "password", "token"})
_MAX_VIOLATIONS = 20
# What one memory's data adds to the search index and to the text that vectors are made of, in characters.
MAX_DATA_CHARACTERS = 100_000
# A longer run of ASCII without a space is an encoded file or an address, not a word.
MAX_WORD = 200
# Values of these names are credentials: they go neither into the index nor to a provider of embeddings.
_CREDENTIAL = re.compile(
    r"(?:secret|secret_?value|passw(?:or)?d|passphrase|token|api_?key|private_?key|credentials?)$", re.IGNORECASE
)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.,+Zz-]*")
# Every text of the data, at every depth.
ALL_TEXTS = "*"

_NAME = {"type": "string", "minLength": 1, "maxLength": 1000}
_TEXT = {"type": "string", "minLength": 1, "maxLength": 100_000}
_ID = {"type": "string", "minLength": 1, "maxLength": 255}
_TIME = {"type": "string", "format": "date-time", "maxLength": 64}
_STEPS = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 500}]}
_STATUS = {"enum": ["open", "in_progress", "done", "cancelled"]}
_LENGTHS = ("short", "medium", "long")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryType:
    """One type of memory that the service knows. Without `fields` its data is free."""

    name: str
    description: str
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    # Fields whose words are searched, in the order in which they are read; of free data every text, or none.
    searched_fields: tuple[str, ...] = (ALL_TEXTS,)

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of its data."""
        if not self.fields:
            return {"type": "object"}
        return {
            "type": "object",
            "properties": dict(self.fields),
            "required": list(self.required),
            "additionalProperties": False,
        }


BUILT_IN: Mapping[str, MemoryType] = {
    type_.name: type_
    for type_ in (
        MemoryType(name="note", description="Anything worth keeping; the default."),
        MemoryType(
            name="fact",
            description="A fact; with a key, the only fact of that key about its subject.",
        ),
        MemoryType(name="journal", description="An entry of a diary."),
        MemoryType(name="conversation", description="The content of a conversation."),
        MemoryType(name="context", description="Context of the current work."),
        MemoryType(name="user_preference", description="A preference of a person."),
        MemoryType(name="preference", description="A preference without a person."),
        MemoryType(name="pattern", description="A recurring pattern."),
        MemoryType(name="decision", description="A decision and its reason."),
        MemoryType(name="agent_state", description="A note of an agent about itself."),
        MemoryType(name="entity", description="A person or a thing."),
        MemoryType(name="interaction", description="An exchange between an agent and a person."),
        MemoryType(
            name="langgraph",
            description="A value of LangGraph's store; the content is the text that its index selects.",
            searched_fields=(),
        ),
        MemoryType(
            name="episodic",
            description="An event.",
            fields={"occurred_at": _TIME, "actor": _NAME, "event_type": _NAME, "summary": _TEXT, "details": _TEXT},
            required=("event_type", "summary"),
            searched_fields=("actor", "event_type", "summary", "details"),
        ),
        MemoryType(
            name="semantic",
            description="A concept.",
            fields={"name": _NAME, "summary": _TEXT, "details": _TEXT, "source": _NAME},
            required=("name", "summary"),
            searched_fields=("name", "summary", "details", "source"),
        ),
        MemoryType(
            name="procedural",
            description="A procedure.",
            fields={"entry_type": _NAME, "summary": _TEXT, "steps": _STEPS},
            required=("entry_type", "summary", "steps"),
            searched_fields=("entry_type", "summary", "steps"),
        ),
        MemoryType(
            name="resource",
            description="A document, a file, a page.",
            fields={"title": _NAME, "type": _NAME, "content": _TEXT, "summary": _TEXT, "uri": _NAME},
            required=("title", "type", "content"),
            searched_fields=("title", "type", "summary", "content"),
        ),
        MemoryType(
            name=TASK,
            description="A task.",
            fields={
                "status": _STATUS,
                "due_time": _TIME,
                "objective_id": _ID,
                "complete_time": _TIME,
                "result": _TEXT,
            },
            searched_fields=("result",),
        ),
        MemoryType(
            name=OBJECTIVE,
            description="A goal that tasks serve.",
            fields={"status": _STATUS, "due_time": _TIME, "complete_time": _TIME, "result": _TEXT},
            searched_fields=("result",),
        ),
        MemoryType(
            name=VAULT,
            description="A secret, encrypted apart from its description.",
            fields={
                "sensitivity": {"enum": ["low", "medium", "high"]},
                "entry_type": _NAME,
                SECRET_LENGTH: {"enum": list(_LENGTHS)},
            },
            searched_fields=("entry_type",),
        ),
    )
}
_VALIDATORS = {name: Draft202012Validator(type_.schema) for name, type_ in BUILT_IN.items() if type_.fields}
# Fields of a memory with the meaning of a field of its data.
_SHARED_FIELDS = frozenset({"title", "content", "source"})


def validate_data(type_name: str, data: str | None, *, draft_fields: Mapping[str, str | None]) -> None:
    """Reject data (JSON text) that does not match its type; `draft_fields` are texts of the memory itself, by field.

    A memory with content alone needs no data. A field of the memory itself counts as the required field of that name.
    Raises MemoryDataInvalid, which names fields and never their values.
    """
    validator = _VALIDATORS.get(type_name)
    if validator is None or data is None:
        return
    values = exact.loads(data)
    present_fields = {name for name in _SHARED_FIELDS if draft_fields.get(name)}
    violations = list(islice(_violations(validator, BUILT_IN[type_name], values, present_fields), _MAX_VIOLATIONS))
    if violations:
        raise MemoryDataInvalid(violations=violations, type=type_name)


def searched_fields_of(type_name: str) -> tuple[str, ...]:
    """Return the fields of a type's data whose words are searched; a type of the tenant's own has free data."""
    type_ = BUILT_IN.get(type_name)
    return (ALL_TEXTS,) if type_ is None else type_.searched_fields


def search_text(type_name: str, data: str | None, *, other_texts: Sequence[str | None] = ()) -> str | None:
    """Return the searched text of a memory's data (JSON text); None when nothing is searched. Never a secret.

    Texts of free data that occur in one of the texts `other_texts` are left out.
    """
    if data is None:
        return None
    values, searched_fields = exact.loads(data), searched_fields_of(type_name)
    if searched_fields == (ALL_TEXTS,):
        texts = texts_of(values, other_texts=other_texts)
    else:
        texts = [text for name in searched_fields for text in _texts(values.get(name))]
    return "\n".join(texts) or None


def time_of(data: str | None, name: str) -> datetime | None:
    """Return a time that data (JSON text) contains; None without one."""
    value = None if data is None else exact.loads(data).get(name)
    return None if value is None else _parse_time(value)


def check_type_allowed(policy: Policy, names: Sequence[str]) -> None:
    """Reject a type that the policy does not allow; the metadata "index" is its place among the names."""
    if not policy.memory_types:
        return
    for index, name in enumerate(names):
        if name not in policy.memory_types:
            raise MemoryTypeNotAllowed(type=name, index=index)


def check_objective_id(type_name: str, data: str | None) -> None:
    """Reject a task whose objective is named by anything but its memory_id. Raises MemoryDataInvalid."""
    if type_name == TASK and data is not None:
        objective_id = exact.loads(data).get("objective_id")
        if objective_id is not None and parse_id(objective_id) is None:
            raise MemoryDataInvalid(violations=[("data.objective_id", "must be the objective's memory_id")])


def vault_data(data: str | None, *, secret: str, length: str) -> str:
    """Return the data of a memory of the vault: its description, and the length class of its secret.

    Without a new `secret`, `length` is the length class of the stored one. Raises MemoryDataInvalid when there is
    neither, or when the data contains a field for secrets.
    """
    values: dict[str, object] = {} if data is None else exact.loads(data)
    if secret_fields := sorted(values.keys() & _SECRET_NAMES):
        violations = [(f"data.{name}", "must go into secret_value, which is encrypted") for name in secret_fields]
        raise MemoryDataInvalid(violations=violations, type=VAULT)
    if not secret and length not in _LENGTHS:
        raise MemoryDataInvalid(violations=[("secret_value", f"is required of {VAULT}")], type=VAULT)
    values[SECRET_LENGTH] = length_class(secret) if secret else length
    return exact.dumps(values)


def secret_length_of(type_name: str, data: str | None) -> str | None:
    """Return how long the secret of a vault's memory is; None for any other memory."""
    if type_name != VAULT or data is None:
        return None
    length = exact.loads(data).get(SECRET_LENGTH)
    return length if isinstance(length, str) else None


def length_class(secret: str) -> str:
    """Return the length class of a secret: up to 16 characters, up to 64, or longer."""
    short, medium = 16, 64
    return _LENGTHS[0] if len(secret) <= short else _LENGTHS[1] if len(secret) <= medium else _LENGTHS[2]


def _violations(
    validator: Draft202012Validator, type_: MemoryType, values: Mapping[str, Any], present_fields: set[str]
) -> Iterator[tuple[str, str]]:
    for name in sorted(values.keys() - type_.fields.keys()):
        yield f"data.{name[:100]}", f"is no field of {type_.name}; these are: {', '.join(type_.fields)}"
    for name in type_.required:
        if name not in values and name not in present_fields:
            yield f"data.{name}", f"is required of {type_.name}"
    for error in validator.iter_errors(values):
        if error.path:
            path = ".".join(str(part) for part in error.path)
            yield f"data.{path}", _describe_rule(error.validator, error.validator_value)
    for name, rule in type_.fields.items():
        if (
            rule.get("format") == "date-time"
            and isinstance(values.get(name), str)
            and _parse_time(values[name]) is None
        ):
            yield f"data.{name}", "must be a time with its offset, such as 2026-05-17T12:00:00Z"


def _describe_rule(name: object, value: object) -> str:
    """Describe a rule for a value, without the value."""
    sentences = {
        "type": f"must be of type {value}",
        "enum": f"must be one of {value}",
        "minLength": "must not be empty",
        "maxLength": f"must have {value} characters at most",
        "maxItems": f"must have {value} items at most",
        "minItems": "must not be empty",
    }
    return sentences.get(str(name), "must be a text or a list of texts")


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _parse_time(text: str) -> datetime | None:
    """Read a time of RFC 3339 as one with an offset; None when it is no such time."""
    first_year, last_year = 1, 9999
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    # Postgres keeps times in UTC, and the first and last years must not fall off its calendar.
    if time.tzinfo is None or not first_year < time.year < last_year:
        return None
    return time


def texts_of(data: object, *, other_texts: Iterable[str | None] = ()) -> list[str]:
    """Return the texts of parsed JSON at every depth, each once: those named "text" first, then by name.

    Texts that occur in one of `other_texts` are left out, because those are searched anyway. So are timestamps, encoded
    files and the values of names such as "password". Texts are cut off after MAX_DATA_CHARACTERS in all.
    """
    padded_texts = [f" {_collapse_spaces(text)} " for text in other_texts if text]
    texts: dict[str, None] = {}
    remaining_characters = MAX_DATA_CHARACTERS
    for text in map(_collapse_spaces, _strings(data)):
        if text in texts or not _is_prose(text) or any(f" {text} " in padded for padded in padded_texts):
            continue
        if len(text) > remaining_characters:
            # Half a word would be another word.
            text = text[:remaining_characters].rpartition(" ")[0]  # noqa: PLW2901 - the rest is dropped.
            remaining_characters = 0
        if text:
            texts[text] = None
        remaining_characters -= len(text) + 1
        if remaining_characters <= 0:
            break
    return list(texts)


def _strings(data: object) -> Iterator[str]:
    stack = [data]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            stack.extend(reversed(value))
        elif isinstance(value, dict):
            names = sorted(
                (name for name in value if not _CREDENTIAL.search(name)), key=lambda name: (name != "text", name)
            )
            stack.extend(value[name] for name in reversed(names))


def _collapse_spaces(text: str) -> str:
    return " ".join(text.split())


def _is_prose(text: str) -> bool:
    if not any(map(str.isalnum, text)) or _TIMESTAMP.fullmatch(text):
        return False
    return len(text) <= MAX_WORD or " " in text or not text.isascii()
