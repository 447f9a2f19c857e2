"""An attacker reads the disk after a person was forgotten.

Attack: the operator, or a thief, searches every table, every index, the write-ahead log, the planner's statistics, cold
    storage and the server's log for what was said by and about a forgotten person, and for the secrets of its hashes.
May be seen: that a person was forgotten, by random ids and counts; once dead rows were vacuumed in full and the log was
    recycled, nothing else.
May be spent: one Forget, and the worker's round that follows it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import numpy as np
import pytest
from fix_attacks import attack_size
from fix_calls import struct
from fix_cluster import test_environment
from fix_disk import files_holding, spellings, write_anew
from fix_forgetting import finish
from fix_marker import places_of
from fix_own_postgres import open_folder, served_on, url_of
from fix_personal import ERASED
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Value

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import (
    archives_pb2,
    blocks_pb2,
    curation_pb2,
    memory_pb2,
    pages_pb2,
    snapshots_pb2,
)
from skein.recall.v1 import recall_pb2
from skein.session.v1 import archives_pb2 as session_archives_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_cluster.processes.single_process import prepared_database

if TYPE_CHECKING:
    from fix_cluster import Tenant

    Connection = asyncpg.Connection[asyncpg.Record]

# Tables of which no row holds a word: numbers, ids, sealed bytes; and rows that wait for cold storage to come back.
WORDLESS = {
    "memory.secrets", "memory.tasks", "memory.pending_rows", "recall.embeddings_all_minilm_l6_v2",
    "recall.embeddings_all_minilm_l6_v2_history", "recall.vector_origins",
    "session.archived_sessions", "session.archived_messages",
}  # fmt: skip


@dataclass(frozen=True)
class Person:
    """A person whose every sentence contains a rare word."""

    word: str

    @property
    def forms(self) -> tuple[str, str]:
        """Return the word as it was said, and its stem as the index has it."""
        return self.word, self.word.removesuffix("ings").lower()

    @property
    def needles(self) -> set[bytes]:
        """Return the word, as it is stored: as it was said, in lower case, as a stem, and in Base64 at any offset."""
        return spellings(self.word.removesuffix("ings"))


def a_person() -> Person:
    """Return a person whose word no other text has."""
    letters = "".join(secrets.choice("bcdfghjklmnpqrtvwxz") for _ in range(14))
    return Person(word=f"Q{letters}ings")


async def leave_traces(tenant: Tenant, person: Person, copies: int) -> None:
    """Say something by and about a person wherever something can be said."""
    word = person.word
    mask = FieldMask(paths=["audit_strict", "audit_query_text", "approval"])
    policy = subjects_pb2.Policy(audit_strict=True, audit_query_text=True, approval="agents")
    subject = subjects_pb2.Subject(
        subject_id=word, display_name=word, profile=struct(name=word), preferences=struct(likes=word)
    )
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject, request_id="subject"))
    # Hashed before the tenant wants the words.
    await tenant.recall.Recall(recall_pb2.RecallRequest(query=word))
    await tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))

    session = session_pb2.Session(session_id=f"with {word}", title=word, metadata=struct(about=word), subject_id=word)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session, request_id="session"))
    messages = [
        session_pb2.Message(
            role=session_pb2.MESSAGE_ROLE_USER, content=f"{word} {n}", name=word, external_id=f"{word} {n}",
            metadata=struct(about=word), subject_id=word,
        )
        for n in range(copies)
    ]  # fmt: skip
    appending = session_pb2.AppendMessagesRequest(
        session_id=session.session_id, messages=messages, request_id="messages"
    )
    await tenant.sessions.AppendMessages(appending)
    item = states_pb2.PutSessionItemRequest(session_id=session.session_id, key=word, value=Value(string_value=word))
    await tenant.sessions.PutSessionItem(item)
    state = states_pb2.AgentState(agent_id="butler", session_id=session.session_id, state_data=struct(knows=word))
    await tenant.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state))
    cold = session_pb2.Session(session_id=f"cold {word}", subject_id=word)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=cold))
    speaking = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=word)
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id=cold.session_id, messages=[speaking])
    )
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id=cold.session_id))
    await tenant.sessions.ArchiveSession(session_archives_pb2.ArchiveSessionRequest(session_id=cold.session_id))

    memory_ids = [await remember(tenant, person, n) for n in range(copies)]
    first, second = memory_ids[:2]
    changed = memory_pb2.Memory(memory_id=first, content=f"{word} later")
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=["content"]))
    )
    section = pages_pb2.PageSection(title=word, keys=[word])
    page = pages_pb2.Page(title=word, subject_id=word, sections=[section], filter=memory_pb2.MemoryFilter(source=word))
    await tenant.curation.CreatePage(pages_pb2.CreatePageRequest(page=page, request_id="page"))
    await tenant.curation.GetPage(pages_pb2.GetPageRequest(page_id=f"subject:{word}"))
    link = memory_pb2.Link(from_memory_id=first, to_memory_id=second, label=word, metadata=struct(a=word))
    made = await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link, request_id="link"))
    relabelled = memory_pb2.Link(link_id=made.link.link_id, label=f"{word} again")
    await tenant.links.UpdateLink(memory_pb2.UpdateLinkRequest(link=relabelled, update_mask=FieldMask(paths=["label"])))
    await tenant.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=first, canonical_memory_id=second, note=word)
    )
    await tenant.curation.ResolveConflict(
        curation_pb2.ResolveConflictRequest(
            a_memory_id=first, b_memory_id=second, status=curation_pb2.CONFLICT_STATUS_NEEDS_REVIEW, note=word
        )
    )
    block = blocks_pb2.Block(block_id=f"b {secrets.token_hex(4)}", label="human", value=word, subject_id=word)
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="butler", request_id="block"))
    await tenant.blocks.AppendToBlock(blocks_pb2.AppendToBlockRequest(block_id=block.block_id, text=word))
    await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="before"))
    await archive(tenant, person)
    await wait_for_approval(tenant, person)

    # Words that name the person, whomever they are about and whatever they find.
    await tenant.recall.Recall(recall_pb2.RecallRequest(query=f"What does {word} drink?"))
    searching = session_pb2.SearchMessagesRequest(query=word)
    await tenant.sessions.SearchMessages(searching)
    await tenant.gateway.Recall(gateway_pb2.RecallRequest(query=f"and {word}?"))


async def leave_former_traces(tenant: Tenant, person: Person) -> None:
    """Change and delete what was said, so that only answers as of a time find it."""
    word = person.word
    listing = session_pb2.ListMessagesRequest(session_id=f"with {word}")
    (message, *_) = (await tenant.sessions.ListMessages(listing)).messages
    said = session_pb2.Message(message_id=message.message_id, content=f"{word} corrected")
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=said, update_mask=FieldMask(paths=["content"]))
    )
    for summary in (f"{word} was heard", "nothing was said"):
        renamed = session_pb2.Session(session_id=f"with {word}", title=f"again {word}", summary=summary)
        await tenant.sessions.UpdateSession(
            session_pb2.UpdateSessionRequest(session=renamed, update_mask=FieldMask(paths=["title", "summary"]))
        )
    subject = subjects_pb2.Subject(subject_id=word, display_name=f"{word} again")
    await tenant.tenancy.UpdateSubject(
        subjects_pb2.UpdateSubjectRequest(subject=subject, update_mask=FieldMask(paths=["display_name"]))
    )
    memories = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    kept = next(memory for memory in memories.memories if memory.external_id == f"{word} 2")
    changed = memory_pb2.Memory(
        memory_id=kept.memory_id,
        content=f"{word} likes tea no more",
        derived_from=[memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_PERSON, name=f"{word} again")],
    )
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=FieldMask(paths=["content", "derived_from"]))
    )
    pointed = curation_pb2.ListAliasesRequest()
    (alias, *_) = (await tenant.curation.ListAliases(pointed)).aliases
    await tenant.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(
            alias_memory_id=alias.alias_memory_id, canonical_memory_id=kept.memory_id, note=f"{word} again"
        )
    )
    await tenant.curation.ResolveConflict(
        curation_pb2.ResolveConflictRequest(
            a_memory_id=alias.alias_memory_id,
            b_memory_id=alias.canonical_memory_id,
            status=curation_pb2.CONFLICT_STATUS_DISMISSED,
            note=f"{word} again",
        )
    )
    (block, *_) = (await tenant.blocks.ListAgentBlocks(blocks_pb2.ListAgentBlocksRequest(agent_id="butler"))).blocks
    await tenant.blocks.AttachBlock(blocks_pb2.AttachBlockRequest(block_id=block.block_id, agent_id="maid"))
    await tenant.blocks.DetachBlock(blocks_pb2.DetachBlockRequest(block_id=block.block_id, agent_id="butler"))


async def remember(tenant: Tenant, person: Person, n: int) -> str:
    word = person.word
    memory = memory_pb2.Memory(
        content=f"{word} likes tea, {n}", type="fact", title=word, key=f"{word} {n}", tags=[word], source=word,
        external_id=f"{word} {n}", session_id=f"with {word}", subject_id=word, metadata=struct(about=word),
        data=struct(who=word),
        derived_from=[memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_PERSON, name=word)],
    )  # fmt: skip
    request = memory_pb2.CreateMemoryRequest(memory=memory, request_id=f"memory {n}")
    return (await tenant.memory.CreateMemory(request)).memory.memory_id


async def wait_for_approval(tenant: Tenant, person: Person) -> None:
    """Have a memory about the person wait for approval. The policy is seen within a second."""
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=person.word, subject_id=person.word))
    async with asyncio.timeout(60):
        while True:
            created = await tenant.memory.CreateMemory(request, metadata=(("skein-agent-id", "butler"),))
            if created.memory.pending_approval:
                return
            await asyncio.sleep(0.1)


async def archive(tenant: Tenant, person: Person) -> None:
    """Put a memory about the person into cold storage."""
    session_id = f"archive {person.word}"
    memory = memory_pb2.Memory(
        content=person.word, session_id=session_id, subject_id=person.word, external_id=f"{person.word} old"
    )
    memory.create_time.FromJsonString("2020-01-01T00:00:00Z")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    request = archives_pb2.ArchiveMemoriesRequest(session_id=session_id)
    request.idle_since_time.GetCurrentTime()
    assert (await tenant.history.ArchiveMemories(request)).archive.memory_count == 1


async def bytes_to_lose(connection: Connection, tenant: Tenant) -> set[bytes]:
    """Return what else tells of the person: vectors, hashes of what was said, and the key of the hashes of searches."""
    results = set[bytes]()
    vectors = await connection.fetch(
        "SELECT embedding::text AS vector FROM recall.embeddings_all_minilm_l6_v2 WHERE tenant_id = $1",
        tenant.tenant_id,
    )
    former_vectors = await connection.fetch(
        "SELECT embedding::text AS vector FROM recall.embeddings_all_minilm_l6_v2_history WHERE tenant_id = $1",
        tenant.tenant_id,
    )
    assert len(vectors) > 0
    assert len(former_vectors) > 0
    for row in [*vectors, *former_vectors]:
        numbers = np.array(row["vector"].strip("[]").split(","), dtype=np.float32).astype(np.float16)
        results.add(numbers[100:132].tobytes())
    for statement in (
        "SELECT content_hash FROM memory.memories WHERE tenant_id = $1 AND subject_id IS NOT NULL",
        "SELECT fingerprint FROM memory.requests WHERE tenant_id = $1 AND method LIKE '%CreateMemoryRequest'",
        "SELECT fingerprint FROM session.requests WHERE tenant_id = $1 AND session_id IS NOT NULL",
        "SELECT fingerprint FROM tenancy.requests WHERE tenant_id = $1 AND method LIKE '%CreateSubjectRequest'",
        "SELECT secret FROM memory.access_keys WHERE tenant_id = $1",
    ):
        values = {bytes(row[0]) for row in await connection.fetch(statement, tenant.tenant_id)}
        assert values, statement
        results |= values
    return results


async def statistics_with(connection: Connection, text: str) -> list[str]:
    """Return the columns of which the planner's statistics hold a value with a text, whatever its case."""
    rows = await connection.fetch(
        "SELECT schemaname || '.' || tablename || '.' || attname FROM pg_stats WHERE position($1 IN lower(concat_ws("
        "' ', most_common_vals::text, histogram_bounds::text, most_common_elems::text))) > 0",
        text,
    )
    return [row[0] for row in rows]


