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

class Scores(_message.Message):
    __slots__ = ("confidence", "importance", "formula", "version")
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    confidence: float
    importance: float
    formula: str
    version: int
    def __init__(self, confidence: _Optional[float] = ..., importance: _Optional[float] = ..., formula: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class ScoreComponent(_message.Message):
    __slots__ = ("name", "value", "detail")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    detail: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ..., detail: _Optional[str] = ...) -> None: ...

class ExplainScoreRequest(_message.Message):
    __slots__ = ("memory_id", "read_time")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    READ_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    read_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_id: _Optional[str] = ..., read_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ExplainScoreResponse(_message.Message):
    __slots__ = ("memory_id", "scores", "confidence_components", "importance_components", "read_time")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    READ_TIME_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    scores: Scores
    confidence_components: _containers.RepeatedCompositeFieldContainer[ScoreComponent]
    importance_components: _containers.RepeatedCompositeFieldContainer[ScoreComponent]
    read_time: _timestamp_pb2.Timestamp
    def __init__(self, memory_id: _Optional[str] = ..., scores: _Optional[_Union[Scores, _Mapping]] = ..., confidence_components: _Optional[_Iterable[_Union[ScoreComponent, _Mapping]]] = ..., importance_components: _Optional[_Iterable[_Union[ScoreComponent, _Mapping]]] = ..., read_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReinforceMemoryRequest(_message.Message):
    __slots__ = ("memory_id", "confidence_delta", "importance_delta", "spread", "request_id")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_DELTA_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_DELTA_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    confidence_delta: float
    importance_delta: float
    spread: float
    request_id: str
    def __init__(self, memory_id: _Optional[str] = ..., confidence_delta: _Optional[float] = ..., importance_delta: _Optional[float] = ..., spread: _Optional[float] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReinforcedMemory(_message.Message):
    __slots__ = ("memory_id", "confidence", "importance", "revision")
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    memory_id: str
    confidence: float
    importance: float
    revision: int
    def __init__(self, memory_id: _Optional[str] = ..., confidence: _Optional[float] = ..., importance: _Optional[float] = ..., revision: _Optional[int] = ...) -> None: ...

class ReinforceMemoryResponse(_message.Message):
    __slots__ = ("memories", "truncated")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[ReinforcedMemory]
    truncated: bool
    def __init__(self, memories: _Optional[_Iterable[_Union[ReinforcedMemory, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class DecayScoresRequest(_message.Message):
    __slots__ = ("limit", "request_id")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    limit: int
    request_id: str
    def __init__(self, limit: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DecayScoresResponse(_message.Message):
    __slots__ = ("decayed_count", "more")
    DECAYED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    decayed_count: int
    more: bool
    def __init__(self, decayed_count: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

class ConsolidateMemoriesRequest(_message.Message):
    __slots__ = ("dry_run", "page_size", "page_token", "request_id")
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    page_size: int
    page_token: str
    request_id: str
    def __init__(self, dry_run: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DuplicateGroup(_message.Message):
    __slots__ = ("kept_memory_id", "archived_memory_ids")
    KEPT_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    kept_memory_id: str
    archived_memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kept_memory_id: _Optional[str] = ..., archived_memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ConsolidateMemoriesResponse(_message.Message):
    __slots__ = ("groups", "next_page_token")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[DuplicateGroup]
    next_page_token: str
    def __init__(self, groups: _Optional[_Iterable[_Union[DuplicateGroup, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class MergeMemoriesRequest(_message.Message):
    __slots__ = ("memory_ids", "request_id")
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    def __init__(self, memory_ids: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ...) -> None: ...
