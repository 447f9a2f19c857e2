import datetime

from buf.validate import validate_pb2 as _validate_pb2
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

class SpaceRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPACE_ROLE_UNSPECIFIED: _ClassVar[SpaceRole]
    SPACE_ROLE_READER: _ClassVar[SpaceRole]
    SPACE_ROLE_WRITER: _ClassVar[SpaceRole]
    SPACE_ROLE_MANAGER: _ClassVar[SpaceRole]

class AccessReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCESS_REASON_UNSPECIFIED: _ClassVar[AccessReason]
    ACCESS_REASON_DEFAULT_SPACE: _ClassVar[AccessReason]
    ACCESS_REASON_GRANT: _ClassVar[AccessReason]
    ACCESS_REASON_BOUND: _ClassVar[AccessReason]
    ACCESS_REASON_NO_GRANT: _ClassVar[AccessReason]
    ACCESS_REASON_GRANT_ENDED: _ClassVar[AccessReason]
    ACCESS_REASON_NOT_OPEN: _ClassVar[AccessReason]
    ACCESS_REASON_TOO_MANY: _ClassVar[AccessReason]
    ACCESS_REASON_CLIENT_NOT_GRANTED: _ClassVar[AccessReason]
SPACE_ROLE_UNSPECIFIED: SpaceRole
SPACE_ROLE_READER: SpaceRole
SPACE_ROLE_WRITER: SpaceRole
SPACE_ROLE_MANAGER: SpaceRole
ACCESS_REASON_UNSPECIFIED: AccessReason
ACCESS_REASON_DEFAULT_SPACE: AccessReason
ACCESS_REASON_GRANT: AccessReason
ACCESS_REASON_BOUND: AccessReason
ACCESS_REASON_NO_GRANT: AccessReason
ACCESS_REASON_GRANT_ENDED: AccessReason
ACCESS_REASON_NOT_OPEN: AccessReason
ACCESS_REASON_TOO_MANY: AccessReason
ACCESS_REASON_CLIENT_NOT_GRANTED: AccessReason

class Space(_message.Message):
    __slots__ = ("space_id", "display_name", "description", "revision", "create_time", "update_time", "created_by", "updated_by")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    space_id: str
    display_name: str
    description: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    def __init__(self, space_id: _Optional[str] = ..., display_name: _Optional[str] = ..., description: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ...) -> None: ...

