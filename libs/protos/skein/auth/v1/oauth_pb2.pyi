import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetServerMetadataRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerMetadataResponse(_message.Message):
    __slots__ = ("issuer", "resources", "scopes", "registration_open", "accepts_identity_assertions")
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_OPEN_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_IDENTITY_ASSERTIONS_FIELD_NUMBER: _ClassVar[int]
    issuer: str
    resources: _containers.RepeatedScalarFieldContainer[str]
    scopes: _containers.RepeatedScalarFieldContainer[str]
    registration_open: bool
    accepts_identity_assertions: bool
    def __init__(self, issuer: _Optional[str] = ..., resources: _Optional[_Iterable[str]] = ..., scopes: _Optional[_Iterable[str]] = ..., registration_open: _Optional[bool] = ..., accepts_identity_assertions: _Optional[bool] = ...) -> None: ...

class Client(_message.Message):
    __slots__ = ("client_id", "client_name", "redirect_uris", "grant_types", "response_types", "token_endpoint_auth_method", "scope", "client_uri", "logo_uri", "tos_uri", "policy_uri", "contacts", "software_id", "software_version", "create_time", "secret_expire_time", "jwks_uri", "jwks")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    REDIRECT_URIS_FIELD_NUMBER: _ClassVar[int]
    GRANT_TYPES_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TYPES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ENDPOINT_AUTH_METHOD_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_URI_FIELD_NUMBER: _ClassVar[int]
    LOGO_URI_FIELD_NUMBER: _ClassVar[int]
    TOS_URI_FIELD_NUMBER: _ClassVar[int]
    POLICY_URI_FIELD_NUMBER: _ClassVar[int]
    CONTACTS_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_ID_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    SECRET_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    JWKS_URI_FIELD_NUMBER: _ClassVar[int]
    JWKS_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    client_name: str
    redirect_uris: _containers.RepeatedScalarFieldContainer[str]
    grant_types: _containers.RepeatedScalarFieldContainer[str]
    response_types: _containers.RepeatedScalarFieldContainer[str]
    token_endpoint_auth_method: str
    scope: str
    client_uri: str
    logo_uri: str
    tos_uri: str
    policy_uri: str
    contacts: _containers.RepeatedScalarFieldContainer[str]
    software_id: str
    software_version: str
    create_time: _timestamp_pb2.Timestamp
    secret_expire_time: _timestamp_pb2.Timestamp
    jwks_uri: str
    jwks: str
    def __init__(self, client_id: _Optional[str] = ..., client_name: _Optional[str] = ..., redirect_uris: _Optional[_Iterable[str]] = ..., grant_types: _Optional[_Iterable[str]] = ..., response_types: _Optional[_Iterable[str]] = ..., token_endpoint_auth_method: _Optional[str] = ..., scope: _Optional[str] = ..., client_uri: _Optional[str] = ..., logo_uri: _Optional[str] = ..., tos_uri: _Optional[str] = ..., policy_uri: _Optional[str] = ..., contacts: _Optional[_Iterable[str]] = ..., software_id: _Optional[str] = ..., software_version: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., secret_expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., jwks_uri: _Optional[str] = ..., jwks: _Optional[str] = ...) -> None: ...

class RegisterClientRequest(_message.Message):
    __slots__ = ("client", "initial_access_token")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    client: Client
    initial_access_token: str
    def __init__(self, client: _Optional[_Union[Client, _Mapping]] = ..., initial_access_token: _Optional[str] = ...) -> None: ...

class RegisterClientResponse(_message.Message):
    __slots__ = ("client", "client_secret", "registration_access_token")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SECRET_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    client: Client
    client_secret: str
    registration_access_token: str
    def __init__(self, client: _Optional[_Union[Client, _Mapping]] = ..., client_secret: _Optional[str] = ..., registration_access_token: _Optional[str] = ...) -> None: ...

class ImportClientRequest(_message.Message):
    __slots__ = ("client", "secret_hash", "request_id")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SECRET_HASH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    client: Client
    secret_hash: bytes
    request_id: str
    def __init__(self, client: _Optional[_Union[Client, _Mapping]] = ..., secret_hash: _Optional[bytes] = ..., request_id: _Optional[str] = ...) -> None: ...

