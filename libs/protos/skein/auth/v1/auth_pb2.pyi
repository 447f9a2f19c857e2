import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.auth.v1 import accounts_pb2 as _accounts_pb2
from skein.auth.v1 import certificates_pb2 as _certificates_pb2
from skein.auth.v1 import oauth_pb2 as _oauth_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SigningKeyPurpose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIGNING_KEY_PURPOSE_UNSPECIFIED: _ClassVar[SigningKeyPurpose]
    SIGNING_KEY_PURPOSE_ACCESS: _ClassVar[SigningKeyPurpose]
    SIGNING_KEY_PURPOSE_CERTIFICATE: _ClassVar[SigningKeyPurpose]

class DueWork(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DUE_WORK_UNSPECIFIED: _ClassVar[DueWork]
    DUE_WORK_AUDIT_CHAIN: _ClassVar[DueWork]
SIGNING_KEY_PURPOSE_UNSPECIFIED: SigningKeyPurpose
SIGNING_KEY_PURPOSE_ACCESS: SigningKeyPurpose
SIGNING_KEY_PURPOSE_CERTIFICATE: SigningKeyPurpose
DUE_WORK_UNSPECIFIED: DueWork
DUE_WORK_AUDIT_CHAIN: DueWork

class ApiKey(_message.Message):
    __slots__ = ("api_key_id", "display_name", "permissions", "agent_id", "create_time", "expire_time", "revoke_time", "created_by", "service_account_id", "use_time", "replaced_by", "grant_ids")
    API_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    REVOKE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    USE_TIME_FIELD_NUMBER: _ClassVar[int]
    REPLACED_BY_FIELD_NUMBER: _ClassVar[int]
    GRANT_IDS_FIELD_NUMBER: _ClassVar[int]
    api_key_id: str
    display_name: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    agent_id: str
    create_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    revoke_time: _timestamp_pb2.Timestamp
    created_by: str
    service_account_id: str
    use_time: _timestamp_pb2.Timestamp
    replaced_by: str
    grant_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, api_key_id: _Optional[str] = ..., display_name: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., agent_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revoke_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., service_account_id: _Optional[str] = ..., use_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., replaced_by: _Optional[str] = ..., grant_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetMeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetMeResponse(_message.Message):
    __slots__ = ("principal", "tenant_id", "permissions", "agent_id", "account", "client_id", "role")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    principal: str
    tenant_id: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    agent_id: str
    account: _accounts_pb2.Account
    client_id: str
    role: str
    def __init__(self, principal: _Optional[str] = ..., tenant_id: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., agent_id: _Optional[str] = ..., account: _Optional[_Union[_accounts_pb2.Account, _Mapping]] = ..., client_id: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class CreateApiKeyRequest(_message.Message):
    __slots__ = ("display_name", "permissions", "agent_id", "expire_time", "request_id", "service_account_id")
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    display_name: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    agent_id: str
    expire_time: _timestamp_pb2.Timestamp
    request_id: str
    service_account_id: str
    def __init__(self, display_name: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., agent_id: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., request_id: _Optional[str] = ..., service_account_id: _Optional[str] = ...) -> None: ...

class CreateApiKeyResponse(_message.Message):
    __slots__ = ("api_key", "secret")
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    api_key: ApiKey
    secret: str
    def __init__(self, api_key: _Optional[_Union[ApiKey, _Mapping]] = ..., secret: _Optional[str] = ...) -> None: ...

class ListApiKeysRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListApiKeysResponse(_message.Message):
    __slots__ = ("api_keys", "next_page_token")
    API_KEYS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    api_keys: _containers.RepeatedCompositeFieldContainer[ApiKey]
    next_page_token: str
    def __init__(self, api_keys: _Optional[_Iterable[_Union[ApiKey, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RevokeApiKeyRequest(_message.Message):
    __slots__ = ("api_key_id", "request_id")
    API_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    api_key_id: str
    request_id: str
    def __init__(self, api_key_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RevokeApiKeyResponse(_message.Message):
    __slots__ = ("api_key",)
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    api_key: ApiKey
    def __init__(self, api_key: _Optional[_Union[ApiKey, _Mapping]] = ...) -> None: ...

class RotateApiKeyResponse(_message.Message):
    __slots__ = ("api_key", "secret", "replaced")
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    api_key: ApiKey
    secret: str
    replaced: ApiKey
    def __init__(self, api_key: _Optional[_Union[ApiKey, _Mapping]] = ..., secret: _Optional[str] = ..., replaced: _Optional[_Union[ApiKey, _Mapping]] = ...) -> None: ...

class AdoptApiKeyResponse(_message.Message):
    __slots__ = ("api_key",)
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    api_key: ApiKey
    def __init__(self, api_key: _Optional[_Union[ApiKey, _Mapping]] = ...) -> None: ...

class IntrospectRequest(_message.Message):
    __slots__ = ("credential",)
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    credential: str
    def __init__(self, credential: _Optional[str] = ...) -> None: ...

class IntrospectResponse(_message.Message):
    __slots__ = ("active", "principal", "tenant_id", "permissions", "expire_time")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    active: bool
    principal: str
    tenant_id: str
    permissions: _containers.RepeatedScalarFieldContainer[str]
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, active: _Optional[bool] = ..., principal: _Optional[str] = ..., tenant_id: _Optional[str] = ..., permissions: _Optional[_Iterable[str]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SigningKey(_message.Message):
    __slots__ = ("key_id", "jwk", "create_time", "expire_time")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    JWK_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    jwk: str
    create_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, key_id: _Optional[str] = ..., jwk: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListSigningKeysRequest(_message.Message):
    __slots__ = ("purpose", "page_size", "page_token")
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    purpose: SigningKeyPurpose
    page_size: int
    page_token: str
    def __init__(self, purpose: _Optional[_Union[SigningKeyPurpose, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSigningKeysResponse(_message.Message):
    __slots__ = ("signing_keys", "next_page_token")
    SIGNING_KEYS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    signing_keys: _containers.RepeatedCompositeFieldContainer[SigningKey]
    next_page_token: str
    def __init__(self, signing_keys: _Optional[_Iterable[_Union[SigningKey, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RotateSigningKeyRequest(_message.Message):
    __slots__ = ("request_id", "purpose", "emergency")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    EMERGENCY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    purpose: SigningKeyPurpose
    emergency: bool
    def __init__(self, request_id: _Optional[str] = ..., purpose: _Optional[_Union[SigningKeyPurpose, str]] = ..., emergency: _Optional[bool] = ...) -> None: ...

class RotateSigningKeyResponse(_message.Message):
    __slots__ = ("signing_key",)
    SIGNING_KEY_FIELD_NUMBER: _ClassVar[int]
    signing_key: SigningKey
    def __init__(self, signing_key: _Optional[_Union[SigningKey, _Mapping]] = ...) -> None: ...

class SystemCredential(_message.Message):
    __slots__ = ("key", "service", "extractor", "space_id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    EXTRACTOR_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    key: str
    service: str
    extractor: str
    space_id: str
    def __init__(self, key: _Optional[str] = ..., service: _Optional[str] = ..., extractor: _Optional[str] = ..., space_id: _Optional[str] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("bearer", "system", "tenant_id", "audience")
    BEARER_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    bearer: str
    system: SystemCredential
    tenant_id: str
    audience: str
    def __init__(self, bearer: _Optional[str] = ..., system: _Optional[_Union[SystemCredential, _Mapping]] = ..., tenant_id: _Optional[str] = ..., audience: _Optional[str] = ...) -> None: ...

class ExchangeResponse(_message.Message):
    __slots__ = ("token", "expire_time", "space_ids")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    SPACE_IDS_FIELD_NUMBER: _ClassVar[int]
    token: str
    expire_time: _timestamp_pb2.Timestamp
    space_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, token: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., space_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetCheckKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCheckKeysResponse(_message.Message):
    __slots__ = ("check_keys",)
    CHECK_KEYS_FIELD_NUMBER: _ClassVar[int]
    check_keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, check_keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ListDueTenantsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "work")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    work: DueWork
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., work: _Optional[_Union[DueWork, str]] = ...) -> None: ...

class ListDueTenantsResponse(_message.Message):
    __slots__ = ("tenant_ids", "next_page_token")
    TENANT_IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant_ids: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: str
    def __init__(self, tenant_ids: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteExpiredRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteExpiredResponse(_message.Message):
    __slots__ = ("deleted_count",)
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    deleted_count: int
    def __init__(self, deleted_count: _Optional[int] = ...) -> None: ...

class ChainAuditEventsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ChainAuditEventsResponse(_message.Message):
    __slots__ = ("chained_count", "more", "chained_before_time")
    CHAINED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    CHAINED_BEFORE_TIME_FIELD_NUMBER: _ClassVar[int]
    chained_count: int
    more: bool
    chained_before_time: _timestamp_pb2.Timestamp
    def __init__(self, chained_count: _Optional[int] = ..., more: _Optional[bool] = ..., chained_before_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PurgeTenantRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class PurgeTenantResponse(_message.Message):
    __slots__ = ("deleted_counts", "more")
    class DeletedCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    DELETED_COUNTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    deleted_counts: _containers.ScalarMap[str, int]
    more: bool
    def __init__(self, deleted_counts: _Optional[_Mapping[str, int]] = ..., more: _Optional[bool] = ...) -> None: ...

class GetAccountStateRequest(_message.Message):
    __slots__ = ("account_id", "email")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    email: str
    def __init__(self, account_id: _Optional[str] = ..., email: _Optional[str] = ...) -> None: ...

class GetAccountStateResponse(_message.Message):
    __slots__ = ("account_id", "email", "email_verified", "display_name", "active")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    EMAIL_VERIFIED_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    email: str
    email_verified: bool
    display_name: str
    active: bool
    def __init__(self, account_id: _Optional[str] = ..., email: _Optional[str] = ..., email_verified: _Optional[bool] = ..., display_name: _Optional[str] = ..., active: _Optional[bool] = ...) -> None: ...
