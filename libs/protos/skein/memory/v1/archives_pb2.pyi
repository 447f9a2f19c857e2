import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Archive(_message.Message):
    __slots__ = ("archive_id", "label", "memory_count", "byte_count", "checksum", "from_time", "to_time", "create_time", "created_by")
    ARCHIVE_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_COUNT_FIELD_NUMBER: _ClassVar[int]
    BYTE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    FROM_TIME_FIELD_NUMBER: _ClassVar[int]
    TO_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    archive_id: str
    label: str
    memory_count: int
    byte_count: int
    checksum: str
    from_time: _timestamp_pb2.Timestamp
    to_time: _timestamp_pb2.Timestamp
    create_time: _timestamp_pb2.Timestamp
    created_by: str
    def __init__(self, archive_id: _Optional[str] = ..., label: _Optional[str] = ..., memory_count: _Optional[int] = ..., byte_count: _Optional[int] = ..., checksum: _Optional[str] = ..., from_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., to_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ...) -> None: ...

class ArchiveMemoriesRequest(_message.Message):
    __slots__ = ("idle_since_time", "session_id", "label", "after_memory_id", "request_id")
    IDLE_SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    AFTER_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    idle_since_time: _timestamp_pb2.Timestamp
    session_id: str
    label: str
    after_memory_id: str
    request_id: str
    def __init__(self, idle_since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., session_id: _Optional[str] = ..., label: _Optional[str] = ..., after_memory_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ArchiveMemoriesResponse(_message.Message):
    __slots__ = ("archive", "next_memory_id")
    ARCHIVE_FIELD_NUMBER: _ClassVar[int]
    NEXT_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    archive: Archive
    next_memory_id: str
    def __init__(self, archive: _Optional[_Union[Archive, _Mapping]] = ..., next_memory_id: _Optional[str] = ...) -> None: ...

class ListArchivesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListArchivesResponse(_message.Message):
    __slots__ = ("archives", "next_page_token")
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    archives: _containers.RepeatedCompositeFieldContainer[Archive]
    next_page_token: str
    def __init__(self, archives: _Optional[_Iterable[_Union[Archive, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UnarchiveMemoriesRequest(_message.Message):
    __slots__ = ("archive_id", "request_id")
    ARCHIVE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    archive_id: str
    request_id: str
    def __init__(self, archive_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UnarchiveMemoriesResponse(_message.Message):
    __slots__ = ("unarchived_count", "skipped_count", "pending_embedding_count")
    UNARCHIVED_COUNT_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    unarchived_count: int
    skipped_count: int
    pending_embedding_count: int
    def __init__(self, unarchived_count: _Optional[int] = ..., skipped_count: _Optional[int] = ..., pending_embedding_count: _Optional[int] = ...) -> None: ...
