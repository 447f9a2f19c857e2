"""`agentmem-pg`: AgentMem's tables in Postgres; each organization is a realm.

Each pair of agent and user becomes a session, which holds their messages. Deleted rows are ignored. Values without a
field are kept under `metadata.agentmem` (of a user under `profile.agentmem`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from google.protobuf.message import Message

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.agent_fields import block_limit, message_role, tool_rules
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm, slug_of
from skein_importers.sources.postgres import Database, Table, open_database
from skein_importers.sources.rows import InvalidRow, Row, format_iso, list_value, set_times, struct, to_timestamp

NAME = "agentmem-pg"
_BY = ("created_at", "updated_at", "created_by_id", "last_updated_by_id", "is_deleted")
# The realm, what was computed for reading, and a copy.
_UNREAD: Mapping[str, str] = {"organization_id": "", "gone": "", "block_label": "left out: a copy of the block's label"}
TABLES = {
    "organizations": Table(
        needs=("id", "name"), may_have=("created_at", "updated_at", "is_deleted"), order=("id",), unread=_UNREAD
    ),
    "users": Table(
        needs=("id", "organization_id", "name"),
        may_have=("status", "timezone", *_BY),
        order=("id",),
        unread=_UNREAD,
    ),
    "agents": Table(
        needs=("id", "organization_id"),
        may_have=(
            *("agent_type", "name", "description", "system", "topic", "message_ids", "metadata_", "llm_config"),
            *("embedding_config", "tool_rules", "mcp_tools", *_BY),
        ),
        unread=_UNREAD,
        order=("id",),
    ),
    "tools": Table(
        needs=("id", "organization_id", "name"),
        may_have=("description", "json_schema", "source_type", "source_code", "tags", "metadata_", *_BY),
        order=("created_at", "id"),
        optional=True,
        unread=_UNREAD,
    ),
    "tools_agents": Table(needs=("tool_id", "agent_id"), order=("tool_id", "agent_id"), optional=True, unread=_UNREAD),
    "blocks": Table(
        needs=("id", "organization_id", "label", "value"),
        may_have=("user_id", "template_name", "description", "is_template", "limit", "metadata_", *_BY),
        order=("id",),
        optional=True,
        unread=_UNREAD,
    ),
    "blocks_agents": Table(
        needs=("block_id", "agent_id"),
        may_have=("block_label",),
        order=("block_id", "agent_id"),
        optional=True,
        unread=_UNREAD,
    ),
    "messages": Table(
        needs=("id", "organization_id", "user_id", "agent_id", "role", "created_at"),
        may_have=(
            *("text", "content", "model", "name", "tool_calls", "tool_call_id", "step_id", "otid", "tool_returns"),
            *("group_id", "sender_id", "updated_at", "created_by_id", "last_updated_by_id", "is_deleted"),
        ),
        order=("agent_id", "user_id", "created_at", "id"),
        unread=_UNREAD,
    ),
    "memories": Table(
        needs=("id", "organization_id", "user_id", "agent_id", "content", "memory_type"),
        may_have=(
            *("hash", "metadata", "score", "scope", "level", "importance", "access_count", "last_accessed"),
            *_BY,
        ),
        order=("id",),
        unread=_UNREAD,
    ),
}
_DELETED = "deleted there (is_deleted is true)"
_ID = 255
_SCOPES = {
    "global": memory_pb2.SCOPE_GLOBAL,
    # The tenant is the organization.
    "organization": memory_pb2.SCOPE_GLOBAL,
    "agent": memory_pb2.SCOPE_AGENT,
    "user": memory_pb2.SCOPE_USER,
    "session": memory_pb2.SCOPE_SESSION,
}
_LEVELS = {
    "strategic": memory_pb2.LEVEL_STRATEGIC,
    "tactical": memory_pb2.LEVEL_TACTICAL,
    "operational": memory_pb2.LEVEL_OPERATIONAL,
    "contextual": memory_pb2.LEVEL_CONTEXTUAL,
}
_SESSIONS = """
SELECT agent_id, user_id, min(created_at) AS created_at, count(*) AS messages
FROM (
    SELECT agent_id, user_id, created_at FROM messages WHERE organization_id = $1 {messages}
    UNION ALL
    SELECT agent_id, user_id, {memory_time} FROM memories
    WHERE organization_id = $1 AND lower({scope}) = 'session' {memories}
) AS spoken
GROUP BY agent_id, user_id
ORDER BY agent_id, user_id
"""


class AgentMem:
    """An open database of AgentMem."""

    name = NAME

    def __init__(self, database: Database) -> None:
        """Read `database`."""
        self._database = database

    def tenants(self) -> list[Realm]:
        """Return the organizations without deleted ones."""
        realms = [
            Realm(
                key=row["id"],
                name=row["name"],
                slug=slug_of(row["name"], row["id"]),
                times={name: row[name] for name in ("created_at", "updated_at")},
            )
            for row in self._database.rows("organizations")
            if not row["is_deleted"]
        ]
        return sorted(realms, key=lambda realm: realm.key)

    def accounts(self, notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing, because its users do not log in; count deleted organizations as ignored."""
        yield from ()
        for row in self._database.rows("organizations"):
            notes.read("organizations")
            if row["is_deleted"]:
                notes.count_ignored("organizations", _DELETED)

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read an organization's users, agents, tools, blocks, messages and memories."""
        reader = _Organization(self._database, realm.key, notes)
        yield from reader.table("users", reader.subject)
        yield from reader.table("agents", reader.agent)
        yield from reader.table("tools", reader.tool)
        yield from reader.attachments("tools_agents", "tool_id", "tools", reader.tool_attachment)
        yield from reader.table("blocks", reader.block)
        yield from reader.attachments("blocks_agents", "block_id", "blocks", reader.block_attachment)
        yield from reader.sessions()
        yield from reader.table("messages", reader.message)
        yield from reader.table("memories", reader.memory)


