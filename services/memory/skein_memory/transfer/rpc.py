"""Handlers of the RPCs that export and import a tenant's memory, and the reader of MemoryVault's exports.

An export of MemoryVault (memoryvault_export_v1) has lists: memories, links, source_trust, aliases and
conflict_resolutions, under these names or those of its tables. Its ids become external ids, as they are not made from
times; its times are Unix seconds; its tags are one text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from skein.memory.v1 import snapshots_pb2 as pb
from skein_kit.admission.processor_time import run_by_size, with_pauses
from skein_kit.calls.call import Call, Context, current_space_ids
from skein_kit.calls.call import caller as caller_of
from skein_kit.content_guard.guard import ContentGuard, GuardRules
from skein_kit.errors import (
    ContentRefused,
    FieldInvalid,
    PageTokenInvalid,
    PermissionMissing,
    SpaceNotFound,
    SpaceReadOnly,
    SpacesUnsupported,
)
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import RATE_SOURCES, may_rate_sources
from skein_kit.identity.spaces import READER
from skein_kit.ids import now
from skein_kit.json_values import exact
from skein_kit.rpc.pagination import DEFAULT_PAGE_SIZE, PAGE_BYTES, resolve_page_size
from skein_kit.rpc.well_known_types import to_timestamp
from skein_kit.search_text.embedding_requests import EmbeddingClient
from skein_memory.errors import ImportFormatUnknown
from skein_memory.idempotent_writes import begin_write
from skein_memory.transfer import convert
from skein_memory.transfer import model as transfer_model
from skein_memory.transfer.import_parsing import ImportMode
from skein_memory.transfer.model import (
    KINDS,
    LINE_INVALID,
    MAX_ITEMS,
    ImportLine,
    ImportProblem,
    TransferCursor,
    parse_item,
)
from skein_memory.transfer.store import TransferStore

# The kind of items that hold ratings of sources.
_RATINGS = "source_trust"
_MODES = {
    pb.IMPORT_MODE_UNSPECIFIED: ImportMode.MERGE,
    pb.IMPORT_MODE_MERGE: ImportMode.MERGE,
    pb.IMPORT_MODE_OVERWRITE: ImportMode.OVERWRITE,
    pb.IMPORT_MODE_SKIP_EXISTING: ImportMode.SKIP,
}
_MEMORYVAULT_FORMAT = "memoryvault_export_v1"
_NAMES = ("format", "schema", "schema_version", "export_version", "version")


class TransferHandlers:
    """Exports and imports of a tenant's memory."""

    def __init__(
        self, store: TransferStore, idempotency: IdempotencyStore, *, guard: ContentGuard, embeddings: EmbeddingClient
    ) -> None:
        """Documents of imported memories get embeddings."""
        self._store = store
        self._idempotency = idempotency
        self._guard = guard
        self._embeddings = embeddings

    async def ExportData(self, request: pb.ExportDataRequest, context: Context) -> pb.ExportDataResponse:
        caller, tenant_id, size = (
            caller_of(context),
            caller_of(context).require_tenant(),
            resolve_page_size(request.page_size),
        )
        cursor: TransferCursor | None = convert.read_cursor(request, tenant_id)
        lines: list[str] = []
        if cursor is None:
            at = now()
            await self._store.start_export(tenant_id, at=at, by=caller.principal)
            lines.append(transfer_model.header(at.isoformat()))
            cursor = TransferCursor(phase=at.isoformat(), kind=KINDS[0], after="")
        at, items, length = _parse_time(cursor.phase), 0, 0
        while cursor is not None and items < size and length < PAGE_BYTES:
            batch, next_cursor = await self._store.read_batch(
                tenant_id, cursor, count=min(DEFAULT_PAGE_SIZE, size - items), at=at, now=now()
            )
            for item in batch:
                line = transfer_model.format_line(item)
                length += len(line.encode())
                if items and length > PAGE_BYTES:
                    next_cursor = cursor
                    break
                lines.append(line)
                items += 1
                cursor = TransferCursor(phase=cursor.phase, kind=cursor.kind, after=item.item_id)
            cursor = next_cursor
        return pb.ExportDataResponse(
            lines="".join(lines),
            item_count=items,
            as_of_time=to_timestamp(at),
            next_page_token=convert.page_token(cursor, tenant_id, request),
        )

    async def ImportData(self, request: pb.ImportDataRequest, context: Context) -> pb.ImportDataResponse:
        caller, at = caller_of(context), now()
        is_vault = request.format == pb.IMPORT_FORMAT_MEMORYVAULT_EXPORT_V1
        parse = parse_document if is_vault else transfer_model.parse_lines
        lines = await run_by_size(len(request.lines), lambda: list(with_pauses(parse(request.lines))))
        if len(lines) > MAX_ITEMS:
            raise FieldInvalid(violations=[("lines", f"hold more than {MAX_ITEMS} items")])
        if RATE_SOURCES not in caller.permissions and any(line.kind == _RATINGS for line in lines):
            raise PermissionMissing(permission=RATE_SOURCES)
        tenant_id, idempotency_key = caller.require_tenant(), IdempotencyKey.of(caller, request)
        rules = await self._guard.rules(tenant_id)
        screened = [await self._screen(line, rules) for line in lines]
        batches = {
            space_id: await self._store.prepare_import(group, at=at, by=caller.principal)
            for space_id, group in by_space(screened, caller, context).items()
        }
        async with begin_write(self._idempotency, tenant_id, idempotency_key, dry_run=request.dry_run) as write:
            importer = await self._store.import_items(
                write.tx,
                tenant_id,
                batches,
                _MODES[request.mode],
                dry_run=request.dry_run,
                at=at,
                by=caller.principal,
            )
            response = pb.ImportDataResponse(
                counts=convert.import_counts(importer),
                errors=convert.import_errors(importer),
                pending_embedding_count=self._embeddings.has_pending_embeddings(importer.documents),
                kept_embedding_count=importer.vectors.stored_count,
                remade_embeddings=importer.vectors.recomputed,
            )
            await write.save(response)
        if not request.dry_run:
            await self._embeddings.request_embeddings(importer.documents, remaining=context.time_remaining())
        return response

    async def _screen(self, line: ImportLine | ImportProblem, rules: GuardRules) -> ImportLine | ImportProblem:
        """Return the line as the content guard leaves it, or why it refuses the line."""
        if isinstance(line, ImportLine) and rules.actions:
            try:
                await self._guard.apply(rules, line.message)
            except ContentRefused as error:
                field = error.violations[0][0]
                return ImportProblem(line_number=line.line_number, kind=line.kind, reason=error.reason, field=field)
            # Other calls go on between lines.
            await asyncio.sleep(0)
        return line