@pytest.mark.system
@pytest.mark.essential
async def test_no_byte_of_a_forgotten_person_is_left_once_dead_rows_and_the_log_are_gone() -> None:
    person = a_person()
    with open_folder() as folder:
        environment = {**test_environment(), "SKEIN_DATA_DIR": str(folder / "data")}
        async with prepared_database(folder / "own", environment=environment) as base:
            connection = await asyncpg.connect(url_of(base.postgres))
            try:
                async with served_on(base, base.postgres) as (host, tenant):
                    await leave_traces(tenant, person, attack_size(3, 300))
                    await until_embedded(connection, tenant)
                    await leave_former_traces(tenant, person)
                    await until_embedded(connection, tenant)
                    await connection.execute("ANALYZE")
                    estimated = await statistics_with(connection, person.forms[1])
                    needles = person.needles | await bytes_to_lose(connection, tenant)
                    places = [place for form in person.forms for place in await places_of(connection, form)]
                    tables = {re.sub(r"_(y\d{4}m\d\d|before_2015)$", "", place.rpartition(".")[0]) for place in places}
                    await connection.execute("CHECKPOINT")
                    before = files_holding([base.postgres.data_dir, folder / "data"], needles)

                    forgotten = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id=person.word))
                    left_at_once = await places_of(connection, person.word)
                    await finish(connection, tenant, host.addresses)

                    remains, noted = (
                        forgotten.remains,
                        await connection.fetchval("SELECT count(*) FROM memory.erasures"),
                    )
                    remaining = [await places_of(connection, form) for form in person.forms]
                    known = await statistics_with(connection, person.forms[1])
                await write_anew(connection)
            finally:
                await connection.close()
            after = files_holding([base.postgres.data_dir, folder / "data", folder / "own"], needles)

    # It was everywhere before.
    assert ERASED - WORDLESS - tables == set()
    assert "memory.access_log" in tables
    kinds = {name.partition("/")[0] for name in before}
    assert {"base", "pg_wal"} <= kinds
    assert any(name.endswith(".gz") for name in before)
    # What calls read is clean at once, and what is recorded late, or is a statistic, after the round.
    assert not forgotten.more
    assert left_at_once == []
    assert (remaining, noted) == ([[], []], 0)
    assert estimated
    assert known == []
    # The receipt speaks of what the disk held until now.
    assert re.fullmatch(r"[0-9A-F]+/[0-9A-F]+", remains.log_position)
    assert all([remains.dead_rows_until, remains.log_until, remains.backups_until])
    assert after == {}


async def until_embedded(connection: Connection, tenant: Tenant) -> None:
    """Return when a memory has its vectors."""
    pending: Any = True
    while pending:
        pending = await connection.fetchval(
            "SELECT NOT EXISTS (SELECT FROM recall.embeddings_all_minilm_l6_v2 WHERE tenant_id = $1)", tenant.tenant_id
        )
