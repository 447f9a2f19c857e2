"""Items of a restored database that were purged later, recognized by their digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_memory.tombstones.store import digest_of as memory_digest
from skein_session.tombstones import store as session_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    import asyncpg

    from skein_cluster.backup.deletions import NewTombstones

    Connection = asyncpg.Connection[Any]

# What lies in a space that is purged in it.
_MEMORIES = """
    SELECT memory_id FROM memory.memories WHERE tenant_id = $1 AND space_id = $2
    UNION SELECT memory_id FROM memory.archived_memories WHERE tenant_id = $1 AND space_id = $2
"""
_BLOCKS = "SELECT block_id FROM memory.blocks WHERE tenant_id = $1 AND space_id = $2"
_MEMORY_SUBJECTS = """
    SELECT subject_id FROM memory.memories WHERE tenant_id = $1
    UNION SELECT subject_id FROM memory.archived_memories WHERE tenant_id = $1
    UNION SELECT subject_id FROM memory.blocks WHERE tenant_id = $1
    UNION SELECT subject_id FROM memory.revisions WHERE tenant_id = $1
    UNION SELECT subject_id FROM memory.access_log WHERE tenant_id = $1
"""
_SESSIONS = "SELECT session_id FROM session.sessions WHERE tenant_id = $1 AND space_id = $2"
_MESSAGES = """
    SELECT message_id FROM session.messages WHERE tenant_id = $1 AND space_id = $2
    UNION SELECT message_id FROM session.archived_messages WHERE tenant_id = $1 AND space_id = $2
"""
_EXTERNAL = "SELECT external_id, message_id FROM session.message_external_ids WHERE tenant_id = $1 AND space_id = $2"
_SPACES = "SELECT space_id FROM tenancy.spaces WHERE tenant_id = $1 ORDER BY space_id"
_SESSION_SUBJECTS = """
    SELECT subject_id FROM session.sessions WHERE tenant_id = $1
    UNION SELECT subject_id FROM session.messages WHERE tenant_id = $1
    UNION SELECT subject_id FROM session.archived_messages WHERE tenant_id = $1
"""
_DIRECTORY = "SELECT subject_id FROM tenancy.subjects WHERE tenant_id = $1"
# Rows of one fetch: a tenant may have millions.
_AT_ONCE = 5000


@dataclass(frozen=True, kw_only=True, slots=True)
class PurgedItems:
    """A tenant's existing items that were purged later: those of one space and, with the default one, people."""

    tenant_id: UUID
    space_id: UUID
    memory_ids: list[str]
    block_ids: list[str]
    memory_subjects: list[str]
    session_ids: list[str]
    message_ids: list[str]
    session_subjects: list[str]
    # Subjects with purged data.
    directory: list[str]

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the number of items of each kind."""
        return {
            "memories": len(self.memory_ids),
            "blocks": len(self.block_ids),
            "sessions": len(self.session_ids),
            "messages": len(self.message_ids),
            "subjects": len({*self.memory_subjects, *self.session_subjects}),
        }


async def find_purged(connection: Connection, new_tombstones: NewTombstones) -> list[PurgedItems]:
    """Scan every tenant with purges."""
    memory = {tenant_id: (salt, digests) for tenant_id, salt, digests in new_tombstones.tenants("memory")}
    session = {tenant_id: (salt, digests) for tenant_id, salt, digests in new_tombstones.tenants("session")}
    result: list[PurgedItems] = []
    for tenant_id in sorted({*memory, *session}):
        memory_salt, of_memory = memory.get(tenant_id, (b"", set[bytes]()))
        session_salt, of_session = session.get(tenant_id, (b"", set[bytes]()))
        matcher = _TombstoneMatcher(
            memory_salt=memory_salt,
            memory=frozenset(of_memory),
            session_salt=session_salt,
            session=frozenset(of_session),
        )
        spaces = [DEFAULT_SPACE, *(row["space_id"] for row in await connection.fetch(_SPACES, tenant_id))]
        result += [await _SpaceScan(connection, tenant_id, space_id, matcher).all() for space_id in spaces]
    return result


@dataclass(frozen=True, kw_only=True, slots=True)
class _TombstoneMatcher:
    """Matches names with the tombstones of one tenant."""

    memory_salt: bytes
    memory: frozenset[bytes]
    session_salt: bytes
    session: frozenset[bytes]

    def in_memory(self, kind: str, value: bytes) -> bool:
        return bool(self.memory) and memory_digest(self.memory_salt, kind, value) in self.memory

    def in_session(self, name: str) -> bool:
        return bool(self.session) and session_names.digest_of(self.session_salt, name) in self.session

    def subject(self, subject_id: str) -> bool:
        of_session = self.in_session(session_names.of_subject(subject_id))
        return of_session or self.in_memory("subject_id", subject_id.encode())


class _SpaceScan:
    """Scans the names of one space of a tenant in batches."""

    def __init__(self, connection: Connection, tenant_id: UUID, space_id: UUID, matcher: _TombstoneMatcher) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._space_id = space_id
        self._matcher = matcher

    async def all(self) -> PurgedItems:
        """Return all purged items."""
        matcher, space_id = self._matcher, self._space_id
        external = await self._rows(
            _EXTERNAL, lambda name: matcher.in_session(session_names.of_message(name, space_id)), space_id
        )
        message_ids = await self._names(
            _MESSAGES, lambda id_: matcher.in_session(session_names.of_message_id(id_)), space_id
        )
        has_people = space_id == DEFAULT_SPACE
        return PurgedItems(
            tenant_id=self._tenant_id,
            space_id=space_id,
            memory_ids=await self._names(_MEMORIES, lambda id_: matcher.in_memory("memory_id", id_.bytes), space_id),
            block_ids=await self._names(_BLOCKS, lambda id_: matcher.in_memory("block_id", id_.encode()), space_id),
            memory_subjects=await self._names(
                _MEMORY_SUBJECTS, lambda id_: matcher.in_memory("subject_id", id_.encode())
            )
            if has_people
            else [],
            session_ids=await self._names(
                _SESSIONS, lambda id_: matcher.in_session(session_names.of_session(id_, space_id)), space_id
            ),
            message_ids=sorted({*message_ids, *(str(row["message_id"]) for row in external)}),
            session_subjects=await self._names(
                _SESSION_SUBJECTS, lambda id_: matcher.in_session(session_names.of_subject(id_))
            )
            if has_people
            else [],
            directory=await self._names(_DIRECTORY, matcher.subject) if has_people else [],
        )

    async def _names(self, statement: str, is_purged: Callable[[Any], bool], *values: UUID) -> list[str]:
        return [str(row[0]) for row in await self._rows(statement, is_purged, *values)]

    async def _rows(self, statement: str, is_purged: Callable[[Any], bool], *values: UUID) -> list[Any]:
        """Return the rows whose first column is the name of a purged item."""
        matching_rows: list[Any] = []
        async with self._connection.transaction():
            cursor: Any = await self._connection.cursor(statement, self._tenant_id, *values)
            while rows := await cursor.fetch(_AT_ONCE):
                matching_rows += [row for row in rows if row[0] is not None and is_purged(row[0])]
        return matching_rows
