import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import approvals_pb2 as _approvals_pb2
from skein.memory.v1 import memory_pb2 as _memory_pb2
from skein.memory.v1 import pages_pb2 as _pages_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LineageState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LINEAGE_STATE_UNSPECIFIED: _ClassVar[LineageState]
    LINEAGE_STATE_SHOWN: _ClassVar[LineageState]
    LINEAGE_STATE_HIDDEN: _ClassVar[LineageState]
    LINEAGE_STATE_ERASED: _ClassVar[LineageState]

class SourceRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SOURCE_ROLE_UNSPECIFIED: _ClassVar[SourceRole]
    SOURCE_ROLE_PART: _ClassVar[SourceRole]
    SOURCE_ROLE_REPEAT: _ClassVar[SourceRole]
    SOURCE_ROLE_REPLACED: _ClassVar[SourceRole]

class ConflictStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONFLICT_STATUS_UNSPECIFIED: _ClassVar[ConflictStatus]
    CONFLICT_STATUS_NEEDS_REVIEW: _ClassVar[ConflictStatus]
    CONFLICT_STATUS_RESOLVED: _ClassVar[ConflictStatus]
    CONFLICT_STATUS_SUPERSEDED: _ClassVar[ConflictStatus]
    CONFLICT_STATUS_DISMISSED: _ClassVar[ConflictStatus]

class ConflictReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONFLICT_REASON_UNSPECIFIED: _ClassVar[ConflictReason]
    CONFLICT_REASON_CONTRADICTS_LINK: _ClassVar[ConflictReason]
    CONFLICT_REASON_SAME_KEY: _ClassVar[ConflictReason]
    CONFLICT_REASON_RESOLUTION: _ClassVar[ConflictReason]

class ClusterUnit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLUSTER_UNIT_UNSPECIFIED: _ClassVar[ClusterUnit]
    CLUSTER_UNIT_HOUR: _ClassVar[ClusterUnit]
    CLUSTER_UNIT_DAY: _ClassVar[ClusterUnit]
    CLUSTER_UNIT_WEEK: _ClassVar[ClusterUnit]
    CLUSTER_UNIT_MONTH: _ClassVar[ClusterUnit]
LINEAGE_STATE_UNSPECIFIED: LineageState
LINEAGE_STATE_SHOWN: LineageState
LINEAGE_STATE_HIDDEN: LineageState
LINEAGE_STATE_ERASED: LineageState
SOURCE_ROLE_UNSPECIFIED: SourceRole
SOURCE_ROLE_PART: SourceRole
SOURCE_ROLE_REPEAT: SourceRole
SOURCE_ROLE_REPLACED: SourceRole
CONFLICT_STATUS_UNSPECIFIED: ConflictStatus
CONFLICT_STATUS_NEEDS_REVIEW: ConflictStatus
CONFLICT_STATUS_RESOLVED: ConflictStatus
CONFLICT_STATUS_SUPERSEDED: ConflictStatus
CONFLICT_STATUS_DISMISSED: ConflictStatus
CONFLICT_REASON_UNSPECIFIED: ConflictReason
CONFLICT_REASON_CONTRADICTS_LINK: ConflictReason
CONFLICT_REASON_SAME_KEY: ConflictReason
CONFLICT_REASON_RESOLUTION: ConflictReason
CLUSTER_UNIT_UNSPECIFIED: ClusterUnit
CLUSTER_UNIT_HOUR: ClusterUnit
CLUSTER_UNIT_DAY: ClusterUnit
CLUSTER_UNIT_WEEK: ClusterUnit
CLUSTER_UNIT_MONTH: ClusterUnit

class LineageNode(_message.Message):
    __slots__ = ("number", "kind", "state", "id", "name", "label", "written_by", "create_time", "trust", "is_origin")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_BY_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    IS_ORIGIN_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: _memory_pb2.SourceKind
    state: LineageState
    id: str
    name: str
    label: str
    written_by: str
    create_time: _timestamp_pb2.Timestamp
    trust: float
    is_origin: bool
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[_Union[_memory_pb2.SourceKind, str]] = ..., state: _Optional[_Union[LineageState, str]] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., label: _Optional[str] = ..., written_by: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., trust: _Optional[float] = ..., is_origin: _Optional[bool] = ...) -> None: ...

