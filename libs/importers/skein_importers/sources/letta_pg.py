"""`letta-pg`: the Postgres database of a Letta server, version 1; each organization is a realm.

| theirs | here |
|---|---|
| identities | subjects, by their identifier_key |
| agents, with tools and blocks | agents, tools and blocks with their ids, and what is attached to which |
| messages | messages of a session for each agent and conversation, `letta:<conversation or agent>` |
| archival passages | memories; of one agent's archive, for this agent alone |
| passages of files | memories of the type document |
| other fields | metadata.letta |
| users, providers, secrets, runs, jobs, groups | left out, and counted |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from google.protobuf.message import Message

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.agent_fields import block_limit, message_role, tool_rules
from skein_importers.sources.assistant_store import metadata_of
from skein_importers.sources.base import Membership, Notes, OAuthClient, Person, Realm, slug_of
from skein_importers.sources.letta_af import content_parts, session_of, spoken_text, text_of_parts
from skein_importers.sources.postgres import Database, Table, open_database
from skein_importers.sources.rows import InvalidRow, Row, list_value, set_times, struct, to_timestamp

NAME = "letta-pg"
_BY = ("created_at", "updated_at", "is_deleted", "_created_by_id", "_last_updated_by_id")
_MAX_ID = 255
_TITLE = 1000
# The realm, what was computed for reading, and what the cluster makes again.
_UNREAD: Mapping[str, str] = {
    **dict.fromkeys(("organization_id", "agent_ids", "gone"), ""),
    "embedding": "made again by the cluster",
    "block_label": "left out: a copy of the block's label",
}
_table = partial(Table, unread=_UNREAD)
_AGENT = (
    *("response_format", "project_id", "template_id", "base_template_id", "deployment_id", "entity_id", "timezone"),
    *("message_buffer_autoclear", "enable_sleeptime", "hidden", "compaction_settings", "message_ids"),
    *("max_files_open", "per_file_view_window_char_limit"),
)
_TOOL = (
    *("tool_type", "args_json_schema", "return_char_limit", "pip_requirements", "npm_requirements", "project_id"),
    *("default_requires_approval", "enable_parallel_execution"),
)
_BLOCK = ("project_id", "template_id", "base_template_id", "deployment_id", "entity_id", "hidden", "version")
_MESSAGE = ("run_id", "batch_item_id", "is_err", "approvals", "approve", "approval_request_id", "denial_reason")
_PASSAGE = ("archive_id", "embedding_config")
TABLES = {
    "organizations": _table(needs=("id", "name"), may_have=_BY, order=("id",)),
    "identities": _table(
        needs=("id", "organization_id", "identifier_key", "name"),
        may_have=("identity_type", "project_id", "properties", *_BY),
        order=("id",),
        optional=True,
    ),
    "agents": _table(
        needs=("id", "organization_id"),
        may_have=(
            *("agent_type", "name", "description", "system", "metadata_", "llm_config", "embedding_config"),
            *("tool_rules", *_AGENT, *_BY),
        ),
        order=("id",),
    ),
    "tools": _table(
        needs=("id", "organization_id", "name"),
        may_have=("description", "json_schema", "source_type", "source_code", "tags", "metadata_", *_TOOL, *_BY),
        order=("created_at", "id"),
        optional=True,
    ),
    "tools_agents": _table(needs=("tool_id", "agent_id"), order=("tool_id", "agent_id"), optional=True),
    "block": _table(
        needs=("id", "organization_id", "label", "value"),
        may_have=("description", "is_template", "template_name", "limit", "read_only", "metadata_", *_BLOCK, *_BY),
        order=("id",),
    ),
    "blocks_agents": _table(
        needs=("block_id", "agent_id"), may_have=("block_label",), order=("block_id", "agent_id"), optional=True
    ),
    "messages": _table(
        needs=("id", "organization_id", "agent_id", "role"),
        may_have=(
            *("text", "content", "model", "name", "tool_calls", "tool_call_id", "tool_returns", "step_id", "otid"),
            *("group_id", "sender_id", "conversation_id", "sequence_id", *_MESSAGE, *_BY),
        ),
        order=("agent_id", "sequence_id", "created_at", "id"),
    ),
    **{
        name: _table(
            needs=("id", "organization_id", "text"),
            may_have=("metadata_", "tags", "agent_id", *_PASSAGE, *_BY),
            order=("id",),
            optional=True,
        )
        for name in ("archival_passages", "agent_passages")
    },
    "source_passages": _table(
        needs=("id", "organization_id", "text"),
        may_have=("metadata_", "tags", "file_id", "file_name", "source_id", "embedding_config", *_BY),
        order=("id",),
        optional=True,
    ),
    "archives_agents": Table(needs=("archive_id", "agent_id"), optional=True),
    "agents_tags": Table(needs=("agent_id", "tag"), optional=True),
    "identities_blocks": Table(needs=("identity_id", "block_id"), optional=True),
}
_IGNORED = {
    "users": "who may call that server; keys and members say it here",
    "providers": "providers of models, with their keys",
    "sandbox_environment_variables": "secrets of the tools",
    "agent_environment_variables": "secrets of the tools",
    "groups": "agents have no groups here",
    "mcp_server": "servers are named by an agent, and no row says by which",
    "block_history": "what happened there; the history here begins with the import",
    "steps": "what happened there; the history here begins with the import",
    "runs": "what happened there; the history here begins with the import",
    "jobs": "what happened there; the history here begins with the import",
}
TABLES |= {name: Table(needs=("id",), order=("id",), optional=True) for name in _IGNORED}
_DELETED = "deleted there (is_deleted is true)"


class LettaServer:
    """An open database of a Letta server."""

    name = NAME

    def __init__(self, database: Database) -> None:
        """Read `database`."""
        self._database = database
        self._is_counted = False

    def tenants(self) -> list[Realm]:
        """Return the organizations without deleted ones."""
        return [
            Realm(
                key=row["id"],
                name=row["name"],
                slug=slug_of(row["name"], row["id"]),
                times={name: row[name] for name in ("created_at", "updated_at")},
            )
            for row in self._database.rows("organizations")
            if not row["is_deleted"]
        ]

    def accounts(self, _notes: Notes) -> Iterator[Person | OAuthClient | Membership | UnreadableRecord]:
        """Return nothing: its users have no passwords."""
        return iter(())

    def records(self, realm: Realm, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read an organization's people, agents, tools, blocks, messages and passages."""
        for values in self._database.rows("organizations", '"organizations".id = $1', realm.key):
            columns = {"id", "name", "created_at", "updated_at", "is_deleted"}
            Row("organizations", realm.key, values, notes, read=columns).count_unread(_UNREAD)
        reader = _Organization(self._database, realm.key, notes)
        yield from reader.table("identities", reader.subject, path="profile")
        yield from reader.table("agents", reader.agent, reader.tags_of_agents)
        yield from reader.table("tools", reader.tool)
        yield from reader.attachments("tools_agents", "tool_id", "tools")
        yield from reader.table("block", reader.block, reader.people_of_blocks)
        yield from reader.attachments("blocks_agents", "block_id", "block")
        yield from reader.sessions()
        yield from reader.table("messages", reader.message)
        for table in ("archival_passages", "agent_passages"):
            yield from reader.table(table, reader.passage, reader.agents_of_passages(table))
        yield from reader.table("source_passages", reader.document)
        if not self._is_counted:
            self._is_counted = True
            for table, reason in _IGNORED.items():
                if count := self._database.count(table):
                    notes.rows[table] += count
                    notes.ignored[table, reason] += count


