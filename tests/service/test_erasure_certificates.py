"""Certificates of erasures: what they say, that they are issued once, and that they outlive keys and tenants."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

import asyncpg
import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_world import identity

from skein.auth.v1 import auth_pb2, auth_pb2_grpc, certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import history_pb2, memory_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_cluster.certificates import event_log
from skein_kit.erasure_certificates import document, key_set, merkle
from skein_kit.erasure_certificates.document import VerifiedCertificate
from skein_memory.tombstones.store import digest_of as memory_digest
from skein_session.tombstones import store as session_names

CERTIFICATE = auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE


async def a_person(tenant: Tenant, subject_id: str, marker: str) -> list[str]:
    """Let a tenant know a person; return the ids of the memories."""
    subject = subjects_pb2.Subject(subject_id=subject_id, display_name=marker)
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    session = session_pb2.Session(session_id=f"of {subject_id}", subject_id=subject_id, title=marker)
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=marker, external_id=f"m {marker}")
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id=session.session_id, messages=[message])
    )
    memories = [
        memory_pb2.Memory(content=f"{marker} {n}", subject_id=subject_id, external_id=f"{marker} {n}") for n in range(3)
    ]
    response = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    return [memory.memory_id for memory in response.memories]


async def published_keys(stubs: Stubs) -> dict[str, Ed25519PublicKey]:
    request = auth_pb2.ListSigningKeysRequest(purpose=auth_pb2.SIGNING_KEY_PURPOSE_CERTIFICATE)
    published = (await stubs.auth.ListSigningKeys(request)).signing_keys
    return key_set.read(key_set.write(key.jwk for key in published))


async def get(stubs: Stubs, certificate_id: str, **request: Any) -> certificates_pb2.ErasureCertificate:
    request_message = certificates_pb2.GetErasureCertificateRequest(certificate_id=certificate_id, **request)
    return (await stubs.auth.GetErasureCertificate(request_message)).certificate


async def verified(stubs: Stubs, certificate_id: str) -> VerifiedCertificate:
    certificate = await get(stubs, certificate_id)
    return document.verify(certificate.document.encode(), await published_keys(stubs))


async def certificates(stubs: Stubs, **request: Any) -> list[certificates_pb2.ErasureCertificate]:
    response = await stubs.auth.ListErasureCertificates(certificates_pb2.ListErasureCertificatesRequest(**request))
    return list(response.certificates)


async def salts(cluster: Cluster, tenant: Tenant) -> tuple[bytes, bytes]:
    """Read the salts of memory and session."""
    async with cluster.superuser() as connection:
        memory, session = [
            await connection.fetchval(f"SELECT salt FROM {name}.tombstone_salts WHERE tenant_id = $1", tenant.tenant_id)  # noqa: S608 - constants.
            for name in ("memory", "session")
        ]
    return memory, session


def purges_after(position: str) -> history_pb2.ListChangesRequest:
    purges = history_pb2.ChangeFilter(event_types=["memory_purged", "block_purged"])
    return history_pb2.ListChangesRequest(position=position, filter=purges)


@pytest.mark.system
async def test_forget_ends_in_a_certificate_that_the_public_key_verifies(tenant: Tenant) -> None:
    await a_person(tenant, "ann", "marker")

    response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))

    result = await verified(tenant, response.certificate_id)
    statement = result.statement
    assert statement["complete"] is True
    assert statement["tenant_id"] == str(tenant.tenant_id)
    assert statement["deleted_counts"]["memory.memories"] == 3
    assert statement["deleted_counts"]["session.messages"] == 1
    assert statement["deleted_counts"]["tenancy.subjects"] == 1
    assert statement["receipt_ids"] == [id_ for erasure in response.erasures for id_ in erasure.receipt_ids]
    await until_logged(tenant, statement)
    changes = (await tenant.history.ListChanges(purges_after(statement["event_position"]))).changes
    assert {dict(change.payload)["receipt_id"] for change in changes} == set(statement["receipt_ids"])
    assert statement["remains"]["log_position"] == response.remains.log_position
    assert statement["remains"]["backups_removed_by"] == "unknown"


@pytest.mark.system
async def test_the_tombstones_are_those_of_the_person_and_have_the_signed_root(
    tenant: Tenant, cluster: Cluster
) -> None:
    memory_ids = await a_person(tenant, "ann", "marker")
    await a_person(tenant, "bob", "other")
    response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))

    result = await verified(tenant, response.certificate_id)

    memory_salt, session_salt = await salts(cluster, tenant)
    assert result.tombstones is not None
    memory_leaves, session_leaves = result.tombstones["memory"], result.tombstones["session"]
    assert memory_digest(memory_salt, "subject_id", b"ann") in memory_leaves
    assert {memory_digest(memory_salt, "memory_id", uuid.UUID(id_).bytes) for id_ in memory_ids} <= set(memory_leaves)
    assert session_names.digest_of(session_salt, session_names.of_session("of ann")) in session_leaves
    assert session_names.digest_of(session_salt, session_names.of_message("m marker")) in session_leaves
    assert session_names.digest_of(session_salt, session_names.of_session("of bob")) not in session_leaves
    # Three ids, external ids and contents, and the person.
    assert len(memory_leaves) == 10
    leaves = document.leaves(result.tombstones)
    proof = merkle.inclusion_proof(leaves, 4)
    root = bytes.fromhex(result.statement["tombstone_root"])
    assert merkle.proves_inclusion(leaves[4], 4, len(leaves), proof, root)


@pytest.mark.system
async def test_a_certificate_names_nothing_of_the_person(tenant: Tenant, cluster: Cluster) -> None:
    marker = f"marker{uuid.uuid4().hex}"
    await a_person(tenant, f"ann {marker}", marker)

    request = gateway_pb2.ForgetRequest(subject_id=f"ann {marker}", request_id=f"for {marker}")
    response = await tenant.gateway.Forget(request)

    certificate = await get(tenant, response.certificate_id)
    assert marker not in certificate.document
    async with cluster.superuser() as connection:
        query = "SELECT c::text FROM auth.erasure_certificates AS c WHERE tenant_id = $1"
        rows = await connection.fetch(query, tenant.tenant_id)
    assert len(rows) == 1
    assert marker not in rows[0][0]
    assert marker.encode().hex() not in rows[0][0]


@pytest.mark.system
async def test_a_later_erasure_of_the_same_person_has_a_certificate_of_its_own(tenant: Tenant) -> None:
    await a_person(tenant, "ann", "marker")
    first = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))
    await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="new", subject_id="ann"))
    )

    second = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))

    assert second.certificate_id != first.certificate_id
    statement = (await verified(tenant, second.certificate_id)).statement
    assert statement["deleted_counts"]["memory.memories"] == 1
    assert [one.certificate_id for one in await certificates(tenant)] == [second.certificate_id, first.certificate_id]


async def test_a_dry_run_has_no_certificate(tenant: Tenant) -> None:
    await a_person(tenant, "ann", "marker")

    response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann", dry_run=True))

    assert response.certificate_id == ""
    assert await certificates(tenant) == []


def issue_request(key: bytes, **fields: Any) -> certificates_pb2.IssueErasureCertificateRequest:
    return certificates_pb2.IssueErasureCertificateRequest(
        kind="forget", erasure_key=key, start_time={"seconds": 100}, end_time={"seconds": 200}, **fields
    )


async def test_an_interrupted_erasure_says_so_and_its_continuation_certifies_all_steps(
    tenant: Tenant, cluster: Cluster
) -> None:
    key, first_leaf, second_leaf = uuid.uuid4().bytes * 2, bytes(32), b"1" * 32
    async with cluster.direct("auth") as channel:
        internal = auth_pb2_grpc.AuthInternalServiceStub(channel)
        metadata = [("authorization", f"Bearer {await identity(cluster, tenant.api_key)}")]
        first = await internal.IssueErasureCertificate(
            issue_request(key, deleted_counts={"session.messages": 2}, session_tombstones=[first_leaf]),
            metadata=metadata,
        )
        partial = await verified(tenant, first.certificate.certificate_id)
        second = await internal.IssueErasureCertificate(
            issue_request(
                key,
                complete=True,
                deleted_counts={"session.messages": 3, "memory.memories": 1},
                memory_tombstones=[second_leaf],
                log_position="0/16B3748",
            ),
            metadata=metadata,
        )
    complete = await verified(tenant, second.certificate.certificate_id)

    assert partial.statement["complete"] is False
    assert "remains" not in partial.statement
    # The tree is built when the last part is reported.
    assert (partial.statement["tombstone_count"], "tombstone_root" in partial.statement) == (1, False)
    assert partial.tombstones is None
    assert second.certificate.certificate_id == first.certificate.certificate_id
    assert complete.statement["complete"] is True
    assert complete.statement["deleted_counts"] == {"session.messages": 5, "memory.memories": 1}
    assert complete.tombstones == {"memory": [second_leaf], "session": [first_leaf]}


@pytest.mark.system
async def test_a_forget_that_runs_out_of_time_leaves_a_certificate_which_the_next_one_continues(
    tenant: Tenant, cluster: Cluster
) -> None:
    memory_ids = await a_person(tenant, "ann", "marker")
    request = gateway_pb2.ForgetRequest(subject_id="ann")

    async with cluster.superuser() as connection, connection.transaction():
        query = "SELECT memory_id FROM memory.memories WHERE tenant_id = $1 FOR UPDATE"
        assert len(await connection.fetch(query, tenant.tenant_id)) == 3
        with pytest.raises(grpc.aio.AioRpcError):
            await tenant.gateway.Forget(request, timeout=2)
    [left] = await certificates(tenant)
    incomplete = await verified(tenant, left.certificate_id)
    response = await tenant.gateway.Forget(request)

    complete = await verified(tenant, response.certificate_id)
    assert incomplete.statement["complete"] is False
    assert incomplete.statement["deleted_counts"]["session.messages"] == 1
    assert response.certificate_id == left.certificate_id
    assert complete.statement["complete"] is True
    assert complete.statement["deleted_counts"]["session.messages"] == 1
    assert complete.statement["deleted_counts"]["memory.memories"] == 3
    memory_salt, session_salt = await salts(cluster, tenant)
    assert complete.tombstones is not None
    assert {memory_digest(memory_salt, "memory_id", uuid.UUID(id_).bytes) for id_ in memory_ids} <= set(
        complete.tombstones["memory"]
    )
    assert session_names.digest_of(session_salt, session_names.of_message("m marker")) in complete.tombstones["session"]


async def test_a_cumulative_report_drops_no_tombstone_of_an_incomplete_one(tenant: Tenant, cluster: Cluster) -> None:
    key, first_leaf, second_leaf = uuid.uuid4().bytes * 2, bytes(32), b"1" * 32
    first_receipt, second_receipt = str(uuid.uuid4()), str(uuid.uuid4())
    async with cluster.direct("auth") as channel:
        internal = auth_pb2_grpc.AuthInternalServiceStub(channel)
        metadata = [("authorization", f"Bearer {await identity(cluster, tenant.api_key)}")]
        first = {"memory_tombstones": [first_leaf], "deleted_counts": {"memory.memories": 4}}
        second = {"memory_tombstones": [second_leaf], "deleted_counts": {"memory.memories": 1, "memory.blocks": 2}}
        await internal.IssueErasureCertificate(
            issue_request(key, cumulative=True, receipt_ids=[first_receipt], event_position="first", **first),
            metadata=metadata,
        )
        later = {"receipt_ids": [second_receipt], "event_position": "second"}
        issued = await internal.IssueErasureCertificate(
            issue_request(key, cumulative=True, complete=True, **later, **second), metadata=metadata
        )
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
            await internal.IssueErasureCertificate(issue_request(key, receipt_ids=[second_receipt]), metadata=metadata)

    result = await verified(tenant, issued.certificate.certificate_id)
    assert result.tombstones == {"memory": [first_leaf, second_leaf], "session": []}
    assert result.statement["deleted_counts"] == {"memory.memories": 4, "memory.blocks": 2}
    assert result.statement["receipt_ids"] == [first_receipt, second_receipt]
    assert result.statement["event_position"] == "first"


async def test_the_pages_of_a_purge_of_memories_have_one_certificate(tenant: Tenant, cluster: Cluster) -> None:
    memory_ids = await a_person(tenant, "ann", "marker")
    request = memory_pb2.PurgeMemoriesRequest(
        selection=memory_pb2.MemorySelection(memory_ids=memory_ids), page_size=2, request_id="p1"
    )

    first = await tenant.memory.PurgeMemories(request)
    incomplete = await verified(tenant, first.certificate_id)
    following = memory_pb2.PurgeMemoriesRequest()
    following.CopyFrom(request)
    following.page_token, following.request_id = first.next_page_token, "p2"
    last = await tenant.memory.PurgeMemories(following)
    repeated = [await tenant.memory.PurgeMemories(each) for each in (following, following)]

    result = await verified(tenant, last.certificate_id)
    assert incomplete.statement["complete"] is False
    assert {last.certificate_id} == {first.certificate_id, *(each.certificate_id for each in repeated)}
    assert (result.statement["kind"], result.statement["complete"]) == ("purge_memories", True)
    assert result.statement["deleted_counts"]["memory.memories"] == 3
    assert result.statement["receipt_ids"] == [first.receipt.receipt_id, last.receipt.receipt_id]
    assert result.statement["remains"]["log_position"] == last.receipt.log_position
    salt, _ = await salts(cluster, tenant)
    assert result.tombstones is not None
    assert {memory_digest(salt, "memory_id", uuid.UUID(id_).bytes) for id_ in memory_ids} <= set(
        result.tombstones["memory"]
    )
    assert len(await certificates(tenant)) == 1


async def test_the_calls_of_a_purge_of_a_subject_have_one_certificate(tenant: Tenant) -> None:
    await a_person(tenant, "ann", "marker")
    more = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="more")
    await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id="of ann", messages=[more, more]))

    responses = list[states_pb2.PurgeSubjectResponse]()
    while not responses or responses[-1].receipt.more:
        request = states_pb2.PurgeSubjectRequest(subject_id="ann", limit=1, request_id=f"s{len(responses)}")
        responses.append(await tenant.sessions.PurgeSubject(request))
        # A retry of the same call changes nothing.
        assert (await tenant.sessions.PurgeSubject(request)).certificate_id == responses[-1].certificate_id

    result = await verified(tenant, responses[-1].certificate_id)
    assert len(responses) > 2
    assert len({response.certificate_id for response in responses}) == 1
    assert (result.statement["kind"], result.statement["complete"]) == ("purge_subject", True)
    assert result.statement["deleted_counts"]["session.messages"] == 3
    assert len(await certificates(tenant)) == 1


@pytest.mark.system
async def test_a_certificate_of_a_purge_that_never_was_is_not_found_in_the_event_log(
    tenant: Tenant, other_tenant: Tenant
) -> None:
    memory_ids = await a_person(tenant, "ann", "marker")
    await a_person(tenant, "bob", "other")
    selection = memory_pb2.MemorySelection(memory_ids=memory_ids)
    purged = await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection, page_size=2))
    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="bob"))
    true = dict((await verified(tenant, purged.certificate_id)).statement)
    invented = str(uuid.uuid4())
    await until_logged(tenant, true)
    end = (await tenant.history.ListChanges(history_pb2.ListChangesRequest(newest_first=True))).position

    problems = [
        await event_log.log_problem(tenant.history, {**true, **changed})
        for changed in (
            {"receipt_ids": [invented]},
            {"receipt_ids": [*true["receipt_ids"], invented]},
            {"event_position": end},
        )
    ]
    elsewhere = await event_log.log_problem(other_tenant.history, true)

    assert all((*problems, elsewhere))
    assert event_log.position_problem({**true, "event_position": ""})
    assert not event_log.position_problem(true)


async def until_logged(tenant: Tenant, statement: Mapping[str, Any]) -> None:
    """Wait until the log shows the purges: it does when transactions that began before them have ended."""
    async with asyncio.timeout(30):
        while await event_log.log_problem(tenant.history, statement):
            await asyncio.sleep(0.05)


async def test_a_caller_who_may_not_purge_reports_no_purge(tenant: Tenant, cluster: Cluster) -> None:
    request = auth_pb2.CreateApiKeyRequest(display_name="reader", permissions=["memory.read", "session.write"])
    secret = (await tenant.auth.CreateApiKey(request)).secret
    async with cluster.direct("auth") as channel:
        internal = auth_pb2_grpc.AuthInternalServiceStub(channel)
        metadata = [("authorization", f"Bearer {await identity(cluster, secret)}")]
        report = issue_request(uuid.uuid4().bytes * 2, complete=True)
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await internal.IssueErasureCertificate(report, metadata=metadata)
        report.kind = "purge_memories"
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await internal.IssueErasureCertificate(report, metadata=metadata)
        report.kind = "purge_subject"
        issued = await internal.IssueErasureCertificate(report, metadata=metadata)

    assert issued.certificate.complete


@pytest.mark.parametrize(
    "path", ["skein.memory.v1.MemoryService/PurgeMemories", "skein.session.v1.SessionService/PurgeSubject"]
)
async def test_bytes_that_are_no_request_are_refused(tenant: Tenant, cluster: Cluster, path: str) -> None:
    call: Any = cluster.channel.unary_unary(f"/{path}")

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await call(b"\xff\xff\xff", metadata=(("authorization", f"Bearer {tenant.api_key}"),))


async def test_a_purge_without_a_request_id_is_certified(tenant: Tenant) -> None:
    await a_person(tenant, "ann", "marker")

    response = await tenant.sessions.PurgeSubject(states_pb2.PurgeSubjectRequest(subject_id="ann"))

    assert (await verified(tenant, response.certificate_id)).statement["complete"] is True


@pytest.mark.system
async def test_a_certificate_verifies_after_its_key_was_replaced(tenant: Tenant, cluster: Cluster) -> None:
    await a_person(tenant, "ann", "marker")
    response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))
    before = await verified(tenant, response.certificate_id)

    await cluster.operator.auth.RotateSigningKey(auth_pb2.RotateSigningKeyRequest(purpose=CERTIFICATE))

    after = await verified(cluster.with_key(tenant.api_key), response.certificate_id)
    assert after == before
    keys = await published_keys(cluster.anonymous)
    assert before.key_id in keys
    assert len(keys) >= 2


async def test_an_operator_names_the_tenant(tenant: Tenant, cluster: Cluster) -> None:
    response = await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))
    own = str(tenant.tenant_id)

    assert (await get(cluster.operator, response.certificate_id, tenant_id=own)).complete
    assert len(await certificates(cluster.operator, tenant_id=own)) == 1
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TENANT_MISSING"):
        await certificates(cluster.operator)


async def test_the_role_of_auth_changes_no_complete_certificate(tenant: Tenant, cluster: Cluster) -> None:
    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann"))

    async with cluster.superuser() as connection, connection.transaction():
        await connection.execute("SET LOCAL ROLE skein_auth")
        query = "SELECT count(*) FROM auth.erasure_certificates"
        assert await connection.fetchval(query) == 0
        await connection.execute("SELECT set_config('skein.tenant_id', $1, true)", str(tenant.tenant_id))
        assert await connection.fetchval(query) == 1
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("DELETE FROM auth.erasure_certificates")
