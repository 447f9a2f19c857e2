"""The methods of the services of skein/gateway/v1/gateway.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.gateway.v1 import gateway_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class GatewayServiceMethods:
    """What answers each RPC of GatewayService."""

    Remember: Callable[[gateway_pb2.RememberRequest, Any], Awaitable[gateway_pb2.RememberResponse]]
    Recall: Callable[[gateway_pb2.RecallRequest, Any], Awaitable[gateway_pb2.RecallResponse]]
    BuildContext: Callable[[gateway_pb2.BuildContextRequest, Any], Awaitable[gateway_pb2.BuildContextResponse]]
    ReplayContext: Callable[[gateway_pb2.ReplayContextRequest, Any], Awaitable[gateway_pb2.ReplayContextResponse]]
    Forget: Callable[[gateway_pb2.ForgetRequest, Any], Awaitable[gateway_pb2.ForgetResponse]]
    GetClusterStatus: Callable[[gateway_pb2.GetClusterStatusRequest, Any], Awaitable[gateway_pb2.GetClusterStatusResponse]]
