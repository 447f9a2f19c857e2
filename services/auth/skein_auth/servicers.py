"""The servicers of auth's gRPC services. Each RPC is delegated to the feature that handles it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2, auth_pb2, auth_pb2_grpc, oauth_pb2, oauth_pb2_grpc

if TYPE_CHECKING:
    from skein_auth.accounts.rpc import AccountHandlers
    from skein_auth.api_keys.rpc import ApiKeyHandlers
    from skein_auth.audit.rpc import AuditHandlers
    from skein_auth.auth_sessions.rpc import AuthSessionHandlers
    from skein_auth.exchange.rpc import ExchangeHandlers
    from skein_auth.federation.rpc import FederationHandlers
    from skein_auth.login.rpc import LoginHandlers
    from skein_auth.maintenance.rpc import MaintenanceHandlers
    from skein_auth.oauth.rpc import OAuthHandlers
    from skein_auth.oauth_clients.rpc import OAuthClientHandlers
    from skein_auth.revocation.rpc import RevocationHandlers
    from skein_auth.second_factor.rpc import SecondFactorHandlers
    from skein_auth.service_accounts.rpc import ServiceAccountHandlers
    from skein_auth.signing.rpc import SigningKeyHandlers
    from skein_kit.calls.call import Context


class AuthServicer(auth_pb2_grpc.AuthServiceServicer):
    """Accounts, login, keys and clients."""

    def __init__(  # noqa: PLR0913 - one argument for each feature.
        self,
        *,
        accounts: AccountHandlers,
        login: LoginHandlers,
        auth_sessions: AuthSessionHandlers,
        audit: AuditHandlers,
        api_keys: ApiKeyHandlers,
        signing_keys: SigningKeyHandlers,
        exchange: ExchangeHandlers,
        revocation: RevocationHandlers,
        oauth_clients: OAuthClientHandlers,
        service_accounts: ServiceAccountHandlers,
        federation: FederationHandlers,
        second_factor: SecondFactorHandlers,
    ) -> None:
        self._accounts = accounts
        self._login = login
        self._auth_sessions = auth_sessions
        self._audit = audit
        self._api_keys = api_keys
        self._signing_keys = signing_keys
        self._exchange = exchange
        self._revocation = revocation
        self._oauth_clients = oauth_clients
        self._service_accounts = service_accounts
        self._federation = federation
        self._second_factor = second_factor

    async def GetMe(self, request: auth_pb2.GetMeRequest, context: Context) -> auth_pb2.GetMeResponse:
        return await self._accounts.GetMe(request, context)

    async def SignUp(self, request: accounts_pb2.SignUpRequest, context: Context) -> accounts_pb2.SignUpResponse:
        return await self._accounts.SignUp(request, context)

    async def VerifyEmail(
        self, request: accounts_pb2.VerifyEmailRequest, context: Context
    ) -> accounts_pb2.VerifyEmailResponse:
        return await self._accounts.VerifyEmail(request, context)

    async def RequestEmailVerification(
        self, request: accounts_pb2.RequestEmailVerificationRequest, context: Context
    ) -> accounts_pb2.RequestEmailVerificationResponse:
        return await self._accounts.RequestEmailVerification(request, context)

    async def RequestPasswordReset(
        self, request: accounts_pb2.RequestPasswordResetRequest, context: Context
    ) -> accounts_pb2.RequestPasswordResetResponse:
        return await self._accounts.RequestPasswordReset(request, context)

    async def ResetPassword(
        self, request: accounts_pb2.ResetPasswordRequest, context: Context
    ) -> accounts_pb2.ResetPasswordResponse:
        return await self._accounts.ResetPassword(request, context)

    async def UpdateMe(self, request: accounts_pb2.UpdateMeRequest, context: Context) -> accounts_pb2.UpdateMeResponse:
        return await self._accounts.UpdateMe(request, context)

    async def ChangePassword(
        self, request: accounts_pb2.ChangePasswordRequest, context: Context
    ) -> accounts_pb2.ChangePasswordResponse:
        return await self._accounts.ChangePassword(request, context)

    async def DeactivateMe(
        self, request: accounts_pb2.DeactivateMeRequest, context: Context
    ) -> accounts_pb2.DeactivateMeResponse:
        return await self._accounts.DeactivateMe(request, context)

    async def DeleteMe(self, request: accounts_pb2.DeleteMeRequest, context: Context) -> accounts_pb2.DeleteMeResponse:
        return await self._accounts.DeleteMe(request, context)

    async def CreateAccount(
        self, request: accounts_pb2.CreateAccountRequest, context: Context
    ) -> accounts_pb2.CreateAccountResponse:
        return await self._accounts.CreateAccount(request, context)

    async def GetAccount(
        self, request: accounts_pb2.GetAccountRequest, context: Context
    ) -> accounts_pb2.GetAccountResponse:
        return await self._accounts.GetAccount(request, context)

    async def ListAccounts(
        self, request: accounts_pb2.ListAccountsRequest, context: Context
    ) -> accounts_pb2.ListAccountsResponse:
        return await self._accounts.ListAccounts(request, context)

    async def UpdateAccount(
        self, request: accounts_pb2.UpdateAccountRequest, context: Context
    ) -> accounts_pb2.UpdateAccountResponse:
        return await self._accounts.UpdateAccount(request, context)

    async def DeleteAccount(
        self, request: accounts_pb2.DeleteAccountRequest, context: Context
    ) -> accounts_pb2.DeleteAccountResponse:
        return await self._accounts.DeleteAccount(request, context)

    async def CreateOneTimeToken(
        self, request: accounts_pb2.CreateOneTimeTokenRequest, context: Context
    ) -> accounts_pb2.CreateOneTimeTokenResponse:
        return await self._accounts.CreateOneTimeToken(request, context)

    async def SignIn(self, request: accounts_pb2.SignInRequest, context: Context) -> accounts_pb2.SignInResponse:
        return await self._login.SignIn(request, context)

    async def RefreshSession(
        self, request: accounts_pb2.RefreshSessionRequest, context: Context
    ) -> accounts_pb2.RefreshSessionResponse:
        return await self._auth_sessions.RefreshSession(request, context)

    async def SignOut(self, request: accounts_pb2.SignOutRequest, context: Context) -> accounts_pb2.SignOutResponse:
        return await self._auth_sessions.SignOut(request, context)

    async def ListAuthSessions(
        self, request: accounts_pb2.ListAuthSessionsRequest, context: Context
    ) -> accounts_pb2.ListAuthSessionsResponse:
        return await self._auth_sessions.ListAuthSessions(request, context)

    async def RevokeAuthSession(
        self, request: accounts_pb2.RevokeAuthSessionRequest, context: Context
    ) -> accounts_pb2.RevokeAuthSessionResponse:
        return await self._auth_sessions.RevokeAuthSession(request, context)

    async def ListAuditEvents(
        self, request: accounts_pb2.ListAuditEventsRequest, context: Context
    ) -> accounts_pb2.ListAuditEventsResponse:
        return await self._audit.ListAuditEvents(request, context)

    async def ListMyAuditEvents(
        self, request: accounts_pb2.ListMyAuditEventsRequest, context: Context
    ) -> accounts_pb2.ListMyAuditEventsResponse:
        return await self._audit.ListMyAuditEvents(request, context)

    async def CreateApiKey(
        self, request: auth_pb2.CreateApiKeyRequest, context: Context
    ) -> auth_pb2.CreateApiKeyResponse:
        return await self._api_keys.CreateApiKey(request, context)

    async def ListApiKeys(self, request: auth_pb2.ListApiKeysRequest, context: Context) -> auth_pb2.ListApiKeysResponse:
        return await self._api_keys.ListApiKeys(request, context)

    async def RevokeApiKey(
        self, request: auth_pb2.RevokeApiKeyRequest, context: Context
    ) -> auth_pb2.RevokeApiKeyResponse:
        return await self._api_keys.RevokeApiKey(request, context)

    async def AdoptApiKey(
        self, request: accounts_pb2.AdoptApiKeyRequest, context: Context
    ) -> auth_pb2.AdoptApiKeyResponse:
        return await self._api_keys.AdoptApiKey(request, context)

    async def RotateApiKey(
        self, request: accounts_pb2.RotateApiKeyRequest, context: Context
    ) -> auth_pb2.RotateApiKeyResponse:
        return await self._api_keys.RotateApiKey(request, context)

    async def SetLegacyToken(
        self, request: accounts_pb2.SetLegacyTokenRequest, context: Context
    ) -> accounts_pb2.SetLegacyTokenResponse:
        return await self._api_keys.SetLegacyToken(request, context)

    async def ListSigningKeys(
        self, request: auth_pb2.ListSigningKeysRequest, context: Context
    ) -> auth_pb2.ListSigningKeysResponse:
        return await self._signing_keys.ListSigningKeys(request, context)

    async def RotateSigningKey(
        self, request: auth_pb2.RotateSigningKeyRequest, context: Context
    ) -> auth_pb2.RotateSigningKeyResponse:
        return await self._signing_keys.RotateSigningKey(request, context)

    async def Introspect(self, request: auth_pb2.IntrospectRequest, context: Context) -> auth_pb2.IntrospectResponse:
        return await self._exchange.Introspect(request, context)

    async def RevokeCredentials(
        self, request: accounts_pb2.RevokeCredentialsRequest, context: Context
    ) -> accounts_pb2.RevokeCredentialsResponse:
        return await self._revocation.RevokeCredentials(request, context)

    async def ImportClient(
        self, request: oauth_pb2.ImportClientRequest, context: Context
    ) -> oauth_pb2.ImportClientResponse:
        return await self._oauth_clients.ImportClient(request, context)

    async def CreateServiceAccount(
        self, request: accounts_pb2.CreateServiceAccountRequest, context: Context
    ) -> accounts_pb2.CreateServiceAccountResponse:
        return await self._service_accounts.CreateServiceAccount(request, context)

    async def GetServiceAccount(
        self, request: accounts_pb2.GetServiceAccountRequest, context: Context
    ) -> accounts_pb2.GetServiceAccountResponse:
        return await self._service_accounts.GetServiceAccount(request, context)

    async def ListServiceAccounts(
        self, request: accounts_pb2.ListServiceAccountsRequest, context: Context
    ) -> accounts_pb2.ListServiceAccountsResponse:
        return await self._service_accounts.ListServiceAccounts(request, context)

    async def UpdateServiceAccount(
        self, request: accounts_pb2.UpdateServiceAccountRequest, context: Context
    ) -> accounts_pb2.UpdateServiceAccountResponse:
        return await self._service_accounts.UpdateServiceAccount(request, context)

    async def AdoptServiceAccount(
        self, request: accounts_pb2.AdoptServiceAccountRequest, context: Context
    ) -> accounts_pb2.AdoptServiceAccountResponse:
        return await self._service_accounts.AdoptServiceAccount(request, context)

    async def DeleteServiceAccount(
        self, request: accounts_pb2.DeleteServiceAccountRequest, context: Context
    ) -> accounts_pb2.DeleteServiceAccountResponse:
        return await self._service_accounts.DeleteServiceAccount(request, context)

    async def SignInWithIdentity(
        self, request: accounts_pb2.SignInWithIdentityRequest, context: Context
    ) -> accounts_pb2.SignInWithIdentityResponse:
        return await self._federation.SignInWithIdentity(request, context)

    async def LinkIdentity(
        self, request: accounts_pb2.LinkIdentityRequest, context: Context
    ) -> accounts_pb2.LinkIdentityResponse:
        return await self._federation.LinkIdentity(request, context)

    async def UnlinkIdentity(
        self, request: accounts_pb2.UnlinkIdentityRequest, context: Context
    ) -> accounts_pb2.UnlinkIdentityResponse:
        return await self._federation.UnlinkIdentity(request, context)

    async def ListIdentities(
        self, request: accounts_pb2.ListIdentitiesRequest, context: Context
    ) -> accounts_pb2.ListIdentitiesResponse:
        return await self._federation.ListIdentities(request, context)

    async def StartTotp(
        self, request: accounts_pb2.StartTotpRequest, context: Context
    ) -> accounts_pb2.StartTotpResponse:
        return await self._second_factor.StartTotp(request, context)

    async def ConfirmTotp(
        self, request: accounts_pb2.ConfirmTotpRequest, context: Context
    ) -> accounts_pb2.ConfirmTotpResponse:
        return await self._second_factor.ConfirmTotp(request, context)

    async def DisableTotp(
        self, request: accounts_pb2.DisableTotpRequest, context: Context
    ) -> accounts_pb2.DisableTotpResponse:
        return await self._second_factor.DisableTotp(request, context)


class AuthInternalServicer(auth_pb2_grpc.AuthInternalServiceServicer):
    """What the cluster's own services ask."""

    def __init__(
        self, *, exchange: ExchangeHandlers, accounts: AccountHandlers, maintenance: MaintenanceHandlers
    ) -> None:
        self._exchange = exchange
        self._accounts = accounts
        self._maintenance = maintenance

    async def Exchange(self, request: auth_pb2.ExchangeRequest, context: Context) -> auth_pb2.ExchangeResponse:
        return await self._exchange.Exchange(request, context)

    async def GetCheckKeys(
        self, request: auth_pb2.GetCheckKeysRequest, context: Context
    ) -> auth_pb2.GetCheckKeysResponse:
        return await self._exchange.GetCheckKeys(request, context)

    async def GetAccountState(
        self, request: auth_pb2.GetAccountStateRequest, context: Context
    ) -> auth_pb2.GetAccountStateResponse:
        return await self._accounts.GetAccountState(request, context)

    async def DeleteExpired(
        self, request: auth_pb2.DeleteExpiredRequest, context: Context
    ) -> auth_pb2.DeleteExpiredResponse:
        return await self._maintenance.DeleteExpired(request, context)

    async def PurgeTenant(self, request: auth_pb2.PurgeTenantRequest, context: Context) -> auth_pb2.PurgeTenantResponse:
        return await self._maintenance.PurgeTenant(request, context)


