"""`letta-af`: Letta's agent files (.af), of the present form and of the first one with a single agent.

Ids in a file count its entries and mean nothing outside it. Therefore names are ids here: an agent has its name, a
block `<agent>/<label>`, a tool its name. A later file of the same agent adds only what is new.

| theirs | here |
|---|---|
| agents, with tools and blocks | agents, tools and blocks, and what is attached to which |
| messages | messages of a session for each agent, `letta:<agent>` |
| files with a text | memories of the type document |
| skills with a SKILL.md | memories of the type skill |
| other fields | metadata.letta |
| environment variables, groups, MCP servers, sources | left out, and named in the report |
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_importers.records import Kind, Record, UnreadableRecord
from skein_importers.sources.agent_fields import block_limit, message_role, tool_rules
from skein_importers.sources.assistant_store import convert_rows, metadata_of
from skein_importers.sources.base import Notes
from skein_importers.sources.documents import SingleRealmSource, ids_of, kept_fields, read_document, rows_of
from skein_importers.sources.rows import InvalidRow, Row, list_value, make_storable, parse_json, struct, to_timestamp
from skein_kit.json_values import exact

NAME = "letta-af"
_AGENTS, _BLOCKS, _TOOLS, _MESSAGES, _FILES, _SKILLS = "agents", "blocks", "tools", "messages", "files", "skills"
_IGNORED = {
    "groups": "agents have no groups here",
    "mcp_servers": "servers are named by an agent, and the file does not say by which",
    "sources": "folders of files, whose texts come as memories of the type document",
}
_SECRETS = "tool_exec_environment_variables"
_MAX_ID = 255
_MAX_TEXT = 100_000
_TITLE = 1000
_DIGITS = 16
# Fields with a place here, or with the default of every export.
_AGENT_FIELDS = (
    *("id", "name", "agent_type", "description", "system", "metadata", "llm_config", "embedding_config", "tool_rules"),
    *("messages", "tool_ids", "block_ids", "created_at", "updated_at", "in_context_message_ids", _SECRETS),
    *("core_memory", "tools", "metadata_", "in_context_message_indices", "memory_blocks"),
)
_TOOL_FIELDS = (
    *("id", "name", "description", "source_type", "source_code", "json_schema", "tags", "metadata_"),
    *("created_at", "updated_at"),
)
_BLOCK_FIELDS = (
    *("id", "label", "value", "limit", "description", "read_only", "is_template", "template_name", "metadata"),
    *("metadata_", "created_at", "updated_at"),
)
_MESSAGE_FIELDS = (
    *("id", "role", "content", "name", "tool_calls", "tool_call_id", "tool_returns", "model", "step_id", "otid"),
    *("group_id", "sender_id", "created_at", "updated_at", "agent_id", "type"),
)


class AgentFile:
    """An agent file."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read a document of the present form."""
        self._document = document
        self._agents = _by_name(document.get(_AGENTS) or ())
        # Ids here, by those of the file.
        self._blocks = self._names_of_blocks()
        self._tools = {
            tool["id"]: str(tool["name"])[:_MAX_ID]
            for tool in _objects(document, _TOOLS)
            if isinstance(tool.get("id"), str) and tool.get("name")
        }

    def records(self, notes: Notes) -> Iterator[Record | UnreadableRecord]:
        """Read agents, tools, blocks, messages, then texts of files and skills."""
        yield from convert_rows(self._rows(_AGENTS, notes), self._agent)
        yield from convert_rows(self._rows(_TOOLS, notes), self._tool)
        yield from convert_rows(self._rows(_AGENTS, notes), self._tool_attachments, count_rows=False)
        yield from convert_rows(self._rows(_BLOCKS, notes), self._block)
        yield from convert_rows(self._rows(_AGENTS, notes), self._block_attachments, count_rows=False)
        yield from convert_rows(self._rows(_AGENTS, notes), self._session, count_rows=False)
        for row in self._rows(_AGENTS, notes):
            yield from _messages(row, self._agents[row.text("id")])
        yield from convert_rows(self._rows(_FILES, notes), _file)
        yield from convert_rows(self._rows(_SKILLS, notes, "name"), _skill)
        for name, reason in _IGNORED.items():
            if count := len(_objects(self._document, name)):
                notes.rows[name] += count
                notes.ignored[name, reason] += count

    def _rows(self, table: str, notes: Notes, key: str = "id") -> Iterator[Row]:
        return rows_of(self._document.get(table), table, key, notes, "metadata.letta")

    def _names_of_blocks(self) -> dict[str, str]:
        owners: dict[str, str] = {}
        for agent in _objects(self._document, _AGENTS):
            block_ids = agent.get("block_ids")
            for block_id in block_ids if isinstance(block_ids, list) else ():
                owners.setdefault(str(block_id), self._agents.get(str(agent.get("id")), ""))
        names = {}
        for block in _objects(self._document, _BLOCKS):
            label = str(block.get("label") or "")
            owner = owners.get(str(block.get("id"))) or _digest(label, block.get("value"))
            names[make_storable(str(block.get("id")))] = make_storable(f"{owner[: _MAX_ID - len(label) - 1]}/{label}")
        return names

    def _agent(self, row: Row) -> Iterator[Record]:
        extra = kept_fields(row, _AGENT_FIELDS)
        metadata = row.mapping("metadata" if row.value("metadata") is not None else "metadata_", extra)
        agent = tenancy_pb2.Agent(
            agent_id=self._agents[row.text("id")],
            display_name=row.text("name", _MAX_ID),
            agent_type=row.text("agent_type", 100),
            description=row.text("description", 10_000),
            system_prompt=row.text("system", _MAX_TEXT),
        )
        for column, field in (("llm_config", agent.llm_config), ("embedding_config", agent.embedding_config)):
            if config := row.mapping(column, extra):
                field.CopyFrom(struct(config))
        if rules := tool_rules(row, extra):
            agent.tool_rules.CopyFrom(struct(rules))
        for name in ("in_context_message_ids", "in_context_message_indices"):
            if ids := row.sequence(name, extra):
                extra[name] = ids
                row.count_converted(name, "no such field here: kept as metadata.letta")
        if row.value(_SECRETS):
            row.count_converted(_SECRETS, "left out: they are secrets of the tools")
        _set_metadata(agent, metadata, extra)
        yield Record(where=row.where, kind=Kind.AGENT, item=agent, table=row.table)

    def _tool(self, row: Row) -> Iterator[Record]:
        extra = kept_fields(row, _TOOL_FIELDS)
        metadata = row.mapping("metadata_", extra)
        name = row.required_text("name")
        tool = subjects_pb2.Tool(
            tool_id=name[:_MAX_ID],
            name=name[:_MAX_ID],
            description=row.text("description", 10_000),
            source_type=row.text("source_type", 100),
            source_code=row.text("source_code"),
            tags=row.tags("tags", row.sequence("tags", extra)),
        )
        if schema := row.mapping("json_schema", extra):
            tool.json_schema.CopyFrom(struct(schema))
        _set_metadata(tool, metadata, extra)
        yield Record(where=row.where, kind=Kind.TOOL, item=tool, table=row.table)

    def _tool_attachments(self, row: Row) -> Iterator[Record]:
        for name in self._known(row, "tool_ids", self._tools):
            request = subjects_pb2.AttachToolRequest(agent_id=self._agents[row.text("id")], tool_id=name)
            yield Record(where=row.where, kind=Kind.TOOL_ATTACHMENT, item=request, table=row.table)

    def _block(self, row: Row) -> Iterator[Record]:
        extra = kept_fields(row, _BLOCK_FIELDS)
        metadata = row.mapping("metadata" if row.value("metadata") is not None else "metadata_", extra)
        value = row.text("value")
        block = blocks_pb2.Block(
            block_id=self._blocks[row.required_text("id")],
            label=row.required_text("label"),
            value=value,
            limit=block_limit(row, len(value)),
            description=row.text("description", 5000),
            read_only=row.boolean("read_only", default=False),
            is_template=row.boolean("is_template", default=False),
            template_name=row.text("template_name", _MAX_ID),
        )
        _set_metadata(block, metadata, extra)
        yield Record(where=row.where, kind=Kind.BLOCK, item=block, table=row.table)

    def _block_attachments(self, row: Row) -> Iterator[Record]:
        for name in self._known(row, "block_ids", self._blocks):
            request = blocks_pb2.AttachBlockRequest(agent_id=self._agents[row.text("id")], block_id=name)
            yield Record(where=row.where, kind=Kind.BLOCK_ATTACHMENT, item=request, table=row.table)

    def _known(self, row: Row, column: str, names: Mapping[str, str]) -> Iterator[str]:
        """Yield the ids here of the entries that an agent refers to."""
        for identity in ids_of(row, column):
            if identity in names:
                yield names[identity]
            else:
                row.count_converted(column, "no such entry in the file: left out")

    def _session(self, row: Row) -> Iterator[Record]:
        messages = _objects(row.values, "messages")
        if not messages:
            return
        agent_id = self._agents[row.text("id")]
        session = session_pb2.Session(
            session_id=session_of(agent_id), title=row.text("name", _TITLE), agent_id=agent_id
        )
        first = Row(_MESSAGES, str(messages[0].get("id")), messages[0], row.notes)
        if (create_time := first.time("created_at")) is not None:
            session.create_time.CopyFrom(to_timestamp(create_time))
        yield Record(where=row.where, kind=Kind.SESSION, item=session, table=row.table)


