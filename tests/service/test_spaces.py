"""Spaces: who sees what of a tenant, and where a write goes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
import pytest
from fix_calls import stamp
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_spaces import ALL, SPACE_KEY, first_spaces, grant, new_key, new_space

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import approvals_pb2, history_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import spaces_pb2, tenancy_pb2
from skein_kit.identity.permissions import TENANT_PERMISSIONS

NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND")
UNSUPPORTED = (grpc.StatusCode.PERMISSION_DENIED, "SPACES_UNSUPPORTED")
TEXT = "The red rose needs manure"


@dataclass(frozen=True)
class Clinic:
    """A tenant with a doctor's space, a key that writes in it, and one that does not see it."""

    cluster: Cluster
    tenant: Tenant
    space_id: str
    doctor_secret: str
    doctor: Stubs
    kitchen: Stubs
    memory_id: str

    def doctor_in(self, space_id: str) -> Stubs:
        return self.cluster.with_key(self.doctor_secret, **{SPACE_KEY: space_id})


@pytest.fixture
async def clinic(tenant: Tenant, cluster: Cluster) -> Clinic:
    [space_id] = await first_spaces(cluster, tenant, "doctor")
    _, doctor = await new_key(cluster, tenant, [space_id])
    _, kitchen = await new_key(cluster, tenant, [])
    in_space = cluster.with_key(doctor, **{SPACE_KEY: space_id})
    memory = await in_space.create_memory(TEXT, external_id="rose", type="fact", key="rose", tags=["rose"])
    return Clinic(
        cluster=cluster,
        tenant=tenant,
        space_id=space_id,
        doctor_secret=doctor,
        doctor=cluster.with_key(doctor),
        kitchen=cluster.with_key(kitchen),
        memory_id=memory.memory_id,
    )


@pytest.mark.system
async def test_a_memory_of_a_space_is_found_by_those_who_see_the_space(clinic: Clinic) -> None:
    assert (await clinic.doctor.get_memory(clinic.memory_id)).content == TEXT
    assert [memory.memory_id for memory in await clinic.doctor.list_memories()] == [clinic.memory_id]
    answer = await clinic.doctor.search("Which rose needs manure?", min_relevance=0)
    assert [hit.item_id for hit in answer.hits] == [clinic.memory_id]

    for name in (clinic.memory_id, "rose"):
        with refused(*NOT_FOUND):
            await clinic.kitchen.get_memory(name)
    assert await clinic.kitchen.list_memories() == []
    answer = await clinic.kitchen.search("Which rose needs manure?", min_relevance=0)
    assert list(answer.hits) == []
    context = await clinic.kitchen.gateway.BuildContext(
        gateway_pb2.BuildContextRequest(recall=gateway_pb2.RecallRequest(query="rose", min_relevance=0))
    )
    assert TEXT not in context.text


async def test_names_and_keys_of_another_space_are_free(clinic: Clinic) -> None:
    memory = await clinic.kitchen.create_memory(TEXT, external_id="rose", type="fact", key="rose")

    assert memory.memory_id != clinic.memory_id
    assert (await clinic.kitchen.get_memory("rose")).memory_id == memory.memory_id


async def test_a_write_goes_where_it_says_and_a_reader_writes_nothing(clinic: Clinic) -> None:
    with refused(*NOT_FOUND):
        # It acts in the default space.
        await clinic.doctor.update_memory(clinic.memory_id, content="x")
    await clinic.doctor_in(clinic.space_id).update_memory(clinic.memory_id, content="The rose is fed")
    _, reader = await new_key(clinic.cluster, clinic.tenant, [clinic.space_id], "reader")

    assert (await clinic.doctor.get_memory(clinic.memory_id)).content == "The rose is fed"
    with refused(*NOT_FOUND):
        await clinic.kitchen.memory.ListMemoryVersions(pb.ListMemoryVersionsRequest(memory_id=clinic.memory_id))
    with refused(grpc.StatusCode.PERMISSION_DENIED, "SPACE_READ_ONLY"):
        await clinic.cluster.with_key(reader, **{SPACE_KEY: clinic.space_id}).create_memory("x")
    with refused(grpc.StatusCode.NOT_FOUND, "SPACE_NOT_FOUND"):
        await clinic.cluster.with_key(clinic.tenant.api_key, **{SPACE_KEY: clinic.space_id}).list_memories()


