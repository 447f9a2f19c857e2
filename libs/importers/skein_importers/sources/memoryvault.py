"""Maps rows of MemoryVault to records, for databases and exports.

Values without a field are kept under `metadata.memoryvault`. Watches become webhooks that are
switched off: their receivers know an old secret, and first need the key that signs here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from google.protobuf.message import Message

from skein.memory.v1 import curation_pb2, memory_pb2, webhooks_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.base import Notes
from skein_importers.sources.rows import InvalidRow, Row, format_iso, set_times, struct, to_timestamp

# MemoryVault's brain of callers that share the bearer token.
LEGACY_BRAIN = "legacy-default-brain"
# A brain's tables in the order of their kinds.
TABLES = (
    "memories",
    "memory_links",
    "brain_source_trust",
    "memory_entity_aliases",
    "memory_conflict_resolutions",
    "brain_policies",
    "memory_watches",
)
# Why columns have no place here; "" for those that the report names elsewhere, or that were computed for reading.
UNREAD: Mapping[str, str] = {
    **dict.fromkeys(("rowid", "brain_id", "secret"), ""),
    **dict.fromkeys(("from_id_known", "to_id_known", "a_id_known", "b_id_known"), ""),
    **dict.fromkeys(("alias_memory_id_known", "canonical_memory_id_known"), ""),
    "id": "left out: the row has an id of its own here",
    "pair_key": "left out: made of the two ids",
    "is_active": "left out: every webhook is imported inactive",
    "last_triggered_at": "left out: deliveries begin with the import",
    "last_error": "left out: deliveries begin with the import",
}
_MAX_NOTE_LENGTH = 4000
_STATUSES = {
    "needs_review": curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW,
    "resolved": curation_pb2.CONFLICT_STATUS_RESOLVED,
    "superseded": curation_pb2.CONFLICT_STATUS_SUPERSEDED,
    "dismissed": curation_pb2.CONFLICT_STATUS_DISMISSED,
}
_WITH_CANONICAL = frozenset({curation_pb2.CONFLICT_STATUS_RESOLVED, curation_pb2.CONFLICT_STATUS_SUPERSEDED})
# Policy fields with the same meaning, and their lowest and highest values.
_POLICY: Mapping[str, tuple[float, float]] = {
    "decay_days": (1, 3650),
    "max_inferred_edges": (0, 10_000),
    "min_link_suggestion_score": (0, 1),
    "snapshot_retention": (1, 1000),
    "path_max_hops": (1, 8),
    "subgraph_default_radius": (1, 4),
}
_RETENTION_DAYS = 3650
# Event types by MemoryVault's names.
_EVENTS = {
    "memory_saved": "memory_created",
    "link_created": "memory_link_created",
    "link_updated": "memory_link_updated",
    "link_removed": "memory_link_removed",
    "memory_forget_soft": "memory_deleted",
    "memory_forget_hard": "memory_purged",
    "memory_watch_created": "webhook_created",
    "memory_watch_updated": "webhook_updated",
    "memory_watch_deleted": "webhook_deleted",
    "brain_snapshot_created": "snapshot_created",
    "brain_snapshot_restored": "snapshot_restored",
    "brain_data_imported": "data_imported",
}
_SAME_EVENTS = frozenset(
    {
        "memory_created", "memory_updated", "memory_deleted", "memory_link_created", "memory_link_updated",
        "memory_link_removed", "memory_consolidated", "memory_merged",
        "memory_reinforced", "memory_decayed", "memory_conflict_resolved", "memory_entity_resolved",
        "memory_source_trust_set",
    }
)  # fmt: skip


class BrainRows:
    """One brain's rows as records."""

    def __init__(self, notes: Notes, keys: Mapping[str, str]) -> None:
        """`keys` has the memory of each fact key in lower case."""
        self._notes = notes
        self._keys = keys
        self._webhook_names: set[str] = set()
        self._readers: Mapping[str, Callable[[Row], tuple[Kind, Message] | None]] = {
            "memories": self._memory,
            "memory_links": self._link,
            "brain_source_trust": self._trust,
            "memory_entity_aliases": self._alias,
            "memory_conflict_resolutions": self._conflict,
            "brain_policies": self._policy,
            "memory_watches": self._webhook,
        }

    def records(self, table: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Record | UnreadableRecord]:
        """Read rows of a table; invalid rows become UnreadableRecord."""
        for number, values in enumerate(rows, 1):
            self._notes.read(table)
            row = Row(
                table,
                str(values.get("id") or values.get("brain_id") or number),
                values,
                self._notes,
                "metadata.memoryvault",
            )
            try:
                result = self._readers[table](row)
            except (InvalidRow, ValueError) as error:
                yield UnreadableRecord(where=row.where, reason=str(error), table=table)
                continue
            if result is not None:
                record = Record(where=row.where, kind=result[0], item=set_times(row, *result), table=table)
                row.count_unread(UNREAD)
                yield record

    def _memory(self, row: Row) -> tuple[Kind, Message]:
        extra: dict[str, Any] = {}
        create_time, update_time, archive_time = row.time("created_at"), row.time("updated_at"), row.time("archived_at")
        if update_time is not None and update_time != create_time:
            extra["updated_at"] = format_iso(update_time)
        memory = memory_pb2.Memory(
            external_id=row.required_text("id"),
            type=row.name("type", "note"),
            title=row.text("title", 1000),
            content=row.required_text("content"),
            tags=row.tags("tags", row.value("tags") if isinstance(row.value("tags"), list) else None),
            source=row.text("source", 1000),
            confidence=row.share("confidence"),
            importance=row.share("importance"),
            key=row.text("key").strip(),
        )
        holder = self._keys.get(memory.key.lower(), memory.external_id) if memory.type == "fact" else memory.external_id
        if memory.key and holder != memory.external_id:
            extra["key"] = memory.key
            memory.ClearField("key")
            row.count_converted("key", "a newer fact has the key: kept as metadata.memoryvault.key")
        for value, field in ((create_time, memory.create_time), (archive_time, memory.archive_time)):
            if value is not None:
                field.CopyFrom(to_timestamp(value))
        if extra:
            memory.metadata.CopyFrom(struct({"memoryvault": extra}))
        return Kind.MEMORY, memory

    def _link(self, row: Row) -> tuple[Kind, Message]:
        _ends(row, "from_id", "to_id")
        link = memory_pb2.Link(
            from_memory_id=row.required_text("from_id"),
            to_memory_id=row.required_text("to_id"),
            relation=row.name("relation_type", "related"),
            label=row.text("label", 1000),
        )
        if (create_time := row.time("created_at")) is not None:
            link.metadata.CopyFrom(struct({"memoryvault": {"created_at": format_iso(create_time)}}))
        return Kind.LINK, link

    def _trust(self, row: Row) -> tuple[Kind, Message]:
        return Kind.TRUST, curation_pb2.SetSourceTrustRequest(
            source=row.required_text("source_key")[:1000],
            trust=row.share("trust"),
            notes=row.text("notes", _MAX_NOTE_LENGTH),
        )

    def _alias(self, row: Row) -> tuple[Kind, Message]:
        _ends(row, "alias_memory_id", "canonical_memory_id")
        return Kind.ALIAS, curation_pb2.ResolveEntityRequest(
            alias_memory_id=row.required_text("alias_memory_id"),
            canonical_memory_id=row.required_text("canonical_memory_id"),
            confidence=row.share("confidence"),
            note=row.text("note", _MAX_NOTE_LENGTH),
        )

    def _conflict(self, row: Row) -> tuple[Kind, Message]:
        _ends(row, "a_id", "b_id")
        status_name = row.text("status").strip().lower()
        if status_name not in _STATUSES:
            raise InvalidRow(f"status is none of {', '.join(_STATUSES)}")
        a, b, canonical, status = (
            row.required_text("a_id"),
            row.required_text("b_id"),
            row.text("canonical_id"),
            _STATUSES[status_name],
        )
        if canonical and canonical not in {a, b}:
            row.count_converted("canonical_id", "neither of the two: left out")
            canonical = ""
        if canonical and status not in _WITH_CANONICAL:
            row.count_converted("canonical_id", f"left out, as {status_name} names none")
            canonical = ""
        if status == curation_pb2.CONFLICT_STATUS_SUPERSEDED and not canonical:
            row.count_converted("status", "superseded by neither memory: resolved")
            status = curation_pb2.CONFLICT_STATUS_RESOLVED
        return Kind.CONFLICT, curation_pb2.ResolveConflictRequest(
            a_memory_id=a,
            b_memory_id=b,
            status=status,
            canonical_memory_id=canonical,
            note=row.text("note", _MAX_NOTE_LENGTH),
        )

    def _policy(self, row: Row) -> tuple[Kind, Message] | None:
        extra: dict[str, Any] = {}
        rules = row.mapping("policy_json", extra)
        if extra:
            raise InvalidRow("policy_json is no JSON object")
        request = subjects_pb2.UpdatePolicyRequest()
        for name, value in rules.items():
            if name == "private_mode":
                request.policy.private_mode = bool(value)
            elif name == "retention_days":
                # MemoryVault did not enforce it; here the rows would be purged at once.
                if value != _RETENTION_DAYS:
                    row.count_converted(
                        "policy_json", "retention_days left out: it removes memories here; set it yourself"
                    )
                continue
            elif name not in _POLICY:
                row.count_converted("policy_json", "a rule that Skein's policies lack was left out")
                continue
            elif isinstance(value, bool) or not isinstance(value, int | float):
                row.count_converted("policy_json", f"{name} is no number: left out")
                continue
            else:
                minimum, maximum = _POLICY[name]
                clamped = min(max(value, minimum), maximum)
                if clamped != value:
                    row.count_converted("policy_json", f"{name} moved into {minimum} to {maximum}")
                setattr(request.policy, name, clamped if isinstance(maximum, int) and maximum == 1 else int(clamped))
            request.update_mask.paths.append(name)
        if not request.update_mask.paths:
            row.notes.count_ignored(row.table, "has no rule of a Skein policy")
            return None
        return Kind.POLICY, request

    def _webhook(self, row: Row) -> tuple[Kind, Message]:
        url = row.text("webhook_url").strip()
        if not url:
            raise InvalidRow("has no webhook_url; read the changes with StreamChanges instead")
        name = row.text("name", 200).strip() or row.required_text("id")
        if name in self._webhook_names:
            name = f"{name} {row.required_text('id')}"[:255]
        self._webhook_names.add(name)
        if row.value("secret"):
            row.count_converted(
                "secret", "not imported: inactive until the receiver has a key from RotateWebhookSecret"
            )
        return Kind.WEBHOOK, webhooks_pb2.Webhook(
            display_name=name, event_types=_events(row), where=_where(row), webhook_url=url, active=False
        )