@contextmanager
def open_source(source: str) -> Iterator[SingleRealmSource]:
    """Read a file as a whole. Raises SourceInvalid."""
    document = read_document(source, "agent file of Letta", (_AGENTS, "core_memory"))
    yield SingleRealmSource(NAME, AgentFile(_present_form(document)).records)


def session_of(agent_id: str) -> str:
    """Return the id of the session with an agent's messages."""
    return f"letta:{agent_id}"[:_MAX_ID]


def _messages(agent: Row, agent_id: str) -> Iterator[Record | UnreadableRecord]:
    """Read an agent's messages in their order."""
    # How often each message occurred.
    seen: Counter[str] = Counter()

    def convert(row: Row) -> Iterator[Record]:
        return _message(row, agent_id, seen)

    yield from convert_rows(rows_of(agent.value("messages"), _MESSAGES, "id", agent.notes, "metadata.letta"), convert)


def _message(row: Row, agent_id: str, seen: Counter[str]) -> Iterator[Record]:
    extra = kept_fields(row, _MESSAGE_FIELDS)
    parts = content_parts(row, extra)
    text = text_of_parts(parts)
    spoken = spoken_text(row, text)
    if isinstance(row.value("content"), str) and spoken == text:
        # The text alone is the content.
        parts = []
    calls, returns = row.sequence("tool_calls", extra), row.sequence("tool_returns", extra)
    message = session_pb2.Message(
        session_id=session_of(agent_id),
        role=message_role(row),
        content=spoken,
        name=row.text("name", _MAX_ID),
        agent_id=agent_id,
        tool_call_id=row.text("tool_call_id", _MAX_ID),
        model=row.text("model", _MAX_ID),
        step_id=row.text("step_id", _MAX_ID),
        offline_thread_id=row.text("otid", _MAX_ID),
        group_id=row.text("group_id", _MAX_ID),
        sender_id=row.text("sender_id", _MAX_ID),
    )
    for values, field in ((parts, message.parts), (calls, message.tool_calls), (returns, message.tool_returns)):
        if values:
            field.CopyFrom(list_value(values))
    if not (message.content.strip() or parts or calls or returns):
        raise InvalidRow("has neither a text nor content, nor tool calls")
    if (create_time := row.time("created_at")) is not None:
        message.create_time.CopyFrom(to_timestamp(create_time))
    digest = _digest(*(row.value(name) for name in ("created_at", "role", "content", "tool_calls", "tool_call_id")))
    seen[digest] += 1
    suffix = f"/{digest}" if seen[digest] == 1 else f"/{digest}.{seen[digest]}"
    message.external_id = f"{agent_id[: _MAX_ID - len(suffix)]}{suffix}"
    _set_metadata(message, {}, extra)
    yield Record(where=row.where, kind=Kind.MESSAGE, item=message, table=row.table)