def by_space(
    lines: Sequence[ImportLine | ImportProblem], caller: Caller, context: Context
) -> dict[UUID | None, list[ImportLine | ImportProblem]]:
    """Return lines by the space in which they are stored; None: that of the call, in a tenant without spaces.

    A call that names a space stores all lines there. Otherwise each line has the space that it names, if the caller may
    write there, and becomes an error if not.
    """
    reach = current_space_ids()
    if reach is None or not isinstance(context, Call):
        return {None: list(lines)}
    own_space, roles = reach[0], dict(caller.spaces or ())
    groups: dict[UUID | None, list[ImportLine | ImportProblem]] = {own_space: []}
    for line in lines:
        space_id, reason = own_space, ""
        if isinstance(line, ImportLine) and line.space_id is not None and not context.named_space:
            space_id = line.space_id
        if space_id != own_space and roles.get(space_id) in (None, READER):
            reason = SpaceReadOnly.reason if space_id in roles else SpaceNotFound.reason
        elif line.kind == _RATINGS and not may_rate_sources(caller, (space_id,)):
            # They hold in every space.
            reason = SpacesUnsupported.reason
        if reason:
            groups[own_space].append(ImportProblem(line_number=line.line_number, kind=line.kind, reason=reason))
        else:
            groups.setdefault(space_id, []).append(line)
    return groups


