"""The erasure of a person in a tenant with spaces: in every one of them, by who may, with a certificate."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import UTC, datetime

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_marker import files_with, places_of
from fix_receipts import get_receipt, recall_with_receipt
from fix_spaces import ALL, SPACE_KEY, House, new_key
from fix_world import system_identity

from skein.auth.v1 import certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, curation_pb2, memory_pb2, memory_pb2_grpc, snapshots_pb2
from skein.session.v1 import states_pb2
from skein.tenancy.v1 import subjects_pb2

DENIED = grpc.StatusCode.PERMISSION_DENIED
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
async def house(tenant: Tenant, cluster: Cluster) -> House:
    return await House.new(tenant, cluster)


def of_person(subject_id: str) -> memory_pb2.PurgeMemoriesRequest:
    selection = memory_pb2.MemorySelection(filter=memory_pb2.MemoryFilter(subject_id=subject_id))
    return memory_pb2.PurgeMemoriesRequest(selection=selection)


async def fill(stubs: Stubs, marker: str) -> None:
    """Store all that a space may have of a person: the marker is the person's id, and in every text."""
    known = await stubs.create_memory(f"{marker} likes tea", subject_id=marker, type="fact", key=f"{marker} tea")
    await stubs.update_memory(known.memory_id, content=f"{marker} likes coffee")
    other = await stubs.remember(f"{marker} has a dog", subject_id=marker, external_id=f"{marker} dog", tags=[marker])
    await stubs.create_link(known.memory_id, other, label=marker)
    await stubs.remember(
        f"made of {marker}",
        derived_from=[memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MEMORY, id=known.memory_id)],
    )
    alias = await stubs.remember(f"{marker}, called Annie")
    request = curation_pb2.ResolveEntityRequest(alias_memory_id=alias, canonical_memory_id=known.memory_id)
    await stubs.curation.ResolveEntity(request)
    formerly = await stubs.remember(f"{marker} was here", subject_id=marker)
    await stubs.update_memory(formerly, content="someone was here", subject_id="")
    deleted = await stubs.remember(f"{marker} is deleted", subject_id=marker)
    await stubs.delete_memory(deleted)
    old = memory_pb2.Memory(content=f"{marker} long ago", subject_id=marker, session_id=f"cold {uuid.uuid4()}")
    old.create_time.FromDatetime(LONG_AGO)
    await stubs.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=old))
    archive = archives_pb2.ArchiveMemoriesRequest(session_id=old.session_id, idle_since_time=datetime.now(UTC))
    assert (await stubs.history.ArchiveMemories(archive)).archive.memory_count == 1
    await stubs.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="s"))
    await stubs.search(f"where is {marker}?", min_relevance=0)


@pytest.mark.system
async def test_a_person_is_erased_in_every_space_and_the_certificate_is_complete(house: House) -> None:
    marker = f"ann{uuid.uuid4().hex}"
    owner = house.tenant
    await owner.set_policy(recall_receipts="all", audit_query_text=True)
    await owner.create_subject(marker, display_name=marker)
    await owner.create_session(f"of {marker}", subject_id=marker, title=marker)
    await owner.append(f"of {marker}", marker)
    await owner.create_block("human", marker, subject_id=marker)
    in_default = house.cluster.with_key(house.cook_secret)
    for stubs in (in_default, house.doctor, house.bound):
        await fill(stubs, marker)
        await stubs.remember("the lamp is on", subject_id="bob")

    async with house.cluster.superuser() as connection:
        spaces = await connection.fetch(
            "SELECT DISTINCT space_id::text AS id FROM memory.memories WHERE tenant_id = $1 AND subject_id = $2",
            owner.tenant_id,
            marker,
        )
        assert {row["id"] for row in spaces} == {str(uuid.UUID(int=0)), house.clinic_id, house.kitchen_id}
        assert len(files_with(house.cluster, marker)) == 3
        answer = await owner.forget(marker, request_id="forget")

        assert not answer.more
        assert marker not in str(answer)
        # The access log and receipts are written within seconds: what comes late is cleared by the worker, or another
        # call.
        while left := await places_of(connection, marker):
            assert {place.partition("_y")[0] for place in left} <= {"memory.access_log", "recall.receipts"}
            await owner.forget(marker)
        assert files_with(house.cluster, marker) == []
        bobs = await connection.fetchval(
            "SELECT count(*) FROM memory.memories WHERE tenant_id = $1 AND subject_id = 'bob'", owner.tenant_id
        )
        assert bobs == 3
    get = certificates_pb2.GetErasureCertificateRequest(certificate_id=answer.certificate_id)
    certificate = (await owner.auth.GetErasureCertificate(get)).certificate
    assert certificate.complete
    assert json.loads(certificate.document)
    assert certificate.deleted_counts["memory.memories"] >= 3 * 5
    assert certificate.deleted_counts["memory.archived_memories"] == 3
    # Those who watch a space learn of what went there, and of nothing else.
    assert {memory.content for memory in await house.doctor.list_memories()} == {"the lamp is on", "someone was here"}


