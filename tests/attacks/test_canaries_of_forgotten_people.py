"""An attacker looks for what was said about a forgotten person, in everything that answers.

Attack: canaries, each a word of its own, in every field of every entity about a person. After Forget the attacker reads
    the live rows, index entries and saved answers, asks every search, goes on with an export that was begun before,
    and reads the files of cold storage.
May be seen: nothing. The certificate says until when dead rows, the log and backups hold them.
May be spent: one Forget, and the worker's round that follows it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from fix_attacks import attack_size
from fix_forgetting import finish
from fix_marker import files_with, places_of
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct, Value

from skein.auth.v1 import auth_pb2, certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, blocks_pb2, curation_pb2, memory_pb2, snapshots_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_cluster.certificates import proof
from skein_kit.erasure_certificates import document, key_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from fix_cluster import Cluster, Tenant

PERSON = "ann"
_RANDOM = random.Random(25)
_LETTERS = "bcdfghjkmnpqrtvwxz"
# All canaries begin with it, so that one scan finds each of them. Stemming leaves it as it is.
PREFIX = "q" + "".join(_RANDOM.choice(_LETTERS) for _ in range(12))
# Fields that one round of every entity fills.
_PER_ROUND = 24


def canaries() -> Iterator[str]:
    """Yield words that occur nowhere else."""
    number = 0
    while True:
        number += 1
        yield PREFIX + "".join(_LETTERS[(number // 18**place) % 18] for place in range(4))


def struct_of(word: str) -> Struct:
    return json_format.ParseDict({word: word}, Struct())


async def plant(tenant: Tenant, words: Iterator[str], number: int) -> None:
    """Put a canary in every field of every entity about the person."""
    session_id = next(words)
    session = session_pb2.Session(
        session_id=session_id, title=next(words), metadata=struct_of(next(words)), subject_id=PERSON
    )
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    message = session_pb2.Message(
        role=session_pb2.MESSAGE_ROLE_USER, content=next(words), name=next(words), external_id=next(words),
        metadata=struct_of(next(words)), subject_id=PERSON,
    )  # fmt: skip
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id=session_id, messages=[message], request_id=f"m {number}")
    )
    item = states_pb2.PutSessionItemRequest(
        session_id=session_id, key=next(words), value=Value(string_value=next(words))
    )
    await tenant.sessions.PutSessionItem(item)
    state = states_pb2.AgentState(agent_id="butler", session_id=session_id, state_data=struct_of(next(words)))
    await tenant.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state))
    memories = [
        memory_pb2.Memory(
            content=next(words), type="fact", title=next(words), key=next(words), tags=[next(words)],
            source=next(words), external_id=next(words), subject_id=PERSON, metadata=struct_of(next(words)),
            data=struct_of(next(words)),
        )
        for _ in range(2)
    ]  # fmt: skip
    created = await tenant.memory.BatchCreateMemories(
        memory_pb2.BatchCreateMemoriesRequest(memories=memories, request_id=f"b {number}")
    )
    first, second = [memory.memory_id for memory in created.memories]
    link = memory_pb2.Link(
        from_memory_id=first, to_memory_id=second, label=next(words), metadata=struct_of(next(words))
    )
    await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))
    await tenant.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=first, canonical_memory_id=second, note=next(words))
    )
    block = blocks_pb2.Block(block_id=f"b {number}", label=f"human {number}", value=next(words), subject_id=PERSON)
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="butler"))
    await tenant.blocks.AppendToBlock(blocks_pb2.AppendToBlockRequest(block_id=block.block_id, text=next(words)))


async def archive_one(tenant: Tenant, words: Iterator[str]) -> None:
    """Put a canary into cold storage."""
    session_id = next(words)
    memory = memory_pb2.Memory(content=next(words), session_id=session_id, subject_id=PERSON)
    memory.create_time.FromJsonString("2020-01-01T00:00:00Z")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    request = archives_pb2.ArchiveMemoriesRequest(session_id=session_id)
    request.idle_since_time.GetCurrentTime()
    assert (await tenant.history.ArchiveMemories(request)).archive.memory_count == 1


async def test_no_canary_is_left_and_the_certificate_proves_it(tenant: Tenant, cluster: Cluster) -> None:
    words, rounds = canaries(), attack_size(48, 1000) // _PER_ROUND + 1
    subject = subjects_pb2.Subject(subject_id=PERSON, display_name=next(words), profile=struct_of(next(words)))
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    for number in range(rounds):
        await plant(tenant, words, number)
    await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="before"))
    await archive_one(tenant, words)
    export_request = snapshots_pb2.ExportDataRequest(page_size=2)
    export = await tenant.snapshots.ExportData(export_request)
    # So that caches know them.
    asked = [word for word, _ in zip(canaries(), range(5), strict=False)]
    for word in asked:
        await tenant.recall.Recall(recall_pb2.RecallRequest(query=f"about {word}"))
    async with cluster.superuser() as connection:
        planted = await places_of(connection, PREFIX)
        # Partitions have a suffix.
        for table in (
            "memory.memories", "memory.links", "memory.revisions", "memory.snapshot_items", "memory.requests",
            "session.messages", "session.items", "session.agent_states", "recall.documents", "tenancy.subjects",
        ):  # fmt: skip
            assert any(place.startswith(table) for place in planted), table
        assert files_with(cluster, PREFIX)

        response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id=PERSON))
        await finish(connection, tenant, cluster.addresses)

        assert await places_of(connection, PREFIX) == []
        assert files_with(cluster, PREFIX) == []
        for word in asked:
            hits = await tenant.gateway.Recall(gateway_pb2.RecallRequest(query=word))
            assert PREFIX not in str(hits.hits)
            found = await tenant.sessions.SearchMessages(session_pb2.SearchMessagesRequest(query=word))
            assert PREFIX not in str(found)
        assert export.next_page_token
        while export.next_page_token:
            export_request.page_token = export.next_page_token
            export = await tenant.snapshots.ExportData(export_request)
            assert PREFIX not in export.lines
        certificate_request = certificates_pb2.GetErasureCertificateRequest(certificate_id=response.certificate_id)
        file = (await tenant.auth.GetErasureCertificate(certificate_request)).certificate.document
        keys = await published_keys(tenant)
        proved = await proof.prove(connection, document.verify(file.encode(), keys), [("subject", PERSON)])
    assert proved.is_gone, proved
    assert PREFIX not in file
    assert document.verify(file.encode(), keys).statement["deleted_counts"]["memory.memories"] == 2 * rounds


async def published_keys(tenant: Tenant) -> dict[str, Ed25519PublicKey]:
    request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    published = (await tenant.auth.ListSigningKeys(request)).signing_keys
    return key_set.read(key_set.write(key.jwk for key in published))
