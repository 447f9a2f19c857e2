"""Databases and stores of other systems, with the dirt that they gather, for imports."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fix_cluster import Cluster, Tenant, test_environment

_BY = """
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    is_deleted BOOLEAN NOT NULL DEFAULT FALSE,
    created_by_id VARCHAR(255),
    last_updated_by_id VARCHAR(255)
"""
_OF = "organization_id VARCHAR(255) NOT NULL REFERENCES organizations(id) ON DELETE CASCADE"
AGENTMEM = f"""
CREATE TABLE organizations (
    id VARCHAR(255) PRIMARY KEY,
    name VARCHAR(255) NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    is_deleted BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE TABLE users (
    id VARCHAR(255) PRIMARY KEY, {_OF},
    name VARCHAR(255) NOT NULL,
    status VARCHAR(50) NOT NULL DEFAULT 'active',
    timezone VARCHAR(100) NOT NULL DEFAULT 'UTC', {_BY}
);
CREATE TABLE agents (
    id VARCHAR(255) PRIMARY KEY, {_OF},
    agent_type VARCHAR(100), name VARCHAR(255), description TEXT, system TEXT, topic TEXT, message_ids JSONB,
    metadata_ JSONB, llm_config JSONB, embedding_config JSONB, tool_rules JSONB, mcp_tools JSONB, {_BY}
);
CREATE TABLE messages (
    id VARCHAR(255) PRIMARY KEY, {_OF},
    user_id VARCHAR(255) NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    agent_id VARCHAR(255) NOT NULL REFERENCES agents(id) ON DELETE CASCADE,
    role VARCHAR(50) NOT NULL,
    text TEXT, content JSONB, model VARCHAR(255), name VARCHAR(255), tool_calls JSONB, tool_call_id VARCHAR(255),
    step_id VARCHAR(255), otid VARCHAR(255), tool_returns JSONB, group_id VARCHAR(255), sender_id VARCHAR(255), {_BY}
);
CREATE INDEX idx_messages_agent_created_at ON messages (agent_id, created_at);
CREATE TABLE blocks (
    id VARCHAR(255) PRIMARY KEY, {_OF},
    user_id VARCHAR(255) NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    template_name VARCHAR(255), description TEXT,
    label VARCHAR(50) NOT NULL,
    is_template BOOLEAN NOT NULL DEFAULT FALSE,
    value TEXT NOT NULL,
    "limit" BIGINT NOT NULL DEFAULT 2000,
    metadata_ JSONB, {_BY},
    CONSTRAINT unique_block_id_label UNIQUE (id, label)
);
CREATE TABLE tools (
    id VARCHAR(255) PRIMARY KEY, {_OF},
    name VARCHAR(255) NOT NULL,
    description TEXT, json_schema JSONB, source_type VARCHAR(100), source_code TEXT, tags JSONB, metadata_ JSONB, {_BY}
);
CREATE TABLE memories (
    id VARCHAR(255) PRIMARY KEY, {_OF},
    user_id VARCHAR(255) NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    agent_id VARCHAR(255) NOT NULL REFERENCES agents(id) ON DELETE CASCADE,
    content TEXT NOT NULL,
    hash VARCHAR(64),
    metadata JSONB NOT NULL DEFAULT '{{}}',
    score REAL,
    memory_type VARCHAR(50) NOT NULL,
    scope VARCHAR(50) NOT NULL,
    level VARCHAR(50) NOT NULL,
    importance REAL NOT NULL DEFAULT 0.0,
    access_count BIGINT NOT NULL DEFAULT 0,
    last_accessed TIMESTAMPTZ, {_BY}
);
CREATE TABLE blocks_agents (
    block_id VARCHAR(255) NOT NULL,
    block_label VARCHAR(50) NOT NULL,
    agent_id VARCHAR(255) NOT NULL REFERENCES agents(id) ON DELETE CASCADE,
    PRIMARY KEY (block_id, block_label, agent_id),
    FOREIGN KEY (block_id, block_label) REFERENCES blocks(id, label) ON DELETE CASCADE
);
CREATE TABLE tools_agents (
    tool_id VARCHAR(255) NOT NULL REFERENCES tools(id) ON DELETE CASCADE,
    agent_id VARCHAR(255) NOT NULL REFERENCES agents(id) ON DELETE CASCADE,
    PRIMARY KEY (tool_id, agent_id)
);
"""
_TIMES = "created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL"
_BRAIN = "brain_id TEXT NOT NULL REFERENCES brains(id) ON DELETE CASCADE"
MEMORYVAULT = f"""
CREATE TABLE users (
    id TEXT PRIMARY KEY, email TEXT NOT NULL UNIQUE, password_hash TEXT NOT NULL, display_name TEXT, {_TIMES}
);
CREATE TABLE brains (id TEXT PRIMARY KEY, name TEXT NOT NULL, slug TEXT UNIQUE, owner_user_id TEXT, {_TIMES});
CREATE TABLE brain_memberships (
    {_BRAIN}, user_id TEXT NOT NULL REFERENCES users(id), role TEXT NOT NULL DEFAULT 'member',
    created_at INTEGER NOT NULL, PRIMARY KEY (brain_id, user_id)
);
CREATE TABLE memories (
    id TEXT PRIMARY KEY, {_BRAIN}, type TEXT NOT NULL, title TEXT, key TEXT, content TEXT NOT NULL, tags TEXT,
    source TEXT, confidence REAL NOT NULL DEFAULT 0.7, importance REAL NOT NULL DEFAULT 0.5, archived_at INTEGER,
    {_TIMES}
);
CREATE TABLE memory_links (
    id TEXT PRIMARY KEY, {_BRAIN}, from_id TEXT NOT NULL REFERENCES memories(id),
    to_id TEXT NOT NULL REFERENCES memories(id), relation_type TEXT NOT NULL DEFAULT 'related', label TEXT,
    created_at INTEGER NOT NULL
);
CREATE TABLE memory_changelog (
    id TEXT PRIMARY KEY, {_BRAIN}, event_type TEXT NOT NULL, entity_type TEXT NOT NULL, entity_id TEXT NOT NULL,
    summary TEXT NOT NULL, payload TEXT, created_at INTEGER NOT NULL
);
CREATE TABLE auth_sessions (
    id TEXT PRIMARY KEY, user_id TEXT NOT NULL, brain_id TEXT NOT NULL, client_id TEXT,
    refresh_hash TEXT NOT NULL UNIQUE, expires_at INTEGER NOT NULL, created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL, revoked_at INTEGER, replaced_by TEXT
);
CREATE TABLE oauth_clients (
    id TEXT PRIMARY KEY, client_id TEXT NOT NULL UNIQUE, client_name TEXT, redirect_uris TEXT NOT NULL,
    grant_types TEXT NOT NULL, response_types TEXT NOT NULL, token_endpoint_auth_method TEXT NOT NULL DEFAULT 'none',
    client_secret_hash TEXT, client_secret_expires_at INTEGER NOT NULL DEFAULT 0, {_TIMES}
);
CREATE TABLE oauth_authorization_codes (
    id TEXT PRIMARY KEY, code TEXT NOT NULL UNIQUE, client_id TEXT NOT NULL, redirect_uri TEXT NOT NULL,
    user_id TEXT NOT NULL, brain_id TEXT NOT NULL, code_challenge TEXT NOT NULL,
    code_challenge_method TEXT NOT NULL DEFAULT 'S256', scope TEXT, resource TEXT, created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, used_at INTEGER
);
CREATE TABLE brain_source_trust (
    id TEXT PRIMARY KEY, {_BRAIN}, source_key TEXT NOT NULL, trust REAL NOT NULL DEFAULT 0.5, notes TEXT, {_TIMES},
    UNIQUE (brain_id, source_key)
);
CREATE TABLE brain_policies (brain_id TEXT PRIMARY KEY, policy_json TEXT NOT NULL, {_TIMES});
CREATE TABLE brain_snapshots (
    id TEXT PRIMARY KEY, {_BRAIN}, label TEXT, summary TEXT, memory_count INTEGER DEFAULT 0,
    link_count INTEGER DEFAULT 0, payload_json TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE TABLE memory_conflict_resolutions (
    id TEXT PRIMARY KEY, {_BRAIN}, pair_key TEXT NOT NULL, a_id TEXT NOT NULL, b_id TEXT NOT NULL,
    status TEXT NOT NULL, canonical_id TEXT, note TEXT, {_TIMES}, UNIQUE (brain_id, pair_key)
);
CREATE TABLE memory_entity_aliases (
    id TEXT PRIMARY KEY, {_BRAIN}, canonical_memory_id TEXT NOT NULL, alias_memory_id TEXT NOT NULL, note TEXT,
    confidence REAL NOT NULL DEFAULT 0.9, {_TIMES}, UNIQUE (brain_id, alias_memory_id)
);
CREATE TABLE memory_watches (
    id TEXT PRIMARY KEY, {_BRAIN}, name TEXT NOT NULL, event_types TEXT NOT NULL, query TEXT, webhook_url TEXT,
    secret TEXT, is_active INTEGER NOT NULL DEFAULT 1, {_TIMES}, last_triggered_at INTEGER, last_error TEXT
);
CREATE TABLE rate_limits (ip TEXT, window INTEGER, count INTEGER DEFAULT 0, PRIMARY KEY (ip, window));
"""
ORCHESTRATOR = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE sessions (
    session_id VARCHAR(64) PRIMARY KEY,
    user_id VARCHAR(64),
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    ended_at TIMESTAMP,
    metadata JSONB,
    summary TEXT,
    is_archived BOOLEAN NOT NULL DEFAULT FALSE,
    session_type VARCHAR(32) NOT NULL
);
CREATE TABLE memory_entries (
    memory_id VARCHAR(64) PRIMARY KEY,
    session_id VARCHAR(64) REFERENCES sessions(session_id) ON DELETE CASCADE,
    memory_type VARCHAR(32) NOT NULL,
    content JSONB NOT NULL,
    text_content TEXT GENERATED ALWAYS AS (content->>'text') STORED,
    source_agent VARCHAR(64),
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    expires_at TIMESTAMP,
    priority INTEGER NOT NULL DEFAULT 5,
    is_active BOOLEAN NOT NULL DEFAULT TRUE,
    CONSTRAINT valid_priority CHECK (priority BETWEEN 1 AND 10)
);
CREATE TABLE memory_tags (
    tag_id SERIAL PRIMARY KEY,
    memory_id VARCHAR(64) NOT NULL REFERENCES memory_entries(memory_id) ON DELETE CASCADE,
    tag VARCHAR(64) NOT NULL,
    CONSTRAINT unique_memory_tag UNIQUE (memory_id, tag)
);
CREATE TABLE vector_embeddings (
    embedding_id SERIAL PRIMARY KEY,
    memory_id VARCHAR(64) NOT NULL REFERENCES memory_entries(memory_id) ON DELETE CASCADE,
    embedding VECTOR(1536) NOT NULL,
    embedding_model VARCHAR(64) NOT NULL,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT unique_memory_embedding UNIQUE (memory_id, embedding_model)
);
CREATE TABLE user_profiles (
    user_id VARCHAR(64) PRIMARY KEY,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    profile_data JSONB,
    preferences JSONB,
    is_active BOOLEAN NOT NULL DEFAULT TRUE
);
CREATE TABLE agent_states (
    state_id SERIAL PRIMARY KEY,
    agent_id VARCHAR(64) NOT NULL,
    session_id VARCHAR(64) REFERENCES sessions(session_id) ON DELETE SET NULL,
    state_data JSONB NOT NULL,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    expires_at TIMESTAMP,
    CONSTRAINT unique_agent_session UNIQUE (agent_id, session_id)
);
CREATE TABLE memory_relationships (
    relationship_id SERIAL PRIMARY KEY,
    source_memory_id VARCHAR(64) NOT NULL REFERENCES memory_entries(memory_id) ON DELETE CASCADE,
    target_memory_id VARCHAR(64) NOT NULL REFERENCES memory_entries(memory_id) ON DELETE CASCADE,
    relationship_type VARCHAR(32) NOT NULL,
    metadata JSONB,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT unique_memory_relationship UNIQUE (source_memory_id, target_memory_id, relationship_type)
);
CREATE TABLE memory_access_logs (
    log_id SERIAL PRIMARY KEY,
    memory_id VARCHAR(64) REFERENCES memory_entries(memory_id) ON DELETE SET NULL,
    session_id VARCHAR(64) REFERENCES sessions(session_id) ON DELETE SET NULL,
    agent_id VARCHAR(64),
    operation VARCHAR(16) NOT NULL,
    timestamp TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    request_data JSONB,
    success BOOLEAN NOT NULL,
    error_message TEXT,
    ip_address VARCHAR(45)
);
"""
_LETTA_BY = """
    created_at TIMESTAMPTZ DEFAULT now(), updated_at TIMESTAMPTZ DEFAULT now(),
    is_deleted BOOLEAN NOT NULL DEFAULT FALSE, _created_by_id VARCHAR, _last_updated_by_id VARCHAR
"""
_LETTA_OF = f"organization_id VARCHAR NOT NULL, {_LETTA_BY}"
# The tables of a Letta server that hold memory, in the form of its last version.
LETTA = f"""
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE organizations (id VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, {_LETTA_BY});
CREATE TABLE users (id VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, {_LETTA_OF});
CREATE TABLE identities (
    id VARCHAR PRIMARY KEY, identifier_key VARCHAR NOT NULL, name VARCHAR NOT NULL, identity_type VARCHAR NOT NULL,
    project_id VARCHAR, properties JSON, {_LETTA_OF}
);
CREATE TABLE agents (
    id VARCHAR PRIMARY KEY, agent_type VARCHAR, name VARCHAR, description VARCHAR, system VARCHAR, message_ids JSON,
    response_format JSON, metadata_ JSON, llm_config JSON, embedding_config JSON, compaction_settings JSON,
    project_id VARCHAR, template_id VARCHAR, base_template_id VARCHAR, deployment_id VARCHAR, entity_id VARCHAR,
    tool_rules JSON, message_buffer_autoclear BOOLEAN, enable_sleeptime BOOLEAN, hidden BOOLEAN, timezone VARCHAR,
    max_files_open INTEGER, per_file_view_window_char_limit INTEGER, last_run_completion TIMESTAMPTZ, {_LETTA_OF}
);
CREATE TABLE agents_tags (agent_id VARCHAR NOT NULL, tag VARCHAR NOT NULL);
CREATE TABLE tools (
    id VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, tool_type VARCHAR NOT NULL, description VARCHAR, json_schema JSON,
    args_json_schema JSON, source_type VARCHAR, source_code VARCHAR, tags JSON, metadata_ JSON, project_id VARCHAR,
    return_char_limit INTEGER, pip_requirements JSON, npm_requirements JSON, default_requires_approval BOOLEAN,
    enable_parallel_execution BOOLEAN, {_LETTA_OF}
);
CREATE TABLE tools_agents (agent_id VARCHAR NOT NULL, tool_id VARCHAR NOT NULL);
CREATE TABLE block (
    id VARCHAR PRIMARY KEY, label VARCHAR NOT NULL, value VARCHAR NOT NULL, "limit" INTEGER NOT NULL DEFAULT 2000,
    description VARCHAR, is_template BOOLEAN NOT NULL DEFAULT FALSE, template_name VARCHAR,
    read_only BOOLEAN NOT NULL DEFAULT FALSE, metadata_ JSON, project_id VARCHAR, template_id VARCHAR,
    base_template_id VARCHAR, deployment_id VARCHAR, entity_id VARCHAR, hidden BOOLEAN, version INTEGER, {_LETTA_OF}
);
CREATE TABLE blocks_agents (agent_id VARCHAR NOT NULL, block_id VARCHAR NOT NULL, block_label VARCHAR NOT NULL);
CREATE TABLE identities_blocks (identity_id VARCHAR NOT NULL, block_id VARCHAR NOT NULL);
CREATE TABLE messages (
    id VARCHAR PRIMARY KEY, agent_id VARCHAR NOT NULL, role VARCHAR NOT NULL, text VARCHAR, content JSON, model VARCHAR,
    name VARCHAR, tool_calls JSON, tool_call_id VARCHAR, tool_returns JSON, step_id VARCHAR, run_id VARCHAR,
    otid VARCHAR, group_id VARCHAR, sender_id VARCHAR, conversation_id VARCHAR, batch_item_id VARCHAR, is_err BOOLEAN,
    approvals JSON, approve BOOLEAN, approval_request_id VARCHAR, denial_reason VARCHAR, sequence_id BIGINT,
    {_LETTA_OF}
);
CREATE TABLE archives_agents (agent_id VARCHAR NOT NULL, archive_id VARCHAR NOT NULL);
CREATE TABLE archival_passages (
    id VARCHAR PRIMARY KEY, text VARCHAR NOT NULL, embedding vector(3), embedding_config JSON, metadata_ JSON,
    tags JSON, archive_id VARCHAR, {_LETTA_OF}
);
CREATE TABLE source_passages (
    id VARCHAR PRIMARY KEY, text VARCHAR NOT NULL, embedding vector(3), embedding_config JSON, metadata_ JSON,
    tags JSON, file_id VARCHAR, file_name VARCHAR, source_id VARCHAR, {_LETTA_OF}
);
"""
DUYETBOT = """
CREATE TABLE memory_users (
  id TEXT PRIMARY KEY,
  github_id TEXT UNIQUE NOT NULL,
  github_login TEXT NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE TABLE memory_sessions (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL,
  title TEXT,
  state TEXT DEFAULT 'active',
  created_at INTEGER,
  updated_at INTEGER,
  metadata TEXT,
  FOREIGN KEY(user_id) REFERENCES memory_users(id)
);
CREATE TABLE memory_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL,
  role TEXT CHECK(role IN ('user','assistant','system')),
  content TEXT NOT NULL,
  timestamp INTEGER,
  metadata TEXT,
  FOREIGN KEY(session_id) REFERENCES memory_sessions(id)
);
CREATE INDEX idx_memory_messages_session ON memory_messages(session_id, timestamp ASC);
CREATE INDEX idx_memory_messages_content ON memory_messages(session_id, content);
CREATE TABLE memory_session_tokens (
  token TEXT PRIMARY KEY,
  user_id TEXT,
  expires_at INTEGER,
  FOREIGN KEY(user_id) REFERENCES memory_users(id)
);
"""
DUYETBOT_ITEMS = """
CREATE TABLE memory_short_term_items (
  session_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT, expires_at INTEGER, PRIMARY KEY (session_id, key)
);
CREATE TABLE memory_long_term_items (
  id TEXT PRIMARY KEY, user_id TEXT, category TEXT, key TEXT, value TEXT, importance INTEGER, tags TEXT, metadata TEXT,
  created_at INTEGER, updated_at INTEGER
);
"""
# Without the columns that only the diagram has.
DUYETBOT_BARE = """
CREATE TABLE memory_users (
  id TEXT PRIMARY KEY, github_id TEXT UNIQUE NOT NULL, github_login TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE TABLE memory_sessions (id TEXT PRIMARY KEY, user_id TEXT NOT NULL, title TEXT, state TEXT DEFAULT 'active');
CREATE TABLE memory_messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT, content TEXT NOT NULL
);
"""
LONGTERM = """
CREATE TABLE long_term_memory (
id TEXT PRIMARY KEY, -- ULID
tenant_id TEXT NOT NULL, -- structural tenant scope
agent_id TEXT NOT NULL, -- which agent this memory belongs to
content TEXT NOT NULL, -- the actual memory text
metadata TEXT NOT NULL, -- JSON-encoded
embedding_provider TEXT, -- e.g. 'openai'
embedding_model TEXT, -- e.g. 'text-embedding-3-small'
embedding_dimensions INTEGER,
created_at TEXT NOT NULL
);
"""
# 2026-03-02 07:12:00 UTC.
SECONDS = 1_772_435_520
MILLISECONDS = SECONDS * 1000


def holder(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the environment of a caller with the tenant's key."""
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


def database(path: Path, schema: str, rows: Mapping[str, Iterable[Sequence[Any]]]) -> Path:
    """Make an SQLite file; texts that no UTF-8 text can be are given as bytes in a CAST."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        for table, lines in rows.items():
            for line in lines:
                marks = ", ".join("CAST(? AS TEXT)" if isinstance(value, InvalidText) else "?" for value in line)
                values = [bytes(value) if isinstance(value, InvalidText) else value for value in line]
                connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608 - our names.
        connection.commit()
    return path


class InvalidText(bytes):
    """Bytes that stand in a text column as text, though they are no UTF-8."""


def duyetbot(path: Path) -> Path:
    """Make a Duyetbot database with two users, four sessions and everything that can be wrong with them."""
    return database(
        path,
        DUYETBOT + DUYETBOT_ITEMS,
        {
            "memory_users": [("u1", "1001", "duyet", SECONDS), ("u2", "1002", "ann", MILLISECONDS)],
            "memory_sessions": [
                ("s1", "u1", "Parrots", "active", SECONDS, SECONDS + 60, '{"channel": "github"}'),
                ("s2", "u2", None, "completed", MILLISECONDS, None, "{bad json"),
                ("s3", "gone", "Orphan", "melted", SECONDS, None, '["a", "list"]'),
                ("s4", "u2", "", None, None, None, None),
                ("s5", "u1", "Over", "archived", SECONDS, None, ""),
            ],
            "memory_messages": [
                (1, "s1", "user", "I adopted a parrot called Bosun.", SECONDS, None),
                (3, "s1", "assistant", "Lovely!", MILLISECONDS + 2000, '{"tokens": 3, "large": 9007199254740993}'),
                (2, "s1", "user", "A NUL \0 in here", SECONDS + 1, '{"nul": "a\\u0000b"}'),
                (4, "s2", None, "Who said this?", None, "not json"),
                (5, "s2", "assistant", InvalidText(b"half \xed\xa0\x80 a pair"), SECONDS, None),
                (6, "nowhere", "user", "lost", SECONDS, None),
                (7, "s2", "user", "   ", SECONDS, None),
                (8, "s2", "system", b"bytes \xc3\xa9", SECONDS + 9, None),
                (9, "s5", "user", "the last word", SECONDS + 10, '[[[["deep"]]]]'),
            ],
            "memory_session_tokens": [("t1", "u1", SECONDS), ("t2", "u2", SECONDS)],
            "memory_short_term_items": [
                ("s1", "mood", '{"is": "curious"}', 4_000_000_000),
                ("s1", "plain", "no json", None),
                ("s1", "old", '"x"', SECONDS),
            ],
            "memory_long_term_items": [
                ("l1", "u1", "preference", "drink", "likes tea", 10, "tea, hot ,,tea", "{}", SECONDS, SECONDS),
                (
                    "l2",
                    "u1",
                    "Preference!",
                    "drink",
                    "likes oolong",
                    1,
                    '["tea", "oolong"]',
                    None,
                    SECONDS,
                    SECONDS + 5,
                ),
                ("l3", "u1", None, "", "just so", 99, None, "{", MILLISECONDS, None),
                ("l4", "u1", "note", "empty", None, 5, None, None, SECONDS, None),
            ],
        },
    )


def longterm(path: Path) -> Path:
    """Make a long-term memory of two tenants."""
    vector = ("openai", "test-embedding", 3)
    return database(
        path,
        LONGTERM,
        {
            "long_term_memory": [
                ("01A", "acme", "planner", "the launch is in May", '{"kind": "plan"}', *vector, "2026-03-02T07:12:00Z"),
                ("01B", "acme", "planner", "the budget is tight", "oops", *vector, "2026-03-02 07:12:00"),
                ("01C", "acme", "writer", "no vector here", "{}", None, None, None, str(MILLISECONDS)),
                ("01D", "acme", "writer", " ", "{}", None, None, None, "yesterday"),
                ("01E", "globex", "planner", "elsewhere", "{}", *vector, "2026-03-02T07:12:00Z"),
                ("01F", "acme", "writer", "a vector of another size", "{}", *vector, "2026-03-02T07:12:00Z"),
            ]
        },
    )


def vectors(path: Path) -> Path:
    """Make a dump of vectors of `longterm`, one of them without a row and one of another size."""
    lines = [
        {"id": "01A", "values": [0.1, 0.2, 0.3], "metadata": {"tenant_id": "acme"}},
        {"id": "01B", "values": [9, 9, 9]},
        {"id": "01B", "values": [0.3, 0.2, 0.1]},
        {"id": "01F", "values": [0.3, 0.2]},
        {"id": "01Z", "values": [1, 0, 0]},
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    path.write_text(text + "not json\n\n", "utf-8")
    return path