@pytest.mark.system
@pytest.mark.parametrize("lacks", ["spaces.write", "free"])
async def test_who_does_not_manage_the_spaces_erases_no_person(house: House, lacks: str) -> None:
    await house.doctor.remember("ann's pulse", subject_id="ann")
    permissions = [name for name in ALL if name != "spaces.write"]
    _, member = await new_key(house.cluster, house.tenant, [house.clinic_id], permissions=permissions)
    stubs, reason = (
        (house.cluster.with_key(member), "PERMISSION_MISSING")
        if lacks == "spaces.write"
        else (house.bound, "SPACES_UNSUPPORTED")
    )

    for call in (
        stubs.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann")),
        stubs.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann", dry_run=True)),
        stubs.memory.PurgeMemories(of_person("ann")),
        stubs.sessions.PurgeSubject(states_pb2.PurgeSubjectRequest(subject_id="ann")),
        stubs.tenancy.PurgeSubject(subjects_pb2.PurgeSubjectRequest(subject_id="ann")),
        stubs.auth.ListErasureCertificates(certificates_pb2.ListErasureCertificatesRequest()),
        stubs.auth.GetErasureCertificate(
            certificates_pb2.GetErasureCertificateRequest(certificate_id=str(uuid.uuid4()))
        ),
    ):
        with refused(DENIED, reason):
            await call
    assert len(await house.doctor.list_memories(filter=memory_pb2.MemoryFilter(subject_id="ann"))) == 1


async def test_an_erasure_of_one_space_is_refused(house: House) -> None:
    await house.doctor.remember("ann's pulse", subject_id="ann")
    in_kitchen = house.cluster.with_key(house.cook_secret, **{SPACE_KEY: house.kitchen_id})

    for call in (
        in_kitchen.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="ann")),
        in_kitchen.memory.PurgeMemories(of_person("ann")),
    ):
        with refused(DENIED, "SPACES_UNSUPPORTED"):
            await call
    assert len(await house.doctor.list_memories()) == 1


@pytest.mark.system
async def test_a_purge_of_chosen_memories_stays_in_the_space_and_is_certified(house: House) -> None:
    pulse, soup = await house.doctor.remember("pulse"), await house.bound.remember("soup")
    manager = house.cluster.with_key(house.cook_secret)

    hidden = await house.bound.purge_memories(pulse)
    answer = await house.bound.purge_memories(soup)

    assert list(hidden.not_found_ids) == [pulse]
    assert (await house.doctor.get_memory(pulse)).content == "pulse"
    get = certificates_pb2.GetErasureCertificateRequest(certificate_id=answer.certificate_id)
    certificate = (await manager.auth.GetErasureCertificate(get)).certificate
    assert certificate.complete
    assert certificate.deleted_counts["memory.memories"] == 1


@pytest.mark.system
async def test_the_end_of_an_erasure_keeps_what_was_found_in_other_spaces(house: House) -> None:
    await house.tenant.set_policy(recall_receipts="all", audit_query_text=True)
    soup = await house.bound.remember("The soup needs salt.")
    await house.tenant.remember("ann's lamp", subject_id="ann")
    await house.tenant.forget("ann")
    answer = await recall_with_receipt(house.bound, "What does the soup need?", min_relevance=0)
    assert [hit.item_id for hit in answer.hits] == [soup]
    async with house.cluster.superuser() as connection, asyncio.timeout(30):
        while not await connection.fetchval(
            "SELECT count(*) FROM memory.access_log WHERE tenant_id = $1 AND memory_id = $2 AND operation = 'search'",
            house.tenant.tenant_id,
            uuid.UUID(soup),
        ):
            await asyncio.sleep(0.1)
        # By then all calls that were under way have ended.
        await connection.execute(
            "UPDATE memory.erasures SET erase_time = erase_time - interval '1 hour' WHERE tenant_id = $1",
            house.tenant.tenant_id,
        )
        identity = await system_identity(house.cluster, str(house.tenant.tenant_id))
        async with house.cluster.direct("memory") as channel:
            stub = memory_pb2_grpc.MemoryInternalServiceStub(channel)
            headers = (("authorization", f"Bearer {identity}"),)
            await stub.DeleteExpired(memory_pb2.DeleteExpiredRequest(), metadata=headers)
        left = "SELECT count(*) FROM memory.erasures WHERE tenant_id = $1"
        assert await connection.fetchval(left, house.tenant.tenant_id) == 0

    receipt = await get_receipt(house.bound, answer.receipt_id)

    assert receipt.query == "What does the soup need?"
    assert not receipt.request_erased
