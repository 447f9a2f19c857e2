"""`skein certificates`: save, verify offline, and prove against a database."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, blocks_pb2, memory_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_cluster.cli.exit_codes import ExitCode


@pytest.fixture
def environment(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the environment of an auditor with the tenant's key and the database's superuser."""
    return {
        **test_environment(),
        "SKEIN_ENDPOINT": cluster.endpoint,
        "SKEIN_API_KEY": tenant.api_key,
        "SKEIN_DATABASE_URL": cluster.postgres.url(user="postgres", database="skein"),
    }


async def a_memory(tenant: Tenant, subject_id: str) -> str:
    memory = memory_pb2.Memory(content=f"about {subject_id} {uuid.uuid4()}", subject_id=subject_id)
    return (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id


async def saved(tenant: Tenant, environment: dict[str, str], folder: Path) -> tuple[str, str]:
    """Forget Ann, and save the certificate and the keys; return their paths."""
    response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))
    return await saved_files(response.certificate_id, environment, folder)


async def saved_files(certificate_id: str, environment: dict[str, str], folder: Path) -> tuple[str, str]:
    """Save a certificate and the keys; return their paths."""
    file, keys = str(folder / "certificate.json"), str(folder / "keys.json")
    got = await skein("certificates", "get", certificate_id, "--output", file, environment=environment)
    assert got.code == ExitCode.OK, got.err
    listed = await skein("certificates", "keys", "--output", keys, environment=environment)
    assert listed.code == ExitCode.OK, listed.err
    return file, keys


@pytest.mark.system
async def test_a_saved_certificate_is_verified_without_a_cluster(
    tenant: Tenant, environment: dict[str, str], tmp_path: Path
) -> None:
    await a_memory(tenant, "ann")
    file, keys = await saved(tenant, environment, tmp_path)

    offline = test_environment()
    valid = await skein("certificates", "verify", file, "--keys", keys, environment=offline)
    path = Path(file)
    path.write_bytes(path.read_bytes().replace(b'"complete":true', b'"complete":trun'))
    damaged = await skein("certificates", "verify", file, "--keys", keys, environment=offline)
    listed = await skein("certificates", "list", environment=environment)

    assert "(--log)" in valid.out
    assert valid.code == ExitCode.OK, valid.err
    assert "1 of memory.memories" in valid.out
    assert "unknown" in valid.out
    assert damaged.code == ExitCode.REFUSED
    assert "not valid" in damaged.err
    assert "complete" in listed.out


async def test_a_certificate_is_found_in_the_event_log(
    tenant: Tenant, environment: dict[str, str], tmp_path: Path
) -> None:
    await a_memory(tenant, "ann")
    file, keys = await saved(tenant, environment, tmp_path)

    async with asyncio.timeout(60):
        # The log shows a purge when transactions that began before it have ended.
        command = ("certificates", "verify", file, "--keys", keys, "--log")
        while (found := await skein(*command, environment=environment)).code:
            await asyncio.sleep(0.1)

    assert "1, found in the event log" in found.out


@pytest.mark.system
async def test_a_proof_shows_that_nothing_exists_and_what_is_covered(
    tenant: Tenant, environment: dict[str, str], tmp_path: Path
) -> None:
    memory_id = await a_memory(tenant, "ann")
    bobs_id = await a_memory(tenant, "bob")
    session = session_pb2.Session(session_id="of ann", subject_id="ann")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    file, keys = await saved(tenant, environment, tmp_path)
    # The same person may be remembered anew.
    await a_memory(tenant, "ann")

    command = ("certificates", "prove", file, "--keys", keys)
    covered = await skein(
        *command, "--covers", "memory", memory_id, "--covers", "subject", "ann", "--covers", "session", "of ann",
        environment=environment,
    )  # fmt: skip
    uncovered = await skein(*command, "--covers", "memory", bobs_id, environment=environment)

    assert covered.code == ExitCode.OK, covered.err
    assert "Nothing of it exists." in covered.out
    assert covered.out.count(": covered") == 3
    assert uncovered.code == ExitCode.REFUSED
    assert f"memory {bobs_id}" in uncovered.err


@pytest.mark.system
async def test_a_purge_of_one_service_is_proved_although_another_knows_the_person(
    tenant: Tenant, environment: dict[str, str], tmp_path: Path
) -> None:
    block = blocks_pb2.Block(block_id="of ann", label="human", subject_id="ann")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))
    session = session_pb2.Session(session_id="of ann", subject_id="ann")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    selection = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id="ann"))

    memories = await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    # Callers choose the ids of blocks.
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block))
    file, keys = await saved_files(memories.certificate_id, environment, tmp_path)
    of_memories = await skein("certificates", "prove", file, "--keys", keys, environment=environment)
    sessions = await tenant.sessions.PurgeSubject(states_pb2.PurgeSubjectRequest(subject_id="ann"))
    file, keys = await saved_files(sessions.certificate_id, environment, tmp_path)
    of_sessions = await skein("certificates", "prove", file, "--keys", keys, environment=environment)

    assert of_memories.code == ExitCode.OK, of_memories.out + of_memories.err
    assert of_sessions.code == ExitCode.OK, of_sessions.out + of_sessions.err