class _Organization:
    """One organization's rows as records."""

    def __init__(self, database: Database, key: str, notes: Notes) -> None:
        self._database = database
        self._key = key
        self._notes = notes

    @property
    def tags_of_agents(self) -> Mapping[str, str]:
        """SQL of an agent's tags."""
        return self._joined("tags", "agents_tags", "tag", "agents_tags.agent_id = agents.id")

    @property
    def people_of_blocks(self) -> Mapping[str, str]:
        """SQL of the people whom a block belongs to."""
        if not (self._database.has("identities_blocks") and self._database.has("identities")):
            return {}
        return {
            "people": "ARRAY(SELECT identities.identifier_key FROM identities JOIN identities_blocks "
            "ON identities.id = identities_blocks.identity_id WHERE identities_blocks.block_id = block.id ORDER BY 1)"
        }

    def agents_of_passages(self, table: str) -> Mapping[str, str]:
        """SQL of the agents that have a passage's archive."""
        if "archive_id" not in self._database.columns(table):
            return {}
        return self._joined(
            "agent_ids", "archives_agents", "agent_id", f"archives_agents.archive_id = {table}.archive_id"
        )

    def table(
        self,
        table: str,
        read: Callable[[Row], tuple[Kind, Message]],
        extra_columns: Mapping[str, str] | None = None,
        *,
        path: str = "metadata",
    ) -> Iterator[Record | UnreadableRecord]:
        """Read the organization's rows of a table; invalid rows become UnreadableRecord."""
        rows = self._database.rows(table, f'"{table}".organization_id = $1', self._key, extra_columns=extra_columns)
        for values in rows:
            yield from self._read(Row(table, str(values["id"]), values, self._notes, f"{path}.letta"), read)

    def attachments(self, table: str, column: str, target: str) -> Iterator[Record | UnreadableRecord]:
        """Read which tools or blocks agents have; those of deleted ones are ignored."""
        if not (self._database.has(table) and self._database.has(target)):
            return
        of_organization = (
            f"EXISTS (SELECT FROM {target} WHERE {target}.id = {table}.{column} AND {target}.organization_id = $1)"
        )
        gone = " OR ".join(
            f"EXISTS (SELECT FROM {other} WHERE {other}.id = {table}.{name} AND {other}.is_deleted)"
            for other, name in ((target, column), ("agents", "agent_id"))
            if "is_deleted" in self._database.columns(other)
        )

        def read(row: Row) -> tuple[Kind, Message]:
            agent_id, other_id = row.required_text("agent_id"), row.required_text(column)
            if column == "tool_id":
                return Kind.TOOL_ATTACHMENT, subjects_pb2.AttachToolRequest(agent_id=agent_id, tool_id=other_id)
            return Kind.BLOCK_ATTACHMENT, blocks_pb2.AttachBlockRequest(agent_id=agent_id, block_id=other_id)

        for values in self._database.rows(table, of_organization, self._key, extra_columns={"gone": gone or "FALSE"}):
            row = Row(table, f"{values[column]} {values['agent_id']}", values, self._notes)
            if values["gone"]:
                self._notes.read(table)
                self._notes.count_ignored(table, "the agent, tool or block is deleted in the source")
            else:
                yield from self._read(row, read)

    def sessions(self) -> Iterator[Record | UnreadableRecord]:
        """Make a session of each agent's messages, and of each conversation."""
        columns = self._database.columns("messages")
        conversation = "conversation_id" if "conversation_id" in columns else "NULL::text"
        begin = "min(created_at)" if "created_at" in columns else "NULL"
        deleted = "AND is_deleted IS NOT TRUE" if "is_deleted" in columns else ""
        statement = (
            f"SELECT agent_id, {conversation} AS conversation_id, {begin} AS created_at "  # noqa: S608 - our names.
            f"FROM messages WHERE organization_id = $1 {deleted} GROUP BY 1, 2 ORDER BY 1, 2"
        )
        for values in self._database.query(statement, self._key):
            row = Row("messages", str(values["conversation_id"] or values["agent_id"]), values, self._notes)
            session = session_pb2.Session(session_id=_session_id(row), agent_id=row.text("agent_id"))
            if (create_time := row.time("created_at")) is not None:
                session.create_time.CopyFrom(to_timestamp(create_time))
            yield Record(where=row.where, kind=Kind.SESSION, item=session, table="messages")

    def subject(self, row: Row) -> tuple[Kind, Message]:
        extra = _kept(row, ("id", "identity_type", "project_id", "properties"))
        subject = subjects_pb2.Subject(
            subject_id=row.required_text("identifier_key")[:_MAX_ID], display_name=row.text("name", _MAX_ID)
        )
        if (profile := metadata_of("profile", {"letta": extra})) is not None:
            subject.profile.CopyFrom(profile)
        return Kind.SUBJECT, subject

    def agent(self, row: Row) -> tuple[Kind, Message]:
        extra = _kept(row, _AGENT)
        if tags := row.value("tags"):
            extra["tags"] = list(tags)
        metadata = row.mapping("metadata_", extra)
        agent = tenancy_pb2.Agent(
            agent_id=row.required_text("id"),
            display_name=row.text("name", _MAX_ID),
            agent_type=row.text("agent_type", 100),
            description=row.text("description", 10_000),
            system_prompt=row.text("system", 100_000),
        )
        for column, field in (("llm_config", agent.llm_config), ("embedding_config", agent.embedding_config)):
            if config := row.mapping(column, extra):
                field.CopyFrom(struct(config))
        if rules := tool_rules(row, extra):
            agent.tool_rules.CopyFrom(struct(rules))
        _set_metadata(agent, metadata, extra)
        return Kind.AGENT, agent

    def tool(self, row: Row) -> tuple[Kind, Message]:
        extra = _kept(row, _TOOL)
        metadata = row.mapping("metadata_", extra)
        tool = subjects_pb2.Tool(
            tool_id=row.required_text("id"),
            name=row.required_text("name")[:_MAX_ID],
            description=row.text("description", 10_000),
            source_type=row.text("source_type", 100),
            source_code=row.text("source_code"),
            tags=row.tags("tags", row.sequence("tags", extra)),
        )
        if schema := row.mapping("json_schema", extra):
            tool.json_schema.CopyFrom(struct(schema))
        _set_metadata(tool, metadata, extra)
        return Kind.TOOL, tool

    def block(self, row: Row) -> tuple[Kind, Message]:
        extra = _kept(row, _BLOCK)
        people = list(row.value("people") or ())
        if len(people) > 1:
            row.count_converted("people", "a block of several people: about none of them, and kept as metadata.letta")
            extra["people"] = people
        metadata = row.mapping("metadata_", extra)
        value = row.text("value")
        block = blocks_pb2.Block(
            block_id=row.required_text("id"),
            label=row.required_text("label"),
            value=value,
            limit=block_limit(row, len(value)),
            description=row.text("description", 5000),
            read_only=row.boolean("read_only", default=False),
            is_template=row.boolean("is_template", default=False),
            template_name=row.text("template_name", _MAX_ID),
            subject_id=str(people[0])[:_MAX_ID] if len(people) == 1 else "",
        )
        _set_metadata(block, metadata, extra)
        return Kind.BLOCK, block

    def message(self, row: Row) -> tuple[Kind, Message]:
        extra = _kept(row, (*_MESSAGE, "sequence_id"))
        row = _parsed(row, "content", extra)
        parts = content_parts(row, extra)
        text = text_of_parts(parts) or row.text("text")
        calls, returns = row.sequence("tool_calls", extra), row.sequence("tool_returns", extra)
        message = session_pb2.Message(
            external_id=row.required_text("id"),
            session_id=_session_id(row),
            role=message_role(row),
            content=spoken_text(row, text),
            name=row.text("name", _MAX_ID),
            agent_id=row.text("agent_id"),
            tool_call_id=row.text("tool_call_id", _MAX_ID),
            model=row.text("model", _MAX_ID),
            step_id=row.text("step_id", _MAX_ID),
            offline_thread_id=row.text("otid", _MAX_ID),
            group_id=row.text("group_id", _MAX_ID),
            sender_id=row.text("sender_id", _MAX_ID),
        )
        if not (message.content.strip() or parts or calls or returns):
            raise InvalidRow("has neither a text nor content, nor tool calls")
        for values, field in ((parts, message.parts), (calls, message.tool_calls), (returns, message.tool_returns)):
            if values:
                field.CopyFrom(list_value(values))
        if (create_time := row.time("created_at")) is not None:
            message.create_time.CopyFrom(to_timestamp(create_time))
        _set_metadata(message, {}, extra)
        return Kind.MESSAGE, message

    def passage(self, row: Row) -> tuple[Kind, Message]:
        """Convert a passage; of an archive that one agent has, it is this agent's alone."""
        extra = _kept(row, _PASSAGE)
        agents = [str(name) for name in row.value("agent_ids") or ()]
        agents = agents or ([row.text("agent_id")] if row.value("agent_id") else [])
        memory = self._memory(row, extra)
        if len(agents) == 1:
            memory.agent_id, memory.scope = agents[0], memory_pb2.SCOPE_AGENT
        elif agents:
            extra["agent_ids"] = agents
            row.count_converted("archive_id", "an archive of several agents: for the whole tenant")
        _set_metadata(memory, row.mapping("metadata_", extra), extra)
        return Kind.MEMORY, memory

    def document(self, row: Row) -> tuple[Kind, Message]:
        extra = _kept(row, ("file_id", "source_id", "embedding_config"))
        memory = self._memory(row, extra)
        memory.type, memory.title = "document", row.text("file_name", _TITLE)
        memory.source = memory.title
        _set_metadata(memory, row.mapping("metadata_", extra), extra)
        return Kind.MEMORY, memory

    def _memory(self, row: Row, extra: dict[str, Any]) -> memory_pb2.Memory:
        memory = memory_pb2.Memory(
            external_id=row.required_text("id"),
            content=row.required_text("text"),
            tags=row.tags("tags", row.sequence("tags", extra)),
        )
        if (create_time := row.time("created_at")) is not None:
            memory.create_time.CopyFrom(to_timestamp(create_time))
        return memory

    def _joined(self, name: str, table: str, column: str, condition: str) -> Mapping[str, str]:
        if not self._database.has(table):
            return {}
        return {name: f"ARRAY(SELECT {table}.{column} FROM {table} WHERE {condition} ORDER BY 1)"}  # noqa: S608 - our names.

    def _read(self, row: Row, read: Callable[[Row], tuple[Kind, Message]]) -> Iterator[Record | UnreadableRecord]:
        self._notes.read(row.table)
        if row.boolean("is_deleted", default=False):
            self._notes.count_ignored(row.table, _DELETED)
            return
        try:
            kind, item = read(row)
        except (InvalidRow, ValueError) as error:
            yield UnreadableRecord(where=row.where, reason=str(error), table=row.table)
            return
        record = Record(where=row.where, kind=kind, item=set_times(row, kind, item), table=row.table)
        row.count_unread(_UNREAD)
        yield record


