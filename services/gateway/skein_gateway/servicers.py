"""The servicer of GatewayService. Each RPC is delegated to the feature that handles it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein.gateway.v1 import gateway_pb2_grpc as rpc

if TYPE_CHECKING:
    from skein.gateway.v1 import gateway_pb2 as pb
    from skein_gateway.cluster_status.rpc import ClusterStatusHandler
    from skein_gateway.context.replay import ContextReplayHandler
    from skein_gateway.context.rpc import ContextHandler
    from skein_gateway.forget.rpc import ForgetHandler
    from skein_gateway.recall.rpc import RecallHandler
    from skein_gateway.remember.rpc import RememberHandler
    from skein_kit.calls.call import Context


@dataclass(kw_only=True, eq=False, slots=True)
class GatewayServicer(rpc.GatewayServiceServicer):
    """GatewayService: the RPCs that involve several services."""

    remember: RememberHandler
    recall: RecallHandler
    context: ContextHandler
    context_replay: ContextReplayHandler
    forget: ForgetHandler
    cluster_status: ClusterStatusHandler

    async def Remember(self, request: pb.RememberRequest, context: Context) -> pb.RememberResponse:
        return await self.remember.Remember(request, context)

    async def Recall(self, request: pb.RecallRequest, context: Context) -> pb.RecallResponse:
        return await self.recall.Recall(request, context)

    async def BuildContext(self, request: pb.BuildContextRequest, context: Context) -> pb.BuildContextResponse:
        return await self.context.BuildContext(request, context)

    async def ReplayContext(self, request: pb.ReplayContextRequest, context: Context) -> pb.ReplayContextResponse:
        return await self.context_replay.ReplayContext(request, context)

    async def Forget(self, request: pb.ForgetRequest, context: Context) -> pb.ForgetResponse:
        return await self.forget.Forget(request, context)

    async def GetClusterStatus(
        self, request: pb.GetClusterStatusRequest, context: Context
    ) -> pb.GetClusterStatusResponse:
        return await self.cluster_status.GetClusterStatus(request, context)
