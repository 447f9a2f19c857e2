"""The methods of GatewayService, each that of the feature which handles it."""

from __future__ import annotations

from skein.gateway.v1.gateway_methods import GatewayServiceMethods
from skein_gateway.cluster_status import ClusterStatusHandler
from skein_gateway.context.replay import ContextReplayHandler
from skein_gateway.context.rpc import ContextHandler
from skein_gateway.forget.rpc import ForgetHandler
from skein_gateway.recall.rpc import RecallHandler
from skein_gateway.remember import RememberHandler


def gateway_service(
    *,
    remember: RememberHandler,
    recall: RecallHandler,
    context: ContextHandler,
    context_replay: ContextReplayHandler,
    forget: ForgetHandler,
    cluster_status: ClusterStatusHandler,
) -> GatewayServiceMethods:
    """GatewayService: the RPCs that involve several services."""
    return GatewayServiceMethods(
        Remember=remember.Remember,
        Recall=recall.Recall,
        BuildContext=context.BuildContext,
        ReplayContext=context_replay.ReplayContext,
        Forget=forget.Forget,
        GetClusterStatus=cluster_status.GetClusterStatus,
    )
