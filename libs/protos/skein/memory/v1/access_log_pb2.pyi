import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AccessOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCESS_OPERATION_UNSPECIFIED: _ClassVar[AccessOperation]
    ACCESS_OPERATION_CREATE: _ClassVar[AccessOperation]
    ACCESS_OPERATION_READ: _ClassVar[AccessOperation]
    ACCESS_OPERATION_UPDATE: _ClassVar[AccessOperation]
    ACCESS_OPERATION_DELETE: _ClassVar[AccessOperation]
    ACCESS_OPERATION_SEARCH: _ClassVar[AccessOperation]
ACCESS_OPERATION_UNSPECIFIED: AccessOperation
ACCESS_OPERATION_CREATE: AccessOperation
ACCESS_OPERATION_READ: AccessOperation
ACCESS_OPERATION_UPDATE: AccessOperation
ACCESS_OPERATION_DELETE: AccessOperation
ACCESS_OPERATION_SEARCH: AccessOperation

class AccessEvent(_message.Message):
    __slots__ = ("access_event_id", "operation", "method", "principal", "memory_id", "session_id", "agent_id", "subject_id", "item_count", "request_data", "request_data_json", "success", "error_reason", "client_address", "call_request_id", "create_time", "claimed_agent_id", "claimed_session_id", "error_code", "call_count", "spaces")
    ACCESS_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DATA_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_REASON_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CALL_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    SPACES_FIELD_NUMBER: _ClassVar[int]
    access_event_id: str
    operation: AccessOperation
    method: str
    principal: str
    memory_id: str
    session_id: str
    agent_id: str
    subject_id: str
    item_count: int
    request_data: _struct_pb2.Struct
    request_data_json: str
    success: bool
    error_reason: str
    client_address: str
    call_request_id: str
    create_time: _timestamp_pb2.Timestamp
    claimed_agent_id: str
    claimed_session_id: str
    error_code: str
    call_count: int
    spaces: _containers.RepeatedCompositeFieldContainer[AccessSpace]
    def __init__(self, access_event_id: _Optional[str] = ..., operation: _Optional[_Union[AccessOperation, str]] = ..., method: _Optional[str] = ..., principal: _Optional[str] = ..., memory_id: _Optional[str] = ..., session_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., item_count: _Optional[int] = ..., request_data: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., request_data_json: _Optional[str] = ..., success: _Optional[bool] = ..., error_reason: _Optional[str] = ..., client_address: _Optional[str] = ..., call_request_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., claimed_agent_id: _Optional[str] = ..., claimed_session_id: _Optional[str] = ..., error_code: _Optional[str] = ..., call_count: _Optional[int] = ..., spaces: _Optional[_Iterable[_Union[AccessSpace, _Mapping]]] = ...) -> None: ...

class AccessSpace(_message.Message):
    __slots__ = ("space_id", "grant_id")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    GRANT_ID_FIELD_NUMBER: _ClassVar[int]
    space_id: str
    grant_id: str
    def __init__(self, space_id: _Optional[str] = ..., grant_id: _Optional[str] = ...) -> None: ...

class ListAccessLogRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "memory_id", "session_id", "agent_id", "operation", "failed_only", "start_time", "end_time", "claimed_agent_id", "claimed_session_id", "unanswered_only")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    FAILED_ONLY_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_ONLY_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    memory_id: str
    session_id: str
    agent_id: str
    operation: AccessOperation
    failed_only: bool
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    claimed_agent_id: str
    claimed_session_id: str
    unanswered_only: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., memory_id: _Optional[str] = ..., session_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., operation: _Optional[_Union[AccessOperation, str]] = ..., failed_only: _Optional[bool] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., claimed_agent_id: _Optional[str] = ..., claimed_session_id: _Optional[str] = ..., unanswered_only: _Optional[bool] = ...) -> None: ...

class ListAccessLogResponse(_message.Message):
    __slots__ = ("access_events", "next_page_token")
    ACCESS_EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    access_events: _containers.RepeatedCompositeFieldContainer[AccessEvent]
    next_page_token: str
    def __init__(self, access_events: _Optional[_Iterable[_Union[AccessEvent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RecordRefusedCallsRequest(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[RefusedCall]
    def __init__(self, calls: _Optional[_Iterable[_Union[RefusedCall, _Mapping]]] = ...) -> None: ...

class RefusedCall(_message.Message):
    __slots__ = ("path", "error_code", "error_reason", "request", "call_request_id", "client_address", "claimed_agent_id", "claimed_session_id", "create_time", "call_count")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CALL_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    path: str
    error_code: str
    error_reason: str
    request: bytes
    call_request_id: str
    client_address: str
    claimed_agent_id: str
    claimed_session_id: str
    create_time: _timestamp_pb2.Timestamp
    call_count: int
    def __init__(self, path: _Optional[str] = ..., error_code: _Optional[str] = ..., error_reason: _Optional[str] = ..., request: _Optional[bytes] = ..., call_request_id: _Optional[str] = ..., client_address: _Optional[str] = ..., claimed_agent_id: _Optional[str] = ..., claimed_session_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., call_count: _Optional[int] = ...) -> None: ...

class RecordRefusedCallsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
