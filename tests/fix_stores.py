"""Databases and stores of other systems, with the dirt that they gather, for imports."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from fix_cluster import Cluster, Tenant, test_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

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