class _Organization:
    """One organization's rows as records."""

    def __init__(self, database: Database, key: str, notes: Notes) -> None:
        self._database = database
        self._key = key
        self._notes = notes
        self._tools: set[str] = set()

    def table(self, table: str, read: Callable[[Row], tuple[Kind, Message]]) -> Iterator[Record | UnreadableRecord]:
        """Read the organization's rows of a table; invalid rows become UnreadableRecord."""
        metadata_path = f"{'profile' if table == 'users' else 'metadata'}.agentmem"
        for values in self._database.rows(table, "organization_id = $1", self._key):
            yield from self._read(Row(table, str(values["id"]), values, self._notes, metadata_path), read)

    def attachments(
        self, table: str, column: str, target: str, read: Callable[[Row], tuple[Kind, Message]]
    ) -> Iterator[Record | UnreadableRecord]:
        """Read the attachments of tools or blocks to agents."""
        if not (self._database.has(table) and self._database.has(target)):
            return
        is_deleted = " OR ".join(
            f"EXISTS (SELECT FROM {other_table} WHERE {other_table}.id = {table}.{name} AND {other_table}.is_deleted)"
            for other_table, name in ((target, column), ("agents", "agent_id"))
            if "is_deleted" in self._database.columns(other_table)
        )
        is_of_organization = (
            f"EXISTS (SELECT FROM {target} WHERE {target}.id = {table}.{column} AND {target}.organization_id = $1)"
        )
        for values in self._database.rows(
            table, is_of_organization, self._key, extra_columns={"gone": is_deleted or "FALSE"}
        ):
            row = Row(table, f"{values[column]} {values['agent_id']}", values, self._notes)
            if values["gone"]:
                self._notes.read(table)
                self._notes.count_ignored(table, "the agent, tool or block is deleted in the source")
            else:
                yield from self._read(row, read)

    def _read(self, row: Row, read: Callable[[Row], tuple[Kind, Message]]) -> Iterator[Record | UnreadableRecord]:
        self._notes.read(row.table)
        if row.boolean("is_deleted", default=False):
            self._notes.count_ignored(row.table, _DELETED)
            return
        try:
            kind, item = read(row)
        except (InvalidRow, ValueError) as error:
            yield UnreadableRecord(where=row.where, reason=str(error), table=row.table)
        else:
            record = Record(where=row.where, kind=kind, item=set_times(row, kind, item), table=row.table)
            row.count_unread(_UNREAD)
            yield record

    def sessions(self) -> Iterator[Record | UnreadableRecord]:
        """Create a session for each agent and user with common messages, or memories of their session."""
        conditions = {
            table: "AND is_deleted IS NOT TRUE" if "is_deleted" in self._database.columns(table) else ""
            for table in ("messages", "memories")
        }
        columns = self._database.columns("memories")
        if "scope" not in columns:
            conditions["memories"] = "AND FALSE"
        memory_time = "created_at" if "created_at" in columns else "NULL"
        scope = "scope" if "scope" in columns else "''"
        statement = _SESSIONS.format(memory_time=memory_time, scope=scope, **conditions)
        for values in self._database.query(statement, self._key):
            row = Row("messages", f"{values['agent_id']} {values['user_id']}", values, self._notes)
            row.count_converted("agent_id, user_id", "made a session of each pair")
            session = session_pb2.Session(
                session_id=session_of(row.text("agent_id"), row.text("user_id")),
                agent_id=row.text("agent_id"),
                subject_id=row.text("user_id"),
            )
            if (create_time := row.time("created_at")) is not None:
                session.create_time.CopyFrom(to_timestamp(create_time))
            yield Record(where=row.where, kind=Kind.SESSION, item=session, table="messages")

    def subject(self, row: Row) -> tuple[Kind, Message]:
        extra = _times_and_authors(row)
        status = row.text("status")
        subject = subjects_pb2.Subject(
            subject_id=row.required_text("id"),
            display_name=row.text("name", 255),
            status=subjects_pb2.SUBJECT_STATUS_ACTIVE,
            timezone=_timezone(row, extra),
        )
        if status.lower() not in {"", "active"}:
            subject.status = subjects_pb2.SUBJECT_STATUS_INACTIVE
            if status.lower() != "inactive":
                row.count_converted("status", "inactive; kept as profile.agentmem.status")
                extra["status"] = status
        if extra:
            subject.profile.CopyFrom(struct(_under_agentmem(extra)))
        return Kind.SUBJECT, subject

    def agent(self, row: Row) -> tuple[Kind, Message]:
        extra = _times_and_authors(row)
        metadata = row.mapping("metadata_", extra)
        if message_ids := row.document("message_ids", extra):
            extra["message_ids"] = message_ids
        agent = tenancy_pb2.Agent(
            agent_id=row.required_text("id"),
            display_name=row.text("name", 255),
            agent_type=row.text("agent_type", 100),
            description=row.text("description", 10_000),
            system_prompt=row.text("system"),
            topic=row.text("topic", 1000),
            mcp_servers=_names(row, "mcp_tools", extra),
        )
        for column, field in (("llm_config", agent.llm_config), ("embedding_config", agent.embedding_config)):
            if config := row.mapping(column, extra):
                field.CopyFrom(struct(config))
        if rules := tool_rules(row, extra):
            agent.tool_rules.CopyFrom(struct(rules))
        if metadata or extra:
            agent.metadata.CopyFrom(struct({**metadata, **_under_agentmem(extra)}))
        return Kind.AGENT, agent

    def tool(self, row: Row) -> tuple[Kind, Message]:
        extra = _times_and_authors(row)
        metadata = row.mapping("metadata_", extra)
        name = row.required_text("name")
        if name in self._tools:
            # Tool names are unique here; the end of the id tells equal names apart in any order.
            name = f"{name[:240]}-{hashlib.sha256(row.text('id').encode()).hexdigest()[:8]}"
            row.count_converted("name", "another tool has this name: a suffix was added")
        self._tools.add(name)
        tool = subjects_pb2.Tool(
            tool_id=row.required_text("id"),
            name=name,
            description=row.text("description", 10_000),
            source_type=row.text("source_type", 100),
            source_code=row.text("source_code"),
            tags=row.tags("tags", row.sequence("tags", extra)),
        )
        if schema := row.mapping("json_schema", extra):
            tool.json_schema.CopyFrom(struct(schema))
        if metadata or extra:
            tool.metadata.CopyFrom(struct({**metadata, **_under_agentmem(extra)}))
        return Kind.TOOL, tool

    def tool_attachment(self, row: Row) -> tuple[Kind, Message]:
        return Kind.TOOL_ATTACHMENT, subjects_pb2.AttachToolRequest(
            agent_id=row.required_text("agent_id"), tool_id=row.required_text("tool_id")
        )

    def block(self, row: Row) -> tuple[Kind, Message]:
        extra = _times_and_authors(row)
        metadata = row.mapping("metadata_", extra)
        value = row.text("value")
        block = blocks_pb2.Block(
            block_id=row.required_text("id"),
            label=row.required_text("label"),
            value=value,
            limit=block_limit(row, len(value)),
            description=row.text("description", 5000),
            is_template=row.boolean("is_template", default=False),
            template_name=row.text("template_name", 255),
            subject_id=row.text("user_id"),
        )
        if metadata or extra:
            block.metadata.CopyFrom(struct({**metadata, **_under_agentmem(extra)}))
        return Kind.BLOCK, block

    def block_attachment(self, row: Row) -> tuple[Kind, Message]:
        return Kind.BLOCK_ATTACHMENT, blocks_pb2.AttachBlockRequest(
            agent_id=row.required_text("agent_id"), block_id=row.required_text("block_id")
        )

    def message(self, row: Row) -> tuple[Kind, Message]:
        extra = _times_and_authors(row, with_create_time=False)
        role = message_role(row)
        parts = row.sequence("content", extra)
        message = session_pb2.Message(
            external_id=row.required_text("id"),
            session_id=session_of(row.text("agent_id"), row.text("user_id")),
            role=role,
            content=row.text("text"),
            name=row.text("name", 255),
            subject_id=row.text("user_id"),
            agent_id=row.text("agent_id"),
            tool_call_id=row.text("tool_call_id"),
            model=row.text("model"),
            step_id=row.text("step_id"),
            offline_thread_id=row.text("otid"),
            group_id=row.text("group_id"),
            sender_id=row.text("sender_id"),
        )
        calls, returns = row.sequence("tool_calls", extra), row.sequence("tool_returns", extra)
        for values, field in (
            (parts, message.parts),
            (calls, message.tool_calls),
            (returns, message.tool_returns),
        ):
            if values:
                field.CopyFrom(list_value(values))
        if not (message.content.strip() or parts or calls or returns):
            raise InvalidRow("has neither a text nor content, nor tool calls")
        if (create_time := row.time("created_at")) is not None:
            message.create_time.CopyFrom(to_timestamp(create_time))
        if extra:
            message.metadata.CopyFrom(struct(_under_agentmem(extra)))
        return Kind.MESSAGE, message

    def memory(self, row: Row) -> tuple[Kind, Message]:
        extra = _times_and_authors(row, with_create_time=False)
        metadata = row.mapping("metadata", extra)
        for column in ("hash", "score", "access_count"):
            if row.value(column):
                extra[column] = row.value(column)
        if (access_time := row.time("last_accessed")) is not None:
            extra["last_accessed"] = format_iso(access_time)
        memory = memory_pb2.Memory(
            external_id=row.required_text("id"),
            type=row.name("memory_type", "note"),
            content=row.required_text("content"),
            agent_id=row.text("agent_id"),
            subject_id=row.text("user_id"),
            scope=_number_of(row, "scope", _SCOPES, extra, memory_pb2.SCOPE_AGENT),  # type: ignore[arg-type]  # Numbers.
            level=_number_of(row, "level", _LEVELS, extra, memory_pb2.LEVEL_OPERATIONAL),  # type: ignore[arg-type]  # Numbers.
            importance=row.share("importance"),
        )
        if memory.scope == memory_pb2.SCOPE_SESSION:
            row.count_converted("scope", "of the session that is made of agent and user")
            memory.session_id = session_of(memory.agent_id, memory.subject_id)
        if (create_time := row.time("created_at")) is not None:
            memory.create_time.CopyFrom(to_timestamp(create_time))
        if metadata or extra:
            memory.metadata.CopyFrom(struct({**metadata, **_under_agentmem(extra)}))
        return Kind.MEMORY, memory


