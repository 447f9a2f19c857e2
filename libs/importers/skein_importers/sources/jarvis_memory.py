"""`jarvis-memory`: jarvis_memory_pc2's users with all their data.

| theirs | here |
|---|---|
| user_id | a subject |
| preferences | the subject's preferences |
| entity_knowledge | memories of the type entity about the subject |
| interaction_history | memories of the type interaction about the subject |
| skill_states | agent states, one for each skill; of several users, named SKILL/USER |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from skein.memory.v1 import memory_pb2
from skein.session.v1 import states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.assistant_store import (
    AssistantStore,
    StoreFormat,
    convert_rows,
    json_to_text,
    metadata_of,
    one_realm,
    open_store,
    text_of,
    unmapped_fields,
)
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm
from skein_importers.sources.rows import InvalidRow, Row, make_storable, to_timestamp

NAME = "jarvis-memory"
STORE_FORMAT = StoreFormat(
    table="users",
    key="user_id",
    fields=("preferences", "entity_knowledge", "interaction_history", "skill_states"),
    containers=("users",),
)
_MAPPED = ("user_id", "name", "display_name", *STORE_FORMAT.fields)
_NAMES = ("name", "entity", "entity_name", "title")
_TIMES = ("timestamp", "created_at", "time")
# Keys of a user's input and of its answer.
_PAIRS = (("user", "assistant"), ("user_input", "response"), ("user_input", "assistant_response"), ("input", "output"))
_ENTITIES, _INTERACTIONS, _SKILLS = "entity_knowledge", "interaction_history", "skill_states"


class JarvisMemory:
    """A store of users."""

    name = NAME

    def __init__(self, store: AssistantStore) -> None:
        """Read an open store."""
        self._store = store

    def tenants(self) -> list[Realm]:
        """Return its one realm."""
        return one_realm(NAME)

    def accounts(self, _notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: its users do not log in."""
        return iter(())

    def records(self, _realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read users, their skill states, then memories about them."""
        users = 0
        for record in convert_rows(self._store.rows(notes), _subject):
            users += isinstance(record, Record)
            yield record

        def states(row: Row) -> Iterator[Record]:
            return _states(row, is_shared=users > 1)

        yield from convert_rows(self._store.rows(notes, _SKILLS), states, count_rows=False)
        yield from convert_rows(self._store.rows(notes, _ENTITIES), _entities, count_rows=False)
        yield from convert_rows(self._store.rows(notes, _INTERACTIONS), _interactions, count_rows=False)


@contextmanager
def open_source(source: str) -> Iterator[JarvisMemory]:
    """Open a store. Raises SourceInvalid."""
    with open_store(source, NAME, STORE_FORMAT) as store:
        yield JarvisMemory(store)


def _subject(row: Row) -> Iterator[Record]:
    user_id = row.required_text("user_id")
    extra = unmapped_fields(row, _MAPPED)
    subject = subjects_pb2.Subject(
        subject_id=user_id, display_name=row.text("name", 255) or row.text("display_name", 255)
    )
    if (preferences := metadata_of("preferences", row.mapping("preferences", extra))) is not None:
        subject.preferences.CopyFrom(preferences)
    if (profile := metadata_of("profile", extra)) is not None:
        subject.profile.CopyFrom(profile)
    yield Record(where=row.where, kind=Kind.SUBJECT, item=subject, table=row.table)


def _states(row: Row, *, is_shared: bool) -> Iterator[Record]:
    for skill, value in _named_entries(row, _SKILLS):
        user_id = row.text("user_id")
        entry = _entry(row, f"{user_id}/{skill}")
        agent_id = f"{skill}/{user_id}" if is_shared else skill
        if is_shared:
            entry.count_converted(_SKILLS, "named SKILL/USER, because several users have skills")
        data = value if isinstance(value, dict) else {"value": value}
        if data is not value:
            entry.count_converted(_SKILLS, "no object: kept as state_data.value")
        state = states_pb2.AgentState(agent_id=agent_id)
        if (struct := metadata_of(_SKILLS, data)) is not None:
            state.state_data.CopyFrom(struct)
        yield Record(where=entry.where, kind=Kind.AGENT_STATE, item=state, table=row.table)


def _entities(row: Row) -> Iterator[Record]:
    for name, value in _named_entries(row, _ENTITIES):
        user_id = row.text("user_id")
        entry = _entry(row, f"{user_id}/{name}")
        text = json_to_text(value)
        memory = memory_pb2.Memory(
            external_id=f"{user_id}/entity/{name}",
            type="entity",
            title=name[:1000],
            content=f"{name}: {text}" if text else name,
            subject_id=user_id,
        )
        if isinstance(value, dict):
            _time(entry, value, memory)
            if (struct := metadata_of(_ENTITIES, value)) is not None:
                memory.data.CopyFrom(struct)
        yield Record(where=entry.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _interactions(row: Row) -> Iterator[Record]:
    extra: dict[str, Any] = {}
    turns = row.sequence(_INTERACTIONS, extra) or list(extra.values())
    for number, value in enumerate(turns, 1):
        user_id = row.text("user_id")
        entry = _entry(row, f"{user_id}/{number}")
        turn = value if isinstance(value, dict) else {}
        pair = next((pair for pair in _PAIRS if all(isinstance(turn.get(name), str) for name in pair)), None)
        content = f"user: {turn[pair[0]]}\nassistant: {turn[pair[1]]}" if pair else text_of(entry, _INTERACTIONS, value)
        if not content:
            row.notes.count_ignored(row.table, "empty interactions")
            continue
        memory = memory_pb2.Memory(
            external_id=f"{user_id}/interaction/{number}", type="interaction", content=content, subject_id=user_id
        )
        _time(entry, turn, memory)
        if (struct := metadata_of(_INTERACTIONS, turn)) is not None:
            memory.data.CopyFrom(struct)
        yield Record(where=entry.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _named_entries(row: Row, column: str) -> Iterator[tuple[str, Any]]:
    """Yield named entries: members of an object, or elements of a list with names."""
    if not row.text("user_id").strip():
        # The user was refused, so the user's records are too.
        return
    extra: dict[str, Any] = {}
    value = row.document(column, extra)
    if extra:
        raise InvalidRow(f"{column} is no JSON")
    if isinstance(value, list):
        for number, element in enumerate(value, 1):
            name = next((element[key] for key in _NAMES if isinstance(element, dict) and element.get(key)), None)
            yield make_storable(str(name)) if name is not None else f"#{number}", element
    elif isinstance(value, dict):
        yield from value.items()
    elif value is not None:
        raise InvalidRow(f"{column} is neither an object nor a list")


def _entry(row: Row, key: str) -> Row:
    """Return one of several entries of a row's field, and count it."""
    row.notes.read(row.table)
    return Row(row.table, key[:80], row.values, row.notes)


def _time(entry: Row, values: dict[str, Any], memory: memory_pb2.Memory) -> None:
    """Set a memory's time to its entry's."""
    column = next((name for name in _TIMES if values.get(name) is not None), "")
    time_value = Row(entry.table, entry.key, values, entry.notes).time(column) if column else None
    if time_value is not None:
        memory.create_time.CopyFrom(to_timestamp(time_value))
