import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import access_log_pb2 as _access_log_pb2
from skein.memory.v1 import scores_pb2 as _scores_pb2
from skein.options.v1 import options_pb2 as _options_pb2
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

class OnSimilar(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_SIMILAR_UNSPECIFIED: _ClassVar[OnSimilar]
    ON_SIMILAR_KEEP: _ClassVar[OnSimilar]
    ON_SIMILAR_RETURN: _ClassVar[OnSimilar]
    ON_SIMILAR_REINFORCE: _ClassVar[OnSimilar]

class OnConflict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_CONFLICT_UNSPECIFIED: _ClassVar[OnConflict]
    ON_CONFLICT_FAIL: _ClassVar[OnConflict]
    ON_CONFLICT_UPDATE: _ClassVar[OnConflict]
    ON_CONFLICT_RETURN: _ClassVar[OnConflict]
    ON_CONFLICT_SUPERSEDE: _ClassVar[OnConflict]

class SourceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SOURCE_KIND_UNSPECIFIED: _ClassVar[SourceKind]
    SOURCE_KIND_MESSAGE: _ClassVar[SourceKind]
    SOURCE_KIND_MEMORY: _ClassVar[SourceKind]
    SOURCE_KIND_DOCUMENT: _ClassVar[SourceKind]
    SOURCE_KIND_IMPORT: _ClassVar[SourceKind]
    SOURCE_KIND_AGENT: _ClassVar[SourceKind]
    SOURCE_KIND_PERSON: _ClassVar[SourceKind]
    SOURCE_KIND_TOOL: _ClassVar[SourceKind]

class TaskStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATUS_UNSPECIFIED: _ClassVar[TaskStatus]
    TASK_STATUS_OPEN: _ClassVar[TaskStatus]
    TASK_STATUS_IN_PROGRESS: _ClassVar[TaskStatus]
    TASK_STATUS_DONE: _ClassVar[TaskStatus]
    TASK_STATUS_CANCELLED: _ClassVar[TaskStatus]

class LinkDirection(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LINK_DIRECTION_UNSPECIFIED: _ClassVar[LinkDirection]
    LINK_DIRECTION_OUTGOING: _ClassVar[LinkDirection]
    LINK_DIRECTION_INCOMING: _ClassVar[LinkDirection]

class DueWork(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DUE_WORK_UNSPECIFIED: _ClassVar[DueWork]
    DUE_WORK_WEBHOOKS: _ClassVar[DueWork]
    DUE_WORK_SNAPSHOTS: _ClassVar[DueWork]
    DUE_WORK_EXPIRY: _ClassVar[DueWork]
    DUE_WORK_LIFECYCLE: _ClassVar[DueWork]
    DUE_WORK_DECAY: _ClassVar[DueWork]
    DUE_WORK_TRUST: _ClassVar[DueWork]
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
ON_SIMILAR_UNSPECIFIED: OnSimilar
ON_SIMILAR_KEEP: OnSimilar
ON_SIMILAR_RETURN: OnSimilar
ON_SIMILAR_REINFORCE: OnSimilar
ON_CONFLICT_UNSPECIFIED: OnConflict
ON_CONFLICT_FAIL: OnConflict
ON_CONFLICT_UPDATE: OnConflict
ON_CONFLICT_RETURN: OnConflict
ON_CONFLICT_SUPERSEDE: OnConflict
SOURCE_KIND_UNSPECIFIED: SourceKind
SOURCE_KIND_MESSAGE: SourceKind
SOURCE_KIND_MEMORY: SourceKind
SOURCE_KIND_DOCUMENT: SourceKind
SOURCE_KIND_IMPORT: SourceKind
SOURCE_KIND_AGENT: SourceKind
SOURCE_KIND_PERSON: SourceKind
SOURCE_KIND_TOOL: SourceKind
TASK_STATUS_UNSPECIFIED: TaskStatus
TASK_STATUS_OPEN: TaskStatus
TASK_STATUS_IN_PROGRESS: TaskStatus
TASK_STATUS_DONE: TaskStatus
TASK_STATUS_CANCELLED: TaskStatus
LINK_DIRECTION_UNSPECIFIED: LinkDirection
LINK_DIRECTION_OUTGOING: LinkDirection
LINK_DIRECTION_INCOMING: LinkDirection
DUE_WORK_UNSPECIFIED: DueWork
DUE_WORK_WEBHOOKS: DueWork
DUE_WORK_SNAPSHOTS: DueWork
DUE_WORK_EXPIRY: DueWork
DUE_WORK_LIFECYCLE: DueWork
DUE_WORK_DECAY: DueWork
DUE_WORK_TRUST: DueWork

class Memory(_message.Message):
    __slots__ = ("memory_id", "external_id", "type", "title", "key", "content", "data", "data_json", "tags", "source", "source_agent", "agent_id", "subject_id", "session_id", "scope", "level", "confidence", "importance", "expire_time", "archive_time", "valid_from_time", "valid_to_time", "metadata", "metadata_json", "content_hash", "revision", "create_time", "update_time", "delete_time", "created_by", "updated_by", "secret_value", "secret", "ttl", "scores", "access_count", "last_access_time", "embedding", "record_time", "derived_from", "pending_approval")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DATA_JSON_FIELD_NUMBER: _ClassVar[int]
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
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    SECRET_VALUE_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    ACCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_ACCESS_TIME_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    RECORD_TIME_FIELD_NUMBER: _ClassVar[int]
    DERIVED_FROM_FIELD_NUMBER: _ClassVar[int]
    PENDING_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    external_id: str
    type: str
    title: str
    key: str
    content: str
    data: _struct_pb2.Struct
    data_json: str
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
    metadata_json: str
    content_hash: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    delete_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    secret_value: str
    secret: MaskedSecret
    ttl: _duration_pb2.Duration
    scores: _scores_pb2.Scores
    access_count: int
    last_access_time: _timestamp_pb2.Timestamp
    embedding: _containers.RepeatedScalarFieldContainer[float]
    record_time: _timestamp_pb2.Timestamp
    derived_from: _containers.RepeatedCompositeFieldContainer[SourceReference]
    pending_approval: bool
    def __init__(self, memory_id: _Optional[str] = ..., external_id: _Optional[str] = ..., type: _Optional[str] = ..., title: _Optional[str] = ..., key: _Optional[str] = ..., content: _Optional[str] = ..., data: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., data_json: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., source: _Optional[str] = ..., source_agent: _Optional[str] = ..., agent_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., session_id: _Optional[str] = ..., scope: _Optional[_Union[Scope, str]] = ..., level: _Optional[_Union[Level, str]] = ..., confidence: _Optional[float] = ..., importance: _Optional[float] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., archive_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_from_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., valid_to_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., metadata_json: _Optional[str] = ..., content_hash: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delete_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ..., secret_value: _Optional[str] = ..., secret: _Optional[_Union[MaskedSecret, _Mapping]] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., scores: _Optional[_Union[_scores_pb2.Scores, _Mapping]] = ..., access_count: _Optional[int] = ..., last_access_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., embedding: _Optional[_Iterable[float]] = ..., record_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., derived_from: _Optional[_Iterable[_Union[SourceReference, _Mapping]]] = ..., pending_approval: _Optional[bool] = ...) -> None: ...

class SourceReference(_message.Message):
    __slots__ = ("kind", "id", "name", "start_character", "end_character")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_CHARACTER_FIELD_NUMBER: _ClassVar[int]
    END_CHARACTER_FIELD_NUMBER: _ClassVar[int]
    kind: SourceKind
    id: str
    name: str
    start_character: int
    end_character: int
    def __init__(self, kind: _Optional[_Union[SourceKind, str]] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., start_character: _Optional[int] = ..., end_character: _Optional[int] = ...) -> None: ...

class MaskedSecret(_message.Message):
    __slots__ = ("masked", "length_class")
    MASKED_FIELD_NUMBER: _ClassVar[int]
    LENGTH_CLASS_FIELD_NUMBER: _ClassVar[int]
    masked: str
    length_class: str
    def __init__(self, masked: _Optional[str] = ..., length_class: _Optional[str] = ...) -> None: ...

class ScopeContext(_message.Message):
    __slots__ = ("agent_id", "subject_id", "session_id")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    subject_id: str
    session_id: str
    def __init__(self, agent_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class MemoryFilter(_message.Message):
    __slots__ = ("types", "tags_any", "tags_all", "agent_id", "subject_id", "session_id", "scopes", "source", "start_time", "end_time", "min_importance", "key", "where", "valid_at_time", "max_importance", "visible_to")
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
    WHERE_FIELD_NUMBER: _ClassVar[int]
    VALID_AT_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_TO_FIELD_NUMBER: _ClassVar[int]
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
    where: str
    valid_at_time: _timestamp_pb2.Timestamp
    max_importance: float
    visible_to: ScopeContext
    def __init__(self, types: _Optional[_Iterable[str]] = ..., tags_any: _Optional[_Iterable[str]] = ..., tags_all: _Optional[_Iterable[str]] = ..., agent_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., session_id: _Optional[str] = ..., scopes: _Optional[_Iterable[_Union[Scope, str]]] = ..., source: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_importance: _Optional[float] = ..., key: _Optional[str] = ..., where: _Optional[str] = ..., valid_at_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_importance: _Optional[float] = ..., visible_to: _Optional[_Union[ScopeContext, _Mapping]] = ...) -> None: ...

class Link(_message.Message):
    __slots__ = ("link_id", "from_memory_id", "to_memory_id", "relation", "label", "weight", "metadata", "metadata_json", "create_time", "created_by", "revision", "update_time", "updated_by", "record_time")
    LINK_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    TO_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    RECORD_TIME_FIELD_NUMBER: _ClassVar[int]
    link_id: str
    from_memory_id: str
    to_memory_id: str
    relation: str
    label: str
    weight: float
    metadata: _struct_pb2.Struct
    metadata_json: str
    create_time: _timestamp_pb2.Timestamp
    created_by: str
    revision: int
    update_time: _timestamp_pb2.Timestamp
    updated_by: str
    record_time: _timestamp_pb2.Timestamp
    def __init__(self, link_id: _Optional[str] = ..., from_memory_id: _Optional[str] = ..., to_memory_id: _Optional[str] = ..., relation: _Optional[str] = ..., label: _Optional[str] = ..., weight: _Optional[float] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., metadata_json: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., revision: _Optional[int] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_by: _Optional[str] = ..., record_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateMemoryRequest(_message.Message):
    __slots__ = ("memory", "request_id", "suggest_links", "defer_embedding", "on_similar", "on_conflict", "keep_times")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SUGGEST_LINKS_FIELD_NUMBER: _ClassVar[int]
    DEFER_EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    ON_SIMILAR_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    request_id: str
    suggest_links: bool
    defer_embedding: bool
    on_similar: OnSimilar
    on_conflict: OnConflict
    keep_times: bool
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., request_id: _Optional[str] = ..., suggest_links: _Optional[bool] = ..., defer_embedding: _Optional[bool] = ..., on_similar: _Optional[_Union[OnSimilar, str]] = ..., on_conflict: _Optional[_Union[OnConflict, str]] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class CreateMemoryResponse(_message.Message):
    __slots__ = ("memory", "embedding_pending", "is_similar", "is_existing", "suggested_links")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    IS_SIMILAR_FIELD_NUMBER: _ClassVar[int]
    IS_EXISTING_FIELD_NUMBER: _ClassVar[int]
    SUGGESTED_LINKS_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    embedding_pending: bool
    is_similar: bool
    is_existing: bool
    suggested_links: _containers.RepeatedCompositeFieldContainer[LinkSuggestion]
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., embedding_pending: _Optional[bool] = ..., is_similar: _Optional[bool] = ..., is_existing: _Optional[bool] = ..., suggested_links: _Optional[_Iterable[_Union[LinkSuggestion, _Mapping]]] = ...) -> None: ...

class BatchCreateMemoriesRequest(_message.Message):
    __slots__ = ("memories", "request_id", "defer_embedding", "on_similar", "on_conflict", "keep_times")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DEFER_EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    ON_SIMILAR_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    request_id: str
    defer_embedding: bool
    on_similar: OnSimilar
    on_conflict: OnConflict
    keep_times: bool
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., request_id: _Optional[str] = ..., defer_embedding: _Optional[bool] = ..., on_similar: _Optional[_Union[OnSimilar, str]] = ..., on_conflict: _Optional[_Union[OnConflict, str]] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class BatchCreateMemoriesResponse(_message.Message):
    __slots__ = ("memories", "pending_embedding_count", "similar_indexes", "existing_indexes")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIMILAR_INDEXES_FIELD_NUMBER: _ClassVar[int]
    EXISTING_INDEXES_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    pending_embedding_count: int
    similar_indexes: _containers.RepeatedScalarFieldContainer[int]
    existing_indexes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., pending_embedding_count: _Optional[int] = ..., similar_indexes: _Optional[_Iterable[int]] = ..., existing_indexes: _Optional[_Iterable[int]] = ...) -> None: ...

class RefusedFact(_message.Message):
    __slots__ = ("memory", "reason")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    reason: str
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class RevealModelKeyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RevealModelKeyResponse(_message.Message):
    __slots__ = ("secret_value",)
    SECRET_VALUE_FIELD_NUMBER: _ClassVar[int]
    secret_value: str
    def __init__(self, secret_value: _Optional[str] = ...) -> None: ...

class KeepRefusedFactsRequest(_message.Message):
    __slots__ = ("facts", "request_id")
    FACTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    facts: _containers.RepeatedCompositeFieldContainer[RefusedFact]
    request_id: str
    def __init__(self, facts: _Optional[_Iterable[_Union[RefusedFact, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class KeepRefusedFactsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RetractFactsRequest(_message.Message):
    __slots__ = ("message_id", "before_time", "revision")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_TIME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    before_time: _timestamp_pb2.Timestamp
    revision: int
    def __init__(self, message_id: _Optional[str] = ..., before_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class RetractFactsResponse(_message.Message):
    __slots__ = ("retracted_count",)
    RETRACTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    retracted_count: int
    def __init__(self, retracted_count: _Optional[int] = ...) -> None: ...

class PurgeFactsRequest(_message.Message):
    __slots__ = ("message_ids",)
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, message_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PurgeFactsResponse(_message.Message):
    __slots__ = ("purged_count",)
    PURGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    purged_count: int
    def __init__(self, purged_count: _Optional[int] = ...) -> None: ...

class GetMemoryRequest(_message.Message):
    __slots__ = ("memory_id", "show_deleted", "as_of_time")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    SHOW_DELETED_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    show_deleted: bool
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_id: _Optional[str] = ..., show_deleted: _Optional[bool] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetMemoryResponse(_message.Message):
    __slots__ = ("memory", "read_time")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    READ_TIME_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    read_time: _timestamp_pb2.Timestamp
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., read_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class BatchGetMemoriesRequest(_message.Message):
    __slots__ = ("memory_ids",)
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class BatchGetMemoriesResponse(_message.Message):
    __slots__ = ("memories", "not_found_ids", "unread_ids")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_IDS_FIELD_NUMBER: _ClassVar[int]
    UNREAD_IDS_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    not_found_ids: _containers.RepeatedScalarFieldContainer[str]
    unread_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., not_found_ids: _Optional[_Iterable[str]] = ..., unread_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListMemoriesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "filter", "show_archived", "show_deleted", "as_of_time", "order_by", "show_total_size")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SHOW_ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    SHOW_DELETED_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    SHOW_TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    filter: MemoryFilter
    show_archived: bool
    show_deleted: bool
    as_of_time: _timestamp_pb2.Timestamp
    order_by: str
    show_total_size: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[_Union[MemoryFilter, _Mapping]] = ..., show_archived: _Optional[bool] = ..., show_deleted: _Optional[bool] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., order_by: _Optional[str] = ..., show_total_size: _Optional[bool] = ...) -> None: ...

class ListMemoriesResponse(_message.Message):
    __slots__ = ("memories", "next_page_token", "total_size")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    next_page_token: str
    total_size: int
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total_size: _Optional[int] = ...) -> None: ...

class UpdateMemoryRequest(_message.Message):
    __slots__ = ("memory", "update_mask", "request_id", "defer_embedding")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DEFER_EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    defer_embedding: bool
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ..., defer_embedding: _Optional[bool] = ...) -> None: ...

class UpdateMemoryResponse(_message.Message):
    __slots__ = ("memory", "embedding_pending", "pending_id")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    PENDING_ID_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    embedding_pending: bool
    pending_id: str
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., embedding_pending: _Optional[bool] = ..., pending_id: _Optional[str] = ...) -> None: ...

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

class UndeleteMemoryRequest(_message.Message):
    __slots__ = ("memory_id", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UndeleteMemoryResponse(_message.Message):
    __slots__ = ("memory", "embedding_pending")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    embedding_pending: bool
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., embedding_pending: _Optional[bool] = ...) -> None: ...

class MoveMemoriesRequest(_message.Message):
    __slots__ = ("memory_ids", "space_id", "request_id")
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    space_id: str
    request_id: str
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ..., space_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class MoveMemoriesResponse(_message.Message):
    __slots__ = ("memory_ids",)
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class MergeMemoriesResponse(_message.Message):
    __slots__ = ("memory", "archived_memory_ids", "moved_link_count", "embedding_pending")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    MOVED_LINK_COUNT_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    archived_memory_ids: _containers.RepeatedScalarFieldContainer[str]
    moved_link_count: int
    embedding_pending: bool
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., archived_memory_ids: _Optional[_Iterable[str]] = ..., moved_link_count: _Optional[int] = ..., embedding_pending: _Optional[bool] = ...) -> None: ...

class RescoreTrustRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class RescoreTrustResponse(_message.Message):
    __slots__ = ("rescored_count", "changed_count", "more")
    RESCORED_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    rescored_count: int
    changed_count: int
    more: bool
    def __init__(self, rescored_count: _Optional[int] = ..., changed_count: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

class DecayMemoriesRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class DecayMemoriesResponse(_message.Message):
    __slots__ = ("decayed_count", "more", "retry_delay")
    DECAYED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    decayed_count: int
    more: bool
    retry_delay: _duration_pb2.Duration
    def __init__(self, decayed_count: _Optional[int] = ..., more: _Optional[bool] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReindexMemoriesRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ReindexMemoriesResponse(_message.Message):
    __slots__ = ("reindexed_count", "more")
    REINDEXED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    reindexed_count: int
    more: bool
    def __init__(self, reindexed_count: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

class ListMemoryTypesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class MemoryType(_message.Message):
    __slots__ = ("type", "description", "json_schema", "json_schema_json", "built_in", "searched_fields", "accepted")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    JSON_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    JSON_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    BUILT_IN_FIELD_NUMBER: _ClassVar[int]
    SEARCHED_FIELDS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    type: str
    description: str
    json_schema: _struct_pb2.Struct
    json_schema_json: str
    built_in: bool
    searched_fields: _containers.RepeatedScalarFieldContainer[str]
    accepted: bool
    def __init__(self, type: _Optional[str] = ..., description: _Optional[str] = ..., json_schema: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., json_schema_json: _Optional[str] = ..., built_in: _Optional[bool] = ..., searched_fields: _Optional[_Iterable[str]] = ..., accepted: _Optional[bool] = ...) -> None: ...

class ListMemoryTypesResponse(_message.Message):
    __slots__ = ("memory_types", "others_accepted", "next_page_token")
    MEMORY_TYPES_FIELD_NUMBER: _ClassVar[int]
    OTHERS_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memory_types: _containers.RepeatedCompositeFieldContainer[MemoryType]
    others_accepted: bool
    next_page_token: str
    def __init__(self, memory_types: _Optional[_Iterable[_Union[MemoryType, _Mapping]]] = ..., others_accepted: _Optional[bool] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RevealSecretRequest(_message.Message):
    __slots__ = ("memory_id", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RevealSecretResponse(_message.Message):
    __slots__ = ("memory_id", "secret_value")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_VALUE_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    secret_value: str
    def __init__(self, memory_id: _Optional[str] = ..., secret_value: _Optional[str] = ...) -> None: ...

class RotateTenantKeyRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class RotateTenantKeyResponse(_message.Message):
    __slots__ = ("key_id", "reencrypted_count", "more")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    REENCRYPTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    reencrypted_count: int
    more: bool
    def __init__(self, key_id: _Optional[str] = ..., reencrypted_count: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

class PromoteMemoryRequest(_message.Message):
    __slots__ = ("memory_id", "revision", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    revision: int
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class PromoteMemoryResponse(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ...) -> None: ...

class DemoteMemoryRequest(_message.Message):
    __slots__ = ("memory_id", "revision", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    revision: int
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DemoteMemoryResponse(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "statuses", "objective_id", "due_before_time")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_ID_FIELD_NUMBER: _ClassVar[int]
    DUE_BEFORE_TIME_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    statuses: _containers.RepeatedScalarFieldContainer[TaskStatus]
    objective_id: str
    due_before_time: _timestamp_pb2.Timestamp
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., statuses: _Optional[_Iterable[_Union[TaskStatus, str]]] = ..., objective_id: _Optional[str] = ..., due_before_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("memories", "next_page_token")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    next_page_token: str
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateTaskStatusRequest(_message.Message):
    __slots__ = ("memory_id", "status", "revision", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    status: TaskStatus
    revision: int
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., status: _Optional[_Union[TaskStatus, str]] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateTaskStatusResponse(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ...) -> None: ...

class CompleteTaskRequest(_message.Message):
    __slots__ = ("memory_id", "result", "revision", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    result: str
    revision: int
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., result: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class CompleteTaskResponse(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ...) -> None: ...

class ReopenTaskRequest(_message.Message):
    __slots__ = ("memory_id", "revision", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    revision: int
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReopenTaskResponse(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ...) -> None: ...

class SetObjectiveRequest(_message.Message):
    __slots__ = ("memory_id", "objective_id", "revision", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    objective_id: str
    revision: int
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., objective_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class SetObjectiveResponse(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ...) -> None: ...

class ListObjectivesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "statuses")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    statuses: _containers.RepeatedScalarFieldContainer[TaskStatus]
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., statuses: _Optional[_Iterable[_Union[TaskStatus, str]]] = ...) -> None: ...

class ListObjectivesResponse(_message.Message):
    __slots__ = ("memories", "next_page_token")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[Memory]
    next_page_token: str
    def __init__(self, memories: _Optional[_Iterable[_Union[Memory, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListNextActionsRequest(_message.Message):
    __slots__ = ("limit", "objective_id", "page_size", "page_token")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    limit: int
    objective_id: str
    page_size: int
    page_token: str
    def __init__(self, limit: _Optional[int] = ..., objective_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class NextAction(_message.Message):
    __slots__ = ("memory", "score")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    score: float
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., score: _Optional[float] = ...) -> None: ...

class ListNextActionsResponse(_message.Message):
    __slots__ = ("next_actions", "next_page_token")
    NEXT_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    next_actions: _containers.RepeatedCompositeFieldContainer[NextAction]
    next_page_token: str
    def __init__(self, next_actions: _Optional[_Iterable[_Union[NextAction, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListMemoryVersionsRequest(_message.Message):
    __slots__ = ("memory_id", "page_size", "page_token")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    page_size: int
    page_token: str
    def __init__(self, memory_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class MemoryVersion(_message.Message):
    __slots__ = ("memory", "until_time", "changed_fields")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELDS_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    until_time: _timestamp_pb2.Timestamp
    changed_fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., changed_fields: _Optional[_Iterable[str]] = ...) -> None: ...

class ListMemoryVersionsResponse(_message.Message):
    __slots__ = ("versions", "next_page_token")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[MemoryVersion]
    next_page_token: str
    def __init__(self, versions: _Optional[_Iterable[_Union[MemoryVersion, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class MemorySelection(_message.Message):
    __slots__ = ("memory_ids", "filter")
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    filter: MemoryFilter
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ..., filter: _Optional[_Union[MemoryFilter, _Mapping]] = ...) -> None: ...

class ExportedMemory(_message.Message):
    __slots__ = ("memory", "versions", "links", "truncated")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    versions: _containers.RepeatedCompositeFieldContainer[MemoryVersion]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    truncated: bool
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., versions: _Optional[_Iterable[_Union[MemoryVersion, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class ExportMemoriesRequest(_message.Message):
    __slots__ = ("selection", "page_size", "page_token")
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    selection: MemorySelection
    page_size: int
    page_token: str
    def __init__(self, selection: _Optional[_Union[MemorySelection, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ExportMemoriesResponse(_message.Message):
    __slots__ = ("memories", "next_page_token")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[ExportedMemory]
    next_page_token: str
    def __init__(self, memories: _Optional[_Iterable[_Union[ExportedMemory, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PurgeReceipt(_message.Message):
    __slots__ = ("receipt_id", "purge_time", "memory_ids", "deleted_counts", "digest", "dry_run", "block_ids", "log_position", "tombstones", "event_position")
    class DeletedCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    PURGE_TIME_FIELD_NUMBER: _ClassVar[int]
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    DELETED_COUNTS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    BLOCK_IDS_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_FIELD_NUMBER: _ClassVar[int]
    EVENT_POSITION_FIELD_NUMBER: _ClassVar[int]
    receipt_id: str
    purge_time: _timestamp_pb2.Timestamp
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    deleted_counts: _containers.ScalarMap[str, int]
    digest: str
    dry_run: bool
    block_ids: _containers.RepeatedScalarFieldContainer[str]
    log_position: str
    tombstones: _containers.RepeatedScalarFieldContainer[bytes]
    event_position: str
    def __init__(self, receipt_id: _Optional[str] = ..., purge_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., memory_ids: _Optional[_Iterable[str]] = ..., deleted_counts: _Optional[_Mapping[str, int]] = ..., digest: _Optional[str] = ..., dry_run: _Optional[bool] = ..., block_ids: _Optional[_Iterable[str]] = ..., log_position: _Optional[str] = ..., tombstones: _Optional[_Iterable[bytes]] = ..., event_position: _Optional[str] = ...) -> None: ...

class PurgeMemoriesRequest(_message.Message):
    __slots__ = ("selection", "dry_run", "page_size", "page_token", "request_id")
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    selection: MemorySelection
    dry_run: bool
    page_size: int
    page_token: str
    request_id: str
    def __init__(self, selection: _Optional[_Union[MemorySelection, _Mapping]] = ..., dry_run: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PurgeMemoriesResponse(_message.Message):
    __slots__ = ("receipt", "not_found_ids", "next_page_token", "archived_memory_ids", "certificate_id", "remaining_memory_ids")
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_ID_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    receipt: PurgeReceipt
    not_found_ids: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: str
    archived_memory_ids: _containers.RepeatedScalarFieldContainer[str]
    certificate_id: str
    remaining_memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, receipt: _Optional[_Union[PurgeReceipt, _Mapping]] = ..., not_found_ids: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[str] = ..., archived_memory_ids: _Optional[_Iterable[str]] = ..., certificate_id: _Optional[str] = ..., remaining_memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteMemoriesRequest(_message.Message):
    __slots__ = ("selection", "purge", "dry_run", "page_size", "page_token", "request_id")
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    selection: MemorySelection
    purge: bool
    dry_run: bool
    page_size: int
    page_token: str
    request_id: str
    def __init__(self, selection: _Optional[_Union[MemorySelection, _Mapping]] = ..., purge: _Optional[bool] = ..., dry_run: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteMemoriesResponse(_message.Message):
    __slots__ = ("memory_ids", "receipt", "not_found_ids", "next_page_token", "archived_memory_ids")
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    receipt: PurgeReceipt
    not_found_ids: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: str
    archived_memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ..., receipt: _Optional[_Union[PurgeReceipt, _Mapping]] = ..., not_found_ids: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[str] = ..., archived_memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateLinkRequest(_message.Message):
    __slots__ = ("link", "request_id", "keep_times")
    LINK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    link: Link
    request_id: str
    keep_times: bool
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., request_id: _Optional[str] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class CreateLinkResponse(_message.Message):
    __slots__ = ("link",)
    LINK_FIELD_NUMBER: _ClassVar[int]
    link: Link
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ...) -> None: ...

class BatchCreateLinksRequest(_message.Message):
    __slots__ = ("links", "request_id", "keep_times")
    LINKS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    request_id: str
    keep_times: bool
    def __init__(self, links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ..., request_id: _Optional[str] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class BatchCreateLinksResponse(_message.Message):
    __slots__ = ("links",)
    LINKS_FIELD_NUMBER: _ClassVar[int]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    def __init__(self, links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ...) -> None: ...

class UpsertLinkRequest(_message.Message):
    __slots__ = ("link", "either_direction", "request_id")
    LINK_FIELD_NUMBER: _ClassVar[int]
    EITHER_DIRECTION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    link: Link
    either_direction: bool
    request_id: str
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., either_direction: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpsertLinkResponse(_message.Message):
    __slots__ = ("link", "created")
    LINK_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    link: Link
    created: bool
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., created: _Optional[bool] = ...) -> None: ...

class GetLinkRequest(_message.Message):
    __slots__ = ("link_id",)
    LINK_ID_FIELD_NUMBER: _ClassVar[int]
    link_id: str
    def __init__(self, link_id: _Optional[str] = ...) -> None: ...

class GetLinkResponse(_message.Message):
    __slots__ = ("link",)
    LINK_FIELD_NUMBER: _ClassVar[int]
    link: Link
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ...) -> None: ...

class UpdateLinkRequest(_message.Message):
    __slots__ = ("link", "update_mask", "request_id")
    LINK_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    link: Link
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateLinkResponse(_message.Message):
    __slots__ = ("link",)
    LINK_FIELD_NUMBER: _ClassVar[int]
    link: Link
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ...) -> None: ...

class DeleteLinkRequest(_message.Message):
    __slots__ = ("link_id", "request_id", "revision")
    LINK_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    link_id: str
    request_id: str
    revision: int
    def __init__(self, link_id: _Optional[str] = ..., request_id: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class DeleteLinkResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLinksRequest(_message.Message):
    __slots__ = ("memory_id", "direction", "relation", "page_size", "page_token", "relations", "min_weight", "as_of_time")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RELATIONS_FIELD_NUMBER: _ClassVar[int]
    MIN_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    direction: LinkDirection
    relation: str
    page_size: int
    page_token: str
    relations: _containers.RepeatedScalarFieldContainer[str]
    min_weight: float
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_id: _Optional[str] = ..., direction: _Optional[_Union[LinkDirection, str]] = ..., relation: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., relations: _Optional[_Iterable[str]] = ..., min_weight: _Optional[float] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListLinksResponse(_message.Message):
    __slots__ = ("links", "next_page_token")
    LINKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    next_page_token: str
    def __init__(self, links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class LinkFilter(_message.Message):
    __slots__ = ("relations", "direction", "min_weight")
    RELATIONS_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    MIN_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    relations: _containers.RepeatedScalarFieldContainer[str]
    direction: LinkDirection
    min_weight: float
    def __init__(self, relations: _Optional[_Iterable[str]] = ..., direction: _Optional[_Union[LinkDirection, str]] = ..., min_weight: _Optional[float] = ...) -> None: ...

class GraphNode(_message.Message):
    __slots__ = ("memory_id", "type", "title", "hop", "via_link_id", "memory", "name")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    HOP_FIELD_NUMBER: _ClassVar[int]
    VIA_LINK_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    type: str
    title: str
    hop: int
    via_link_id: str
    memory: Memory
    name: str
    def __init__(self, memory_id: _Optional[str] = ..., type: _Optional[str] = ..., title: _Optional[str] = ..., hop: _Optional[int] = ..., via_link_id: _Optional[str] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., name: _Optional[str] = ...) -> None: ...

class TraverseLinksRequest(_message.Message):
    __slots__ = ("memory_id", "hops", "max_nodes", "filter", "include_memories", "as_of_time")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_MEMORIES_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    hops: int
    max_nodes: int
    filter: LinkFilter
    include_memories: bool
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_id: _Optional[str] = ..., hops: _Optional[int] = ..., max_nodes: _Optional[int] = ..., filter: _Optional[_Union[LinkFilter, _Mapping]] = ..., include_memories: _Optional[bool] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TraverseLinksResponse(_message.Message):
    __slots__ = ("nodes", "links", "truncated")
    NODES_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[GraphNode]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    truncated: bool
    def __init__(self, nodes: _Optional[_Iterable[_Union[GraphNode, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class GetSubgraphRequest(_message.Message):
    __slots__ = ("memory_ids", "radius", "max_nodes", "filter", "include_memories", "infer_links", "as_of_time")
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    RADIUS_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_MEMORIES_FIELD_NUMBER: _ClassVar[int]
    INFER_LINKS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    radius: int
    max_nodes: int
    filter: LinkFilter
    include_memories: bool
    infer_links: bool
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ..., radius: _Optional[int] = ..., max_nodes: _Optional[int] = ..., filter: _Optional[_Union[LinkFilter, _Mapping]] = ..., include_memories: _Optional[bool] = ..., infer_links: _Optional[bool] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class InferredLink(_message.Message):
    __slots__ = ("from_memory_id", "to_memory_id", "shared_tag_count", "shared_tags", "weight")
    FROM_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    TO_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    SHARED_TAG_COUNT_FIELD_NUMBER: _ClassVar[int]
    SHARED_TAGS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    from_memory_id: str
    to_memory_id: str
    shared_tag_count: int
    shared_tags: _containers.RepeatedScalarFieldContainer[str]
    weight: float
    def __init__(self, from_memory_id: _Optional[str] = ..., to_memory_id: _Optional[str] = ..., shared_tag_count: _Optional[int] = ..., shared_tags: _Optional[_Iterable[str]] = ..., weight: _Optional[float] = ...) -> None: ...

class GetSubgraphResponse(_message.Message):
    __slots__ = ("nodes", "links", "inferred_links", "truncated")
    NODES_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    INFERRED_LINKS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[GraphNode]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    inferred_links: _containers.RepeatedCompositeFieldContainer[InferredLink]
    truncated: bool
    def __init__(self, nodes: _Optional[_Iterable[_Union[GraphNode, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ..., inferred_links: _Optional[_Iterable[_Union[InferredLink, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class FindPathsRequest(_message.Message):
    __slots__ = ("from_memory_id", "to_memory_id", "max_hops", "max_paths", "filter", "as_of_time")
    FROM_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    TO_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_HOPS_FIELD_NUMBER: _ClassVar[int]
    MAX_PATHS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    from_memory_id: str
    to_memory_id: str
    max_hops: int
    max_paths: int
    filter: LinkFilter
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, from_memory_id: _Optional[str] = ..., to_memory_id: _Optional[str] = ..., max_hops: _Optional[int] = ..., max_paths: _Optional[int] = ..., filter: _Optional[_Union[LinkFilter, _Mapping]] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LinkPath(_message.Message):
    __slots__ = ("memory_ids", "links")
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ..., links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ...) -> None: ...

class FindPathsResponse(_message.Message):
    __slots__ = ("paths", "nodes", "truncated")
    PATHS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedCompositeFieldContainer[LinkPath]
    nodes: _containers.RepeatedCompositeFieldContainer[GraphNode]
    truncated: bool
    def __init__(self, paths: _Optional[_Iterable[_Union[LinkPath, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[GraphNode, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class ActivationSeed(_message.Message):
    __slots__ = ("memory_id", "strength")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    strength: float
    def __init__(self, memory_id: _Optional[str] = ..., strength: _Optional[float] = ...) -> None: ...

class SpreadActivationRequest(_message.Message):
    __slots__ = ("seeds", "hops", "max_nodes", "filter", "as_of_time")
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    seeds: _containers.RepeatedCompositeFieldContainer[ActivationSeed]
    hops: int
    max_nodes: int
    filter: LinkFilter
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, seeds: _Optional[_Iterable[_Union[ActivationSeed, _Mapping]]] = ..., hops: _Optional[int] = ..., max_nodes: _Optional[int] = ..., filter: _Optional[_Union[LinkFilter, _Mapping]] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ActivatedMemory(_message.Message):
    __slots__ = ("node", "activation")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_FIELD_NUMBER: _ClassVar[int]
    node: GraphNode
    activation: float
    def __init__(self, node: _Optional[_Union[GraphNode, _Mapping]] = ..., activation: _Optional[float] = ...) -> None: ...

class SpreadActivationResponse(_message.Message):
    __slots__ = ("memories", "truncated")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[ActivatedMemory]
    truncated: bool
    def __init__(self, memories: _Optional[_Iterable[_Union[ActivatedMemory, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class SuggestLinksRequest(_message.Message):
    __slots__ = ("memory_id", "max_suggestions", "min_score", "as_of_time")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_SUGGESTIONS_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    max_suggestions: int
    min_score: float
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_id: _Optional[str] = ..., max_suggestions: _Optional[int] = ..., min_score: _Optional[float] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class LinkSuggestion(_message.Message):
    __slots__ = ("memory_id", "type", "title", "relation", "score", "tag_score", "word_score", "source_score", "time_score", "type_score", "shared_tags")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TAG_SCORE_FIELD_NUMBER: _ClassVar[int]
    WORD_SCORE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_SCORE_FIELD_NUMBER: _ClassVar[int]
    TIME_SCORE_FIELD_NUMBER: _ClassVar[int]
    TYPE_SCORE_FIELD_NUMBER: _ClassVar[int]
    SHARED_TAGS_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    type: str
    title: str
    relation: str
    score: float
    tag_score: float
    word_score: float
    source_score: float
    time_score: float
    type_score: float
    shared_tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, memory_id: _Optional[str] = ..., type: _Optional[str] = ..., title: _Optional[str] = ..., relation: _Optional[str] = ..., score: _Optional[float] = ..., tag_score: _Optional[float] = ..., word_score: _Optional[float] = ..., source_score: _Optional[float] = ..., time_score: _Optional[float] = ..., type_score: _Optional[float] = ..., shared_tags: _Optional[_Iterable[str]] = ...) -> None: ...

class SuggestLinksResponse(_message.Message):
    __slots__ = ("suggestions",)
    SUGGESTIONS_FIELD_NUMBER: _ClassVar[int]
    suggestions: _containers.RepeatedCompositeFieldContainer[LinkSuggestion]
    def __init__(self, suggestions: _Optional[_Iterable[_Union[LinkSuggestion, _Mapping]]] = ...) -> None: ...

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

class ListDueTenantsRequest(_message.Message):
    __slots__ = ("work", "page_size", "page_token")
    WORK_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    work: DueWork
    page_size: int
    page_token: str
    def __init__(self, work: _Optional[_Union[DueWork, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("deleted_count", "retry_delay")
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    deleted_count: int
    retry_delay: _duration_pb2.Duration
    def __init__(self, deleted_count: _Optional[int] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DeliverWebhooksRequest(_message.Message):
    __slots__ = ("limit", "wait")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    wait: _duration_pb2.Duration
    def __init__(self, limit: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DeliverWebhooksResponse(_message.Message):
    __slots__ = ("delivered_count", "failed_count", "more", "active", "due_count", "oldest_due_time")
    DELIVERED_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    DUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    OLDEST_DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    delivered_count: int
    failed_count: int
    more: bool
    active: bool
    due_count: int
    oldest_due_time: _timestamp_pb2.Timestamp
    def __init__(self, delivered_count: _Optional[int] = ..., failed_count: _Optional[int] = ..., more: _Optional[bool] = ..., active: _Optional[bool] = ..., due_count: _Optional[int] = ..., oldest_due_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ArchiveIdleMemoriesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ArchiveIdleMemoriesResponse(_message.Message):
    __slots__ = ("archived_count", "more", "retry_delay")
    ARCHIVED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    archived_count: int
    more: bool
    retry_delay: _duration_pb2.Duration
    def __init__(self, archived_count: _Optional[int] = ..., more: _Optional[bool] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ApplyRetentionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ApplyRetentionResponse(_message.Message):
    __slots__ = ("purged_count", "more", "retry_delay")
    PURGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    purged_count: int
    more: bool
    retry_delay: _duration_pb2.Duration
    def __init__(self, purged_count: _Optional[int] = ..., more: _Optional[bool] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

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

class ContinueSnapshotsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ContinueSnapshotsResponse(_message.Message):
    __slots__ = ("more", "active")
    MORE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    more: bool
    active: bool
    def __init__(self, more: _Optional[bool] = ..., active: _Optional[bool] = ...) -> None: ...