@contextmanager
def open_source(source: str) -> Iterator[AgentMem]:
    """Read the database at a URL, as it is now. Raises SourceInvalid."""
    with open_database(source, TABLES, "AgentMem") as database:
        yield AgentMem(database)


def session_of(agent_id: str, user_id: str) -> str:
    """Return the stable id of the session of an agent and a user."""
    session_id = f"{agent_id}:{user_id}"
    return session_id if len(session_id) <= _ID else f"agentmem-{hashlib.sha256(session_id.encode()).hexdigest()}"


def _times_and_authors(row: Row, *, with_create_time: bool = True) -> dict[str, Any]:
    """Return a row's times and authors that have no field here."""
    extra: dict[str, Any] = {}
    for column in ("created_at", "updated_at") if with_create_time else ("updated_at",):
        if not with_create_time and row.value(column) == row.value("created_at"):
            continue
        if (time_value := row.time(column)) is not None:
            extra[column] = format_iso(time_value)
    for column in ("created_by_id", "last_updated_by_id"):
        if text := row.text(column):
            extra[column] = text
    return extra


def _under_agentmem(extra: dict[str, Any]) -> dict[str, Any]:
    return {"agentmem": extra} if extra else {}


def _timezone(row: Row, extra: dict[str, Any]) -> str:
    name = row.text("timezone").strip()
    try:
        return ZoneInfo(name).key if name else ""
    except (ZoneInfoNotFoundError, ValueError, OSError):
        row.count_converted("timezone", "no time zone: kept as profile.agentmem.timezone")
        extra["timezone"] = name
        return ""


def _names(row: Row, column: str, extra: dict[str, Any]) -> list[str]:
    values = row.sequence(column, extra)
    names = [name for name in values if isinstance(name, str) and 0 < len(name) <= _ID][:100]
    if len(names) != len(values):
        row.count_converted(column, f"values that are no names are kept as metadata.agentmem.{column}")
        extra[column] = values
    return names


def _number_of(row: Row, column: str, numbers: Mapping[str, int], extra: dict[str, Any], default: int) -> int:
    name = row.text(column).strip()
    if not name:
        return default
    if name.lower() not in numbers:
        row.count_converted(column, f"no such {column} here: kept as metadata.agentmem.{column}")
        extra[column] = name
        return default
    return numbers[name.lower()]
