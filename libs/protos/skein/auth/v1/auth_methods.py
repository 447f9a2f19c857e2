"""The methods of the services of skein/auth/v1/auth.proto, for the code that serves them. Generated; do not edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from skein.auth.v1 import accounts_pb2
from skein.auth.v1 import auth_pb2
from skein.auth.v1 import certificates_pb2
from skein.auth.v1 import oauth_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthServiceMethods:
    """What answers each RPC of AuthService."""

    SignUp: Callable[[accounts_pb2.SignUpRequest, Any], Awaitable[accounts_pb2.SignUpResponse]]
    VerifyEmail: Callable[[accounts_pb2.VerifyEmailRequest, Any], Awaitable[accounts_pb2.VerifyEmailResponse]]
    RequestEmailVerification: Callable[[accounts_pb2.RequestEmailVerificationRequest, Any], Awaitable[accounts_pb2.RequestEmailVerificationResponse]]
    RequestPasswordReset: Callable[[accounts_pb2.RequestPasswordResetRequest, Any], Awaitable[accounts_pb2.RequestPasswordResetResponse]]
    ResetPassword: Callable[[accounts_pb2.ResetPasswordRequest, Any], Awaitable[accounts_pb2.ResetPasswordResponse]]
    SignIn: Callable[[accounts_pb2.SignInRequest, Any], Awaitable[accounts_pb2.SignInResponse]]
    SignInWithIdentity: Callable[[accounts_pb2.SignInWithIdentityRequest, Any], Awaitable[accounts_pb2.SignInWithIdentityResponse]]
    RefreshSession: Callable[[accounts_pb2.RefreshSessionRequest, Any], Awaitable[accounts_pb2.RefreshSessionResponse]]
    SignOut: Callable[[accounts_pb2.SignOutRequest, Any], Awaitable[accounts_pb2.SignOutResponse]]
    UpdateMe: Callable[[accounts_pb2.UpdateMeRequest, Any], Awaitable[accounts_pb2.UpdateMeResponse]]
    ChangePassword: Callable[[accounts_pb2.ChangePasswordRequest, Any], Awaitable[accounts_pb2.ChangePasswordResponse]]
    DeactivateMe: Callable[[accounts_pb2.DeactivateMeRequest, Any], Awaitable[accounts_pb2.DeactivateMeResponse]]
    DeleteMe: Callable[[accounts_pb2.DeleteMeRequest, Any], Awaitable[accounts_pb2.DeleteMeResponse]]
    StartTotp: Callable[[accounts_pb2.StartTotpRequest, Any], Awaitable[accounts_pb2.StartTotpResponse]]
    ConfirmTotp: Callable[[accounts_pb2.ConfirmTotpRequest, Any], Awaitable[accounts_pb2.ConfirmTotpResponse]]
    DisableTotp: Callable[[accounts_pb2.DisableTotpRequest, Any], Awaitable[accounts_pb2.DisableTotpResponse]]
    ListAuthSessions: Callable[[accounts_pb2.ListAuthSessionsRequest, Any], Awaitable[accounts_pb2.ListAuthSessionsResponse]]
    RevokeAuthSession: Callable[[accounts_pb2.RevokeAuthSessionRequest, Any], Awaitable[accounts_pb2.RevokeAuthSessionResponse]]
    LinkIdentity: Callable[[accounts_pb2.LinkIdentityRequest, Any], Awaitable[accounts_pb2.LinkIdentityResponse]]
    UnlinkIdentity: Callable[[accounts_pb2.UnlinkIdentityRequest, Any], Awaitable[accounts_pb2.UnlinkIdentityResponse]]
    ListIdentities: Callable[[accounts_pb2.ListIdentitiesRequest, Any], Awaitable[accounts_pb2.ListIdentitiesResponse]]
    CreateAccount: Callable[[accounts_pb2.CreateAccountRequest, Any], Awaitable[accounts_pb2.CreateAccountResponse]]
    GetAccount: Callable[[accounts_pb2.GetAccountRequest, Any], Awaitable[accounts_pb2.GetAccountResponse]]
    ListAccounts: Callable[[accounts_pb2.ListAccountsRequest, Any], Awaitable[accounts_pb2.ListAccountsResponse]]
    UpdateAccount: Callable[[accounts_pb2.UpdateAccountRequest, Any], Awaitable[accounts_pb2.UpdateAccountResponse]]
    DeleteAccount: Callable[[accounts_pb2.DeleteAccountRequest, Any], Awaitable[accounts_pb2.DeleteAccountResponse]]
    CreateOneTimeToken: Callable[[accounts_pb2.CreateOneTimeTokenRequest, Any], Awaitable[accounts_pb2.CreateOneTimeTokenResponse]]
    RevokeCredentials: Callable[[accounts_pb2.RevokeCredentialsRequest, Any], Awaitable[accounts_pb2.RevokeCredentialsResponse]]
    SetLegacyToken: Callable[[accounts_pb2.SetLegacyTokenRequest, Any], Awaitable[accounts_pb2.SetLegacyTokenResponse]]
    ImportClient: Callable[[oauth_pb2.ImportClientRequest, Any], Awaitable[oauth_pb2.ImportClientResponse]]
    ListAuditEvents: Callable[[accounts_pb2.ListAuditEventsRequest, Any], Awaitable[accounts_pb2.ListAuditEventsResponse]]
    ListMyAuditEvents: Callable[[accounts_pb2.ListMyAuditEventsRequest, Any], Awaitable[accounts_pb2.ListMyAuditEventsResponse]]
    CreateServiceAccount: Callable[[accounts_pb2.CreateServiceAccountRequest, Any], Awaitable[accounts_pb2.CreateServiceAccountResponse]]
    GetServiceAccount: Callable[[accounts_pb2.GetServiceAccountRequest, Any], Awaitable[accounts_pb2.GetServiceAccountResponse]]
    ListServiceAccounts: Callable[[accounts_pb2.ListServiceAccountsRequest, Any], Awaitable[accounts_pb2.ListServiceAccountsResponse]]
    UpdateServiceAccount: Callable[[accounts_pb2.UpdateServiceAccountRequest, Any], Awaitable[accounts_pb2.UpdateServiceAccountResponse]]
    AdoptServiceAccount: Callable[[accounts_pb2.AdoptServiceAccountRequest, Any], Awaitable[accounts_pb2.AdoptServiceAccountResponse]]
    DeleteServiceAccount: Callable[[accounts_pb2.DeleteServiceAccountRequest, Any], Awaitable[accounts_pb2.DeleteServiceAccountResponse]]
    GetMe: Callable[[auth_pb2.GetMeRequest, Any], Awaitable[auth_pb2.GetMeResponse]]
    CreateApiKey: Callable[[auth_pb2.CreateApiKeyRequest, Any], Awaitable[auth_pb2.CreateApiKeyResponse]]
    ListApiKeys: Callable[[auth_pb2.ListApiKeysRequest, Any], Awaitable[auth_pb2.ListApiKeysResponse]]
    RevokeApiKey: Callable[[auth_pb2.RevokeApiKeyRequest, Any], Awaitable[auth_pb2.RevokeApiKeyResponse]]
    RotateApiKey: Callable[[accounts_pb2.RotateApiKeyRequest, Any], Awaitable[auth_pb2.RotateApiKeyResponse]]
    AdoptApiKey: Callable[[accounts_pb2.AdoptApiKeyRequest, Any], Awaitable[auth_pb2.AdoptApiKeyResponse]]
    Introspect: Callable[[auth_pb2.IntrospectRequest, Any], Awaitable[auth_pb2.IntrospectResponse]]
    GetErasureCertificate: Callable[[certificates_pb2.GetErasureCertificateRequest, Any], Awaitable[certificates_pb2.GetErasureCertificateResponse]]
    ListErasureCertificates: Callable[[certificates_pb2.ListErasureCertificatesRequest, Any], Awaitable[certificates_pb2.ListErasureCertificatesResponse]]
    ListSigningKeys: Callable[[auth_pb2.ListSigningKeysRequest, Any], Awaitable[auth_pb2.ListSigningKeysResponse]]
    RotateSigningKey: Callable[[auth_pb2.RotateSigningKeyRequest, Any], Awaitable[auth_pb2.RotateSigningKeyResponse]]


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthInternalServiceMethods:
    """What answers each RPC of AuthInternalService."""

    Exchange: Callable[[auth_pb2.ExchangeRequest, Any], Awaitable[auth_pb2.ExchangeResponse]]
    ListDueTenants: Callable[[auth_pb2.ListDueTenantsRequest, Any], Awaitable[auth_pb2.ListDueTenantsResponse]]
    DeleteExpired: Callable[[auth_pb2.DeleteExpiredRequest, Any], Awaitable[auth_pb2.DeleteExpiredResponse]]
    ChainAuditEvents: Callable[[auth_pb2.ChainAuditEventsRequest, Any], Awaitable[auth_pb2.ChainAuditEventsResponse]]
    PurgeTenant: Callable[[auth_pb2.PurgeTenantRequest, Any], Awaitable[auth_pb2.PurgeTenantResponse]]
    GetAccountState: Callable[[auth_pb2.GetAccountStateRequest, Any], Awaitable[auth_pb2.GetAccountStateResponse]]
    GetCheckKeys: Callable[[auth_pb2.GetCheckKeysRequest, Any], Awaitable[auth_pb2.GetCheckKeysResponse]]
    IssueErasureCertificate: Callable[[certificates_pb2.IssueErasureCertificateRequest, Any], Awaitable[certificates_pb2.IssueErasureCertificateResponse]]
    SignRecallReceipts: Callable[[certificates_pb2.SignRecallReceiptsRequest, Any], Awaitable[certificates_pb2.SignRecallReceiptsResponse]]
    IssueDeletionCertificate: Callable[[certificates_pb2.IssueDeletionCertificateRequest, Any], Awaitable[certificates_pb2.IssueDeletionCertificateResponse]]
