import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Scope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCOPE_UNSPECIFIED: _ClassVar[Scope]
    SCOPE_GLOBAL: _ClassVar[Scope]
    SCOPE_AGENT: _ClassVar[Scope]
    SCOPE_USER: _ClassVar[Scope]
    SCOPE_SESSION: _ClassVar[Scope]

class Level(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEVEL_UNSPECIFIED: _ClassVar[Level]
    LEVEL_STRATEGIC: _ClassVar[Level]
    LEVEL_TACTICAL: _ClassVar[Level]
    LEVEL_OPERATIONAL: _ClassVar[Level]
    LEVEL_CONTEXTUAL: _ClassVar[Level]

class LinkDirection(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LINK_DIRECTION_UNSPECIFIED: _ClassVar[LinkDirection]
    LINK_DIRECTION_OUTGOING: _ClassVar[LinkDirection]
    LINK_DIRECTION_INCOMING: _ClassVar[LinkDirection]
SCOPE_UNSPECIFIED: Scope
SCOPE_GLOBAL: Scope
SCOPE_AGENT: Scope
SCOPE_USER: Scope
SCOPE_SESSION: Scope
LEVEL_UNSPECIFIED: Level
LEVEL_STRATEGIC: Level
LEVEL_TACTICAL: Level
LEVEL_OPERATIONAL: Level
LEVEL_CONTEXTUAL: Level
LINK_DIRECTION_UNSPECIFIED: LinkDirection
LINK_DIRECTION_OUTGOING: LinkDirection
LINK_DIRECTION_INCOMING: LinkDirection

class Memory(_message.Message):
    __slots__ = ("memory_id", "external_id", "type", "title", "key", "content", "data", "tags", "source", "source_agent", "agent_id", "subject_id", "session_id", "scope", "level", "confidence", "importance", "expire_time", "archive_time", "valid_from_time", "valid_to_time", "metadata", "content_hash", "revision", "create_time", "update_time", "delete_time", "created_by", "updated_by")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_AGENT_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_TIME_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_TIME_FIELD_NUMBER: _ClassVar[int]
    VALID_TO_TIME_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    external_id: str
    type: str
    title: str
    key: str
    content: str
    data: _struct_pb2.Struct
    tags: _containers.RepeatedScalarFieldContainer[str]
    source: str
    source_agent: str
    agent_id: str
    subject_id: str
    session_id: str
    scope: Scope
    level: Level
    confidence: float
    importance: float
    expire_time: _timestamp_pb2.Timestamp
    archive_time: _timestamp_pb2.Timestamp
    valid_from_time: _timestamp_pb2.Timestamp
    valid_to_time: _timestamp_pb2.Timestamp
    metadata: _struct_pb2.Struct
    content_hash: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    delete_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    def __init__(self, memory_id: _Optional[str] = ..., external_id: _Optional[str] = ..., type: _Optional[str] = ..., title: _Optional[str] = ..., key: _Optional[str] = ..., content: _Optional[str] = ..., data: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., tags: _Optional[_Iterable[str]] = ..., source: _Optional[str] = ..., source_agent: _Optional[str] = ..., agent_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., session_id: _Optional[str] = ..., scope: _Optional[_Union[Scope, str]] = ..., level: _Optional[_Union[Level, str]] = ..., confidence: _Optional[float] = ..., importance: _Optional[float] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., archive_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_from_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_to_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., content_hash: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delete_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ...) -> None: ...

class MemoryFilter(_message.Message):
    __slots__ = ("types", "tags_any", "tags_all", "agent_id", "subject_id", "session_id", "scopes", "source", "start_time", "end_time", "min_importance", "key")
    TYPES_FIELD_NUMBER: _ClassVar[int]
    TAGS_ANY_FIELD_NUMBER: _ClassVar[int]
    TAGS_ALL_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    MIN_IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    types: _containers.RepeatedScalarFieldContainer[str]
    tags_any: _containers.RepeatedScalarFieldContainer[str]
    tags_all: _containers.RepeatedScalarFieldContainer[str]
    agent_id: str
    subject_id: str
    session_id: str
    scopes: _containers.RepeatedScalarFieldContainer[Scope]
    source: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    min_importance: float
    key: str
    def __init__(self, types: _Optional[_Iterable[str]] = ..., tags_any: _Optional[_Iterable[str]] = ..., tags_all: _Optional[_Iterable[str]] = ..., agent_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., session_id: _Optional[str] = ..., scopes: _Optional[_Iterable[_Union[Scope, str]]] = ..., source: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_importance: _Optional[float] = ..., key: _Optional[str] = ...) -> None: ...

class Link(_message.Message):
    __slots__ = ("link_id", "from_memory_id", "to_memory_id", "relation", "label", "weight", "metadata", "create_time", "created_by")
    LINK_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    TO_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    link_id: str
    from_memory_id: str
    to_memory_id: str
    relation: str
    label: str
    weight: float
    metadata: _struct_pb2.Struct
    create_time: _timestamp_pb2.Timestamp
    created_by: str
    def __init__(self, link_id: _Optional[str] = ..., from_memory_id: _Optional[str] = ..., to_memory_id: _Optional[str] = ..., relation: _Optional[str] = ..., label: _Optional[str] = ..., weight: _Optional[float] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ...) -> None: ...

class CreateMemoryRequest(_message.Message):
    __slots__ = ("memory", "request_id")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    request_id: str
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateMemoryResponse(_message.Message):
    __slots__ = ("memory", "embedding_pending")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    embedding_pending: bool
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., embedding_pending: _Optional[bool] = ...) -> None: ...

class BatchCreateMemoriesRequest(_message.Message):
    __slots__ = ("memories", "request_id")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    request_id: str
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class BatchCreateMemoriesResponse(_message.Message):
    __slots__ = ("memories", "pending_embedding_count")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    pending_embedding_count: int
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., pending_embedding_count: _Optional[int] = ...) -> None: ...