class OAuthServicer(oauth_pb2_grpc.OAuthServiceServicer):
    """The authorization server."""

    def __init__(self, *, oauth: OAuthHandlers, clients: OAuthClientHandlers) -> None:
        self._oauth = oauth
        self._clients = clients

    async def GetServerMetadata(
        self, request: oauth_pb2.GetServerMetadataRequest, context: Context
    ) -> oauth_pb2.GetServerMetadataResponse:
        return await self._oauth.GetServerMetadata(request, context)

    async def CreateAuthorization(
        self, request: oauth_pb2.CreateAuthorizationRequest, context: Context
    ) -> oauth_pb2.CreateAuthorizationResponse:
        return await self._oauth.CreateAuthorization(request, context)

    async def ApproveAuthorization(
        self, request: oauth_pb2.ApproveAuthorizationRequest, context: Context
    ) -> oauth_pb2.ApproveAuthorizationResponse:
        return await self._oauth.ApproveAuthorization(request, context)

    async def ExchangeToken(
        self, request: oauth_pb2.ExchangeTokenRequest, context: Context
    ) -> oauth_pb2.ExchangeTokenResponse:
        return await self._oauth.ExchangeToken(request, context)

    async def StartDeviceAuthorization(
        self, request: oauth_pb2.StartDeviceAuthorizationRequest, context: Context
    ) -> oauth_pb2.StartDeviceAuthorizationResponse:
        return await self._oauth.StartDeviceAuthorization(request, context)

    async def GetDeviceAuthorization(
        self, request: oauth_pb2.GetDeviceAuthorizationRequest, context: Context
    ) -> oauth_pb2.GetDeviceAuthorizationResponse:
        return await self._oauth.GetDeviceAuthorization(request, context)

    async def ApproveDevice(
        self, request: oauth_pb2.ApproveDeviceRequest, context: Context
    ) -> oauth_pb2.ApproveDeviceResponse:
        return await self._oauth.ApproveDevice(request, context)

    async def RevokeToken(
        self, request: oauth_pb2.RevokeTokenRequest, context: Context
    ) -> oauth_pb2.RevokeTokenResponse:
        return await self._oauth.RevokeToken(request, context)

    async def IntrospectToken(
        self, request: oauth_pb2.IntrospectTokenRequest, context: Context
    ) -> oauth_pb2.IntrospectTokenResponse:
        return await self._oauth.IntrospectToken(request, context)

    async def GetUserInfo(
        self, request: oauth_pb2.GetUserInfoRequest, context: Context
    ) -> oauth_pb2.GetUserInfoResponse:
        return await self._oauth.GetUserInfo(request, context)

    async def RegisterClient(
        self, request: oauth_pb2.RegisterClientRequest, context: Context
    ) -> oauth_pb2.RegisterClientResponse:
        return await self._clients.RegisterClient(request, context)

    async def GetClient(self, request: oauth_pb2.GetClientRequest, context: Context) -> oauth_pb2.GetClientResponse:
        return await self._clients.GetClient(request, context)

    async def UpdateClient(
        self, request: oauth_pb2.UpdateClientRequest, context: Context
    ) -> oauth_pb2.UpdateClientResponse:
        return await self._clients.UpdateClient(request, context)

    async def DeleteClient(
        self, request: oauth_pb2.DeleteClientRequest, context: Context
    ) -> oauth_pb2.DeleteClientResponse:
        return await self._clients.DeleteClient(request, context)
