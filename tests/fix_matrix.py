"""The RPCs of the contract, and calls of them by their paths."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import grpc
from fix_cluster import Cluster
from fix_world import World, extractor_identity, identity, service_identity, system_identity
from google.protobuf import message_factory
from google.protobuf.message import Message
from grpc import aio
from grpc_status import rpc_status

from skein.auth.v1 import auth_pb2, oauth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2, curation_pb2, history_pb2, memory_pb2, snapshots_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_kit.errors import status_reason
from skein_kit.identity.permissions import (
    ACCESS_RULES,
    ACCOUNT,
    CREATE_TENANT,
    EXTRACT,
    OPERATOR,
    PUBLIC_SERVICES,
    SYSTEM,
)

CONTRACT = (
    auth_pb2, blocks_pb2, curation_pb2, gateway_pb2, history_pb2, memory_pb2, oauth_pb2, recall_pb2, session_pb2,
    snapshots_pb2, tenancy_pb2,
)  # fmt: skip
METHODS = {
    f"/{service.full_name}/{method.name}": method
    for file in CONTRACT
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
GATEWAY = "skein.gateway.v1.GatewayService"
PATHS = sorted(METHODS)
GUARDED = [path for path in PATHS if not ACCESS_RULES[path].is_public]
# What runs for the cluster itself, behind the gateway.
INTERNAL = {path for path in PATHS if path.split("/")[1] not in {*PUBLIC_SERVICES, GATEWAY}}
OK = grpc.StatusCode.OK


async def call(channel: Any, path: str, request: Message, credential: str = "", **metadata: str) -> Message:
    """Call an RPC by its path; without a credential there is no authorization at all."""
    response_type = message_factory.GetMessageClass(METHODS[path].output_type)
    headers = [(name.replace("_", "-"), value) for name, value in metadata.items()]
    if credential:
        headers.append(("authorization", f"Bearer {credential}"))
    open_method = channel.unary_stream if METHODS[path].server_streaming else channel.unary_unary
    invoke = open_method(
        path, request_serializer=type(request).SerializeToString, response_deserializer=response_type.FromString
    )
    calling: Any = invoke(request, metadata=headers, timeout=30)
    if METHODS[path].server_streaming:
        return await first_of(calling)
    response: Message = await calling
    return response


async def first_of(stream: Any) -> Message:
    """Return what a stream sends at once, in one message; it begins with where it is."""
    sent: Message = await stream.read()
    try:
        async with asyncio.timeout(0.5):
            for _ in range(5):
                sent.MergeFrom(await stream.read())
    except (TimeoutError, TypeError):
        # There is no more of it for now, or at all.
        pass
    finally:
        stream.cancel()
    return sent


async def outcome(calling: Any) -> tuple[grpc.StatusCode, str, Message | None]:
    """Return how a call ended: its code, its reason, its answer."""
    try:
        return OK, "", await calling
    except aio.AioRpcError as error:
        status = rpc_status.from_call(error)  # type: ignore[arg-type]  # It reads three methods that both have.
        return error.code(), status_reason(status) if status else "", None


class Channels:
    """The channel on which each RPC is answered: the gateway's or, for internal ones, its service's own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def of(self, path: str) -> aio.Channel:
        if path not in INTERNAL:
            return self._cluster.channel
        # skein.<service>.v1.<Service>/<Method>
        return self._cluster.shared(path.split(".")[1])


def part_of(token: str, number: int) -> dict[str, Any]:
    part: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token.split(".")[number] + "=="))
    return part


def claims_of(token: str) -> dict[str, Any]:
    return part_of(token, 1)


async def credential_for(path: str, world: World) -> tuple[str, dict[str, str]]:
    """Return what the rightful caller of an RPC brings, in this world's tenant, and the metadata that goes with it."""
    rule, tenant_id = ACCESS_RULES[path], str(world.tenant.tenant_id)
    if rule.is_public:
        return "", {}
    naming = {"skein_tenant_id": tenant_id} if rule.needs_tenant else {}
    if rule.permission == SYSTEM and rule.services != {"worker"}:
        tenant = world.tenant.tenant_id if rule.needs_tenant else None
        (service,) = rule.services
        return await service_identity(world.cluster, service, tenant), {}
    if rule.permission in {SYSTEM, EXTRACT}:
        identity_of = extractor_identity if rule.permission == EXTRACT else system_identity
        token = await identity_of(world.cluster, tenant_id if rule.needs_tenant else "")
        while rule.allows_deleted_tenant and not claims_of(token).get("closed"):
            # Auth remembers for a second that the tenant was open.
            await asyncio.sleep(0.1)
            token = await identity_of(world.cluster, tenant_id)
        return token, {}
    if rule.permission in {OPERATOR, CREATE_TENANT}:
        return world.cluster.operator_key, naming
    if rule.permission == ACCOUNT:
        name = "co_owner" if path.endswith("/LeaveTenant") else "owner"
        credential = (await world.thing(name)).access_token
        return (await identity(world.cluster, credential, tenant_id), {}) if path in INTERNAL else (credential, naming)
    credential = world.tenant.api_key
    return (await identity(world.cluster, credential), {}) if path in INTERNAL else (credential, {})
