"""Authorizations, devices and tokens as protobuf messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration

from skein.auth.v1 import oauth_pb2 as pb
from skein_auth.oauth.device_authorization import INTERVAL
from skein_auth.oauth_clients import model as clients
from skein_kit.database.transactions import NO_TENANT
from skein_kit.rpc.well_known_types import to_timestamp

if TYPE_CHECKING:
    from skein_auth.auth_sessions.model import AuthSessionState
    from skein_auth.oauth.authorizations import AuthorizationPrompt
    from skein_auth.oauth.device_store import PendingDevice
    from skein_auth.oauth.token_endpoint import TokenIntrospection, TokenResponse
    from skein_kit.identity.bearer_token import BearerToken


def authorization(value: AuthorizationPrompt | str) -> pb.CreateAuthorizationResponse:
    if isinstance(value, str):
        return pb.CreateAuthorizationResponse(redirect_url=value)
    host, origin = clients.redirect_place(value.request.redirect_uri)
    return pb.CreateAuthorizationResponse(
        prompt=pb.AuthorizationPrompt(
            handle=value.handle,
            client_id=value.client.client_id,
            client_name=value.client.name,
            client_uri=value.client.client_uri,
            redirect_host=host,
            redirect_origin=origin,
            scopes=value.request.scopes,
            resources=value.request.resources,
            expire_time=to_timestamp(datetime.fromtimestamp(value.request.expire_time, UTC)),
            prompt=value.prompt,
        )
    )


def token_response(value: TokenResponse) -> pb.ExchangeTokenResponse:
    return pb.ExchangeTokenResponse(
        access_token=value.access_token,
        token_type="Bearer",  # noqa: S106 - its name in OAuth.
        expires_in=Duration(seconds=value.seconds),
        refresh_token=value.refresh_token,
        scope=value.scope,
        id_token=value.id_token,
    )


def device_codes(token: BearerToken, user_code: str, lifetime: timedelta) -> pb.StartDeviceAuthorizationResponse:
    return pb.StartDeviceAuthorizationResponse(
        device_code=token.encode(),
        user_code=user_code,
        expires_in=Duration(seconds=int(lifetime.total_seconds())),
        interval=Duration(seconds=int(INTERVAL.total_seconds())),
    )


def device(value: PendingDevice) -> pb.GetDeviceAuthorizationResponse:
    return pb.GetDeviceAuthorizationResponse(
        client_id=value.device.client_id,
        client_name=value.client_name or value.device.client_id,
        client_uri=value.client_uri,
        scopes=sorted(value.device.scopes),
        expire_time=to_timestamp(value.device.expire_time),
    )


def introspection(value: TokenIntrospection | None, issuer: str) -> pb.IntrospectTokenResponse:
    """None is a token that is not active; the response contains nothing else."""
    if value is None:
        return pb.IntrospectTokenResponse(active=False)
    return pb.IntrospectTokenResponse(
        active=True,
        scope=" ".join(sorted(value.scopes)),
        client_id=value.client_id,
        token_type=value.kind,
        expire_time=to_timestamp(value.expire_time),
        issue_time=to_timestamp(value.issue_time),
        subject=value.subject,
        audiences=value.audiences,
        issuer=issuer,
        token_id=value.token_id,
        tenant_id="" if value.tenant_id == NO_TENANT else str(value.tenant_id),
    )


def user(state: AuthSessionState, scopes: frozenset[str]) -> pb.GetUserInfoResponse:
    knows_email = "email" in scopes and bool(state.email)
    return pb.GetUserInfoResponse(
        subject=str(state.account_id),
        email=state.email if knows_email else "",
        email_verified=knows_email and state.email_verified,
        name=state.display_name if "profile" in scopes else "",
    )