class ImportClientResponse(_message.Message):
    __slots__ = ("client", "existed")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    client: Client
    existed: bool
    def __init__(self, client: _Optional[_Union[Client, _Mapping]] = ..., existed: _Optional[bool] = ...) -> None: ...

class GetClientRequest(_message.Message):
    __slots__ = ("client_id", "registration_access_token")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    registration_access_token: str
    def __init__(self, client_id: _Optional[str] = ..., registration_access_token: _Optional[str] = ...) -> None: ...

class GetClientResponse(_message.Message):
    __slots__ = ("client",)
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    client: Client
    def __init__(self, client: _Optional[_Union[Client, _Mapping]] = ...) -> None: ...

class UpdateClientRequest(_message.Message):
    __slots__ = ("client", "registration_access_token")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    client: Client
    registration_access_token: str
    def __init__(self, client: _Optional[_Union[Client, _Mapping]] = ..., registration_access_token: _Optional[str] = ...) -> None: ...

class UpdateClientResponse(_message.Message):
    __slots__ = ("client",)
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    client: Client
    def __init__(self, client: _Optional[_Union[Client, _Mapping]] = ...) -> None: ...

class DeleteClientRequest(_message.Message):
    __slots__ = ("client_id", "registration_access_token")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    registration_access_token: str
    def __init__(self, client_id: _Optional[str] = ..., registration_access_token: _Optional[str] = ...) -> None: ...

class DeleteClientResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateAuthorizationRequest(_message.Message):
    __slots__ = ("client_id", "redirect_uri", "response_type", "scope", "state", "code_challenge", "code_challenge_method", "resources", "nonce", "prompt", "response_mode")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    REDIRECT_URI_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CODE_CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    CODE_CHALLENGE_METHOD_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_MODE_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    redirect_uri: str
    response_type: str
    scope: str
    state: str
    code_challenge: str
    code_challenge_method: str
    resources: _containers.RepeatedScalarFieldContainer[str]
    nonce: str
    prompt: str
    response_mode: str
    def __init__(self, client_id: _Optional[str] = ..., redirect_uri: _Optional[str] = ..., response_type: _Optional[str] = ..., scope: _Optional[str] = ..., state: _Optional[str] = ..., code_challenge: _Optional[str] = ..., code_challenge_method: _Optional[str] = ..., resources: _Optional[_Iterable[str]] = ..., nonce: _Optional[str] = ..., prompt: _Optional[str] = ..., response_mode: _Optional[str] = ...) -> None: ...

class AuthorizationPrompt(_message.Message):
    __slots__ = ("handle", "client_id", "client_name", "client_uri", "redirect_host", "redirect_origin", "scopes", "resources", "expire_time", "prompt")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_URI_FIELD_NUMBER: _ClassVar[int]
    REDIRECT_HOST_FIELD_NUMBER: _ClassVar[int]
    REDIRECT_ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    handle: str
    client_id: str
    client_name: str
    client_uri: str
    redirect_host: str
    redirect_origin: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    resources: _containers.RepeatedScalarFieldContainer[str]
    expire_time: _timestamp_pb2.Timestamp
    prompt: str
    def __init__(self, handle: _Optional[str] = ..., client_id: _Optional[str] = ..., client_name: _Optional[str] = ..., client_uri: _Optional[str] = ..., redirect_host: _Optional[str] = ..., redirect_origin: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., resources: _Optional[_Iterable[str]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., prompt: _Optional[str] = ...) -> None: ...

class CreateAuthorizationResponse(_message.Message):
    __slots__ = ("prompt", "redirect_url")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REDIRECT_URL_FIELD_NUMBER: _ClassVar[int]
    prompt: AuthorizationPrompt
    redirect_url: str
    def __init__(self, prompt: _Optional[_Union[AuthorizationPrompt, _Mapping]] = ..., redirect_url: _Optional[str] = ...) -> None: ...

class ApproveAuthorizationRequest(_message.Message):
    __slots__ = ("handle", "approved", "tenant_id", "scopes")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    handle: str
    approved: bool
    tenant_id: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, handle: _Optional[str] = ..., approved: _Optional[bool] = ..., tenant_id: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ...) -> None: ...

