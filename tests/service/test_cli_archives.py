from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein

from skein.memory.v1 import archives_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein_cluster.cli.exit_codes import ExitCode

pytestmark = pytest.mark.system


@pytest.fixture
def environment(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the environment of a caller with the tenant's key."""
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


async def test_sessions_go_to_cold_storage_are_listed_there_and_come_back(
    cluster: Cluster, environment: dict[str, str]
) -> None:
    stubs = cluster.with_key(environment["SKEIN_API_KEY"])
    name = f"session {uuid.uuid4().hex}"
    session = session_pb2.Session(session_id=name, title="the old one")
    await stubs.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="of another age")
    await stubs.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id=name, messages=[message]))

    too_early = await skein("sessions", "archive", name, environment=environment)
    await stubs.sessions.HideSession(session_pb2.HideSessionRequest(session_id=name))
    stored = await skein("sessions", "archive", name, environment=environment)
    listed = await skein("archive", "list", "--sessions", environment=environment)
    result = await skein("archive", "list", "--sessions", "--json", environment=environment)
    shown = await skein("sessions", "show", name, environment=environment)
    exported = await skein("export", environment=environment)
    restored = await skein("sessions", "unarchive", name, environment=environment)
    none = await skein("archive", "list", "--sessions", environment=environment)
    unknown = await skein("sessions", "unarchive", "none", "--json", environment=environment)

    assert [too_early.code, unknown.code] == [ExitCode.REFUSED] * 2
    assert stored.out.strip() == f"Archived the messages of {name}."
    assert "the old one" in listed.out
    assert [found["session_id"] for found in result.json["sessions"]] == [name]
    assert result.json["sessions"][0]["message_count"] == "1"
    assert "of another age" in shown.out
    assert "of another age" in exported.out
    assert restored.out.strip() == f"Unarchived the messages of {name}."
    assert (none.out, none.err.strip()) == ("", "There are no archived sessions.")


async def test_memories_go_to_cold_storage_are_listed_there_and_come_back(
    cluster: Cluster, environment: dict[str, str]
) -> None:
    stubs = cluster.with_key(environment["SKEIN_API_KEY"])
    memory = memory_pb2.Memory(content="of another age")
    memory.create_time.FromDatetime(datetime(2020, 1, 1, tzinfo=UTC))
    await stubs.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))
    request = archives_pb2.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC), label="the old ones")
    archive = (await stubs.history.ArchiveMemories(request)).archive

    listed = await skein("archive", "list", environment=environment)
    result = await skein("archive", "list", "--json", environment=environment)
    restored = await skein("archive", "unarchive", archive.archive_id, environment=environment)
    again = await skein("archive", "unarchive", archive.archive_id, environment=environment)
    nothing = await skein("archive", "create", "--idle-days", "1", environment=environment)

    assert "the old ones" in listed.out
    assert result.json["archives"][0]["archive_id"] == archive.archive_id
    assert restored.out.strip() == "Unarchived 1 memories."
    assert again.code == ExitCode.REFUSED
    assert nothing.out.strip() == "Archived 0 memories in 0 archives."
