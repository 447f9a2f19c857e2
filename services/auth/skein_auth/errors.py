"""The errors of the auth service."""

from __future__ import annotations

from skein_kit.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)


class ApiKeyNotFound(NotFound):
    """The tenant has no such API key."""

    reason = "API_KEY_NOT_FOUND"


class ApiKeyInactive(FailedPrecondition):
    """The key is revoked, expired or rotated; create a new one."""

    reason = "API_KEY_INACTIVE"


class ServiceAccountNotFound(NotFound):
    """The tenant has no such service account."""

    reason = "SERVICE_ACCOUNT_NOT_FOUND"


class TenantNotFound(NotFound):
    """No such tenant."""

    reason = "TENANT_NOT_FOUND"


class TooManyAttempts(ResourceExhausted):
    """Too many attempts of this account, client or address; wait as long as RetryInfo says."""

    reason = "TOO_MANY_ATTEMPTS"


class InvalidRequest(InvalidArgument):
    """The request is damaged, incomplete or too old; start again at the application."""

    reason = "OAUTH_INVALID_REQUEST"


class InvalidClient(Unauthenticated):
    """The client is unknown, or its credentials or authentication method are wrong."""

    reason = "OAUTH_INVALID_CLIENT"


class ClientUnknown(InvalidArgument):
    """No such application is registered here."""

    reason = "OAUTH_INVALID_CLIENT"


class InvalidGrant(InvalidArgument):
    """The code or token is unknown, spent, expired or revoked, or was not given to this client in this way."""

    reason = "OAUTH_INVALID_GRANT"


class UnauthorizedClient(InvalidArgument):
    """The client is not registered for this grant."""

    reason = "OAUTH_UNAUTHORIZED_CLIENT"


class InvalidScope(InvalidArgument):
    """A scope is unknown, or more than was granted or registered."""

    reason = "OAUTH_INVALID_SCOPE"


class InvalidTarget(InvalidArgument):
    """A resource is unknown, or not among those that were granted."""

    reason = "OAUTH_INVALID_TARGET"


class InvalidRedirectUri(InvalidArgument):
    """A redirect URI is invalid."""

    reason = "OAUTH_INVALID_REDIRECT_URI"


class InvalidClientMetadata(InvalidArgument):
    """The client's metadata is invalid."""

    reason = "OAUTH_INVALID_CLIENT_METADATA"


class InvalidToken(Unauthenticated):
    """The token is damaged, unknown, expired or revoked."""

    reason = "OAUTH_INVALID_TOKEN"


class InsufficientScope(PermissionDenied):
    """The token lacks the scope that this needs."""

    reason = "OAUTH_INSUFFICIENT_SCOPE"


class AuthorizationPending(FailedPrecondition):
    """The person has not answered yet; ask again after the interval."""

    reason = "OAUTH_AUTHORIZATION_PENDING"


class SlowDown(FailedPrecondition):
    """The device asks too often; wait five seconds longer each time."""

    reason = "OAUTH_SLOW_DOWN"


class AccessDenied(FailedPrecondition):
    """The person denied the request."""

    reason = "OAUTH_ACCESS_DENIED"


class ExpiredToken(FailedPrecondition):
    """The device's code has expired; start again."""

    reason = "OAUTH_EXPIRED_TOKEN"


class DeviceCodeNotFound(NotFound):
    """No device waits for this code."""

    reason = "DEVICE_CODE_NOT_FOUND"


class PasswordWrong(PermissionDenied):
    """The password is not that of the account."""

    reason = "PASSWORD_WRONG"


class SignInTooOld(FailedPrecondition):
    """The sign-in is too old for this; sign in again."""

    reason = "LOGIN_TOO_OLD"


class CodeWrong(PermissionDenied):
    """The code is wrong, used or expired; wait for the next one."""

    reason = "CODE_WRONG"


class TotpStateInvalid(FailedPrecondition):
    """The second factor is not in the state that this needs: start it, confirm it, or disable it first."""

    reason = "TOTP_STATE_INVALID"


class SignInRefused(Unauthenticated):
    """Address, password or second factor is wrong, or the account is deactivated."""

    reason = "SIGN_IN_REFUSED"


class SecondFactorNeeded(Unauthenticated):
    """The account has a second factor; send the code of the authenticator, or a recovery code, along."""

    reason = "SECOND_FACTOR_REQUIRED"


class SignUpClosed(PermissionDenied):
    """Sign-up is closed here, or needs an invitation."""

    reason = "SIGN_UP_CLOSED"


class ProviderNotFound(NotFound):
    """No such identity provider is configured."""

    reason = "PROVIDER_NOT_FOUND"


class ProviderUnavailable(Unavailable):
    """The identity provider does not answer, or its response is invalid; try again soon."""

    reason = "PROVIDER_UNAVAILABLE"


class IdentityTaken(AlreadyExists):
    """The identity is linked to another account."""

    reason = "IDENTITY_TAKEN"


class IdentityRefused(PermissionDenied):
    """The identity provider does not confirm the token."""

    reason = "IDENTITY_REFUSED"


class IdentityNotFound(NotFound):
    """The account has no such identity."""

    reason = "IDENTITY_NOT_FOUND"


class LastLoginMethod(FailedPrecondition):
    """It is the account's last login method; set a password or link another identity first."""

    reason = "LAST_LOGIN_METHOD"


class AccountExists(AlreadyExists):
    """Another account has this address."""

    reason = "ACCOUNT_EXISTS"


class AccountNotFound(NotFound):
    """No such account."""

    reason = "ACCOUNT_NOT_FOUND"


class PasswordTooShort(InvalidArgument):
    """A password needs at least 10 characters."""

    reason = "PASSWORD_TOO_SHORT"


class PasswordTooLong(InvalidArgument):
    """A password has at most 1024 characters."""

    reason = "INVALID_FIELD"


class PasswordHashUnknown(InvalidArgument):
    """The password hash has an unknown form, or is too expensive to verify."""

    reason = "PASSWORD_HASH_UNKNOWN"


class OneTimeTokenInvalid(InvalidArgument):
    """The token is unknown, spent or expired; ask for another one."""

    reason = "ONE_TIME_TOKEN_INVALID"


class MailNotConfigured(FailedPrecondition):
    """Mail is not configured here; ask the operator for a token."""

    reason = "MAIL_NOT_CONFIGURED"


class AuthSessionNotFound(NotFound):
    """The account has no such live sign-in."""

    reason = "AUTH_SESSION_NOT_FOUND"


class ErasureCertificateNotFound(NotFound):
    """The tenant has no such certificate."""

    reason = "ERASURE_CERTIFICATE_NOT_FOUND"