def superseded_by(links: Iterable[Mapping[str, Any]], conflicts: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the memories that a link or a settled conflict says another one supersedes."""
    by_links = {str(row["to_id"]) for row in links if str(row.get("relation_type")).strip().lower() == "supersedes"}
    by_conflicts = {
        str(row[loser])
        for row in conflicts
        for loser, winner in (("a_id", "b_id"), ("b_id", "a_id"))
        if str(row.get("status")).strip().lower() == "superseded" and row.get("canonical_id") == row[winner]
    }
    return frozenset(by_links | by_conflicts)


def _ends(row: Row, *columns: str) -> None:
    """Raise InvalidRow for a row that names a memory outside its brain."""
    for column in columns:
        if row.value(f"{column}_known") == 0:
            raise InvalidRow(f"{column} names no memory of its brain")


def _events(row: Row) -> list[str]:
    extra: dict[str, Any] = {}
    text = row.text("event_types").strip()
    listed_names = [text] if text == "*" else row.sequence("event_types", extra)
    if extra:
        listed_names = text.split(",")
    names = [str(name).strip() for name in listed_names]
    if "*" in names:
        return ["*"]
    translated = [name if name in _SAME_EVENTS else _EVENTS.get(name, "") for name in names]
    if translated != names:
        row.count_converted("event_types", "converted to Skein's event names; unknown events were left out")
    event_types = list(dict.fromkeys(name for name in translated if name))
    if not event_types:
        raise InvalidRow("event_types names no event of Skein")
    return event_types


def _where(row: Row) -> str:
    query = row.text("query").strip()
    if not query:
        return ""
    row.count_converted("query", "searched in the memory's title and content, not in the event")
    quoted = query[:1000].replace("\\", "\\\\").replace('"', '\\"')
    return f'title:"{quoted}" OR content:"{quoted}"'
