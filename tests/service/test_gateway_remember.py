"""How the gateway splits a Remember over two services that a test plays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from fix_cluster import Cluster, Tenant, refused
from fix_gateway import gateway_before

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2
from skein_kit import errors
from skein_kit.calls.call import Call

BOTH = pb.RememberRequest(
    session_id="s",
    messages=[session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="I like tea")],
    memories=[memory_pb2.Memory(content="likes tea")],
    request_id="r",
)


async def append(request: session_pb2.AppendMessagesRequest, _call: Call) -> session_pb2.AppendMessagesResponse:
    return session_pb2.AppendMessagesResponse(messages=request.messages, pending_embedding_count=1)


async def create(request: memory_pb2.BatchCreateMemoriesRequest, _call: Call) -> memory_pb2.BatchCreateMemoriesResponse:
    return memory_pb2.BatchCreateMemoriesResponse(memories=request.memories, pending_embedding_count=2)


def playing(
    append: Callable[[Any, Call], Awaitable[Any]] = append, create: Callable[[Any, Call], Awaitable[Any]] = create
) -> dict[str, Callable[[Any, Call], Awaitable[Any]]]:
    return {"AppendMessages": append, "BatchCreateMemories": create}


async def test_memories_are_stored_before_messages(cluster: Cluster, tenant: Tenant) -> None:
    order: list[str] = []

    async def appending(request: session_pb2.AppendMessagesRequest, call: Call) -> Any:
        order.append("messages")
        return await append(request, call)

    async def creating(request: memory_pb2.BatchCreateMemoriesRequest, call: Call) -> Any:
        order.append("memories")
        return await create(request, call)

    async with gateway_before(cluster, tenant, playing(appending, creating)) as gateway:
        response = await gateway.gateway.Remember(BOTH, timeout=5)

    assert order == ["memories", "messages"]
    assert [message.content for message in response.messages] == ["I like tea"]
    assert [memory.content for memory in response.memories] == ["likes tea"]
    assert response.memories[0].session_id == "s"
    assert response.pending_embedding_count == 3


async def test_messages_are_not_appended_when_the_memories_are_refused(cluster: Cluster, tenant: Tenant) -> None:
    async def refusing(_request: memory_pb2.BatchCreateMemoriesRequest, _call: Call) -> Any:
        raise errors.ContentEmpty

    async with gateway_before(cluster, tenant, playing(create=refusing)) as gateway:
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_EMPTY"):
            await gateway.gateway.Remember(BOTH)

        assert gateway.scripted.requests["AppendMessages"] == []


async def test_the_parts_get_request_ids_of_their_own(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, playing()) as gateway:
        await gateway.gateway.Remember(BOTH)

        ids = [request.request_id for requests in gateway.scripted.requests.values() for request in requests]
    assert ids == ["remember:r:memories", "remember:r:messages"]


async def test_a_service_gets_only_what_concerns_it(cluster: Cluster, tenant: Tenant) -> None:
    async with gateway_before(cluster, tenant, playing()) as gateway:
        await gateway.gateway.Remember(pb.RememberRequest(memories=[memory_pb2.Memory(content="tea")]))

        assert gateway.scripted.requests["AppendMessages"] == []


async def test_a_key_that_may_do_only_one_part_does_neither(cluster: Cluster, tenant: Tenant) -> None:
    key = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="no sessions", permissions=["memory.write"])
    )
    limited = Tenant(channel=tenant.channel, tenant_id=tenant.tenant_id, api_key=key.secret)

    async with gateway_before(cluster, limited, playing()) as gateway:
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await gateway.gateway.Remember(BOTH)

        assert gateway.scripted.requests["BatchCreateMemories"] == []


async def test_nothing_to_remember_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.Remember(pb.RememberRequest(session_id="s"))


async def test_messages_need_a_session(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.Remember(pb.RememberRequest(messages=[session_pb2.Message(content="tea")]))


async def test_a_request_id_leaves_room_for_the_parts_of_it(tenant: Tenant) -> None:
    request = pb.RememberRequest()
    request.CopyFrom(BOTH)
    request.request_id = "r" * 201

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.gateway.Remember(request)

    request.request_id = "r" * 200
    await tenant.gateway.Remember(request)