@pytest.mark.system
async def test_a_proof_takes_new_rows_with_old_times_for_new(
    tenant: Tenant, environment: dict[str, str], tmp_path: Path
) -> None:
    await a_memory(tenant, "ann")
    file, keys = await saved(tenant, environment, tmp_path)
    old = Timestamp(seconds=1_400_000_000)
    times: dict[str, Any] = {"create_time": old, "update_time": old}
    memory = memory_pb2.Memory(content="of 2014", subject_id="ann", **times)
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory, keep_times=True))
    block = blocks_pb2.Block(block_id="old", label="human", subject_id="ann", **times)
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, keep_times=True))
    session = session_pb2.Session(session_id="old", subject_id="ann", **times)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session, keep_times=True))
    said = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="said in 2014", subject_id="ann", **times)
    request = session_pb2.AppendMessagesRequest(session_id="old", messages=[said], keep_times=True)
    message_id = (await tenant.sessions.AppendMessages(request)).messages[0].message_id
    changed = session_pb2.Message(message_id=message_id, content="changed since")
    await tenant.sessions.UpdateMessage(session_pb2.UpdateMessageRequest(message=changed))
    subject = subjects_pb2.Subject(subject_id="ann", **times)
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject, keep_times=True))

    proved = await skein("certificates", "prove", file, "--keys", keys, environment=environment)

    assert proved.code == ExitCode.OK, proved.err


async def put_in_cold_storage(tenant: Tenant, session_id: str) -> None:
    request = archives_pb2.ArchiveMemoriesRequest(session_id=session_id, idle_since_time=datetime.now(UTC))
    assert (await tenant.history.ArchiveMemories(request)).archive.memory_count == 1


@pytest.mark.system
async def test_a_proof_judges_cold_storage_by_when_a_memory_was_recorded(
    tenant: Tenant, cluster: Cluster, environment: dict[str, str], tmp_path: Path
) -> None:
    old = Timestamp(seconds=1_400_000_000)
    memory = memory_pb2.Memory(content="of 2014", subject_id="ann", session_id="s", create_time=old, update_time=old)
    request = memory_pb2.CreateMemoryRequest(memory=memory, keep_times=True)
    former_id = uuid.UUID((await tenant.memory.CreateMemory(request)).memory.memory_id)
    await put_in_cold_storage(tenant, "s")
    async with cluster.superuser() as connection:
        rows_of_ann = "FROM memory.archived_memories WHERE tenant_id = $1 AND subject_id = 'ann'"
        record_time = await connection.fetchval(f"SELECT record_time {rows_of_ann}", tenant.tenant_id)
        file, keys = await saved(tenant, environment, tmp_path)
        # Their create_time and id are those of 2014 again.
        new_id = uuid.UUID((await tenant.memory.CreateMemory(request)).memory.memory_id)
        changed = memory_pb2.Memory(memory_id=str(new_id), content="changed since", revision=1)
        mask = FieldMask(paths=["content"])
        await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=mask))
        await put_in_cold_storage(tenant, "s")

        of_new = await skein("certificates", "prove", file, "--keys", keys, environment=environment)
        # As an old copy of the table would bring it, in an archive that exists.
        await connection.execute(
            "INSERT INTO memory.archived_memories (tenant_id, memory_id, archive_id, subject_id, record_time) "
            f"SELECT $1, $2, archive_id, subject_id, $3 {rows_of_ann}",
            tenant.tenant_id, former_id, record_time,
        )  # fmt: skip
        of_former = await skein("certificates", "prove", file, "--keys", keys, "--json", environment=environment)
        await connection.execute(f"DELETE {rows_of_ann} AND memory_id = $2", tenant.tenant_id, former_id)

    assert record_time.year > 2014
    assert of_new.code == ExitCode.OK, of_new.out + of_new.err
    assert of_former.code == ExitCode.REFUSED
    assert of_former.json["existing"] == {"memories": 1, "rows of memory.archived_memories about the person": 1}


@pytest.mark.system
async def test_a_proof_finds_what_came_back(
    tenant: Tenant, cluster: Cluster, environment: dict[str, str], tmp_path: Path
) -> None:
    memory_id = uuid.UUID(await a_memory(tenant, "ann"))
    async with cluster.superuser() as connection:
        await connection.execute(
            "CREATE TEMPORARY TABLE kept AS SELECT * FROM memory.memories WHERE tenant_id = $1 AND memory_id = $2",
            tenant.tenant_id,
            memory_id,
        )
        file, keys = await saved(tenant, environment, tmp_path)
        # As an old copy of the table would bring it.
        await connection.execute("INSERT INTO memory.memories SELECT * FROM kept")

        result = await skein("certificates", "prove", file, "--keys", keys, "--json", environment=environment)

        await connection.execute(
            "DELETE FROM memory.memories WHERE tenant_id = $1 AND memory_id = $2", tenant.tenant_id, memory_id
        )
    assert result.code == ExitCode.REFUSED
    assert result.json["existing"] == {"memories": 1, "rows of memory.memories about the person": 1}
    assert result.json["proved"] is False


@pytest.mark.system
async def test_a_proof_needs_the_tombstones_that_keep_an_import_out(
    tenant: Tenant, cluster: Cluster, environment: dict[str, str], tmp_path: Path
) -> None:
    await a_memory(tenant, "ann")
    file, keys = await saved(tenant, environment, tmp_path)
    async with cluster.superuser() as connection:
        await connection.execute("DELETE FROM session.tombstones WHERE tenant_id = $1", tenant.tenant_id)

    result = await skein("certificates", "prove", file, "--keys", keys, "--json", environment=environment)

    assert result.code == ExitCode.REFUSED
    assert result.json["missing_tombstones"] == 1
    assert result.json["existing"] == {}