def _file(row: Row) -> Iterator[Record]:
    if not row.text("content").strip():
        row.notes.count_ignored(row.table, "the agent file has no text of it")
        return
    name = row.text("original_file_name") or row.required_text("file_name")
    memory = memory_pb2.Memory(
        external_id=f"letta-file/{_digest(name, row.value('content'))}",
        type="document",
        title=name[:_TITLE],
        content=row.text("content"),
        source=name[:_TITLE],
    )
    extra = kept_fields(row, ("id", "content", "file_name", "original_file_name", "source_id"))
    _set_metadata(memory, {}, extra)
    created = row.time("file_creation_date")
    if created is not None:
        memory.create_time.CopyFrom(to_timestamp(created))
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def _skill(row: Row) -> Iterator[Record]:
    files = row.mapping("files", {})
    name = row.required_text("name")
    if not str(files.get("SKILL.md") or "").strip():
        row.notes.count_ignored(row.table, "the agent file has no text of it")
        return
    memory = memory_pb2.Memory(
        external_id=f"letta-skill/{name}"[:_MAX_ID],
        type="skill",
        title=name[:_TITLE],
        content=str(files.pop("SKILL.md")),
        source=row.text("source_url", _TITLE),
    )
    _set_metadata(memory, {}, {"files": files} if files else {})
    yield Record(where=row.where, kind=Kind.MEMORY, item=memory, table=row.table)