class GetMemoryRequest(_message.Message):
    __slots__ = ("memory_id", "show_deleted")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    SHOW_DELETED_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    show_deleted: bool
    def __init__(self, memory_id: _Optional[str] = ..., show_deleted: _Optional[bool] = ...) -> None: ...

class GetMemoryResponse(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ...) -> None: ...

class BatchGetMemoriesRequest(_message.Message):
    __slots__ = ("memory_ids",)
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class BatchGetMemoriesResponse(_message.Message):
    __slots__ = ("memories", "not_found", "deferred")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    not_found: _containers.RepeatedScalarFieldContainer[str]
    deferred: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., not_found: _Optional[_Iterable[str]] = ..., deferred: _Optional[_Iterable[str]] = ...) -> None: ...

class ListMemoriesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "filter", "show_archived", "show_deleted")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SHOW_ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    SHOW_DELETED_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    filter: MemoryFilter
    show_archived: bool
    show_deleted: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[_Union[MemoryFilter, _Mapping]] = ..., show_archived: _Optional[bool] = ..., show_deleted: _Optional[bool] = ...) -> None: ...

class ListMemoriesResponse(_message.Message):
    __slots__ = ("memories", "next_page_token")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    next_page_token: str
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateMemoryRequest(_message.Message):
    __slots__ = ("memory", "update_mask", "request_id")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateMemoryResponse(_message.Message):
    __slots__ = ("memory", "embedding_pending")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    embedding_pending: bool
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., embedding_pending: _Optional[bool] = ...) -> None: ...

class DeleteMemoryRequest(_message.Message):
    __slots__ = ("memory_id", "revision", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    revision: int
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteMemoryResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RestoreMemoryRequest(_message.Message):
    __slots__ = ("memory_id", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RestoreMemoryResponse(_message.Message):
    __slots__ = ("memory", "embedding_pending")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    embedding_pending: bool
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., embedding_pending: _Optional[bool] = ...) -> None: ...

class CreateLinkRequest(_message.Message):
    __slots__ = ("link", "request_id")
    LINK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    link: Link
    request_id: str
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateLinkResponse(_message.Message):
    __slots__ = ("link",)
    LINK_FIELD_NUMBER: _ClassVar[int]
    link: Link
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ...) -> None: ...

class DeleteLinkRequest(_message.Message):
    __slots__ = ("link_id", "request_id")
    LINK_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    link_id: str
    request_id: str
    def __init__(self, link_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteLinkResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLinksRequest(_message.Message):
    __slots__ = ("memory_id", "direction", "relation", "page_size", "page_token")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    direction: LinkDirection
    relation: str
    page_size: int
    page_token: str
    def __init__(self, memory_id: _Optional[str] = ..., direction: _Optional[_Union[LinkDirection, str]] = ..., relation: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListLinksResponse(_message.Message):
    __slots__ = ("links", "next_page_token")
    LINKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    next_page_token: str
    def __init__(self, links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class EnsurePartitionsRequest(_message.Message):
    __slots__ = ("months_ahead",)
    MONTHS_AHEAD_FIELD_NUMBER: _ClassVar[int]
    months_ahead: int
    def __init__(self, months_ahead: _Optional[int] = ...) -> None: ...

class EnsurePartitionsResponse(_message.Message):
    __slots__ = ("created_count", "horizon_time")
    CREATED_COUNT_FIELD_NUMBER: _ClassVar[int]
    HORIZON_TIME_FIELD_NUMBER: _ClassVar[int]
    created_count: int
    horizon_time: _timestamp_pb2.Timestamp
    def __init__(self, created_count: _Optional[int] = ..., horizon_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DeleteExpiredRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteExpiredResponse(_message.Message):
    __slots__ = ("deleted_count",)
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    deleted_count: int
    def __init__(self, deleted_count: _Optional[int] = ...) -> None: ...

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
