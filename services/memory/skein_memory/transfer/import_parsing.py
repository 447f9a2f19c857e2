"""Items of an import, parsed and checked before anything is stored. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from google.protobuf.message import Message

from skein.memory.v1.memory_pb2 import SourceReference
from skein_kit.errors import FieldInvalid, RpcError
from skein_kit.ids import id_time, new_id, parse_id
from skein_kit.json_values import exact
from skein_kit.rpc.interceptors import validate
from skein_kit.rpc.row_times import read_past_time
from skein_kit.text.writers import Writers
from skein_memory.blocks import convert as blocks_convert
from skein_memory.blocks.model import STATED_FIELDS, Block
from skein_memory.links import convert as links_convert
from skein_memory.memories import convert as memories_convert
from skein_memory.memories.model import MAX_AHEAD, Draft, FactKey, Memory
from skein_memory.memories.names import key_taken
from skein_memory.transfer.model import REASON_NOT_IMPORTABLE, ImportLine, ImportProblem
from skein_memory.validation import check_storable

# An id that follows from the create_time of its memory lies in the same month.
_MAX_ID_TIME_DIFFERENCE = timedelta(days=1)
_UUID7 = 7
_MAX_PRINCIPAL_CHARACTERS = 255


class ImportMode(StrEnum):
    """How an import treats existing items."""

    MERGE = "merge"
    OVERWRITE = "overwrite"
    SKIP = "skip_existing"
    # Overwrite with the time of the restore: existing items count as older.
    RESTORE = "restore"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportItem:
    """One importable item: its content, and its times in the source."""

    line_number: int
    kind: str
    draft: object
    # Its create_time and update_time in the source; None: unknown.
    create_time: datetime | None
    update_time: datetime | None
    agent_ids: tuple[str, ...] = ()
    # The vector of a memory by the active model; empty for none.
    embedding: Sequence[float] = ()
    # What a memory was made of.
    derived_from: Sequence[SourceReference] = ()
    # Of a memory, the principals that created it and changed it last where it comes from; empty: unknown.
    created_by: str = ""
    updated_by: str = ""


@dataclass(kw_only=True, slots=True)
class ImportBatch:
    """Importable items by kind, and the errors of the others."""

    items: dict[str, list[ImportItem]] = field(default_factory=dict)
    errors: list[ImportProblem] = field(default_factory=list)

    @property
    def memories(self) -> list[Memory]:
        return [item.draft for item in self.items.get("memory", []) if isinstance(item.draft, Memory)]

    @property
    def count(self) -> int:
        return len(self.errors) + sum(map(len, self.items.values()))


def parse_import(
    lines: Iterable[ImportLine | ImportProblem], *, at: datetime, by: str, max_content: int
) -> ImportBatch:
    """Parse items; rejected ones are returned with the reason."""
    batch = ImportBatch()
    for line in lines:
        if isinstance(line, ImportProblem):
            batch.errors.append(line)
            continue
        if line.kind == "memory" and line.message.secret_value:
            # Exports never contain secrets, so imports take none.
            problem = ImportProblem(
                line_number=line.line_number, kind=line.kind, reason=REASON_NOT_IMPORTABLE, field="secret_value"
            )
            batch.errors.append(problem)
            continue
        try:
            validate(line.message)
            batch.items.setdefault(line.kind, []).append(_import_item(line, at=at, by=by, max_content=max_content))
        except RpcError as error:
            batch.errors.append(import_error(line.line_number, line.kind, error))
    return batch


def import_error(line_number: int, kind: str, error: RpcError) -> ImportProblem:
    """Return an error as the problem of an item."""
    field_path = error.violations[0][0] if error.violations else ""
    return ImportProblem(line_number=line_number, kind=kind, reason=error.reason, field=field_path)


def find_existing(*candidates: Memory | None, at: datetime) -> Memory | None:
    """Return the existing memory of an item, of those found by its names: an unexpired one before others."""
    existing = [memory for memory in candidates if memory is not None]
    return next((memory for memory in existing if not memory.is_expired(at)), existing[0] if existing else None)


def merge_imported(
    before: Memory, imported: Memory, mode: ImportMode, update_time: datetime | None, *, at: datetime, by: str
) -> Memory:
    """Return the next revision of an existing memory; itself when nothing changes.

    It has the update_time of `imported` when that wins; a restore has its own time. Raises ReadersWidened.
    """
    # Readers see it as new.
    replaces_expired = before.is_active and before.is_expired(at) and not imported.is_expired(at)
    if mode is ImportMode.SKIP and not replaces_expired:
        return before
    is_later = update_time is not None and update_time > before.update_time
    has_precedence = mode in {ImportMode.OVERWRITE, ImportMode.RESTORE} or is_later or replaces_expired
    draft = imported.draft if has_precedence else before.draft
    tags = imported.draft.tags
    if mode is ImportMode.MERGE:
        # The existing order stays.
        tags = tuple(dict.fromkeys([*before.draft.tags, *imported.draft.tags]))
    draft = replace(draft, tags=tags, external_id=before.draft.external_id, create_time=before.draft.create_time)
    is_undeleted = has_precedence and not before.is_active
    is_same_time = not has_precedence or mode is ImportMode.RESTORE or update_time in {None, before.update_time, at}
    if not is_undeleted and (not before.is_active or (is_same_time and is_same_draft(before.draft, draft))):
        return before
    new_update_time = before.update_time
    if has_precedence:
        new_update_time = at if mode is ImportMode.RESTORE or update_time is None else update_time
    # A snapshot, and a memory in the place of an expired one, bring the readers of their text.
    revise = before.restore if mode is ImportMode.RESTORE or replaces_expired else before.revise
    return replace(revise(draft, at=at, by=by), delete_time=None, update_time=new_update_time)


def unique_names(memory: Memory, *, at: datetime) -> set[tuple[str, object]]:
    """Return the names that no two items of one import may have; an expired fact shares its key with others."""
    names: set[tuple[str, object]] = set()
    if memory.draft.external_id is not None:
        names.add(("external_id", memory.draft.external_id))
    if memory.fact_key is not None and not memory.is_expired(at):
        names.add(("key", memory.fact_key.folded))
    return names


def find_fact_holder(holder: Memory | None, imported: Memory, *, at: datetime) -> Memory | None:
    """Return the holder of an item's key if it is the same memory.

    Return None when one of the two has expired at the time `at`. Such an item is another fact, which may say something
    else: it never replaces the one that is there.
    """
    return holder if holder is not None and holder.is_expired(at) == imported.is_expired(at) else None


def check_key_free(memory: Memory, keys: Mapping[FactKey | None, UUID], *, at: datetime) -> None:
    """Reject an item whose key another fact holds. Expired facts need no key. Raises FactKeyTaken."""
    if memory.fact_key is None or memory.is_expired(at):
        return
    if keys.get(memory.fact_key, memory.memory_id) != memory.memory_id:
        raise key_taken(memory.fact_key, keys[memory.fact_key])


def is_same_draft(draft: Draft, other: Draft) -> bool:
    """Return whether two drafts are equal; the format of their JSON does not matter."""
    return (
        replace(draft, data=None, metadata=None) == replace(other, data=None, metadata=None)
        and exact.equal_json(draft.data, other.data)
        and exact.equal_json(draft.metadata, other.metadata)
    )


def _import_item(line: ImportLine, *, at: datetime, by: str, max_content: int) -> ImportItem:
    message = line.message
    agent_ids: tuple[str, ...] = ()
    draft: object = message
    if line.kind == "memory":
        draft = _memory(message, at=at, by=by, max_content=max_content)
    elif line.kind == "link":
        draft = links_convert.draft(message)
    elif line.kind == "block":
        agent_ids = tuple(message.agent_ids)
        message = message.block
        if not message.block_id:
            raise FieldInvalid(violations=[("block_id", "must name the block")])
        draft = Block.create(blocks_convert.draft(message), block_id=message.block_id, at=at, by=by)
        # Where it comes from. The importer vouches for it, so its rating counts too.
        written_by = [_principal_name(name, "writers") for name in message.writers]
        draft = replace(draft, writers=draft.writers.joined(Writers.of(STATED_FIELDS, *written_by)))
    return ImportItem(
        line_number=line.line_number,
        kind=line.kind,
        draft=draft,
        create_time=read_past_time(message, "create_time", at),
        update_time=read_past_time(message, "update_time", at),
        agent_ids=agent_ids,
        embedding=tuple(message.embedding) if line.kind == "memory" else (),
        derived_from=tuple(message.derived_from) if line.kind == "memory" else (),
        created_by=_principal(message, "created_by") if line.kind in {"memory", "link"} else "",
        updated_by=_principal(message, "updated_by") if line.kind == "memory" else "",
    )


def _principal(message: Message, field: str) -> str:
    """Return the name of a principal where the item comes from. Raises TextNotStorable and FieldInvalid."""
    return _principal_name(getattr(message, field), field)


def _principal_name(name: str, field: str) -> str:
    check_storable([(field, name)], [])
    if len(name) > _MAX_PRINCIPAL_CHARACTERS:
        raise FieldInvalid(violations=[(field, f"has more than {_MAX_PRINCIPAL_CHARACTERS} characters")])
    return name.strip()


def _memory(message: Message, *, at: datetime, by: str, max_content: int) -> Memory:
    draft = memories_convert.draft(message, at=at, max_content=max_content)  # type: ignore[arg-type]  # A memory, by its kind.
    imported_id = str(message.memory_id)  # type: ignore[attr-defined]  # A memory, by its kind.
    memory_id = reusable_id(imported_id, draft.create_time, at)
    if memory_id is None:
        memory_id = new_id(draft.create_time)
        if imported_id and draft.external_id is None:
            # Links and a repeated import find it by this external id.
            draft = replace(draft, external_id=imported_id)
    return Memory(
        memory_id=memory_id,
        draft=draft,
        revision=1,
        update_time=read_past_time(message, "update_time", at) or min(draft.create_time, at),
        record_time=at,
        delete_time=None,
        created_by=by,
        updated_by=by,
    )


def reusable_id(text: str, create_time: datetime, at: datetime) -> UUID | None:
    """Return an id that follows from its item's create_time and can be reused; else None."""
    id_ = parse_id(text)
    if id_ is None or id_.version != _UUID7:
        return None
    id_create_time = id_time(id_)
    return (
        id_
        if abs(id_create_time - create_time) <= _MAX_ID_TIME_DIFFERENCE and id_create_time <= at + MAX_AHEAD
        else None
    )