def content_parts(row: Row, extra: dict[str, Any]) -> list[Any]:
    if isinstance(row.value("content"), str):
        return [{"type": "text", "text": row.text("content")}]
    return row.sequence("content", extra)


def spoken_text(row: Row, text: str) -> str:
    """Return what a person said: Letta wraps it in JSON with the time."""
    if row.value("role") != "user" or not text.lstrip().startswith("{"):
        return text
    try:
        wrapped = parse_json(text)
    except ValueError:
        return text
    said = wrapped.get("message") if isinstance(wrapped, dict) and wrapped.get("type") == "user_message" else None
    if not isinstance(said, str):
        return text
    row.count_converted("content", "the message without its wrapping; parts keep the whole")
    return str(make_storable(said))


def text_of_parts(parts: Sequence[Any]) -> str:
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type", "text") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def _by_name(agents: Sequence[Any]) -> dict[str, str]:
    """Return the agents' ids here by those of the file; the second of a name gets a suffix."""
    names: dict[str, str] = {}
    for agent in agents:
        if isinstance(agent, dict):
            name = make_storable(str(agent.get("name") or agent["id"])).strip()[:_MAX_ID]
            taken = list(names.values())
            suffix = f"/{agent['id']}" if name in taken else ""
            names[agent["id"]] = f"{name[: _MAX_ID - len(suffix)]}{suffix}"
    return names


def _objects(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    values = document.get(name)
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _digest(*values: Any) -> str:
    return hashlib.sha256(exact.canonical(list(values)).encode("utf-8", "replace")).hexdigest()[:_DIGITS]


def _set_metadata(item: Any, metadata: dict[str, Any], extra: dict[str, Any]) -> None:
    values = {**metadata, "letta": extra} if extra else metadata
    if (converted := metadata_of("metadata", values)) is not None:
        item.metadata.CopyFrom(converted)


def _present_form(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document in the present form, in which every agent has an id."""
    if isinstance(document.get(_AGENTS), list):
        return {**document, _AGENTS: _with_ids(document, _AGENTS, "agent")}
    blocks, tools = _with_ids(document, "core_memory", "block"), _with_ids(document, _TOOLS, "tool")
    tags = document.get("tags")
    agent = {
        **{name: value for name, value in document.items() if name != "version"},
        "tags": [tag.get("tag") if isinstance(tag, dict) else tag for tag in tags] if isinstance(tags, list) else tags,
        "id": "agent-0",
        "messages": _with_ids(document, _MESSAGES, "message"),
        "block_ids": [block["id"] for block in blocks if isinstance(block, dict)],
        "tool_ids": [tool["id"] for tool in tools if isinstance(tool, dict)],
    }
    return {_AGENTS: [agent], _BLOCKS: blocks, _TOOLS: tools}


def _with_ids(document: Mapping[str, Any], member: str, kind: str) -> list[Any]:
    """Return the elements of a list, objects without an id with one of their number."""
    values = document.get(member)
    return [
        {**value, "id": make_storable(str(value.get("id") or f"{kind}-{number}"))} if isinstance(value, dict) else value
        for number, value in enumerate(values if isinstance(values, list) else ())
    ]
