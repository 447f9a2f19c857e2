import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AccountStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCOUNT_STATUS_UNSPECIFIED: _ClassVar[AccountStatus]
    ACCOUNT_STATUS_ACTIVE: _ClassVar[AccountStatus]
    ACCOUNT_STATUS_DEACTIVATED: _ClassVar[AccountStatus]

class AuditOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AUDIT_OUTCOME_UNSPECIFIED: _ClassVar[AuditOutcome]
    AUDIT_OUTCOME_SUCCESS: _ClassVar[AuditOutcome]
    AUDIT_OUTCOME_REFUSED: _ClassVar[AuditOutcome]

class TokenPurpose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOKEN_PURPOSE_UNSPECIFIED: _ClassVar[TokenPurpose]
    TOKEN_PURPOSE_EMAIL_VERIFICATION: _ClassVar[TokenPurpose]
    TOKEN_PURPOSE_PASSWORD_RESET: _ClassVar[TokenPurpose]
ACCOUNT_STATUS_UNSPECIFIED: AccountStatus
ACCOUNT_STATUS_ACTIVE: AccountStatus
ACCOUNT_STATUS_DEACTIVATED: AccountStatus
AUDIT_OUTCOME_UNSPECIFIED: AuditOutcome
AUDIT_OUTCOME_SUCCESS: AuditOutcome
AUDIT_OUTCOME_REFUSED: AuditOutcome
TOKEN_PURPOSE_UNSPECIFIED: TokenPurpose
TOKEN_PURPOSE_EMAIL_VERIFICATION: TokenPurpose
TOKEN_PURPOSE_PASSWORD_RESET: TokenPurpose

