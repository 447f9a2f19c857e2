"""The public methods of the cluster, and how they pass through the gateway: as bytes that only their service reads."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf import message_factory
from grpc import aio

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2, curation_pb2, history_pb2, memory_pb2, snapshots_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_kit.identity.permissions import PUBLIC_SERVICES
from skein_kit.rpc.interceptors import translate_upstream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from google.protobuf.message import Message

    from skein_kit.calls.call import Call
    from skein_kit.host.process import Host
    from skein_kit.rpc.interceptors import Handler
    from skein_kit.rpc.streaming import Messages

GATEWAY_SERVICE = "skein.gateway.v1.GatewayService"
# Importing them is also what lets reflection describe the services.
_CONTRACT = (
    auth_pb2,
    gateway_pb2,
    blocks_pb2,
    curation_pb2,
    history_pb2,
    memory_pb2,
    snapshots_pb2,
    recall_pb2,
    session_pb2,
    tenancy_pb2,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicMethod:
    """One method that the world may call."""

    # "/skein.memory.v1.MemoryService/CreateMemory"
    path: str
    # The service of the cluster that answers: "memory".
    service: str
    request: type[Message]
    response: type[Message]
    # It answers with a stream.
    streams: bool


def _public_methods() -> dict[str, PublicMethod]:
    owners = {**PUBLIC_SERVICES, GATEWAY_SERVICE: "gateway"}
    found: dict[str, PublicMethod] = {}
    for module in _CONTRACT:
        for service in module.DESCRIPTOR.services_by_name.values():
            owner = owners.pop(service.full_name, None)
            if owner is None:
                continue
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                found[path] = PublicMethod(
                    path=path,
                    service=owner,
                    request=message_factory.GetMessageClass(method.input_type),
                    response=message_factory.GetMessageClass(method.output_type),
                    streams=method.server_streaming,
                )
    if owners:
        message = f"no module here describes {', '.join(owners)}"
        raise LookupError(message)
    return found


# Every method of the public port, by path.
PUBLIC_METHODS = _public_methods()


def forwarder(host: Host, method: PublicMethod) -> Handler:
    """Return a handler that passes a request on and the answer back, both as they come."""
    call_service: Any = host.channel(method.service).unary_unary(method.path)

    async def answer(request: bytes, _call: Call) -> bytes:
        try:
            response: bytes = await call_service(request)
        except aio.AioRpcError as error:
            raise translate_upstream(error, service=method.service) from None
        return response

    return answer


def stream_forwarder(host: Host, method: PublicMethod) -> Messages:
    """Do as `forwarder` for a method that answers with a stream: whoever hangs up here is gone there as well."""
    call_service: Any = host.channel(method.service).unary_stream(method.path)

    async def answer(request: bytes, _call: Call) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(call_service(request)) as messages:
                async for message in messages:
                    yield message
        except aio.AioRpcError as error:
            raise translate_upstream(error, service=method.service) from None

    return answer