@pytest.mark.system
async def test_a_caller_of_two_spaces_reveals_secrets_in_both_and_each_has_the_event(
    clinic: Clinic,
) -> None:
    _, secret = await new_key(clinic.cluster, clinic.tenant, [clinic.space_id], permissions=ALL)
    reader = clinic.cluster.with_key(secret)
    in_space = clinic.cluster.with_key(secret, **{SPACE_KEY: clinic.space_id})
    default = await reader.create_memory("", type="knowledge_vault", title="the door", secret_value="1111")
    own = await in_space.create_memory("", type="knowledge_vault", title="the safe", secret_value="2222")

    for memory, value in ((default, "1111"), (own, "2222")):
        answer = await reader.memory.RevealSecret(pb.RevealSecretRequest(memory_id=memory.memory_id))
        assert answer.secret_value == value

    def revealed(changes: history_pb2.ListChangesResponse) -> list[str]:
        return [change.entity_id for change in changes.changes if change.event_type == "secret_revealed"]

    request = history_pb2.ListChangesRequest()
    assert revealed(await reader.history.ListChanges(request)) == [default.memory_id, own.memory_id]
    assert revealed(await clinic.kitchen.history.ListChanges(request)) == [default.memory_id]


@pytest.mark.system
async def test_a_bound_key_sees_its_spaces_alone_and_nothing_once_they_are_revoked(clinic: Clinic) -> None:
    await clinic.kitchen.remember("The oven is hot")
    principal, secret = await new_key(
        clinic.cluster, clinic.tenant, [clinic.space_id], bind=True, permissions=TENANT_PERMISSIONS
    )
    contractor = clinic.cluster.with_key(secret)
    created = await contractor.create_memory("The hedge is high")

    assert {memory.memory_id for memory in await contractor.list_memories()} == {clinic.memory_id, created.memory_id}
    await contractor.create_session("s")
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await clinic.kitchen.get_session("s")
    with refused(*UNSUPPORTED):
        await contractor.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(display_name="x")))
    await clinic.tenant.tenancy.RevokeSpaceGrant(
        spaces_pb2.RevokeSpaceGrantRequest(space_id=clinic.space_id, principal=principal)
    )
    async with asyncio.timeout(30):
        # The gateway keeps an exchange for some seconds.
        while await contractor.list_memories():
            await asyncio.sleep(0.1)
    with refused(grpc.StatusCode.NOT_FOUND, "SPACE_NOT_FOUND"):
        await clinic.cluster.with_key(secret, **{SPACE_KEY: clinic.space_id}).list_memories()


