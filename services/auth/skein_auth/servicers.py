"""The methods of each gRPC service of auth, each that of the feature which answers it."""

from __future__ import annotations

from skein.auth.v1.auth_methods import AuthInternalServiceMethods, AuthServiceMethods
from skein.auth.v1.oauth_methods import OAuthServiceMethods
from skein_auth.accounts.rpc import AccountHandlers
from skein_auth.api_keys.rpc import ApiKeyHandlers
from skein_auth.audit.rpc import AuditHandlers
from skein_auth.auth_sessions.rpc import AuthSessionHandlers
from skein_auth.erasure_certificates.rpc import ErasureCertificateHandlers
from skein_auth.exchange.rpc import ExchangeHandlers
from skein_auth.federation.rpc import FederationHandlers
from skein_auth.login.rpc import LoginHandlers
from skein_auth.maintenance.rpc import MaintenanceHandlers
from skein_auth.oauth.rpc import OAuthHandlers
from skein_auth.oauth_clients.rpc import OAuthClientHandlers
from skein_auth.recall_receipts import RecallReceiptHandlers
from skein_auth.revocation.rpc import RevocationHandlers
from skein_auth.second_factor.rpc import SecondFactorHandlers
from skein_auth.service_accounts.rpc import ServiceAccountHandlers
from skein_auth.signing.rpc import SigningKeyHandlers


def auth_service(  # noqa: PLR0913 - one for each feature.
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
    certificates: ErasureCertificateHandlers,
) -> AuthServiceMethods:
    """AuthService: accounts, login, keys and clients."""
    return AuthServiceMethods(
        GetMe=accounts.GetMe,
        SignUp=accounts.SignUp,
        VerifyEmail=accounts.VerifyEmail,
        RequestEmailVerification=accounts.RequestEmailVerification,
        RequestPasswordReset=accounts.RequestPasswordReset,
        ResetPassword=accounts.ResetPassword,
        UpdateMe=accounts.UpdateMe,
        ChangePassword=accounts.ChangePassword,
        DeactivateMe=accounts.DeactivateMe,
        DeleteMe=accounts.DeleteMe,
        CreateAccount=accounts.CreateAccount,
        GetAccount=accounts.GetAccount,
        ListAccounts=accounts.ListAccounts,
        UpdateAccount=accounts.UpdateAccount,
        DeleteAccount=accounts.DeleteAccount,
        CreateOneTimeToken=accounts.CreateOneTimeToken,
        SignIn=login.SignIn,
        RefreshSession=auth_sessions.RefreshSession,
        SignOut=auth_sessions.SignOut,
        ListAuthSessions=auth_sessions.ListAuthSessions,
        RevokeAuthSession=auth_sessions.RevokeAuthSession,
        ListAuditEvents=audit.ListAuditEvents,
        ListMyAuditEvents=audit.ListMyAuditEvents,
        CreateApiKey=api_keys.CreateApiKey,
        ListApiKeys=api_keys.ListApiKeys,
        RevokeApiKey=api_keys.RevokeApiKey,
        AdoptApiKey=api_keys.AdoptApiKey,
        RotateApiKey=api_keys.RotateApiKey,
        SetLegacyToken=api_keys.SetLegacyToken,
        ListSigningKeys=signing_keys.ListSigningKeys,
        RotateSigningKey=signing_keys.RotateSigningKey,
        Introspect=exchange.Introspect,
        RevokeCredentials=revocation.RevokeCredentials,
        ImportClient=oauth_clients.ImportClient,
        CreateServiceAccount=service_accounts.CreateServiceAccount,
        GetServiceAccount=service_accounts.GetServiceAccount,
        ListServiceAccounts=service_accounts.ListServiceAccounts,
        UpdateServiceAccount=service_accounts.UpdateServiceAccount,
        AdoptServiceAccount=service_accounts.AdoptServiceAccount,
        DeleteServiceAccount=service_accounts.DeleteServiceAccount,
        SignInWithIdentity=federation.SignInWithIdentity,
        LinkIdentity=federation.LinkIdentity,
        UnlinkIdentity=federation.UnlinkIdentity,
        ListIdentities=federation.ListIdentities,
        StartTotp=second_factor.StartTotp,
        ConfirmTotp=second_factor.ConfirmTotp,
        DisableTotp=second_factor.DisableTotp,
        GetErasureCertificate=certificates.GetErasureCertificate,
        ListErasureCertificates=certificates.ListErasureCertificates,
    )


def auth_internal_service(
    *,
    exchange: ExchangeHandlers,
    accounts: AccountHandlers,
    maintenance: MaintenanceHandlers,
    certificates: ErasureCertificateHandlers,
    recall_receipts: RecallReceiptHandlers,
) -> AuthInternalServiceMethods:
    """AuthInternalService: calls of the other services."""
    return AuthInternalServiceMethods(
        Exchange=exchange.Exchange,
        GetCheckKeys=exchange.GetCheckKeys,
        GetAccountState=accounts.GetAccountState,
        ListDueTenants=maintenance.ListDueTenants,
        DeleteExpired=maintenance.DeleteExpired,
        ChainAuditEvents=maintenance.ChainAuditEvents,
        PurgeTenant=maintenance.PurgeTenant,
        IssueErasureCertificate=certificates.IssueErasureCertificate,
        IssueDeletionCertificate=certificates.IssueDeletionCertificate,
        SignRecallReceipts=recall_receipts.SignRecallReceipts,
    )


def oauth_service(
    *,
    oauth: OAuthHandlers,
    clients: OAuthClientHandlers,
) -> OAuthServiceMethods:
    """OAuthService: the authorization server."""
    return OAuthServiceMethods(
        GetServerMetadata=oauth.GetServerMetadata,
        CreateAuthorization=oauth.CreateAuthorization,
        ApproveAuthorization=oauth.ApproveAuthorization,
        ExchangeToken=oauth.ExchangeToken,
        StartDeviceAuthorization=oauth.StartDeviceAuthorization,
        GetDeviceAuthorization=oauth.GetDeviceAuthorization,
        ApproveDevice=oauth.ApproveDevice,
        RevokeToken=oauth.RevokeToken,
        IntrospectToken=oauth.IntrospectToken,
        GetUserInfo=oauth.GetUserInfo,
        RegisterClient=clients.RegisterClient,
        GetClient=clients.GetClient,
        UpdateClient=clients.UpdateClient,
        DeleteClient=clients.DeleteClient,
    )