@contextmanager
def open_source(source: str) -> Iterator[LettaServer]:
    """Read the database at a URL, as it is now. Raises SourceInvalid."""
    with open_database(source, TABLES, "a Letta server") as database:
        yield LettaServer(database)


def _session_id(row: Row) -> str:
    whole = session_of(row.text("conversation_id") or row.text("agent_id"))
    return whole if len(whole) < _MAX_ID else f"letta:{hashlib.sha256(whole.encode()).hexdigest()}"


def _kept(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    """Return columns without a field that hold something, and who made the row."""
    extra: dict[str, Any] = {}
    for column in (*columns, "_created_by_id", "_last_updated_by_id"):
        value = row.value(column)
        # A JSON column is read as its text.
        if isinstance(value, str) and value[:1] in {"{", "["}:
            value = row.document(column, extra)
        if value not in (None, "", False, [], {}):
            extra[column.lstrip("_")] = value
    return extra


def _parsed(row: Row, column: str, extra: dict[str, Any]) -> Row:
    """Return a row whose JSON column is parsed."""
    values = {**row.values, column: row.document(column, extra)}
    return Row(row.table, row.key, values, row.notes, row.metadata_path, row.read)


def _set_metadata(item: Any, metadata: dict[str, Any], extra: dict[str, Any]) -> None:
    values = {**metadata, **({"letta": extra} if extra else {})}
    if (kept := metadata_of("metadata", values)) is not None:
        item.metadata.CopyFrom(kept)
