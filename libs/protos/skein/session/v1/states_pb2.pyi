import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StateMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATE_MODE_UNSPECIFIED: _ClassVar[StateMode]
    STATE_MODE_REPLACE: _ClassVar[StateMode]
    STATE_MODE_MERGE: _ClassVar[StateMode]
STATE_MODE_UNSPECIFIED: StateMode
STATE_MODE_REPLACE: StateMode
STATE_MODE_MERGE: StateMode

class AgentState(_message.Message):
    __slots__ = ("agent_id", "session_id", "state_data", "state_data_json", "revision", "expire_time", "create_time", "update_time", "created_by", "updated_by")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_DATA_FIELD_NUMBER: _ClassVar[int]
    STATE_DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    session_id: str
    state_data: _struct_pb2.Struct
    state_data_json: str
    revision: int
    expire_time: _timestamp_pb2.Timestamp
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    def __init__(self, agent_id: _Optional[str] = ..., session_id: _Optional[str] = ..., state_data: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., state_data_json: _Optional[str] = ..., revision: _Optional[int] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ...) -> None: ...

class PutAgentStateRequest(_message.Message):
    __slots__ = ("state", "mode", "must_not_exist", "ttl", "request_id", "keep_times")
    STATE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MUST_NOT_EXIST_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    state: AgentState
    mode: StateMode
    must_not_exist: bool
    ttl: _duration_pb2.Duration
    request_id: str
    keep_times: bool
    def __init__(self, state: _Optional[_Union[AgentState, _Mapping]] = ..., mode: _Optional[_Union[StateMode, str]] = ..., must_not_exist: _Optional[bool] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class PutAgentStateResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: AgentState
    def __init__(self, state: _Optional[_Union[AgentState, _Mapping]] = ...) -> None: ...

class GetAgentStateRequest(_message.Message):
    __slots__ = ("agent_id", "session_id")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    session_id: str
    def __init__(self, agent_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class GetAgentStateResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: AgentState
    def __init__(self, state: _Optional[_Union[AgentState, _Mapping]] = ...) -> None: ...

class ListAgentStatesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "agent_id", "session_id")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    agent_id: str
    session_id: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., agent_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class ListAgentStatesResponse(_message.Message):
    __slots__ = ("states", "next_page_token")
    STATES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[AgentState]
    next_page_token: str
    def __init__(self, states: _Optional[_Iterable[_Union[AgentState, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteAgentStateRequest(_message.Message):
    __slots__ = ("agent_id", "session_id", "revision", "request_id")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    session_id: str
    revision: int
    request_id: str
    def __init__(self, agent_id: _Optional[str] = ..., session_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteAgentStateResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionItem(_message.Message):
    __slots__ = ("session_id", "key", "value", "value_json", "expire_time", "create_time", "update_time", "created_by")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    key: str
    value: _struct_pb2.Value
    value_json: str
    expire_time: _timestamp_pb2.Timestamp
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    def __init__(self, session_id: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., value_json: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ...) -> None: ...

class PutSessionItemRequest(_message.Message):
    __slots__ = ("session_id", "key", "value", "value_json", "ttl", "request_id", "create_time", "update_time", "expire_time", "keep_times")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    key: str
    value: _struct_pb2.Value
    value_json: str
    ttl: _duration_pb2.Duration
    request_id: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    keep_times: bool
    def __init__(self, session_id: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., value_json: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class PutSessionItemResponse(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: SessionItem
    def __init__(self, item: _Optional[_Union[SessionItem, _Mapping]] = ...) -> None: ...

class GetSessionItemRequest(_message.Message):
    __slots__ = ("session_id", "key")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    key: str
    def __init__(self, session_id: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class GetSessionItemResponse(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: SessionItem
    def __init__(self, item: _Optional[_Union[SessionItem, _Mapping]] = ...) -> None: ...

class ListSessionItemsRequest(_message.Message):
    __slots__ = ("session_id", "page_size", "page_token", "prefix")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    page_size: int
    page_token: str
    prefix: str
    def __init__(self, session_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., prefix: _Optional[str] = ...) -> None: ...

class ListSessionItemsResponse(_message.Message):
    __slots__ = ("items", "next_page_token")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[SessionItem]
    next_page_token: str
    def __init__(self, items: _Optional[_Iterable[_Union[SessionItem, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteSessionItemRequest(_message.Message):
    __slots__ = ("session_id", "key", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    key: str
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., key: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteSessionItemResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PurgeReceipt(_message.Message):
    __slots__ = ("session_ids", "message_ids", "counts", "more", "tombstones", "subject_tombstone")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    session_ids: _containers.RepeatedScalarFieldContainer[str]
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    counts: _containers.ScalarMap[str, int]
    more: bool
    tombstones: _containers.RepeatedScalarFieldContainer[bytes]
    subject_tombstone: bytes
    def __init__(self, session_ids: _Optional[_Iterable[str]] = ..., message_ids: _Optional[_Iterable[str]] = ..., counts: _Optional[_Mapping[str, int]] = ..., more: _Optional[bool] = ..., tombstones: _Optional[_Iterable[bytes]] = ..., subject_tombstone: _Optional[bytes] = ...) -> None: ...

class PurgeSessionRequest(_message.Message):
    __slots__ = ("session_id", "dry_run", "limit", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    dry_run: bool
    limit: int
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., dry_run: _Optional[bool] = ..., limit: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class PurgeSessionResponse(_message.Message):
    __slots__ = ("receipt", "memory_ids")
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    receipt: PurgeReceipt
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, receipt: _Optional[_Union[PurgeReceipt, _Mapping]] = ..., memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PurgeMessagesRequest(_message.Message):
    __slots__ = ("message_ids", "dry_run", "request_id")
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    dry_run: bool
    request_id: str
    def __init__(self, message_ids: _Optional[_Iterable[str]] = ..., dry_run: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class PurgeMessagesResponse(_message.Message):
    __slots__ = ("receipt",)
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    receipt: PurgeReceipt
    def __init__(self, receipt: _Optional[_Union[PurgeReceipt, _Mapping]] = ...) -> None: ...

class PurgeSubjectRequest(_message.Message):
    __slots__ = ("subject_id", "dry_run", "limit", "request_id")
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    subject_id: str
    dry_run: bool
    limit: int
    request_id: str
    def __init__(self, subject_id: _Optional[str] = ..., dry_run: _Optional[bool] = ..., limit: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class PurgeSubjectResponse(_message.Message):
    __slots__ = ("receipt", "certificate_id")
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_ID_FIELD_NUMBER: _ClassVar[int]
    receipt: PurgeReceipt
    certificate_id: str
    def __init__(self, receipt: _Optional[_Union[PurgeReceipt, _Mapping]] = ..., certificate_id: _Optional[str] = ...) -> None: ...