class ApproveAuthorizationResponse(_message.Message):
    __slots__ = ("redirect_url",)
    REDIRECT_URL_FIELD_NUMBER: _ClassVar[int]
    redirect_url: str
    def __init__(self, redirect_url: _Optional[str] = ...) -> None: ...

class ClientAuthentication(_message.Message):
    __slots__ = ("client_id", "client_secret", "method", "client_assertion")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SECRET_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ASSERTION_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    client_secret: str
    method: str
    client_assertion: str
    def __init__(self, client_id: _Optional[str] = ..., client_secret: _Optional[str] = ..., method: _Optional[str] = ..., client_assertion: _Optional[str] = ...) -> None: ...

class AuthorizationCodeGrant(_message.Message):
    __slots__ = ("code", "redirect_uri", "code_verifier")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REDIRECT_URI_FIELD_NUMBER: _ClassVar[int]
    CODE_VERIFIER_FIELD_NUMBER: _ClassVar[int]
    code: str
    redirect_uri: str
    code_verifier: str
    def __init__(self, code: _Optional[str] = ..., redirect_uri: _Optional[str] = ..., code_verifier: _Optional[str] = ...) -> None: ...

class RefreshTokenGrant(_message.Message):
    __slots__ = ("refresh_token", "scope")
    REFRESH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    refresh_token: str
    scope: str
    def __init__(self, refresh_token: _Optional[str] = ..., scope: _Optional[str] = ...) -> None: ...

class ClientCredentialsGrant(_message.Message):
    __slots__ = ("scope",)
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    scope: str
    def __init__(self, scope: _Optional[str] = ...) -> None: ...

class DeviceCodeGrant(_message.Message):
    __slots__ = ("device_code",)
    DEVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    device_code: str
    def __init__(self, device_code: _Optional[str] = ...) -> None: ...

class IdentityAssertionGrant(_message.Message):
    __slots__ = ("assertion", "scope")
    ASSERTION_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    assertion: str
    scope: str
    def __init__(self, assertion: _Optional[str] = ..., scope: _Optional[str] = ...) -> None: ...

class ExchangeTokenRequest(_message.Message):
    __slots__ = ("client", "authorization_code", "refresh_token", "client_credentials", "device_code", "identity_assertion", "resources")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    AUTHORIZATION_CODE_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_ASSERTION_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    client: ClientAuthentication
    authorization_code: AuthorizationCodeGrant
    refresh_token: RefreshTokenGrant
    client_credentials: ClientCredentialsGrant
    device_code: DeviceCodeGrant
    identity_assertion: IdentityAssertionGrant
    resources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, client: _Optional[_Union[ClientAuthentication, _Mapping]] = ..., authorization_code: _Optional[_Union[AuthorizationCodeGrant, _Mapping]] = ..., refresh_token: _Optional[_Union[RefreshTokenGrant, _Mapping]] = ..., client_credentials: _Optional[_Union[ClientCredentialsGrant, _Mapping]] = ..., device_code: _Optional[_Union[DeviceCodeGrant, _Mapping]] = ..., identity_assertion: _Optional[_Union[IdentityAssertionGrant, _Mapping]] = ..., resources: _Optional[_Iterable[str]] = ...) -> None: ...

class ExchangeTokenResponse(_message.Message):
    __slots__ = ("access_token", "token_type", "expires_in", "refresh_token", "scope", "id_token")
    ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    ID_TOKEN_FIELD_NUMBER: _ClassVar[int]
    access_token: str
    token_type: str
    expires_in: _duration_pb2.Duration
    refresh_token: str
    scope: str
    id_token: str
    def __init__(self, access_token: _Optional[str] = ..., token_type: _Optional[str] = ..., expires_in: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., refresh_token: _Optional[str] = ..., scope: _Optional[str] = ..., id_token: _Optional[str] = ...) -> None: ...