class SpaceGrant(_message.Message):
    __slots__ = ("space_id", "principal", "role", "expire_time", "is_delegable", "create_time", "created_by", "grant_id", "delegating_grant_id", "revoke_time")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    IS_DELEGABLE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    GRANT_ID_FIELD_NUMBER: _ClassVar[int]
    DELEGATING_GRANT_ID_FIELD_NUMBER: _ClassVar[int]
    REVOKE_TIME_FIELD_NUMBER: _ClassVar[int]
    space_id: str
    principal: str
    role: SpaceRole
    expire_time: _timestamp_pb2.Timestamp
    is_delegable: bool
    create_time: _timestamp_pb2.Timestamp
    created_by: str
    grant_id: str
    delegating_grant_id: str
    revoke_time: _timestamp_pb2.Timestamp
    def __init__(self, space_id: _Optional[str] = ..., principal: _Optional[str] = ..., role: _Optional[_Union[SpaceRole, str]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., is_delegable: _Optional[bool] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., grant_id: _Optional[str] = ..., delegating_grant_id: _Optional[str] = ..., revoke_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateSpaceRequest(_message.Message):
    __slots__ = ("space", "request_id")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    space: Space
    request_id: str
    def __init__(self, space: _Optional[_Union[Space, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateSpaceResponse(_message.Message):
    __slots__ = ("space",)
    SPACE_FIELD_NUMBER: _ClassVar[int]
    space: Space
    def __init__(self, space: _Optional[_Union[Space, _Mapping]] = ...) -> None: ...

class GetSpaceRequest(_message.Message):
    __slots__ = ("space_id",)
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    space_id: str
    def __init__(self, space_id: _Optional[str] = ...) -> None: ...

class GetSpaceResponse(_message.Message):
    __slots__ = ("space",)
    SPACE_FIELD_NUMBER: _ClassVar[int]
    space: Space
    def __init__(self, space: _Optional[_Union[Space, _Mapping]] = ...) -> None: ...

class ListSpacesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSpacesResponse(_message.Message):
    __slots__ = ("spaces", "next_page_token")
    SPACES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    spaces: _containers.RepeatedCompositeFieldContainer[Space]
    next_page_token: str
    def __init__(self, spaces: _Optional[_Iterable[_Union[Space, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateSpaceRequest(_message.Message):
    __slots__ = ("space", "update_mask", "request_id")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    space: Space
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, space: _Optional[_Union[Space, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateSpaceResponse(_message.Message):
    __slots__ = ("space",)
    SPACE_FIELD_NUMBER: _ClassVar[int]
    space: Space
    def __init__(self, space: _Optional[_Union[Space, _Mapping]] = ...) -> None: ...

class DeleteSpaceRequest(_message.Message):
    __slots__ = ("space_id", "request_id")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    space_id: str
    request_id: str
    def __init__(self, space_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteSpaceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GrantSpaceRequest(_message.Message):
    __slots__ = ("grant", "bind", "request_id")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    BIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    grant: SpaceGrant
    bind: bool
    request_id: str
    def __init__(self, grant: _Optional[_Union[SpaceGrant, _Mapping]] = ..., bind: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class GrantSpaceResponse(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: SpaceGrant
    def __init__(self, grant: _Optional[_Union[SpaceGrant, _Mapping]] = ...) -> None: ...

class RevokeSpaceGrantRequest(_message.Message):
    __slots__ = ("space_id", "principal", "request_id", "unbind")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    UNBIND_FIELD_NUMBER: _ClassVar[int]
    space_id: str
    principal: str
    request_id: str
    unbind: bool
    def __init__(self, space_id: _Optional[str] = ..., principal: _Optional[str] = ..., request_id: _Optional[str] = ..., unbind: _Optional[bool] = ...) -> None: ...

class RevokeSpaceGrantResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSpaceGrantsRequest(_message.Message):
    __slots__ = ("space_id", "page_size", "page_token")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    space_id: str
    page_size: int
    page_token: str
    def __init__(self, space_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSpaceGrantsResponse(_message.Message):
    __slots__ = ("grants", "next_page_token")
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[SpaceGrant]
    next_page_token: str
    def __init__(self, grants: _Optional[_Iterable[_Union[SpaceGrant, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ExplainAccessRequest(_message.Message):
    __slots__ = ("memory_id", "space_id", "principal", "agent_id", "client_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    space_id: str
    principal: str
    agent_id: str
    client_id: str
    def __init__(self, memory_id: _Optional[str] = ..., space_id: _Optional[str] = ..., principal: _Optional[str] = ..., agent_id: _Optional[str] = ..., client_id: _Optional[str] = ...) -> None: ...

class ExplainAccessResponse(_message.Message):
    __slots__ = ("is_visible", "reason", "space_id", "role", "expire_time", "grants", "is_bound")
    IS_VISIBLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    IS_BOUND_FIELD_NUMBER: _ClassVar[int]
    is_visible: bool
    reason: AccessReason
    space_id: str
    role: SpaceRole
    expire_time: _timestamp_pb2.Timestamp
    grants: _containers.RepeatedCompositeFieldContainer[SpaceGrant]
    is_bound: bool
    def __init__(self, is_visible: _Optional[bool] = ..., reason: _Optional[_Union[AccessReason, str]] = ..., space_id: _Optional[str] = ..., role: _Optional[_Union[SpaceRole, str]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., grants: _Optional[_Iterable[_Union[SpaceGrant, _Mapping]]] = ..., is_bound: _Optional[bool] = ...) -> None: ...
