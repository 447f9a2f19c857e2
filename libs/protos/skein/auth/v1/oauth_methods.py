"""The methods of the services of skein/auth/v1/oauth.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.auth.v1 import oauth_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class OAuthServiceMethods:
    """What answers each RPC of OAuthService."""

    GetServerMetadata: Callable[[oauth_pb2.GetServerMetadataRequest, Any], Awaitable[oauth_pb2.GetServerMetadataResponse]]
    RegisterClient: Callable[[oauth_pb2.RegisterClientRequest, Any], Awaitable[oauth_pb2.RegisterClientResponse]]
    GetClient: Callable[[oauth_pb2.GetClientRequest, Any], Awaitable[oauth_pb2.GetClientResponse]]
    UpdateClient: Callable[[oauth_pb2.UpdateClientRequest, Any], Awaitable[oauth_pb2.UpdateClientResponse]]
    DeleteClient: Callable[[oauth_pb2.DeleteClientRequest, Any], Awaitable[oauth_pb2.DeleteClientResponse]]
    CreateAuthorization: Callable[[oauth_pb2.CreateAuthorizationRequest, Any], Awaitable[oauth_pb2.CreateAuthorizationResponse]]
    ApproveAuthorization: Callable[[oauth_pb2.ApproveAuthorizationRequest, Any], Awaitable[oauth_pb2.ApproveAuthorizationResponse]]
    ExchangeToken: Callable[[oauth_pb2.ExchangeTokenRequest, Any], Awaitable[oauth_pb2.ExchangeTokenResponse]]
    StartDeviceAuthorization: Callable[[oauth_pb2.StartDeviceAuthorizationRequest, Any], Awaitable[oauth_pb2.StartDeviceAuthorizationResponse]]
    GetDeviceAuthorization: Callable[[oauth_pb2.GetDeviceAuthorizationRequest, Any], Awaitable[oauth_pb2.GetDeviceAuthorizationResponse]]
    ApproveDevice: Callable[[oauth_pb2.ApproveDeviceRequest, Any], Awaitable[oauth_pb2.ApproveDeviceResponse]]
    RevokeToken: Callable[[oauth_pb2.RevokeTokenRequest, Any], Awaitable[oauth_pb2.RevokeTokenResponse]]
    IntrospectToken: Callable[[oauth_pb2.IntrospectTokenRequest, Any], Awaitable[oauth_pb2.IntrospectTokenResponse]]
    GetUserInfo: Callable[[oauth_pb2.GetUserInfoRequest, Any], Awaitable[oauth_pb2.GetUserInfoResponse]]
