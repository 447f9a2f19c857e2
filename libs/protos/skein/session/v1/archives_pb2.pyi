import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ArchiveSessionRequest(_message.Message):
    __slots__ = ("session_id", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ArchiveSessionResponse(_message.Message):
    __slots__ = ("archive_time",)
    ARCHIVE_TIME_FIELD_NUMBER: _ClassVar[int]
    archive_time: _timestamp_pb2.Timestamp
    def __init__(self, archive_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class UnarchiveSessionRequest(_message.Message):
    __slots__ = ("session_id", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UnarchiveSessionResponse(_message.Message):
    __slots__ = ("pending_embedding_count",)
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    pending_embedding_count: int
    def __init__(self, pending_embedding_count: _Optional[int] = ...) -> None: ...

class ArchivedSession(_message.Message):
    __slots__ = ("session_id", "title", "message_count", "byte_count", "checksum", "hide_time", "archive_time", "archived_by")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BYTE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    HIDE_TIME_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_TIME_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_BY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    title: str
    message_count: int
    byte_count: int
    checksum: bytes
    hide_time: _timestamp_pb2.Timestamp
    archive_time: _timestamp_pb2.Timestamp
    archived_by: str
    def __init__(self, session_id: _Optional[str] = ..., title: _Optional[str] = ..., message_count: _Optional[int] = ..., byte_count: _Optional[int] = ..., checksum: _Optional[bytes] = ..., hide_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., archive_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., archived_by: _Optional[str] = ...) -> None: ...

class ListArchivedSessionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListArchivedSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[ArchivedSession]
    next_page_token: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[ArchivedSession, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ArchiveHiddenSessionsRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ArchiveHiddenSessionsResponse(_message.Message):
    __slots__ = ("archived_count", "more", "retry_delay")
    ARCHIVED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    archived_count: int
    more: bool
    retry_delay: _duration_pb2.Duration
    def __init__(self, archived_count: _Optional[int] = ..., more: _Optional[bool] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