def _parse_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise PageTokenInvalid from None


def parse_document(text: str) -> Iterator[ImportLine | ImportProblem]:
    """Read a document, or one with a part of its lists. Raises ImportFormatUnknown."""
    try:
        document = exact.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ImportFormatUnknown(format="")
    format_name = next((document[name] for name in _NAMES if isinstance(document.get(name), str)), _MEMORYVAULT_FORMAT)
    # Some releases wrap their lists once more.
    data = document.get("data")
    lists = data if isinstance(data, dict) else document
    known_lists = [(kind, rows) for kind, names, _ in _LISTS for name in names if (rows := lists.get(name)) is not None]
    if (
        format_name != _MEMORYVAULT_FORMAT
        or not known_lists
        or not all(isinstance(rows, list) for _, rows in known_lists)
    ):
        raise ImportFormatUnknown(format=str(format_name))
    readers = {kind: reader for kind, _, reader in _LISTS}
    line_number = 0
    for kind, rows in known_lists:
        for row in rows:
            line_number += 1
            try:
                fields = readers[kind](row)
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError, OSError):
                yield ImportProblem(line_number=line_number, kind=kind, reason=LINE_INVALID)
                continue
            yield parse_item(line_number, {kind: {name: value for name, value in fields.items() if value is not None}})


def _memory(row: Mapping[str, Any]) -> dict[str, Any]:
    tags = row.get("tags") or []
    if isinstance(tags, str):
        tags = tags.split(",")
    return {
        "memory_id": row["id"],
        "type": row.get("type") or "note",
        "title": row.get("title"),
        "key": row.get("key"),
        "content": row["content"],
        "tags": list(dict.fromkeys(tag.strip() for tag in tags if tag.strip())),
        "source": row.get("source"),
        "confidence": row.get("confidence"),
        "importance": row.get("importance"),
        "archive_time": _time(row.get("archived_at")),
        "create_time": _time(row.get("created_at")),
        "update_time": _time(row.get("updated_at")),
        "derived_from": [{"kind": "SOURCE_KIND_IMPORT", "name": "MemoryVault"}],
    }


def _link(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "from_memory_id": row["from_id"],
        "to_memory_id": row["to_id"],
        "relation": row.get("relation_type") or "related",
        "label": row.get("label"),
        "create_time": _time(row.get("created_at")),
    }


def _trust(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "source_key": row["source_key"],
        "trust": row.get("trust", 0.5),
        "notes": row.get("notes"),
        "update_time": _time(row.get("updated_at")),
    }


def _alias(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "alias_memory_id": row["alias_memory_id"],
        "canonical_memory_id": row["canonical_memory_id"],
        "confidence": row.get("confidence", 0.9),
        "note": row.get("note"),
        "update_time": _time(row.get("updated_at")),
    }


def _conflict(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "a_memory_id": row["a_id"],
        "b_memory_id": row["b_id"],
        "status": f"CONFLICT_STATUS_{row['status'].upper()}",
        "canonical_memory_id": row.get("canonical_id"),
        "note": row.get("note"),
        "update_time": _time(row.get("updated_at")),
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(float(seconds), UTC).isoformat().replace("+00:00", "Z")


_LISTS: tuple[tuple[str, tuple[str, ...], Callable[[Mapping[str, Any]], dict[str, Any]]], ...] = (
    ("memory", ("memories",), _memory),
    ("link", ("links", "memory_links"), _link),
    ("source_trust", ("source_trust", "source_trusts", "brain_source_trust"), _trust),
    ("alias", ("aliases", "entity_aliases", "memory_entity_aliases"), _alias),
    ("conflict", ("conflict_resolutions", "memory_conflict_resolutions"), _conflict),
)