async def test_only_managers_and_those_who_may_delegate_grant(clinic: Clinic) -> None:
    denied = (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING")
    assert clinic.space_id
    with refused(*denied):
        await grant(clinic.cluster.with_key(clinic.doctor_secret), clinic.space_id, "agent:x")


@pytest.mark.system
async def test_former_versions_and_searches_of_the_past_stay_in_the_space(clinic: Clinic) -> None:
    at = stamp(datetime.now(UTC))
    await clinic.doctor_in(clinic.space_id).update_memory(clinic.memory_id, content="The rose is fed")
    question = {"min_relevance": 0, "as_of_time": at}

    assert (await clinic.doctor.get_memory(clinic.memory_id, as_of_time=at)).content == TEXT
    assert [hit.item_id for hit in (await clinic.doctor.search("rose manure", **question)).hits] == [clinic.memory_id]
    with refused(*NOT_FOUND):
        await clinic.kitchen.get_memory(clinic.memory_id, as_of_time=at)
    assert not (await clinic.kitchen.search("rose manure", **question)).hits


@pytest.mark.system
async def test_a_write_that_waits_for_approval_waits_in_its_space(clinic: Clinic) -> None:
    await clinic.tenant.set_policy(approval="agents")
    space = {SPACE_KEY: clinic.space_id}
    _, approver = await new_key(clinic.cluster, clinic.tenant, [clinic.space_id], permissions=TENANT_PERMISSIONS)
    agent = clinic.cluster.with_key(clinic.doctor_secret, **space, **{"skein-agent-id": "doctor"})
    async with asyncio.timeout(30):
        # Services see a new policy within a second.
        while not (waiting := await agent.create_memory("The tulip is dry")).pending_approval:
            await asyncio.sleep(0.1)
    list_request = approvals_pb2.ListPendingMemoriesRequest()

    assert not (await clinic.tenant.curation.ListPendingMemories(list_request)).pending_memories
    listed = await clinic.cluster.with_key(approver).curation.ListPendingMemories(list_request)
    assert [one.pending_id for one in listed.pending_memories] == [waiting.memory_id]
    await clinic.cluster.with_key(approver, **space).curation.ApproveMemory(
        approvals_pb2.ApproveMemoryRequest(pending_id=waiting.memory_id)
    )
    assert (await clinic.doctor.get_memory(waiting.memory_id)).content == "The tulip is dry"
    with refused(*NOT_FOUND):
        await clinic.kitchen.get_memory(waiting.memory_id)


async def test_memories_of_two_spaces_are_not_linked(clinic: Clinic) -> None:
    default = await clinic.doctor.create_memory(TEXT)

    for stubs in (clinic.doctor, clinic.doctor_in(clinic.space_id)):
        with refused(*NOT_FOUND):
            await stubs.create_link(default.memory_id, clinic.memory_id)


async def test_a_repeated_request_in_another_space_is_another_request(clinic: Clinic) -> None:
    request = pb.CreateMemoryRequest(request_id="r", memory=pb.Memory(content="x"))
    await clinic.doctor_in(clinic.space_id).memory.CreateMemory(request)

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED"):
        await clinic.doctor.memory.CreateMemory(request)


async def test_a_delegable_grant_is_passed_on_once_and_no_wider(clinic: Clinic) -> None:
    principal, secret = await new_key(clinic.cluster, clinic.tenant, [clinic.space_id], "reader")
    message = spaces_pb2.SpaceGrant(
        space_id=clinic.space_id, principal=principal, role=spaces_pb2.SPACE_ROLE_READER, is_delegable=True
    )
    await clinic.tenant.tenancy.GrantSpace(spaces_pb2.GrantSpaceRequest(grant=message))
    holder = clinic.cluster.with_key(secret)
    denied = (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING")

    await grant(holder, clinic.space_id, "agent:x", "reader")
    with refused(*denied):
        await grant(holder, clinic.space_id, "agent:x", "writer")
    message.principal = "agent:x"
    with refused(*denied):
        await holder.tenancy.GrantSpace(spaces_pb2.GrantSpaceRequest(grant=message))
    listed = await clinic.tenant.tenancy.ListSpaceGrants(spaces_pb2.ListSpaceGrantsRequest(space_id=clinic.space_id))
    assert ("agent:x", spaces_pb2.SPACE_ROLE_READER) in [(one.principal, one.role) for one in listed.grants]


async def test_a_delegate_replaces_no_grant_and_binds_no_one(clinic: Clinic) -> None:
    principal, secret = await new_key(clinic.cluster, clinic.tenant, [clinic.space_id], "reader")
    message = spaces_pb2.SpaceGrant(
        space_id=clinic.space_id, principal=principal, role=spaces_pb2.SPACE_ROLE_READER, is_delegable=True
    )
    await clinic.tenant.tenancy.GrantSpace(spaces_pb2.GrantSpaceRequest(grant=message))
    await grant(clinic.tenant, clinic.space_id, "agent:chief", "manager")
    holder = clinic.cluster.with_key(secret)
    denied = (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING")

    with refused(*denied):
        await grant(holder, clinic.space_id, "agent:chief", "reader")
    with refused(*denied):
        await grant(holder, clinic.space_id, "agent:victim", "reader", bind=True)

    listed = await clinic.tenant.tenancy.ListSpaceGrants(spaces_pb2.ListSpaceGrantsRequest(space_id=clinic.space_id))
    roles = {one.principal: one.role for one in listed.grants}
    assert roles["agent:chief"] == spaces_pb2.SPACE_ROLE_MANAGER
    assert "agent:victim" not in roles


async def test_a_manager_of_a_space_binds_no_one_and_an_admin_not_itself(clinic: Clinic) -> None:
    _, secret = await new_key(clinic.cluster, clinic.tenant, [clinic.space_id], "manager")
    manager = clinic.cluster.with_key(secret)
    me = (await clinic.tenant.auth.GetMe(auth_pb2.GetMeRequest())).principal

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await grant(manager, clinic.space_id, me, "reader", bind=True)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await grant(clinic.tenant, clinic.space_id, me, "reader", bind=True)


@pytest.mark.system
async def test_a_revocation_that_unbinds_shows_the_default_space_again(clinic: Clinic) -> None:
    principal, secret = await new_key(
        clinic.cluster, clinic.tenant, [clinic.space_id], bind=True, permissions=TENANT_PERMISSIONS
    )
    shared = await clinic.tenant.create_memory("The gate is green")
    bound = clinic.cluster.with_key(secret)
    with refused(*NOT_FOUND):
        await bound.get_memory(shared.memory_id)

    request = spaces_pb2.RevokeSpaceGrantRequest(space_id=clinic.space_id, principal=principal, unbind=True)
    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await bound.tenancy.RevokeSpaceGrant(request)
    await clinic.tenant.tenancy.RevokeSpaceGrant(request)

    async with asyncio.timeout(30):
        # The gateway keeps an exchange for some seconds.
        while shared.memory_id not in [memory.memory_id for memory in await bound.list_memories()]:
            await asyncio.sleep(0.1)
    with refused(*NOT_FOUND):
        await bound.get_memory(clinic.memory_id)


@pytest.mark.system
async def test_a_space_is_listed_for_those_who_see_it_and_deleted_when_nothing_is_in_it(clinic: Clinic) -> None:
    empty_id = await new_space(clinic.tenant, "empty")
    _, viewer = await new_key(clinic.cluster, clinic.tenant, [clinic.space_id], permissions=["spaces.read"])
    request = spaces_pb2.ListSpacesRequest()

    seen = (await clinic.cluster.with_key(viewer).tenancy.ListSpaces(request)).spaces
    every = (await clinic.tenant.tenancy.ListSpaces(request)).spaces
    assert [space.space_id for space in seen] == [clinic.space_id]
    assert [space.space_id for space in every] == [clinic.space_id, empty_id]
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SPACE_NOT_EMPTY"):
        await clinic.tenant.tenancy.DeleteSpace(spaces_pb2.DeleteSpaceRequest(space_id=clinic.space_id))
    await clinic.tenant.tenancy.DeleteSpace(spaces_pb2.DeleteSpaceRequest(space_id=empty_id))
    with refused(grpc.StatusCode.NOT_FOUND, "SPACE_NOT_FOUND"):
        await clinic.tenant.tenancy.GetSpace(spaces_pb2.GetSpaceRequest(space_id=empty_id))


@pytest.mark.system
async def test_a_bound_key_recalls_and_remembers_in_its_space_and_reads_no_message_by_lineage(clinic: Clinic) -> None:
    await clinic.kitchen.create_session("s")
    (message,) = await clinic.kitchen.append("s", "The oven is hot")
    _, secret = await new_key(clinic.cluster, clinic.tenant, [clinic.space_id], bind=True)
    contractor = clinic.cluster.with_key(secret)
    recall = gateway_pb2.RecallRequest(query="rose", min_relevance=0, subject_id="alice")

    answer = await contractor.gateway.Recall(recall)
    context = await contractor.gateway.BuildContext(gateway_pb2.BuildContextRequest(recall=recall))
    assert [hit.item_id for hit in answer.hits] == [clinic.memory_id]
    assert TEXT in context.text
    with refused(grpc.StatusCode.NOT_FOUND, "SOURCE_NOT_FOUND"):
        source = pb.SourceReference(kind=pb.SOURCE_KIND_MESSAGE, id=message.message_id)
        await contractor.create_memory("x", derived_from=[source])
    # A session of its own space, beside the kitchen's of the same id.
    await contractor.gateway.Remember(
        gateway_pb2.RememberRequest(
            session_id="s",
            messages=[session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="The pain is gone")],
            memories=[pb.Memory(content="A whole write")],
        )
    )
    assert "A whole write" in {memory.content for memory in await contractor.list_memories()}
    window = await clinic.kitchen.sessions.GetRecentWindow(session_pb2.GetRecentWindowRequest(session_id="s"))
    assert [shown.content for shown in window.messages] == ["The oven is hot"]


@pytest.mark.system
async def test_a_stream_ends_when_the_spaces_of_its_caller_change(clinic: Clinic) -> None:
    principal, secret = await new_key(clinic.cluster, clinic.tenant, [clinic.space_id])
    reader = clinic.cluster.with_key(secret)
    await reader.create_session("s")
    stream = reader.sessions.StreamMessages(session_pb2.StreamMessagesRequest(session_id="s"))
    await stream.read()

    await clinic.tenant.tenancy.RevokeSpaceGrant(
        spaces_pb2.RevokeSpaceGrantRequest(space_id=clinic.space_id, principal=principal)
    )

    with refused(grpc.StatusCode.PERMISSION_DENIED, "SPACES_CHANGED"):
        async with asyncio.timeout(60):
            while await stream.read() is not grpc.aio.EOF:
                pass
