"""The public methods of the cluster, and handlers that forward their requests as bytes to their service."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf import message_factory
from google.protobuf.message import Message
from grpc import aio

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2, curation_pb2, history_pb2, memory_pb2, snapshots_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_kit.calls.call import Call
from skein_kit.host.process import Host
from skein_kit.identity.permissions import PUBLIC_SERVICES
from skein_kit.rpc.interceptors import Handler, translate_upstream

if TYPE_CHECKING:
    from skein_kit.rpc.streaming import Messages

GATEWAY_SERVICE = "skein.gateway.v1.GatewayService"
# These imports also let reflection describe the services.
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
    """A method of the public port."""

    # "/skein.memory.v1.MemoryService/CreateMemory"
    path: str
    # Service of the cluster that handles it, such as "memory".
    service: str
    request: type[Message]
    response: type[Message]
    # It returns a stream.
    streams: bool


def _public_methods() -> dict[str, PublicMethod]:
    owners = {**PUBLIC_SERVICES, GATEWAY_SERVICE: "gateway"}
    methods: dict[str, PublicMethod] = {}
    for module in _CONTRACT:
        for service in module.DESCRIPTOR.services_by_name.values():
            owner = owners.pop(service.full_name, None)
            if owner is None:
                continue
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                methods[path] = PublicMethod(
                    path=path,
                    service=owner,
                    request=message_factory.GetMessageClass(method.input_type),
                    response=message_factory.GetMessageClass(method.output_type),
                    streams=method.server_streaming,
                )
    if owners:
        message = f"no module here describes {', '.join(owners)}"
        raise LookupError(message)
    return methods


# Every method of the public port, by path.
PUBLIC_METHODS = _public_methods()


def forwarder(host: Host, method: PublicMethod) -> Handler:
    """Return a handler that forwards request and response bytes unchanged."""
    call_service: Any = host.channel(method.service, caller="gateway").unary_unary(method.path)

    async def forward(request: bytes, _call: Call) -> bytes:
        try:
            response: bytes = await call_service(request)
        except aio.AioRpcError as error:
            raise translate_upstream(error, service=method.service) from None
        return response

    return forward


def stream_forwarder(host: Host, method: PublicMethod) -> Messages:
    """Return the handler of a streaming method. A client's disconnect also ends the service's stream."""
    call_service: Any = host.channel(method.service, caller="gateway").unary_stream(method.path)

    async def forward(request: bytes, _call: Call) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(call_service(request)) as messages:
                async for message in messages:
                    yield message
        except aio.AioRpcError as error:
            raise translate_upstream(error, service=method.service) from None

    return forward
