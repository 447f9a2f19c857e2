"""The RPCs of the authorization server."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from google.protobuf.duration_pb2 import Duration

from skein.auth.v1 import oauth_pb2 as pb
from skein_auth.errors import InvalidClient
from skein_auth.exchange.authenticator import Authenticator
from skein_auth.oauth.authorizations import Answer, AuthorizationParameters, AuthorizationPrompt, Authorizations
from skein_auth.oauth.device_authorization import INTERVAL, DeviceFlow
from skein_auth.oauth.token_endpoint import TokenEndpoint, TokenIntrospection, TokenResponse
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import AUTH_METHOD_NONE, KNOWN_SCOPES, ClientCredentials
from skein_auth.oauth_clients.registry import ClientRegistry
from skein_auth.signing.access_tokens import AccessTokens
from skein_kit.calls.call import Context, caller
from skein_kit.database.transactions import NO_TENANT
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import to_timestamp


class OAuthHandlers:
    """The authorization server."""

    def __init__(
        self,
        *,
        tokens: AccessTokens,
        clients: ClientRegistry,
        authorizations: Authorizations,
        devices: DeviceFlow,
        endpoint: TokenEndpoint,
        introspector: Authenticator,
    ) -> None:
        self._tokens = tokens
        self._clients = clients
        self._authorizations = authorizations
        self._devices = devices
        self._endpoint = endpoint
        self._introspector = introspector

    async def GetServerMetadata(
        self, request: pb.GetServerMetadataRequest, context: Context
    ) -> pb.GetServerMetadataResponse:
        tokens = self._tokens
        return pb.GetServerMetadataResponse(
            issuer=tokens.issuer(),
            resources=tokens.resources(),
            scopes=sorted(KNOWN_SCOPES),
            registration_open=self._clients.is_registration_open,
            accepts_identity_assertions=bool(self._endpoint.identity_assertions.issuers),
        )

    async def CreateAuthorization(
        self, request: pb.CreateAuthorizationRequest, context: Context
    ) -> pb.CreateAuthorizationResponse:
        parameters = AuthorizationParameters(
            client_id=request.client_id,
            redirect_uri=request.redirect_uri,
            response_type=request.response_type,
            response_mode=request.response_mode,
            scope=request.scope,
            resources=tuple(request.resources),
            state=request.state,
            nonce=request.nonce,
            code_challenge=request.code_challenge,
            code_challenge_method=request.code_challenge_method,
            prompt=request.prompt,
        )
        result = await self._authorizations.create(parameters)
        if isinstance(result, str):
            return pb.CreateAuthorizationResponse(redirect_url=result)
        return pb.CreateAuthorizationResponse(prompt=_prompt(result))

    async def ApproveAuthorization(
        self, request: pb.ApproveAuthorizationRequest, context: Context
    ) -> pb.ApproveAuthorizationResponse:
        url = await self._authorizations.approve(caller(context), request.handle, _answer(request))
        return pb.ApproveAuthorizationResponse(redirect_url=url)

    async def ExchangeToken(self, request: pb.ExchangeTokenRequest, context: Context) -> pb.ExchangeTokenResponse:
        credentials, resources = _credentials(request.client), request.resources
        match request.WhichOneof("grant"):
            case "authorization_code":
                code = request.authorization_code
                response = await self._endpoint.redeem_code(
                    credentials,
                    code=code.code,
                    redirect_uri=code.redirect_uri,
                    verifier=code.code_verifier,
                    resources=resources,
                )
            case "refresh_token":
                token = request.refresh_token
                response = await self._endpoint.refresh(
                    credentials, token.refresh_token, scope=token.scope, resources=resources
                )
            case "client_credentials":
                response = await self._endpoint.issue_to_service_account(
                    credentials, scope=request.client_credentials.scope, resources=resources
                )
            case "identity_assertion":
                grant = request.identity_assertion
                response = await self._endpoint.redeem_identity_assertion(
                    credentials, grant.assertion, scope=grant.scope, resources=resources
                )
            case _:
                device_code = request.device_code.device_code
                response = await self._endpoint.redeem_device_code(credentials, device_code, resources=resources)
        return _token_response(response)

    async def StartDeviceAuthorization(
        self, request: pb.StartDeviceAuthorizationRequest, context: Context
    ) -> pb.StartDeviceAuthorizationResponse:
        token, user_code = await self._devices.start(
            _credentials(request.client), scope=request.scope, resources=request.resources
        )
        return pb.StartDeviceAuthorizationResponse(
            device_code=token.encode(),
            user_code=user_code,
            expires_in=Duration(seconds=int(self._devices.lifetime.total_seconds())),
            interval=Duration(seconds=int(INTERVAL.total_seconds())),
        )

    async def GetDeviceAuthorization(
        self, request: pb.GetDeviceAuthorizationRequest, context: Context
    ) -> pb.GetDeviceAuthorizationResponse:
        pending = await self._devices.find_pending(caller(context), request.user_code)
        return pb.GetDeviceAuthorizationResponse(
            client_id=pending.device.client_id,
            client_name=pending.client_name or pending.device.client_id,
            client_uri=pending.client_uri,
            scopes=sorted(pending.device.scopes),
            expire_time=to_timestamp(pending.device.expire_time),
        )

    async def ApproveDevice(self, request: pb.ApproveDeviceRequest, context: Context) -> pb.ApproveDeviceResponse:
        await self._devices.record_answer(caller(context), request.user_code, _answer(request))
        return pb.ApproveDeviceResponse()

    async def RevokeToken(self, request: pb.RevokeTokenRequest, context: Context) -> pb.RevokeTokenResponse:
        await self._endpoint.revoke(_credentials(request.client), request.token)
        return pb.RevokeTokenResponse()

    async def IntrospectToken(self, request: pb.IntrospectTokenRequest, context: Context) -> pb.IntrospectTokenResponse:
        client = requester = None
        if request.bearer:
            identity = await self._introspector.authenticate_bearer(request.bearer, None, now())
            requester = identity.caller
            if requester.tenant_id is None or "keys.read" not in requester.permissions:
                raise InvalidClient
        else:
            client = await self._clients.authenticate(_credentials(request.client))
            if client.token_endpoint_auth_method == AUTH_METHOD_NONE:
                raise InvalidClient
        introspection = await self._endpoint.introspect(client, requester, request.token)
        return _introspection(introspection, self._tokens.issuer())

    async def GetUserInfo(self, request: pb.GetUserInfoRequest, context: Context) -> pb.GetUserInfoResponse:
        state, scopes = await self._endpoint.get_user(request.access_token)
        knows_email = "email" in scopes and bool(state.email)
        return pb.GetUserInfoResponse(
            subject=str(state.account_id),
            email=state.email if knows_email else "",
            email_verified=knows_email and state.email_verified,
            name=state.display_name if "profile" in scopes else "",
        )


def _credentials(message: pb.ClientAuthentication) -> ClientCredentials:
    return ClientCredentials(
        client_id=message.client_id,
        client_secret=message.client_secret,
        method=message.method,
        client_assertion=message.client_assertion,
    )


def _answer(request: pb.ApproveAuthorizationRequest | pb.ApproveDeviceRequest) -> Answer:
    tenant_id = UUID(request.tenant_id) if request.tenant_id else None
    return Answer(is_approved=request.approved, scopes=tuple(request.scopes), tenant_id=tenant_id)


def _prompt(value: AuthorizationPrompt) -> pb.AuthorizationPrompt:
    host, origin = clients.redirect_target(value.request.redirect_uri)
    return pb.AuthorizationPrompt(
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


def _token_response(value: TokenResponse) -> pb.ExchangeTokenResponse:
    return pb.ExchangeTokenResponse(
        access_token=value.access_token,
        token_type="Bearer",  # noqa: S106 - its name in OAuth.
        expires_in=Duration(seconds=value.seconds),
        refresh_token=value.refresh_token,
        scope=value.scope,
        id_token=value.id_token,
    )


def _introspection(value: TokenIntrospection | None, issuer: str) -> pb.IntrospectTokenResponse:
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
