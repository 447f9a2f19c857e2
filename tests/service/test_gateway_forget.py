"""Forgetting one person: everywhere, in one call, with one receipt."""

from __future__ import annotations

import uuid

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2


async def a_person(tenant: Tenant, subject_id: str, words: str) -> None:
    subject = subjects_pb2.Subject(subject_id=subject_id, display_name=words)
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    session = session_pb2.Session(session_id=f"session of {subject_id}", subject_id=subject_id, title=words)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=words)
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id=session.session_id, messages=[message])
    )
    memories = [memory_pb2.Memory(content=f"{words} {n}", subject_id=subject_id) for n in range(3)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))


def counts(response: pb.ForgetResponse) -> dict[str, int]:
    results = {(one.service, table): n for one in response.erasures for table, n in one.deleted_counts.items()}
    tables = ("session", "session.messages"), ("memory", "memory.memories"), ("tenancy", "tenancy.subjects")
    return {table: results.get((service, table), 0) for service, table in tables}


@pytest.mark.system
async def test_a_person_is_gone_from_every_service_and_the_others_stay(tenant: Tenant, cluster: Cluster) -> None:
    marker = f"marker{uuid.uuid4().hex}"
    await a_person(tenant, "ann", marker)
    await a_person(tenant, "bob", "bob's words")

    dry = await tenant.gateway.Forget(pb.ForgetRequest(subject_id="ann", dry_run=True))
    response = await tenant.gateway.Forget(pb.ForgetRequest(subject_id="ann"))
    again = await tenant.gateway.Forget(pb.ForgetRequest(subject_id="ann"))

    expected = {"session.messages": 1, "memory.memories": 3, "tenancy.subjects": 1}
    assert counts(dry) == counts(response) == expected
    assert not response.more
    assert len(response.digest) == 64
    assert counts(again) == dict.fromkeys(expected, 0)
    async with cluster.superuser() as connection:
        for table, column in (
            ("memory.memories", "content"), ("session.messages", "content"), ("session.sessions", "title"),
            ("tenancy.subjects", "display_name"),
        ):  # fmt: skip
            query = f"SELECT count(*) FROM {table} WHERE tenant_id = $1 AND {column} LIKE $2"  # noqa: S608 - see above.
            assert await connection.fetchval(query, tenant.tenant_id, f"%{marker}%") == 0
            assert await connection.fetchval(query, tenant.tenant_id, "bob's words%") > 0


async def test_a_request_without_a_person_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.Forget(pb.ForgetRequest())
