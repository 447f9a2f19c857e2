"""Applications, questions and tokens as protobuf messages. What is secret passes here once, on its way out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration

from skein.auth.v1 import oauth_pb2 as pb
from skein_auth.errors import InvalidClient
from skein_auth.oauth.device_authorization import INTERVAL
from skein_auth.oauth_clients import model as clients
from skein_kit.database.transactions import NO_TENANT
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from skein_auth.auth_sessions.model import AuthSessionState
    from skein_auth.oauth.authorizations import AuthorizationPrompt
    from skein_auth.oauth.device_store import PendingDevice
    from skein_auth.oauth.token_endpoint import TokenIntrospection, TokenResponse
    from skein_kit.identity.bearer_token import BearerToken
    from skein_kit.identity.identity_token import Caller


def authorization(found: AuthorizationPrompt | str) -> pb.CreateAuthorizationResponse:
    if isinstance(found, str):
        return pb.CreateAuthorizationResponse(redirect_url=found)
    host, origin = clients.redirect_place(found.asked.redirect_uri)
    return pb.CreateAuthorizationResponse(
        prompt=pb.AuthorizationPrompt(
            handle=found.handle,
            client_id=found.client.client_id,
            client_name=found.client.name,
            client_uri=found.client.client_uri,
            redirect_host=host,
            redirect_origin=origin,
            scopes=found.asked.scopes,
            resources=found.asked.resources,
            expire_time=well_known_types.to_timestamp(datetime.fromtimestamp(found.asked.expire_time, UTC)),
            prompt=found.prompt,
        )
    )


def given(found: TokenResponse) -> pb.ExchangeTokenResponse:
    return pb.ExchangeTokenResponse(
        access_token=found.access_token,
        token_type="Bearer",  # noqa: S106 - its name in OAuth.
        expires_in=Duration(seconds=found.seconds),
        refresh_token=found.refresh_token,
        scope=found.scope,
        id_token=found.id_token,
    )


def device_codes(token: BearerToken, user_code: str, lifetime: timedelta) -> pb.StartDeviceAuthorizationResponse:
    return pb.StartDeviceAuthorizationResponse(
        device_code=token.text(),
        user_code=user_code,
        expires_in=Duration(seconds=int(lifetime.total_seconds())),
        interval=Duration(seconds=int(INTERVAL.total_seconds())),
    )


def device(shown: PendingDevice) -> pb.GetDeviceAuthorizationResponse:
    return pb.GetDeviceAuthorizationResponse(
        client_id=shown.device.client_id,
        client_name=shown.client_name or shown.device.client_id,
        client_uri=shown.client_uri,
        scopes=sorted(shown.device.scopes),
        expire_time=well_known_types.to_timestamp(shown.device.expire_time),
    )


def worth(found: TokenIntrospection | None, issuer: str) -> pb.IntrospectTokenResponse:
    """Say what a token is worth; of None nothing but that it is not active."""
    if found is None:
        return pb.IntrospectTokenResponse(active=False)
    return pb.IntrospectTokenResponse(
        active=True,
        scope=" ".join(sorted(found.scopes)),
        client_id=found.client_id,
        token_type=found.kind,
        expire_time=well_known_types.to_timestamp(found.expire_time),
        issue_time=well_known_types.to_timestamp(found.issue_time),
        subject=found.subject,
        audiences=found.audiences,
        issuer=issuer,
        token_id=found.token_id,
        tenant_id="" if found.tenant_id == NO_TENANT else str(found.tenant_id),
    )


def user(standing: AuthSessionState, scopes: frozenset[str]) -> pb.GetUserInfoResponse:
    knows_email = "email" in scopes and bool(standing.email)
    return pb.GetUserInfoResponse(
        subject=str(standing.account_id),
        email=standing.email if knows_email else "",
        email_verified=knows_email and standing.email_verified,
        name=standing.display_name if "profile" in scopes else "",
    )


def may_introspect(caller: Caller) -> Caller:
    """Refuse a caller that may not look at the tokens of its tenant."""
    if caller.tenant_id is None or "keys.read" not in caller.permissions:
        raise InvalidClient
    return caller
