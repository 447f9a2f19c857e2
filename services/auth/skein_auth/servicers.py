"""The servicers of auth's gRPC services: each names the handlers of its RPCs. A missing one fails the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from skein_auth.recall_receipts.rpc import RecallReceiptHandlers
    from skein_auth.revocation.rpc import RevocationHandlers
    from skein_auth.second_factor.rpc import SecondFactorHandlers
    from skein_auth.service_accounts.rpc import ServiceAccountHandlers
    from skein_auth.signing.rpc import SigningKeyHandlers


class AuthServicer:
    """AuthService: accounts, login, keys and clients."""

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
        certificates: ErasureCertificateHandlers,
    ) -> None:
        self.GetMe = accounts.GetMe
        self.SignUp = accounts.SignUp
        self.VerifyEmail = accounts.VerifyEmail
        self.RequestEmailVerification = accounts.RequestEmailVerification
        self.RequestPasswordReset = accounts.RequestPasswordReset
        self.ResetPassword = accounts.ResetPassword
        self.UpdateMe = accounts.UpdateMe
        self.ChangePassword = accounts.ChangePassword
        self.DeactivateMe = accounts.DeactivateMe
        self.DeleteMe = accounts.DeleteMe
        self.CreateAccount = accounts.CreateAccount
        self.GetAccount = accounts.GetAccount
        self.ListAccounts = accounts.ListAccounts
        self.UpdateAccount = accounts.UpdateAccount
        self.DeleteAccount = accounts.DeleteAccount
        self.CreateOneTimeToken = accounts.CreateOneTimeToken
        self.SignIn = login.SignIn
        self.RefreshSession = auth_sessions.RefreshSession
        self.SignOut = auth_sessions.SignOut
        self.ListAuthSessions = auth_sessions.ListAuthSessions
        self.RevokeAuthSession = auth_sessions.RevokeAuthSession
        self.ListAuditEvents = audit.ListAuditEvents
        self.ListMyAuditEvents = audit.ListMyAuditEvents
        self.CreateApiKey = api_keys.CreateApiKey
        self.ListApiKeys = api_keys.ListApiKeys
        self.RevokeApiKey = api_keys.RevokeApiKey
        self.AdoptApiKey = api_keys.AdoptApiKey
        self.RotateApiKey = api_keys.RotateApiKey
        self.SetLegacyToken = api_keys.SetLegacyToken
        self.ListSigningKeys = signing_keys.ListSigningKeys
        self.RotateSigningKey = signing_keys.RotateSigningKey
        self.Introspect = exchange.Introspect
        self.RevokeCredentials = revocation.RevokeCredentials
        self.ImportClient = oauth_clients.ImportClient
        self.CreateServiceAccount = service_accounts.CreateServiceAccount
        self.GetServiceAccount = service_accounts.GetServiceAccount
        self.ListServiceAccounts = service_accounts.ListServiceAccounts
        self.UpdateServiceAccount = service_accounts.UpdateServiceAccount
        self.AdoptServiceAccount = service_accounts.AdoptServiceAccount
        self.DeleteServiceAccount = service_accounts.DeleteServiceAccount
        self.SignInWithIdentity = federation.SignInWithIdentity
        self.LinkIdentity = federation.LinkIdentity
        self.UnlinkIdentity = federation.UnlinkIdentity
        self.ListIdentities = federation.ListIdentities
        self.StartTotp = second_factor.StartTotp
        self.ConfirmTotp = second_factor.ConfirmTotp
        self.DisableTotp = second_factor.DisableTotp
        self.GetErasureCertificate = certificates.GetErasureCertificate
        self.ListErasureCertificates = certificates.ListErasureCertificates


class AuthInternalServicer:
    """AuthInternalService: calls of the other services."""

    def __init__(
        self,
        *,
        exchange: ExchangeHandlers,
        accounts: AccountHandlers,
        maintenance: MaintenanceHandlers,
        certificates: ErasureCertificateHandlers,
        recall_receipts: RecallReceiptHandlers,
    ) -> None:
        self.Exchange = exchange.Exchange
        self.GetCheckKeys = exchange.GetCheckKeys
        self.GetAccountState = accounts.GetAccountState
        self.ListDueTenants = maintenance.ListDueTenants
        self.DeleteExpired = maintenance.DeleteExpired
        self.PurgeTenant = maintenance.PurgeTenant
        self.IssueErasureCertificate = certificates.IssueErasureCertificate
        self.IssueDeletionCertificate = certificates.IssueDeletionCertificate
        self.SignRecallReceipts = recall_receipts.SignRecallReceipts


class OAuthServicer:
    """OAuthService: the authorization server."""

    def __init__(self, *, oauth: OAuthHandlers, clients: OAuthClientHandlers) -> None:
        self.GetServerMetadata = oauth.GetServerMetadata
        self.CreateAuthorization = oauth.CreateAuthorization
        self.ApproveAuthorization = oauth.ApproveAuthorization
        self.ExchangeToken = oauth.ExchangeToken
        self.StartDeviceAuthorization = oauth.StartDeviceAuthorization
        self.GetDeviceAuthorization = oauth.GetDeviceAuthorization
        self.ApproveDevice = oauth.ApproveDevice
        self.RevokeToken = oauth.RevokeToken
        self.IntrospectToken = oauth.IntrospectToken
        self.GetUserInfo = oauth.GetUserInfo
        self.RegisterClient = clients.RegisterClient
        self.GetClient = clients.GetClient
        self.UpdateClient = clients.UpdateClient
        self.DeleteClient = clients.DeleteClient
