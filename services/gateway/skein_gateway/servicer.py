"""GatewayService: one method per RPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.gateway.v1 import gateway_pb2 as pb
from skein.gateway.v1 import gateway_pb2_grpc as rpc
from skein_kit.calls.call import Context, caller

if TYPE_CHECKING:
    from skein_gateway.cluster_status.rpc import ClusterStatus
    from skein_gateway.context.rpc import ContextBuilder
    from skein_gateway.forget.rpc import Forgetting
    from skein_gateway.recall.rpc import Recalling
    from skein_gateway.remember.rpc import Remembering


class GatewayServicer(rpc.GatewayServiceServicer):
    """What the gateway answers itself."""

    def __init__(
        self,
        remembering: Remembering,
        recalling: Recalling,
        contexts: ContextBuilder,
        forgetting: Forgetting,
        status: ClusterStatus,
    ) -> None:
        self._remembering = remembering
        self._recalling = recalling
        self._contexts = contexts
        self._forgetting = forgetting
        self._status = status

    async def Remember(self, request: pb.RememberRequest, context: Context) -> pb.RememberResponse:
        return await self._remembering.remember(caller(context), request)

    async def Recall(self, request: pb.RecallRequest, context: Context) -> pb.RecallResponse:
        return await self._recalling.recall(caller(context), request, context.time_remaining())

    async def BuildContext(self, request: pb.BuildContextRequest, context: Context) -> pb.BuildContextResponse:
        return await self._contexts.build(caller(context), request, context.time_remaining())

    async def Forget(self, request: pb.ForgetRequest, context: Context) -> pb.ForgetResponse:
        return await self._forgetting.forget(caller(context), request, context.time_remaining)

    async def GetClusterStatus(
        self, request: pb.GetClusterStatusRequest, context: Context
    ) -> pb.GetClusterStatusResponse:
        return await self._status.look()