class StartDeviceAuthorizationRequest(_message.Message):
    __slots__ = ("client", "scope", "resources")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    client: ClientAuthentication
    scope: str
    resources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, client: _Optional[_Union[ClientAuthentication, _Mapping]] = ..., scope: _Optional[str] = ..., resources: _Optional[_Iterable[str]] = ...) -> None: ...

class StartDeviceAuthorizationResponse(_message.Message):
    __slots__ = ("device_code", "user_code", "expires_in", "interval")
    DEVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    USER_CODE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    device_code: str
    user_code: str
    expires_in: _duration_pb2.Duration
    interval: _duration_pb2.Duration
    def __init__(self, device_code: _Optional[str] = ..., user_code: _Optional[str] = ..., expires_in: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetDeviceAuthorizationRequest(_message.Message):
    __slots__ = ("user_code",)
    USER_CODE_FIELD_NUMBER: _ClassVar[int]
    user_code: str
    def __init__(self, user_code: _Optional[str] = ...) -> None: ...

class GetDeviceAuthorizationResponse(_message.Message):
    __slots__ = ("client_id", "client_name", "client_uri", "scopes", "expire_time")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_URI_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    client_name: str
    client_uri: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, client_id: _Optional[str] = ..., client_name: _Optional[str] = ..., client_uri: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ApproveDeviceRequest(_message.Message):
    __slots__ = ("user_code", "approved", "tenant_id", "scopes")
    USER_CODE_FIELD_NUMBER: _ClassVar[int]
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    user_code: str
    approved: bool
    tenant_id: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, user_code: _Optional[str] = ..., approved: _Optional[bool] = ..., tenant_id: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ...) -> None: ...

class ApproveDeviceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("client", "token", "token_type_hint")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_TYPE_HINT_FIELD_NUMBER: _ClassVar[int]
    client: ClientAuthentication
    token: str
    token_type_hint: str
    def __init__(self, client: _Optional[_Union[ClientAuthentication, _Mapping]] = ..., token: _Optional[str] = ..., token_type_hint: _Optional[str] = ...) -> None: ...

class RevokeTokenResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IntrospectTokenRequest(_message.Message):
    __slots__ = ("client", "bearer", "token", "token_type_hint")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    BEARER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_TYPE_HINT_FIELD_NUMBER: _ClassVar[int]
    client: ClientAuthentication
    bearer: str
    token: str
    token_type_hint: str
    def __init__(self, client: _Optional[_Union[ClientAuthentication, _Mapping]] = ..., bearer: _Optional[str] = ..., token: _Optional[str] = ..., token_type_hint: _Optional[str] = ...) -> None: ...

class IntrospectTokenResponse(_message.Message):
    __slots__ = ("active", "scope", "client_id", "token_type", "expire_time", "issue_time", "subject", "audiences", "issuer", "token_id", "tenant_id")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    ISSUE_TIME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    AUDIENCES_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    active: bool
    scope: str
    client_id: str
    token_type: str
    expire_time: _timestamp_pb2.Timestamp
    issue_time: _timestamp_pb2.Timestamp
    subject: str
    audiences: _containers.RepeatedScalarFieldContainer[str]
    issuer: str
    token_id: str
    tenant_id: str
    def __init__(self, active: _Optional[bool] = ..., scope: _Optional[str] = ..., client_id: _Optional[str] = ..., token_type: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., issue_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., subject: _Optional[str] = ..., audiences: _Optional[_Iterable[str]] = ..., issuer: _Optional[str] = ..., token_id: _Optional[str] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class GetUserInfoRequest(_message.Message):
    __slots__ = ("access_token",)
    ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    access_token: str
    def __init__(self, access_token: _Optional[str] = ...) -> None: ...

class GetUserInfoResponse(_message.Message):
    __slots__ = ("subject", "email", "email_verified", "name")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    EMAIL_VERIFIED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    subject: str
    email: str
    email_verified: bool
    name: str
    def __init__(self, subject: _Optional[str] = ..., email: _Optional[str] = ..., email_verified: _Optional[bool] = ..., name: _Optional[str] = ...) -> None: ...
