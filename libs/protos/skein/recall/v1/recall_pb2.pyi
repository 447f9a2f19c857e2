import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import memory_pb2 as _memory_pb2
from skein.session.v1 import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ItemKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ITEM_KIND_UNSPECIFIED: _ClassVar[ItemKind]
    ITEM_KIND_MEMORY: _ClassVar[ItemKind]
    ITEM_KIND_MESSAGE: _ClassVar[ItemKind]
ITEM_KIND_UNSPECIFIED: ItemKind
ITEM_KIND_MEMORY: ItemKind
ITEM_KIND_MESSAGE: ItemKind

class ScoreComponent(_message.Message):
    __slots__ = ("signal", "raw", "value", "weight", "rank")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    signal: str
    raw: float
    value: float
    weight: float
    rank: int
    def __init__(self, signal: _Optional[str] = ..., raw: _Optional[float] = ..., value: _Optional[float] = ..., weight: _Optional[float] = ..., rank: _Optional[int] = ...) -> None: ...

class Hit(_message.Message):
    __slots__ = ("kind", "item_id", "score", "similarity", "components", "memory", "message")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    kind: ItemKind
    item_id: str
    score: float
    similarity: float
    components: _containers.RepeatedCompositeFieldContainer[ScoreComponent]
    memory: _memory_pb2.Memory
    message: _session_pb2.Message
    def __init__(self, kind: _Optional[_Union[ItemKind, str]] = ..., item_id: _Optional[str] = ..., score: _Optional[float] = ..., similarity: _Optional[float] = ..., components: _Optional[_Iterable[_Union[ScoreComponent, _Mapping]]] = ..., memory: _Optional[_Union[_memory_pb2.Memory, _Mapping]] = ..., message: _Optional[_Union[_session_pb2.Message, _Mapping]] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("query", "embedding", "limit", "kinds", "filter", "min_similarity")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    query: str
    embedding: _containers.RepeatedScalarFieldContainer[float]
    limit: int
    kinds: _containers.RepeatedScalarFieldContainer[ItemKind]
    filter: _memory_pb2.MemoryFilter
    min_similarity: float
    def __init__(self, query: _Optional[str] = ..., embedding: _Optional[_Iterable[float]] = ..., limit: _Optional[int] = ..., kinds: _Optional[_Iterable[_Union[ItemKind, str]]] = ..., filter: _Optional[_Union[_memory_pb2.MemoryFilter, _Mapping]] = ..., min_similarity: _Optional[float] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("hits", "model", "dense_path", "dense_unavailable", "filter_emptied", "filter_truncated")
    HITS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DENSE_PATH_FIELD_NUMBER: _ClassVar[int]
    DENSE_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    FILTER_EMPTIED_FIELD_NUMBER: _ClassVar[int]
    FILTER_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[Hit]
    model: str
    dense_path: str
    dense_unavailable: bool
    filter_emptied: bool
    filter_truncated: bool
    def __init__(self, hits: _Optional[_Iterable[_Union[Hit, _Mapping]]] = ..., model: _Optional[str] = ..., dense_path: _Optional[str] = ..., dense_unavailable: _Optional[bool] = ..., filter_emptied: _Optional[bool] = ..., filter_truncated: _Optional[bool] = ...) -> None: ...

class EmbedTextRequest(_message.Message):
    __slots__ = ("texts",)
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, texts: _Optional[_Iterable[str]] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class EmbedTextResponse(_message.Message):
    __slots__ = ("model", "embeddings")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    model: str
    embeddings: _containers.RepeatedCompositeFieldContainer[Embedding]
    def __init__(self, model: _Optional[str] = ..., embeddings: _Optional[_Iterable[_Union[Embedding, _Mapping]]] = ...) -> None: ...

class EmbeddingModel(_message.Message):
    __slots__ = ("model", "provider", "dimensions", "active", "create_time")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    model: str
    provider: str
    dimensions: int
    active: bool
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, model: _Optional[str] = ..., provider: _Optional[str] = ..., dimensions: _Optional[int] = ..., active: _Optional[bool] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListEmbeddingModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListEmbeddingModelsResponse(_message.Message):
    __slots__ = ("embedding_models",)
    EMBEDDING_MODELS_FIELD_NUMBER: _ClassVar[int]
    embedding_models: _containers.RepeatedCompositeFieldContainer[EmbeddingModel]
    def __init__(self, embedding_models: _Optional[_Iterable[_Union[EmbeddingModel, _Mapping]]] = ...) -> None: ...

class RegisterEmbeddingModelRequest(_message.Message):
    __slots__ = ("embedding_model", "request_id")
    EMBEDDING_MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    embedding_model: EmbeddingModel
    request_id: str
    def __init__(self, embedding_model: _Optional[_Union[EmbeddingModel, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class RegisterEmbeddingModelResponse(_message.Message):
    __slots__ = ("embedding_model",)
    EMBEDDING_MODEL_FIELD_NUMBER: _ClassVar[int]
    embedding_model: EmbeddingModel
    def __init__(self, embedding_model: _Optional[_Union[EmbeddingModel, _Mapping]] = ...) -> None: ...

class IndexItem(_message.Message):
    __slots__ = ("item_id", "revision", "text")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    revision: int
    text: str
    def __init__(self, item_id: _Optional[str] = ..., revision: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class IndexItemsRequest(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[IndexItem]
    def __init__(self, items: _Optional[_Iterable[_Union[IndexItem, _Mapping]]] = ...) -> None: ...

class IndexItemsResponse(_message.Message):
    __slots__ = ("indexed_count",)
    INDEXED_COUNT_FIELD_NUMBER: _ClassVar[int]
    indexed_count: int
    def __init__(self, indexed_count: _Optional[int] = ...) -> None: ...

class IndexBacklogRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class IndexBacklogResponse(_message.Message):
    __slots__ = ("indexed_count", "more")
    INDEXED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    indexed_count: int
    more: bool
    def __init__(self, indexed_count: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

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
