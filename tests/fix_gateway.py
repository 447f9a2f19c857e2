"""A gateway in front of services that a test plays, so that they fail and dawdle exactly when the test says so.

Auth, tenancy and whatever the test does not play are those of the running cluster, reached over their sockets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fix_cluster import Cluster, Stubs, Tenant
from grpc import aio

from skein.memory.v1 import blocks_pb2_grpc, memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_gateway import rate_limits
from skein_gateway.service import SERVICE
from skein_kit.calls.call import Call
from skein_kit.host.process import Host, Service, ServicerRegistry, run_services
from skein_kit.settings import ProcessSettings
from skein_kit.telemetry.metrics import READY


@dataclass
class ScriptedServices:
    """What the played services do (method name to script), and what they were asked."""

    scripts: dict[str, Callable[[Any, Call], Awaitable[Any]]]
    requests: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    calls: list[Call] = field(default_factory=list)

    def service(self, name: str, method: str, add: Callable[[Any, Any], None], base: type) -> Service:
        """Make a service of one method."""

        async def answer(_self: object, request: Any, call: Call) -> Any:
            self.requests[method].append(request)
            self.calls.append(call)
            return await self.scripts[method](request, call)

        @asynccontextmanager
        async def start(_host: Host) -> AsyncIterator[ServicerRegistry]:
            servicers = ServicerRegistry()
            servicers.add(add, type("ScriptedService", (base,), {method: answer})())
            # A played service has none of the steps that the methods declare.
            servicers.methods = [replace(each, is_served_here=False) for each in servicers.methods]
            yield servicers

        return Service(name=name, port=0, depends_on=("auth",), start=start, has_database=False)


_SESSION = ("session", session_pb2_grpc.add_SessionServiceServicer_to_server, session_pb2_grpc.SessionServiceServicer)
_BLOCKS = ("memory", blocks_pb2_grpc.add_BlockServiceServicer_to_server, blocks_pb2_grpc.BlockServiceServicer)
_PLAYABLE: dict[str, tuple[str, Callable[[Any, Any], None], type]] = {
    "Recall": ("recall", recall_pb2_grpc.add_RecallServiceServicer_to_server, recall_pb2_grpc.RecallServiceServicer),
    "AppendMessages": _SESSION,
    "GetRecentWindow": _SESSION,
    "ListAgentBlocks": _BLOCKS,
    "ListBlocks": _BLOCKS,
    "GetSubject": (
        "tenancy",
        tenancy_pb2_grpc.add_TenancyServiceServicer_to_server,
        tenancy_pb2_grpc.TenancyServiceServicer,
    ),
    "BatchCreateMemories": (
        "memory",
        memory_pb2_grpc.add_MemoryServiceServicer_to_server,
        memory_pb2_grpc.MemoryServiceServicer,
    ),
}


@dataclass(frozen=True)
class Gateway(Stubs):
    """A gateway of the test's own, called with a tenant's key."""

    scripted: ScriptedServices
    host: Host
    tenant: Tenant


@asynccontextmanager
async def gateway_before(
    cluster: Cluster,
    tenant: Tenant,
    scripts: dict[str, Callable[[Any, Call], Awaitable[Any]]],
    *,
    in_process: bool = True,
    **settings: str,
) -> AsyncIterator[Gateway]:
    """Run a gateway whose services follow `scripts` (method name to what it does)."""
    environment = {**cluster.environment, **settings}
    scripted = ScriptedServices(scripts)
    services = [scripted.service(_PLAYABLE[name][0], name, *_PLAYABLE[name][1:]) for name in scripts]
    own = {service.name: "127.0.0.1:0" for service in services}
    host = Host(
        settings=ProcessSettings.read(environment),
        environment=environment,
        schema_version=0,
        addresses={**cluster.addresses, **own, "gateway": "127.0.0.1:0"},
        in_process_calls=in_process,
    )
    try:
        async with AsyncExitStack() as stack:
            # Calls pass while limits do not arrive in time; a paused machine should not cause that.
            patched = stack.enter_context(pytest.MonkeyPatch.context())
            patched.setattr(rate_limits, "ANSWER_SECONDS", 30.0)
            running_services = await stack.enter_async_context(run_services([*services, SERVICE], host))
            await running_services.wait_ready(60)
            async with aio.insecure_channel(host.addresses["gateway"]) as channel:
                stubs = Stubs.of(channel, tenant.api_key)
                yield Gateway(channel=stubs.channel, scripted=scripted, host=host, tenant=tenant)
    finally:
        # The cluster's own services of these names are still ready; in one process they share the gauge.
        for service in (*services, SERVICE):
            READY.labels(service.name).set(1)


def hit(item_id: str, score: float, kind: recall_pb2.ItemKind = recall_pb2.ITEM_KIND_MEMORY) -> recall_pb2.Hit:
    """Make a hit as the recall service does."""
    return recall_pb2.Hit(
        kind=kind,
        item_id=item_id,
        score=score,
        similarity=score,
        memory=memory_pb2.Memory(memory_id=item_id),
        message=session_pb2.Message(),
    )
