import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import access_log_pb2 as _access_log_pb2
from skein.memory.v1 import archives_pb2 as _archives_pb2
from skein.memory.v1 import webhooks_pb2 as _webhooks_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Change(_message.Message):
    __slots__ = ("change_id", "position", "event_type", "entity_type", "entity_id", "summary", "payload", "payload_json", "principal", "create_time")
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENTITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENTITY_ID_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    change_id: str
    position: str
    event_type: str
    entity_type: str
    entity_id: str
    summary: str
    payload: _struct_pb2.Struct
    payload_json: str
    principal: str
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, change_id: _Optional[str] = ..., position: _Optional[str] = ..., event_type: _Optional[str] = ..., entity_type: _Optional[str] = ..., entity_id: _Optional[str] = ..., summary: _Optional[str] = ..., payload: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., payload_json: _Optional[str] = ..., principal: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ChangeFilter(_message.Message):
    __slots__ = ("event_types", "entity_type", "entity_id")
    EVENT_TYPES_FIELD_NUMBER: _ClassVar[int]
    ENTITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENTITY_ID_FIELD_NUMBER: _ClassVar[int]
    event_types: _containers.RepeatedScalarFieldContainer[str]
    entity_type: str
    entity_id: str
    def __init__(self, event_types: _Optional[_Iterable[str]] = ..., entity_type: _Optional[str] = ..., entity_id: _Optional[str] = ...) -> None: ...

class ListChangesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "position", "filter", "newest_first")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    position: str
    filter: ChangeFilter
    newest_first: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., position: _Optional[str] = ..., filter: _Optional[_Union[ChangeFilter, _Mapping]] = ..., newest_first: _Optional[bool] = ...) -> None: ...

class ListChangesResponse(_message.Message):
    __slots__ = ("changes", "next_page_token", "position")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    next_page_token: str
    position: str
    def __init__(self, changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., position: _Optional[str] = ...) -> None: ...

class StreamChangesRequest(_message.Message):
    __slots__ = ("position", "filter")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    position: str
    filter: ChangeFilter
    def __init__(self, position: _Optional[str] = ..., filter: _Optional[_Union[ChangeFilter, _Mapping]] = ...) -> None: ...

class StreamChangesResponse(_message.Message):
    __slots__ = ("change", "position")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    change: Change
    position: str
    def __init__(self, change: _Optional[_Union[Change, _Mapping]] = ..., position: _Optional[str] = ...) -> None: ...