class LineageEdge(_message.Message):
    __slots__ = ("memory_number", "source_number", "role", "start_character", "end_character")
    MEMORY_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    START_CHARACTER_FIELD_NUMBER: _ClassVar[int]
    END_CHARACTER_FIELD_NUMBER: _ClassVar[int]
    memory_number: int
    source_number: int
    role: SourceRole
    start_character: int
    end_character: int
    def __init__(self, memory_number: _Optional[int] = ..., source_number: _Optional[int] = ..., role: _Optional[_Union[SourceRole, str]] = ..., start_character: _Optional[int] = ..., end_character: _Optional[int] = ...) -> None: ...

class GetLineageRequest(_message.Message):
    __slots__ = ("memory_ids", "visible_to", "as_of_time")
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_TO_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    visible_to: _memory_pb2.ScopeContext
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ..., visible_to: _Optional[_Union[_memory_pb2.ScopeContext, _Mapping]] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetLineageResponse(_message.Message):
    __slots__ = ("nodes", "edges", "truncated")
    NODES_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[LineageNode]
    edges: _containers.RepeatedCompositeFieldContainer[LineageEdge]
    truncated: bool
    def __init__(self, nodes: _Optional[_Iterable[_Union[LineageNode, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[LineageEdge, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class ListImpactedRequest(_message.Message):
    __slots__ = ("source", "page_size", "page_token")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    source: _memory_pb2.SourceReference
    page_size: int
    page_token: str
    def __init__(self, source: _Optional[_Union[_memory_pb2.SourceReference, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ImpactedMemory(_message.Message):
    __slots__ = ("memory_id", "trust", "has_erased_source")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    HAS_ERASED_SOURCE_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    trust: float
    has_erased_source: bool
    def __init__(self, memory_id: _Optional[str] = ..., trust: _Optional[float] = ..., has_erased_source: _Optional[bool] = ...) -> None: ...

class ListImpactedResponse(_message.Message):
    __slots__ = ("memories", "next_page_token", "truncated")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[ImpactedMemory]
    next_page_token: str
    truncated: bool
    def __init__(self, memories: _Optional[_Iterable[_Union[ImpactedMemory, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., truncated: _Optional[bool] = ...) -> None: ...

class SourceTrust(_message.Message):
    __slots__ = ("source_trust_id", "source_key", "trust", "notes", "revision", "create_time", "update_time", "created_by", "updated_by", "source")
    SOURCE_TRUST_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_KEY_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source_trust_id: str
    source_key: str
    trust: float
    notes: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    source: str
    def __init__(self, source_trust_id: _Optional[str] = ..., source_key: _Optional[str] = ..., trust: _Optional[float] = ..., notes: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class SetSourceTrustRequest(_message.Message):
    __slots__ = ("source", "trust", "notes", "revision", "request_id", "create_time", "update_time", "keep_times")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    source: str
    trust: float
    notes: str
    revision: int
    request_id: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    keep_times: bool
    def __init__(self, source: _Optional[str] = ..., trust: _Optional[float] = ..., notes: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class SetSourceTrustResponse(_message.Message):
    __slots__ = ("source_trust",)
    SOURCE_TRUST_FIELD_NUMBER: _ClassVar[int]
    source_trust: SourceTrust
    def __init__(self, source_trust: _Optional[_Union[SourceTrust, _Mapping]] = ...) -> None: ...

class GetSourceTrustRequest(_message.Message):
    __slots__ = ("source",)
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    source: str
    def __init__(self, source: _Optional[str] = ...) -> None: ...

class GetSourceTrustResponse(_message.Message):
    __slots__ = ("source_trust",)
    SOURCE_TRUST_FIELD_NUMBER: _ClassVar[int]
    source_trust: SourceTrust
    def __init__(self, source_trust: _Optional[_Union[SourceTrust, _Mapping]] = ...) -> None: ...

class ListSourceTrustRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSourceTrustResponse(_message.Message):
    __slots__ = ("source_trust", "next_page_token")
    SOURCE_TRUST_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    source_trust: _containers.RepeatedCompositeFieldContainer[SourceTrust]
    next_page_token: str
    def __init__(self, source_trust: _Optional[_Iterable[_Union[SourceTrust, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteSourceTrustRequest(_message.Message):
    __slots__ = ("source", "request_id")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    source: str
    request_id: str
    def __init__(self, source: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteSourceTrustResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConflictResolution(_message.Message):
    __slots__ = ("resolution_id", "pair_key", "a_memory_id", "b_memory_id", "status", "canonical_memory_id", "note", "revision", "create_time", "update_time", "created_by", "updated_by")
    RESOLUTION_ID_FIELD_NUMBER: _ClassVar[int]
    PAIR_KEY_FIELD_NUMBER: _ClassVar[int]
    A_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    B_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CANONICAL_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    resolution_id: str
    pair_key: str
    a_memory_id: str
    b_memory_id: str
    status: ConflictStatus
    canonical_memory_id: str
    note: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    def __init__(self, resolution_id: _Optional[str] = ..., pair_key: _Optional[str] = ..., a_memory_id: _Optional[str] = ..., b_memory_id: _Optional[str] = ..., status: _Optional[_Union[ConflictStatus, str]] = ..., canonical_memory_id: _Optional[str] = ..., note: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ...) -> None: ...

class Conflict(_message.Message):
    __slots__ = ("pair_key", "reason", "a", "b", "resolution", "score")
    PAIR_KEY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    A_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    pair_key: str
    reason: ConflictReason
    a: _memory_pb2.Memory
    b: _memory_pb2.Memory
    resolution: ConflictResolution
    score: float
    def __init__(self, pair_key: _Optional[str] = ..., reason: _Optional[_Union[ConflictReason, str]] = ..., a: _Optional[_Union[_memory_pb2.Memory, _Mapping]] = ..., b: _Optional[_Union[_memory_pb2.Memory, _Mapping]] = ..., resolution: _Optional[_Union[ConflictResolution, _Mapping]] = ..., score: _Optional[float] = ...) -> None: ...

class ListConflictsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "all_types", "show_settled", "statuses", "as_of_time")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ALL_TYPES_FIELD_NUMBER: _ClassVar[int]
    SHOW_SETTLED_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    all_types: bool
    show_settled: bool
    statuses: _containers.RepeatedScalarFieldContainer[ConflictStatus]
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., all_types: _Optional[bool] = ..., show_settled: _Optional[bool] = ..., statuses: _Optional[_Iterable[_Union[ConflictStatus, str]]] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListConflictsResponse(_message.Message):
    __slots__ = ("conflicts", "next_page_token")
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    conflicts: _containers.RepeatedCompositeFieldContainer[Conflict]
    next_page_token: str
    def __init__(self, conflicts: _Optional[_Iterable[_Union[Conflict, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ResolveConflictRequest(_message.Message):
    __slots__ = ("a_memory_id", "b_memory_id", "status", "canonical_memory_id", "note", "revision", "request_id", "create_time", "update_time", "keep_times")
    A_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    B_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CANONICAL_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    a_memory_id: str
    b_memory_id: str
    status: ConflictStatus
    canonical_memory_id: str
    note: str
    revision: int
    request_id: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    keep_times: bool
    def __init__(self, a_memory_id: _Optional[str] = ..., b_memory_id: _Optional[str] = ..., status: _Optional[_Union[ConflictStatus, str]] = ..., canonical_memory_id: _Optional[str] = ..., note: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class ResolveConflictResponse(_message.Message):
    __slots__ = ("resolution",)
    RESOLUTION_FIELD_NUMBER: _ClassVar[int]
    resolution: ConflictResolution
    def __init__(self, resolution: _Optional[_Union[ConflictResolution, _Mapping]] = ...) -> None: ...

class ListConflictResolutionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "status")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    status: ConflictStatus
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., status: _Optional[_Union[ConflictStatus, str]] = ...) -> None: ...

class ListConflictResolutionsResponse(_message.Message):
    __slots__ = ("resolutions", "next_page_token")
    RESOLUTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    resolutions: _containers.RepeatedCompositeFieldContainer[ConflictResolution]
    next_page_token: str
    def __init__(self, resolutions: _Optional[_Iterable[_Union[ConflictResolution, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Alias(_message.Message):
    __slots__ = ("alias_memory_id", "canonical_memory_id", "confidence", "note", "revision", "create_time", "update_time", "created_by", "updated_by")
    ALIAS_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    CANONICAL_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    alias_memory_id: str
    canonical_memory_id: str
    confidence: float
    note: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    def __init__(self, alias_memory_id: _Optional[str] = ..., canonical_memory_id: _Optional[str] = ..., confidence: _Optional[float] = ..., note: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ...) -> None: ...

class ResolveEntityRequest(_message.Message):
    __slots__ = ("alias_memory_id", "canonical_memory_id", "confidence", "note", "archive_alias", "request_id", "create_time", "update_time", "keep_times")
    ALIAS_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    CANONICAL_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_ALIAS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    alias_memory_id: str
    canonical_memory_id: str
    confidence: float
    note: str
    archive_alias: bool
    request_id: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    keep_times: bool
    def __init__(self, alias_memory_id: _Optional[str] = ..., canonical_memory_id: _Optional[str] = ..., confidence: _Optional[float] = ..., note: _Optional[str] = ..., archive_alias: _Optional[bool] = ..., request_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class ResolveEntityResponse(_message.Message):
    __slots__ = ("alias", "moved_count")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    MOVED_COUNT_FIELD_NUMBER: _ClassVar[int]
    alias: Alias
    moved_count: int
    def __init__(self, alias: _Optional[_Union[Alias, _Mapping]] = ..., moved_count: _Optional[int] = ...) -> None: ...

class GetCanonicalMemoryRequest(_message.Message):
    __slots__ = ("memory_id", "as_of_time")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_id: _Optional[str] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetCanonicalMemoryResponse(_message.Message):
    __slots__ = ("canonical_memory_id", "alias")
    CANONICAL_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    canonical_memory_id: str
    alias: Alias
    def __init__(self, canonical_memory_id: _Optional[str] = ..., alias: _Optional[_Union[Alias, _Mapping]] = ...) -> None: ...

class ListAliasesRequest(_message.Message):
    __slots__ = ("memory_id", "page_size", "page_token", "as_of_time")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    page_size: int
    page_token: str
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListAliasesResponse(_message.Message):
    __slots__ = ("aliases", "next_page_token")
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    aliases: _containers.RepeatedCompositeFieldContainer[Alias]
    next_page_token: str
    def __init__(self, aliases: _Optional[_Iterable[_Union[Alias, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteAliasRequest(_message.Message):
    __slots__ = ("alias_memory_id", "request_id")
    ALIAS_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    alias_memory_id: str
    request_id: str
    def __init__(self, alias_memory_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteAliasResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetReviewQueueRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ReviewItem(_message.Message):
    __slots__ = ("memory", "urgency", "stale_days", "link_count")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    URGENCY_FIELD_NUMBER: _ClassVar[int]
    STALE_DAYS_FIELD_NUMBER: _ClassVar[int]
    LINK_COUNT_FIELD_NUMBER: _ClassVar[int]
    memory: _memory_pb2.Memory
    urgency: float
    stale_days: float
    link_count: int
    def __init__(self, memory: _Optional[_Union[_memory_pb2.Memory, _Mapping]] = ..., urgency: _Optional[float] = ..., stale_days: _Optional[float] = ..., link_count: _Optional[int] = ...) -> None: ...

class GetReviewQueueResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ReviewItem]
    def __init__(self, items: _Optional[_Iterable[_Union[ReviewItem, _Mapping]]] = ...) -> None: ...

class GetTemporalClustersRequest(_message.Message):
    __slots__ = ("unit", "start_time", "end_time", "as_of_time")
    UNIT_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    unit: ClusterUnit
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, unit: _Optional[_Union[ClusterUnit, str]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TemporalCluster(_message.Message):
    __slots__ = ("start_time", "end_time", "count", "type_counts", "memory_ids")
    class TypeCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TYPE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    count: int
    type_counts: _containers.ScalarMap[str, int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ..., type_counts: _Optional[_Mapping[str, int]] = ..., memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetTemporalClustersResponse(_message.Message):
    __slots__ = ("clusters", "truncated")
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[TemporalCluster]
    truncated: bool
    def __init__(self, clusters: _Optional[_Iterable[_Union[TemporalCluster, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class GetStatisticsRequest(_message.Message):
    __slots__ = ("top", "as_of_time")
    TOP_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    top: int
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, top: _Optional[int] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TagPair(_message.Message):
    __slots__ = ("first", "second", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: str
    second: str
    count: int
    def __init__(self, first: _Optional[str] = ..., second: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class TagCount(_message.Message):
    __slots__ = ("tag", "count")
    TAG_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    tag: str
    count: int
    def __init__(self, tag: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class LinkedMemory(_message.Message):
    __slots__ = ("memory_id", "link_count")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    LINK_COUNT_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    link_count: int
    def __init__(self, memory_id: _Optional[str] = ..., link_count: _Optional[int] = ...) -> None: ...

class GetStatisticsResponse(_message.Message):
    __slots__ = ("memory_count", "link_count", "alias_count", "sampled_memory_count", "memories_truncated", "type_counts", "scope_counts", "level_counts", "tags", "tag_pairs", "sampled_link_count", "links_truncated", "relation_counts", "mean_degree", "most_linked")
    class TypeCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ScopeCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class LevelCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class RelationCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MEMORY_COUNT_FIELD_NUMBER: _ClassVar[int]
    LINK_COUNT_FIELD_NUMBER: _ClassVar[int]
    ALIAS_COUNT_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_MEMORY_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    TYPE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_COUNTS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    TAG_PAIRS_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_LINK_COUNT_FIELD_NUMBER: _ClassVar[int]
    LINKS_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    RELATION_COUNTS_FIELD_NUMBER: _ClassVar[int]
    MEAN_DEGREE_FIELD_NUMBER: _ClassVar[int]
    MOST_LINKED_FIELD_NUMBER: _ClassVar[int]
    memory_count: int
    link_count: int
    alias_count: int
    sampled_memory_count: int
    memories_truncated: bool
    type_counts: _containers.ScalarMap[str, int]
    scope_counts: _containers.ScalarMap[str, int]
    level_counts: _containers.ScalarMap[str, int]
    tags: _containers.RepeatedCompositeFieldContainer[TagCount]
    tag_pairs: _containers.RepeatedCompositeFieldContainer[TagPair]
    sampled_link_count: int
    links_truncated: bool
    relation_counts: _containers.ScalarMap[str, int]
    mean_degree: float
    most_linked: _containers.RepeatedCompositeFieldContainer[LinkedMemory]
    def __init__(self, memory_count: _Optional[int] = ..., link_count: _Optional[int] = ..., alias_count: _Optional[int] = ..., sampled_memory_count: _Optional[int] = ..., memories_truncated: _Optional[bool] = ..., type_counts: _Optional[_Mapping[str, int]] = ..., scope_counts: _Optional[_Mapping[str, int]] = ..., level_counts: _Optional[_Mapping[str, int]] = ..., tags: _Optional[_Iterable[_Union[TagCount, _Mapping]]] = ..., tag_pairs: _Optional[_Iterable[_Union[TagPair, _Mapping]]] = ..., sampled_link_count: _Optional[int] = ..., links_truncated: _Optional[bool] = ..., relation_counts: _Optional[_Mapping[str, int]] = ..., mean_degree: _Optional[float] = ..., most_linked: _Optional[_Iterable[_Union[LinkedMemory, _Mapping]]] = ...) -> None: ...