class Account(_message.Message):
    __slots__ = ("account_id", "email", "email_verify_time", "display_name", "status", "has_password", "has_totp", "revision", "create_time", "update_time")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    EMAIL_VERIFY_TIME_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HAS_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    HAS_TOTP_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    email: str
    email_verify_time: _timestamp_pb2.Timestamp
    display_name: str
    status: AccountStatus
    has_password: bool
    has_totp: bool
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    def __init__(self, account_id: _Optional[str] = ..., email: _Optional[str] = ..., email_verify_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., display_name: _Optional[str] = ..., status: _Optional[_Union[AccountStatus, str]] = ..., has_password: _Optional[bool] = ..., has_totp: _Optional[bool] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SignInTokens(_message.Message):
    __slots__ = ("access_token", "access_expire_time", "refresh_token", "refresh_expire_time", "auth_session_id")
    ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ACCESS_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REFRESH_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    AUTH_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    access_token: str
    access_expire_time: _timestamp_pb2.Timestamp
    refresh_token: str
    refresh_expire_time: _timestamp_pb2.Timestamp
    auth_session_id: str
    def __init__(self, access_token: _Optional[str] = ..., access_expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., refresh_token: _Optional[str] = ..., refresh_expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., auth_session_id: _Optional[str] = ...) -> None: ...

class AuthSession(_message.Message):
    __slots__ = ("auth_session_id", "client_id", "client_name", "tenant_id", "permissions", "address", "user_agent", "create_time", "use_time", "expire_time", "current")
    AUTH_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    USER_AGENT_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    USE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    auth_session_id: str
    client_id: str
    client_name: str
    tenant_id: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    address: str
    user_agent: str
    create_time: _timestamp_pb2.Timestamp
    use_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    current: bool
    def __init__(self, auth_session_id: _Optional[str] = ..., client_id: _Optional[str] = ..., client_name: _Optional[str] = ..., tenant_id: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., address: _Optional[str] = ..., user_agent: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., use_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., current: _Optional[bool] = ...) -> None: ...

class Identity(_message.Message):
    __slots__ = ("identity_id", "provider", "subject", "login", "create_time")
    IDENTITY_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    LOGIN_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    identity_id: str
    provider: str
    subject: str
    login: str
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, identity_id: _Optional[str] = ..., provider: _Optional[str] = ..., subject: _Optional[str] = ..., login: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AuditEvent(_message.Message):
    __slots__ = ("audit_event_id", "event", "outcome", "reason", "principal", "target", "client_id", "address", "user_agent", "request_id", "create_time")
    AUDIT_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    USER_AGENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    audit_event_id: str
    event: str
    outcome: AuditOutcome
    reason: str
    principal: str
    target: str
    client_id: str
    address: str
    user_agent: str
    request_id: str
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, audit_event_id: _Optional[str] = ..., event: _Optional[str] = ..., outcome: _Optional[_Union[AuditOutcome, str]] = ..., reason: _Optional[str] = ..., principal: _Optional[str] = ..., target: _Optional[str] = ..., client_id: _Optional[str] = ..., address: _Optional[str] = ..., user_agent: _Optional[str] = ..., request_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SignUpRequest(_message.Message):
    __slots__ = ("email", "password", "display_name", "invitation_token")
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    INVITATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    email: str
    password: str
    display_name: str
    invitation_token: str
    def __init__(self, email: _Optional[str] = ..., password: _Optional[str] = ..., display_name: _Optional[str] = ..., invitation_token: _Optional[str] = ...) -> None: ...

class SignUpResponse(_message.Message):
    __slots__ = ("account",)
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    account: Account
    def __init__(self, account: _Optional[_Union[Account, _Mapping]] = ...) -> None: ...

class VerifyEmailRequest(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class VerifyEmailResponse(_message.Message):
    __slots__ = ("account",)
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    account: Account
    def __init__(self, account: _Optional[_Union[Account, _Mapping]] = ...) -> None: ...

class RequestEmailVerificationRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class RequestEmailVerificationResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RequestPasswordResetRequest(_message.Message):
    __slots__ = ("email", "device_token")
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    email: str
    device_token: str
    def __init__(self, email: _Optional[str] = ..., device_token: _Optional[str] = ...) -> None: ...

class RequestPasswordResetResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResetPasswordRequest(_message.Message):
    __slots__ = ("token", "new_password")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NEW_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    token: str
    new_password: str
    def __init__(self, token: _Optional[str] = ..., new_password: _Optional[str] = ...) -> None: ...

class ResetPasswordResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SignInRequest(_message.Message):
    __slots__ = ("email", "password", "second_factor", "device_token")
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    SECOND_FACTOR_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    email: str
    password: str
    second_factor: str
    device_token: str
    def __init__(self, email: _Optional[str] = ..., password: _Optional[str] = ..., second_factor: _Optional[str] = ..., device_token: _Optional[str] = ...) -> None: ...

class SignInResponse(_message.Message):
    __slots__ = ("tokens", "account", "device_token")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tokens: SignInTokens
    account: Account
    device_token: str
    def __init__(self, tokens: _Optional[_Union[SignInTokens, _Mapping]] = ..., account: _Optional[_Union[Account, _Mapping]] = ..., device_token: _Optional[str] = ...) -> None: ...

class SignInWithIdentityRequest(_message.Message):
    __slots__ = ("provider", "token", "nonce", "second_factor", "device_token")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SECOND_FACTOR_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    provider: str
    token: str
    nonce: str
    second_factor: str
    device_token: str
    def __init__(self, provider: _Optional[str] = ..., token: _Optional[str] = ..., nonce: _Optional[str] = ..., second_factor: _Optional[str] = ..., device_token: _Optional[str] = ...) -> None: ...

class SignInWithIdentityResponse(_message.Message):
    __slots__ = ("tokens", "account", "created", "device_token")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tokens: SignInTokens
    account: Account
    created: bool
    device_token: str
    def __init__(self, tokens: _Optional[_Union[SignInTokens, _Mapping]] = ..., account: _Optional[_Union[Account, _Mapping]] = ..., created: _Optional[bool] = ..., device_token: _Optional[str] = ...) -> None: ...

class RefreshSessionRequest(_message.Message):
    __slots__ = ("refresh_token",)
    REFRESH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    refresh_token: str
    def __init__(self, refresh_token: _Optional[str] = ...) -> None: ...

class RefreshSessionResponse(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: SignInTokens
    def __init__(self, tokens: _Optional[_Union[SignInTokens, _Mapping]] = ...) -> None: ...

class SignOutRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class SignOutResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpdateMeRequest(_message.Message):
    __slots__ = ("account", "update_mask", "request_id")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    account: Account
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, account: _Optional[_Union[Account, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateMeResponse(_message.Message):
    __slots__ = ("account",)
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    account: Account
    def __init__(self, account: _Optional[_Union[Account, _Mapping]] = ...) -> None: ...

class ChangePasswordRequest(_message.Message):
    __slots__ = ("old_password", "new_password", "request_id")
    OLD_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    NEW_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    old_password: str
    new_password: str
    request_id: str
    def __init__(self, old_password: _Optional[str] = ..., new_password: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ChangePasswordResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeactivateMeRequest(_message.Message):
    __slots__ = ("password", "request_id")
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    password: str
    request_id: str
    def __init__(self, password: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeactivateMeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteMeRequest(_message.Message):
    __slots__ = ("password", "request_id")
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    password: str
    request_id: str
    def __init__(self, password: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteMeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StartTotpRequest(_message.Message):
    __slots__ = ("password", "request_id")
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    password: str
    request_id: str
    def __init__(self, password: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class StartTotpResponse(_message.Message):
    __slots__ = ("secret", "uri")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    secret: str
    uri: str
    def __init__(self, secret: _Optional[str] = ..., uri: _Optional[str] = ...) -> None: ...

class ConfirmTotpRequest(_message.Message):
    __slots__ = ("code", "request_id")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    code: str
    request_id: str
    def __init__(self, code: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ConfirmTotpResponse(_message.Message):
    __slots__ = ("recovery_codes",)
    RECOVERY_CODES_FIELD_NUMBER: _ClassVar[int]
    recovery_codes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, recovery_codes: _Optional[_Iterable[str]] = ...) -> None: ...

class DisableTotpRequest(_message.Message):
    __slots__ = ("password", "second_factor", "request_id")
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    SECOND_FACTOR_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    password: str
    second_factor: str
    request_id: str
    def __init__(self, password: _Optional[str] = ..., second_factor: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DisableTotpResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAuthSessionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAuthSessionsResponse(_message.Message):
    __slots__ = ("auth_sessions", "next_page_token")
    AUTH_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    auth_sessions: _containers.RepeatedCompositeFieldContainer[AuthSession]
    next_page_token: str
    def __init__(self, auth_sessions: _Optional[_Iterable[_Union[AuthSession, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RevokeAuthSessionRequest(_message.Message):
    __slots__ = ("auth_session_id", "all_others", "request_id")
    AUTH_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ALL_OTHERS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    auth_session_id: str
    all_others: bool
    request_id: str
    def __init__(self, auth_session_id: _Optional[str] = ..., all_others: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class RevokeAuthSessionResponse(_message.Message):
    __slots__ = ("revoked_count",)
    REVOKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    revoked_count: int
    def __init__(self, revoked_count: _Optional[int] = ...) -> None: ...

class LinkIdentityRequest(_message.Message):
    __slots__ = ("provider", "token", "nonce", "request_id")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    provider: str
    token: str
    nonce: str
    request_id: str
    def __init__(self, provider: _Optional[str] = ..., token: _Optional[str] = ..., nonce: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class LinkIdentityResponse(_message.Message):
    __slots__ = ("identity",)
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    identity: Identity
    def __init__(self, identity: _Optional[_Union[Identity, _Mapping]] = ...) -> None: ...

class UnlinkIdentityRequest(_message.Message):
    __slots__ = ("identity_id", "request_id")
    IDENTITY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    identity_id: str
    request_id: str
    def __init__(self, identity_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UnlinkIdentityResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListIdentitiesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListIdentitiesResponse(_message.Message):
    __slots__ = ("identities", "next_page_token")
    IDENTITIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    identities: _containers.RepeatedCompositeFieldContainer[Identity]
    next_page_token: str
    def __init__(self, identities: _Optional[_Iterable[_Union[Identity, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetAccountRequest(_message.Message):
    __slots__ = ("account_id", "email")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    email: str
    def __init__(self, account_id: _Optional[str] = ..., email: _Optional[str] = ...) -> None: ...

class GetAccountResponse(_message.Message):
    __slots__ = ("account",)
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    account: Account
    def __init__(self, account: _Optional[_Union[Account, _Mapping]] = ...) -> None: ...

class ListAccountsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAccountsResponse(_message.Message):
    __slots__ = ("accounts", "next_page_token")
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedCompositeFieldContainer[Account]
    next_page_token: str
    def __init__(self, accounts: _Optional[_Iterable[_Union[Account, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CreateAccountRequest(_message.Message):
    __slots__ = ("email", "display_name", "password_hash", "email_verified", "request_id", "create_time", "update_time")
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_HASH_FIELD_NUMBER: _ClassVar[int]
    EMAIL_VERIFIED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    email: str
    display_name: str
    password_hash: str
    email_verified: bool
    request_id: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    def __init__(self, email: _Optional[str] = ..., display_name: _Optional[str] = ..., password_hash: _Optional[str] = ..., email_verified: _Optional[bool] = ..., request_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateAccountResponse(_message.Message):
    __slots__ = ("account",)
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    account: Account
    def __init__(self, account: _Optional[_Union[Account, _Mapping]] = ...) -> None: ...

class UpdateAccountRequest(_message.Message):
    __slots__ = ("account", "update_mask", "request_id")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    account: Account
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, account: _Optional[_Union[Account, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateAccountResponse(_message.Message):
    __slots__ = ("account",)
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    account: Account
    def __init__(self, account: _Optional[_Union[Account, _Mapping]] = ...) -> None: ...

class DeleteAccountRequest(_message.Message):
    __slots__ = ("account_id", "request_id")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    request_id: str
    def __init__(self, account_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteAccountResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateOneTimeTokenRequest(_message.Message):
    __slots__ = ("account_id", "purpose", "request_id")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    purpose: TokenPurpose
    request_id: str
    def __init__(self, account_id: _Optional[str] = ..., purpose: _Optional[_Union[TokenPurpose, str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateOneTimeTokenResponse(_message.Message):
    __slots__ = ("token", "expire_time")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    token: str
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, token: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RevokeCredentialsRequest(_message.Message):
    __slots__ = ("account_id", "tenant_id", "client_id", "include_api_keys", "request_id")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_API_KEYS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    tenant_id: str
    client_id: str
    include_api_keys: bool
    request_id: str
    def __init__(self, account_id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., client_id: _Optional[str] = ..., include_api_keys: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class RevokeCredentialsResponse(_message.Message):
    __slots__ = ("revoked_count",)
    REVOKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    revoked_count: int
    def __init__(self, revoked_count: _Optional[int] = ...) -> None: ...

class SetLegacyTokenRequest(_message.Message):
    __slots__ = ("token", "request_id")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    token: str
    request_id: str
    def __init__(self, token: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SetLegacyTokenResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAuditEventsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "account_id")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    account_id: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., account_id: _Optional[str] = ...) -> None: ...

class ListAuditEventsResponse(_message.Message):
    __slots__ = ("audit_events", "next_page_token")
    AUDIT_EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    audit_events: _containers.RepeatedCompositeFieldContainer[AuditEvent]
    next_page_token: str
    def __init__(self, audit_events: _Optional[_Iterable[_Union[AuditEvent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListMyAuditEventsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListMyAuditEventsResponse(_message.Message):
    __slots__ = ("audit_events", "next_page_token")
    AUDIT_EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    audit_events: _containers.RepeatedCompositeFieldContainer[AuditEvent]
    next_page_token: str
    def __init__(self, audit_events: _Optional[_Iterable[_Union[AuditEvent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ServiceAccount(_message.Message):
    __slots__ = ("service_account_id", "display_name", "permissions", "agent_id", "disabled", "revision", "create_time", "update_time", "created_by", "grant_ids")
    SERVICE_ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    GRANT_IDS_FIELD_NUMBER: _ClassVar[int]
    service_account_id: str
    display_name: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    agent_id: str
    disabled: bool
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    grant_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, service_account_id: _Optional[str] = ..., display_name: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., agent_id: _Optional[str] = ..., disabled: _Optional[bool] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., grant_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateServiceAccountRequest(_message.Message):
    __slots__ = ("service_account", "request_id")
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    service_account: ServiceAccount
    request_id: str
    def __init__(self, service_account: _Optional[_Union[ServiceAccount, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateServiceAccountResponse(_message.Message):
    __slots__ = ("service_account",)
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    service_account: ServiceAccount
    def __init__(self, service_account: _Optional[_Union[ServiceAccount, _Mapping]] = ...) -> None: ...

class GetServiceAccountRequest(_message.Message):
    __slots__ = ("service_account_id",)
    SERVICE_ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    service_account_id: str
    def __init__(self, service_account_id: _Optional[str] = ...) -> None: ...

class GetServiceAccountResponse(_message.Message):
    __slots__ = ("service_account",)
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    service_account: ServiceAccount
    def __init__(self, service_account: _Optional[_Union[ServiceAccount, _Mapping]] = ...) -> None: ...

class ListServiceAccountsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListServiceAccountsResponse(_message.Message):
    __slots__ = ("service_accounts", "next_page_token")
    SERVICE_ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    service_accounts: _containers.RepeatedCompositeFieldContainer[ServiceAccount]
    next_page_token: str
    def __init__(self, service_accounts: _Optional[_Iterable[_Union[ServiceAccount, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateServiceAccountRequest(_message.Message):
    __slots__ = ("service_account", "update_mask", "request_id")
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    service_account: ServiceAccount
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, service_account: _Optional[_Union[ServiceAccount, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateServiceAccountResponse(_message.Message):
    __slots__ = ("service_account",)
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    service_account: ServiceAccount
    def __init__(self, service_account: _Optional[_Union[ServiceAccount, _Mapping]] = ...) -> None: ...

class DeleteServiceAccountRequest(_message.Message):
    __slots__ = ("service_account_id", "request_id")
    SERVICE_ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    service_account_id: str
    request_id: str
    def __init__(self, service_account_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteServiceAccountResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AdoptApiKeyRequest(_message.Message):
    __slots__ = ("api_key_id", "request_id")
    API_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    api_key_id: str
    request_id: str
    def __init__(self, api_key_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class AdoptServiceAccountRequest(_message.Message):
    __slots__ = ("service_account_id", "request_id")
    SERVICE_ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    service_account_id: str
    request_id: str
    def __init__(self, service_account_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class AdoptServiceAccountResponse(_message.Message):
    __slots__ = ("service_account",)
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    service_account: ServiceAccount
    def __init__(self, service_account: _Optional[_Union[ServiceAccount, _Mapping]] = ...) -> None: ...

class RotateApiKeyRequest(_message.Message):
    __slots__ = ("api_key_id", "overlap", "request_id")
    API_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    api_key_id: str
    overlap: _duration_pb2.Duration
    request_id: str
    def __init__(self, api_key_id: _Optional[str] = ..., overlap: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...
