import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import blocks_pb2 as _blocks_pb2
from skein.memory.v1 import memory_pb2 as _memory_pb2
from skein.memory.v1 import pages_pb2 as _pages_pb2
from skein.options.v1 import options_pb2 as _options_pb2
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
    ITEM_KIND_BLOCK: _ClassVar[ItemKind]
    ITEM_KIND_PROFILE: _ClassVar[ItemKind]

class SearchMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEARCH_MODE_UNSPECIFIED: _ClassVar[SearchMode]
    SEARCH_MODE_HYBRID: _ClassVar[SearchMode]
    SEARCH_MODE_KEYWORD: _ClassVar[SearchMode]
    SEARCH_MODE_SEMANTIC: _ClassVar[SearchMode]

class KnownItemState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KNOWN_ITEM_STATE_UNSPECIFIED: _ClassVar[KnownItemState]
    KNOWN_ITEM_STATE_CHANGED: _ClassVar[KnownItemState]
    KNOWN_ITEM_STATE_SUPERSEDED: _ClassVar[KnownItemState]
    KNOWN_ITEM_STATE_EXPIRED: _ClassVar[KnownItemState]
    KNOWN_ITEM_STATE_GONE: _ClassVar[KnownItemState]

class ReplayGapReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPLAY_GAP_REASON_UNSPECIFIED: _ClassVar[ReplayGapReason]
    REPLAY_GAP_REASON_ITEMS_PURGED: _ClassVar[ReplayGapReason]
    REPLAY_GAP_REASON_MODEL_DROPPED: _ClassVar[ReplayGapReason]
    REPLAY_GAP_REASON_REQUEST_ERASED: _ClassVar[ReplayGapReason]
    REPLAY_GAP_REASON_FORMULA_CHANGED: _ClassVar[ReplayGapReason]
    REPLAY_GAP_REASON_HISTORY_ENDED: _ClassVar[ReplayGapReason]
    REPLAY_GAP_REASON_ITEMS_ARCHIVED: _ClassVar[ReplayGapReason]
    REPLAY_GAP_REASON_PACKER_CHANGED: _ClassVar[ReplayGapReason]
    REPLAY_GAP_REASON_OTHERS_PURGED: _ClassVar[ReplayGapReason]
    REPLAY_GAP_REASON_TEXTS_ALTERED: _ClassVar[ReplayGapReason]

class QueryExpansionReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUERY_EXPANSION_REASON_UNSPECIFIED: _ClassVar[QueryExpansionReason]
    QUERY_EXPANSION_REASON_ALIAS: _ClassVar[QueryExpansionReason]
    QUERY_EXPANSION_REASON_TYPO: _ClassVar[QueryExpansionReason]

class EmbedPurpose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EMBED_PURPOSE_UNSPECIFIED: _ClassVar[EmbedPurpose]
    EMBED_PURPOSE_QUERY: _ClassVar[EmbedPurpose]
    EMBED_PURPOSE_PASSAGE: _ClassVar[EmbedPurpose]

class ReindexState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REINDEX_STATE_UNSPECIFIED: _ClassVar[ReindexState]
    REINDEX_STATE_RUNNING: _ClassVar[ReindexState]
    REINDEX_STATE_COMPLETE: _ClassVar[ReindexState]
    REINDEX_STATE_CANCELLED: _ClassVar[ReindexState]
ITEM_KIND_UNSPECIFIED: ItemKind
ITEM_KIND_MEMORY: ItemKind
ITEM_KIND_MESSAGE: ItemKind
ITEM_KIND_BLOCK: ItemKind
ITEM_KIND_PROFILE: ItemKind
SEARCH_MODE_UNSPECIFIED: SearchMode
SEARCH_MODE_HYBRID: SearchMode
SEARCH_MODE_KEYWORD: SearchMode
SEARCH_MODE_SEMANTIC: SearchMode
KNOWN_ITEM_STATE_UNSPECIFIED: KnownItemState
KNOWN_ITEM_STATE_CHANGED: KnownItemState
KNOWN_ITEM_STATE_SUPERSEDED: KnownItemState
KNOWN_ITEM_STATE_EXPIRED: KnownItemState
KNOWN_ITEM_STATE_GONE: KnownItemState
REPLAY_GAP_REASON_UNSPECIFIED: ReplayGapReason
REPLAY_GAP_REASON_ITEMS_PURGED: ReplayGapReason
REPLAY_GAP_REASON_MODEL_DROPPED: ReplayGapReason
REPLAY_GAP_REASON_REQUEST_ERASED: ReplayGapReason
REPLAY_GAP_REASON_FORMULA_CHANGED: ReplayGapReason
REPLAY_GAP_REASON_HISTORY_ENDED: ReplayGapReason
REPLAY_GAP_REASON_ITEMS_ARCHIVED: ReplayGapReason
REPLAY_GAP_REASON_PACKER_CHANGED: ReplayGapReason
REPLAY_GAP_REASON_OTHERS_PURGED: ReplayGapReason
REPLAY_GAP_REASON_TEXTS_ALTERED: ReplayGapReason
QUERY_EXPANSION_REASON_UNSPECIFIED: QueryExpansionReason
QUERY_EXPANSION_REASON_ALIAS: QueryExpansionReason
QUERY_EXPANSION_REASON_TYPO: QueryExpansionReason
EMBED_PURPOSE_UNSPECIFIED: EmbedPurpose
EMBED_PURPOSE_QUERY: EmbedPurpose
EMBED_PURPOSE_PASSAGE: EmbedPurpose
REINDEX_STATE_UNSPECIFIED: ReindexState
REINDEX_STATE_RUNNING: ReindexState
REINDEX_STATE_COMPLETE: ReindexState
REINDEX_STATE_CANCELLED: ReindexState

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
    __slots__ = ("kind", "item_id", "score", "similarity", "components", "memory", "message", "block", "has_query_words", "relevance", "duplicate_ids", "older_ids", "trust")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    HAS_QUERY_WORDS_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_IDS_FIELD_NUMBER: _ClassVar[int]
    OLDER_IDS_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    kind: ItemKind
    item_id: str
    score: float
    similarity: float
    components: _containers.RepeatedCompositeFieldContainer[ScoreComponent]
    memory: _memory_pb2.Memory
    message: _session_pb2.Message
    block: _blocks_pb2.Block
    has_query_words: bool
    relevance: float
    duplicate_ids: _containers.RepeatedScalarFieldContainer[str]
    older_ids: _containers.RepeatedScalarFieldContainer[str]
    trust: float
    def __init__(self, kind: _Optional[_Union[ItemKind, str]] = ..., item_id: _Optional[str] = ..., score: _Optional[float] = ..., similarity: _Optional[float] = ..., components: _Optional[_Iterable[_Union[ScoreComponent, _Mapping]]] = ..., memory: _Optional[_Union[_memory_pb2.Memory, _Mapping]] = ..., message: _Optional[_Union[_session_pb2.Message, _Mapping]] = ..., block: _Optional[_Union[_blocks_pb2.Block, _Mapping]] = ..., has_query_words: _Optional[bool] = ..., relevance: _Optional[float] = ..., duplicate_ids: _Optional[_Iterable[str]] = ..., older_ids: _Optional[_Iterable[str]] = ..., trust: _Optional[float] = ...) -> None: ...

class MessageFilter(_message.Message):
    __slots__ = ("roles", "speakers")
    ROLES_FIELD_NUMBER: _ClassVar[int]
    SPEAKERS_FIELD_NUMBER: _ClassVar[int]
    roles: _containers.RepeatedScalarFieldContainer[_session_pb2.MessageRole]
    speakers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, roles: _Optional[_Iterable[_Union[_session_pb2.MessageRole, str]]] = ..., speakers: _Optional[_Iterable[str]] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("query", "embedding", "limit", "kinds", "filter", "min_similarity", "show_superseded", "weights", "fusion", "mode", "min_relevance", "show_duplicates", "message_filter", "min_trust", "as_of_time")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    QUERY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    SHOW_SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    FUSION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MIN_RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    SHOW_DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_TRUST_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    query: str
    embedding: _containers.RepeatedScalarFieldContainer[float]
    limit: int
    kinds: _containers.RepeatedScalarFieldContainer[ItemKind]
    filter: _memory_pb2.MemoryFilter
    min_similarity: float
    show_superseded: bool
    weights: _containers.ScalarMap[str, float]
    fusion: str
    mode: SearchMode
    min_relevance: float
    show_duplicates: bool
    message_filter: MessageFilter
    min_trust: float
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, query: _Optional[str] = ..., embedding: _Optional[_Iterable[float]] = ..., limit: _Optional[int] = ..., kinds: _Optional[_Iterable[_Union[ItemKind, str]]] = ..., filter: _Optional[_Union[_memory_pb2.MemoryFilter, _Mapping]] = ..., min_similarity: _Optional[float] = ..., show_superseded: _Optional[bool] = ..., weights: _Optional[_Mapping[str, float]] = ..., fusion: _Optional[str] = ..., mode: _Optional[_Union[SearchMode, str]] = ..., min_relevance: _Optional[float] = ..., show_duplicates: _Optional[bool] = ..., message_filter: _Optional[_Union[MessageFilter, _Mapping]] = ..., min_trust: _Optional[float] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("hits", "model", "dense_path", "dense_unavailable", "filter_emptied", "filter_truncated", "emptied_by", "formula", "nothing_relevant", "query_expansions", "pending_embedding_count", "purged_count", "receipt_id", "asks_for_all")
    HITS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DENSE_PATH_FIELD_NUMBER: _ClassVar[int]
    DENSE_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    FILTER_EMPTIED_FIELD_NUMBER: _ClassVar[int]
    FILTER_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    EMPTIED_BY_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    NOTHING_RELEVANT_FIELD_NUMBER: _ClassVar[int]
    QUERY_EXPANSIONS_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    PURGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    ASKS_FOR_ALL_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[Hit]
    model: str
    dense_path: str
    dense_unavailable: bool
    filter_emptied: bool
    filter_truncated: bool
    emptied_by: _containers.RepeatedScalarFieldContainer[str]
    formula: str
    nothing_relevant: bool
    query_expansions: _containers.RepeatedCompositeFieldContainer[QueryExpansion]
    pending_embedding_count: int
    purged_count: int
    receipt_id: str
    asks_for_all: bool
    def __init__(self, hits: _Optional[_Iterable[_Union[Hit, _Mapping]]] = ..., model: _Optional[str] = ..., dense_path: _Optional[str] = ..., dense_unavailable: _Optional[bool] = ..., filter_emptied: _Optional[bool] = ..., filter_truncated: _Optional[bool] = ..., emptied_by: _Optional[_Iterable[str]] = ..., formula: _Optional[str] = ..., nothing_relevant: _Optional[bool] = ..., query_expansions: _Optional[_Iterable[_Union[QueryExpansion, _Mapping]]] = ..., pending_embedding_count: _Optional[int] = ..., purged_count: _Optional[int] = ..., receipt_id: _Optional[str] = ..., asks_for_all: _Optional[bool] = ...) -> None: ...

class RecordContextsRequest(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[ContextRecord]
    def __init__(self, records: _Optional[_Iterable[_Union[ContextRecord, _Mapping]]] = ...) -> None: ...

class ContextRecord(_message.Message):
    __slots__ = ("receipt_id", "request_id", "statement", "salt", "inputs", "subject_ids")
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_IDS_FIELD_NUMBER: _ClassVar[int]
    receipt_id: str
    request_id: str
    statement: ContextStatement
    salt: bytes
    inputs: ContextInputs
    subject_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, receipt_id: _Optional[str] = ..., request_id: _Optional[str] = ..., statement: _Optional[_Union[ContextStatement, _Mapping]] = ..., salt: _Optional[bytes] = ..., inputs: _Optional[_Union[ContextInputs, _Mapping]] = ..., subject_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RecordContextsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckItemsRequest(_message.Message):
    __slots__ = ("items", "filter", "min_trust", "session_id")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_TRUST_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[KnownItem]
    filter: _memory_pb2.MemoryFilter
    min_trust: float
    session_id: str
    def __init__(self, items: _Optional[_Iterable[_Union[KnownItem, _Mapping]]] = ..., filter: _Optional[_Union[_memory_pb2.MemoryFilter, _Mapping]] = ..., min_trust: _Optional[float] = ..., session_id: _Optional[str] = ...) -> None: ...

class KnownItem(_message.Message):
    __slots__ = ("kind", "item_id", "revision")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    kind: ItemKind
    item_id: str
    revision: int
    def __init__(self, kind: _Optional[_Union[ItemKind, str]] = ..., item_id: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class CheckedItem(_message.Message):
    __slots__ = ("item_id", "state", "item")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    state: KnownItemState
    item: Hit
    def __init__(self, item_id: _Optional[str] = ..., state: _Optional[_Union[KnownItemState, str]] = ..., item: _Optional[_Union[Hit, _Mapping]] = ...) -> None: ...

class CheckItemsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[CheckedItem]
    def __init__(self, items: _Optional[_Iterable[_Union[CheckedItem, _Mapping]]] = ...) -> None: ...

class GetRecallReceiptRequest(_message.Message):
    __slots__ = ("receipt_id",)
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    receipt_id: str
    def __init__(self, receipt_id: _Optional[str] = ...) -> None: ...

class GetRecallReceiptResponse(_message.Message):
    __slots__ = ("receipt",)
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    receipt: RecallReceipt
    def __init__(self, receipt: _Optional[_Union[RecallReceipt, _Mapping]] = ...) -> None: ...

class ListRecallReceiptsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "principal", "start_time", "end_time")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    principal: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., principal: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListRecallReceiptsResponse(_message.Message):
    __slots__ = ("receipts", "next_page_token")
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    receipts: _containers.RepeatedCompositeFieldContainer[RecallReceiptSummary]
    next_page_token: str
    def __init__(self, receipts: _Optional[_Iterable[_Union[RecallReceiptSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RecallReceiptSummary(_message.Message):
    __slots__ = ("receipt_id", "create_time", "principal", "query", "request_erased", "hit_count", "model", "formula", "altered")
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ERASED_FIELD_NUMBER: _ClassVar[int]
    HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    ALTERED_FIELD_NUMBER: _ClassVar[int]
    receipt_id: str
    create_time: _timestamp_pb2.Timestamp
    principal: str
    query: str
    request_erased: bool
    hit_count: int
    model: str
    formula: str
    altered: bool
    def __init__(self, receipt_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., principal: _Optional[str] = ..., query: _Optional[str] = ..., request_erased: _Optional[bool] = ..., hit_count: _Optional[int] = ..., model: _Optional[str] = ..., formula: _Optional[str] = ..., altered: _Optional[bool] = ...) -> None: ...

class ReplayRecallRequest(_message.Message):
    __slots__ = ("receipt_id", "query", "embedding")
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    receipt_id: str
    query: str
    embedding: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, receipt_id: _Optional[str] = ..., query: _Optional[str] = ..., embedding: _Optional[_Iterable[float]] = ...) -> None: ...

class ReplayGap(_message.Message):
    __slots__ = ("reason", "item_ids", "name", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    ITEM_IDS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: ReplayGapReason
    item_ids: _containers.RepeatedScalarFieldContainer[str]
    name: str
    count: int
    def __init__(self, reason: _Optional[_Union[ReplayGapReason, str]] = ..., item_ids: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class ReplayRecallResponse(_message.Message):
    __slots__ = ("response", "identical", "gaps", "differing_ids", "query_unverified")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    IDENTICAL_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    DIFFERING_IDS_FIELD_NUMBER: _ClassVar[int]
    QUERY_UNVERIFIED_FIELD_NUMBER: _ClassVar[int]
    response: RecallResponse
    identical: bool
    gaps: _containers.RepeatedCompositeFieldContainer[ReplayGap]
    differing_ids: _containers.RepeatedScalarFieldContainer[str]
    query_unverified: bool
    def __init__(self, response: _Optional[_Union[RecallResponse, _Mapping]] = ..., identical: _Optional[bool] = ..., gaps: _Optional[_Iterable[_Union[ReplayGap, _Mapping]]] = ..., differing_ids: _Optional[_Iterable[str]] = ..., query_unverified: _Optional[bool] = ...) -> None: ...

class DiffRecallRequest(_message.Message):
    __slots__ = ("receipt_id", "other_receipt_id")
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    OTHER_RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    receipt_id: str
    other_receipt_id: str
    def __init__(self, receipt_id: _Optional[str] = ..., other_receipt_id: _Optional[str] = ...) -> None: ...

class DiffRecallResponse(_message.Message):
    __slots__ = ("changed_inputs", "hits", "changes_truncated", "unknown_inputs")
    CHANGED_INPUTS_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_INPUTS_FIELD_NUMBER: _ClassVar[int]
    changed_inputs: _containers.RepeatedScalarFieldContainer[str]
    hits: _containers.RepeatedCompositeFieldContainer[HitDifference]
    changes_truncated: bool
    unknown_inputs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, changed_inputs: _Optional[_Iterable[str]] = ..., hits: _Optional[_Iterable[_Union[HitDifference, _Mapping]]] = ..., changes_truncated: _Optional[bool] = ..., unknown_inputs: _Optional[_Iterable[str]] = ...) -> None: ...

class HitDifference(_message.Message):
    __slots__ = ("kind", "item_id", "rank", "other_rank", "revision", "other_revision", "score", "other_score", "signals", "cause", "changes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    OTHER_RANK_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    OTHER_REVISION_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    OTHER_SCORE_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    kind: ItemKind
    item_id: str
    rank: int
    other_rank: int
    revision: int
    other_revision: int
    score: float
    other_score: float
    signals: _containers.RepeatedCompositeFieldContainer[SignalDifference]
    cause: str
    changes: _containers.RepeatedCompositeFieldContainer[ItemChange]
    def __init__(self, kind: _Optional[_Union[ItemKind, str]] = ..., item_id: _Optional[str] = ..., rank: _Optional[int] = ..., other_rank: _Optional[int] = ..., revision: _Optional[int] = ..., other_revision: _Optional[int] = ..., score: _Optional[float] = ..., other_score: _Optional[float] = ..., signals: _Optional[_Iterable[_Union[SignalDifference, _Mapping]]] = ..., cause: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[ItemChange, _Mapping]]] = ...) -> None: ...

class SignalDifference(_message.Message):
    __slots__ = ("signal", "raw", "other_raw")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    OTHER_RAW_FIELD_NUMBER: _ClassVar[int]
    signal: str
    raw: float
    other_raw: float
    def __init__(self, signal: _Optional[str] = ..., raw: _Optional[float] = ..., other_raw: _Optional[float] = ...) -> None: ...

class ItemChange(_message.Message):
    __slots__ = ("event_id", "event_type", "principal", "create_time")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    event_id: int
    event_type: str
    principal: str
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, event_id: _Optional[int] = ..., event_type: _Optional[str] = ..., principal: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RecallReceipt(_message.Message):
    __slots__ = ("receipt_id", "tenant_id", "create_time", "statement", "content", "signature", "key_id", "query", "request", "request_erased", "document", "principal", "hits", "context", "term_documents")
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ERASED_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TERM_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    receipt_id: str
    tenant_id: str
    create_time: _timestamp_pb2.Timestamp
    statement: ReceiptContent
    content: bytes
    signature: bytes
    key_id: str
    query: str
    request: RecallRequest
    request_erased: bool
    document: str
    principal: str
    hits: _containers.RepeatedCompositeFieldContainer[ReceiptHit]
    context: ContextReceipt
    term_documents: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, receipt_id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., statement: _Optional[_Union[ReceiptContent, _Mapping]] = ..., content: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., key_id: _Optional[str] = ..., query: _Optional[str] = ..., request: _Optional[_Union[RecallRequest, _Mapping]] = ..., request_erased: _Optional[bool] = ..., document: _Optional[str] = ..., principal: _Optional[str] = ..., hits: _Optional[_Iterable[_Union[ReceiptHit, _Mapping]]] = ..., context: _Optional[_Union[ContextReceipt, _Mapping]] = ..., term_documents: _Optional[_Iterable[int]] = ...) -> None: ...

class ReceiptHit(_message.Message):
    __slots__ = ("kind", "item_id", "revision", "score", "signals")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    kind: ItemKind
    item_id: str
    revision: int
    score: float
    signals: _containers.RepeatedCompositeFieldContainer[ReceiptSignal]
    def __init__(self, kind: _Optional[_Union[ItemKind, str]] = ..., item_id: _Optional[str] = ..., revision: _Optional[int] = ..., score: _Optional[float] = ..., signals: _Optional[_Iterable[_Union[ReceiptSignal, _Mapping]]] = ...) -> None: ...

class ReceiptSignal(_message.Message):
    __slots__ = ("signal", "raw")
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    signal: str
    raw: float
    def __init__(self, signal: _Optional[str] = ..., raw: _Optional[float] = ...) -> None: ...

class ContextReceipt(_message.Message):
    __slots__ = ("statement", "content", "signature", "key_id", "inputs", "inputs_erased", "salt")
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_ERASED_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    statement: ContextStatement
    content: bytes
    signature: bytes
    key_id: str
    inputs: ContextInputs
    inputs_erased: bool
    salt: bytes
    def __init__(self, statement: _Optional[_Union[ContextStatement, _Mapping]] = ..., content: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., key_id: _Optional[str] = ..., inputs: _Optional[_Union[ContextInputs, _Mapping]] = ..., inputs_erased: _Optional[bool] = ..., salt: _Optional[bytes] = ...) -> None: ...

class ContextStatement(_message.Message):
    __slots__ = ("packer", "text_digest", "inputs_digest", "token_count")
    PACKER_FIELD_NUMBER: _ClassVar[int]
    TEXT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    INPUTS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    packer: str
    text_digest: bytes
    inputs_digest: bytes
    token_count: int
    def __init__(self, packer: _Optional[str] = ..., text_digest: _Optional[bytes] = ..., inputs_digest: _Optional[bytes] = ..., token_count: _Optional[int] = ...) -> None: ...

class ContextInputs(_message.Message):
    __slots__ = ("token_budget", "plain_text", "newest_first", "session_id", "subject_id", "hit_count", "blocks", "profile", "message_ids", "message_revisions", "page")
    TOKEN_BUDGET_FIELD_NUMBER: _ClassVar[int]
    PLAIN_TEXT_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_REVISIONS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    token_budget: int
    plain_text: bool
    newest_first: bool
    session_id: str
    subject_id: str
    hit_count: int
    blocks: _containers.RepeatedCompositeFieldContainer[ItemPin]
    profile: ItemPin
    message_ids: bytes
    message_revisions: _containers.RepeatedScalarFieldContainer[int]
    page: _pages_pb2.GetPageRequest
    def __init__(self, token_budget: _Optional[int] = ..., plain_text: _Optional[bool] = ..., newest_first: _Optional[bool] = ..., session_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., hit_count: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[ItemPin, _Mapping]]] = ..., profile: _Optional[_Union[ItemPin, _Mapping]] = ..., message_ids: _Optional[bytes] = ..., message_revisions: _Optional[_Iterable[int]] = ..., page: _Optional[_Union[_pages_pb2.GetPageRequest, _Mapping]] = ...) -> None: ...

class ItemPin(_message.Message):
    __slots__ = ("item_id", "revision", "create_time", "trust")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    trust: float
    def __init__(self, item_id: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., trust: _Optional[float] = ...) -> None: ...

class ReceiptRequest(_message.Message):
    __slots__ = ("request", "term_documents")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TERM_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    request: RecallRequest
    term_documents: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, request: _Optional[_Union[RecallRequest, _Mapping]] = ..., term_documents: _Optional[_Iterable[int]] = ...) -> None: ...

class ReceiptContent(_message.Message):
    __slots__ = ("principal_kind", "principal_id", "time_microseconds", "duration_microseconds", "snapshot_start", "snapshot_size", "snapshot_gaps", "request_digest", "query_digest", "query_key_check", "model", "formula", "dense_path", "weights", "similarity_floor", "similarity_ceiling", "search_language", "min_relevance", "min_best_relevance", "dense_unavailable", "pending_embedding_count", "corpus_documents", "corpus_length", "entity_ids", "item_ids", "revisions", "flags", "scores", "dense", "context", "lexical", "reply", "length", "date", "trust", "newer", "tokens", "asks_for_all", "filter_truncated", "nothing_relevant", "calibrated", "text_digests", "space_ids")
    PRINCIPAL_KIND_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
    DURATION_MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_START_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_SIZE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_GAPS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    QUERY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    QUERY_KEY_CHECK_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    DENSE_PATH_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FLOOR_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_CEILING_FIELD_NUMBER: _ClassVar[int]
    SEARCH_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    MIN_RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    MIN_BEST_RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    DENSE_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    CORPUS_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    CORPUS_LENGTH_FIELD_NUMBER: _ClassVar[int]
    ENTITY_IDS_FIELD_NUMBER: _ClassVar[int]
    ITEM_IDS_FIELD_NUMBER: _ClassVar[int]
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    DENSE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    LEXICAL_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    NEWER_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    ASKS_FOR_ALL_FIELD_NUMBER: _ClassVar[int]
    FILTER_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    NOTHING_RELEVANT_FIELD_NUMBER: _ClassVar[int]
    CALIBRATED_FIELD_NUMBER: _ClassVar[int]
    TEXT_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    SPACE_IDS_FIELD_NUMBER: _ClassVar[int]
    principal_kind: str
    principal_id: bytes
    time_microseconds: int
    duration_microseconds: int
    snapshot_start: int
    snapshot_size: int
    snapshot_gaps: _containers.RepeatedScalarFieldContainer[int]
    request_digest: bytes
    query_digest: bytes
    query_key_check: bytes
    model: str
    formula: str
    dense_path: str
    weights: _containers.RepeatedScalarFieldContainer[float]
    similarity_floor: float
    similarity_ceiling: float
    search_language: str
    min_relevance: float
    min_best_relevance: float
    dense_unavailable: bool
    pending_embedding_count: int
    corpus_documents: int
    corpus_length: int
    entity_ids: bytes
    item_ids: bytes
    revisions: _containers.RepeatedScalarFieldContainer[int]
    flags: bytes
    scores: _containers.RepeatedScalarFieldContainer[float]
    dense: _containers.RepeatedScalarFieldContainer[float]
    context: _containers.RepeatedScalarFieldContainer[float]
    lexical: _containers.RepeatedScalarFieldContainer[float]
    reply: _containers.RepeatedScalarFieldContainer[float]
    length: _containers.RepeatedScalarFieldContainer[int]
    date: _containers.RepeatedScalarFieldContainer[float]
    trust: _containers.RepeatedScalarFieldContainer[float]
    newer: _containers.RepeatedScalarFieldContainer[float]
    tokens: _containers.RepeatedScalarFieldContainer[float]
    asks_for_all: bool
    filter_truncated: bool
    nothing_relevant: bool
    calibrated: bool
    text_digests: bytes
    space_ids: bytes
    def __init__(self, principal_kind: _Optional[str] = ..., principal_id: _Optional[bytes] = ..., time_microseconds: _Optional[int] = ..., duration_microseconds: _Optional[int] = ..., snapshot_start: _Optional[int] = ..., snapshot_size: _Optional[int] = ..., snapshot_gaps: _Optional[_Iterable[int]] = ..., request_digest: _Optional[bytes] = ..., query_digest: _Optional[bytes] = ..., query_key_check: _Optional[bytes] = ..., model: _Optional[str] = ..., formula: _Optional[str] = ..., dense_path: _Optional[str] = ..., weights: _Optional[_Iterable[float]] = ..., similarity_floor: _Optional[float] = ..., similarity_ceiling: _Optional[float] = ..., search_language: _Optional[str] = ..., min_relevance: _Optional[float] = ..., min_best_relevance: _Optional[float] = ..., dense_unavailable: _Optional[bool] = ..., pending_embedding_count: _Optional[int] = ..., corpus_documents: _Optional[int] = ..., corpus_length: _Optional[int] = ..., entity_ids: _Optional[bytes] = ..., item_ids: _Optional[bytes] = ..., revisions: _Optional[_Iterable[int]] = ..., flags: _Optional[bytes] = ..., scores: _Optional[_Iterable[float]] = ..., dense: _Optional[_Iterable[float]] = ..., context: _Optional[_Iterable[float]] = ..., lexical: _Optional[_Iterable[float]] = ..., reply: _Optional[_Iterable[float]] = ..., length: _Optional[_Iterable[int]] = ..., date: _Optional[_Iterable[float]] = ..., trust: _Optional[_Iterable[float]] = ..., newer: _Optional[_Iterable[float]] = ..., tokens: _Optional[_Iterable[float]] = ..., asks_for_all: _Optional[bool] = ..., filter_truncated: _Optional[bool] = ..., nothing_relevant: _Optional[bool] = ..., calibrated: _Optional[bool] = ..., text_digests: _Optional[bytes] = ..., space_ids: _Optional[bytes] = ...) -> None: ...

class QueryExpansion(_message.Message):
    __slots__ = ("written", "read_as", "reason")
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    READ_AS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    written: str
    read_as: str
    reason: QueryExpansionReason
    def __init__(self, written: _Optional[str] = ..., read_as: _Optional[str] = ..., reason: _Optional[_Union[QueryExpansionReason, str]] = ...) -> None: ...

class FindSimilarRequest(_message.Message):
    __slots__ = ("item_id", "limit", "kinds", "filter", "min_similarity", "show_superseded", "mode", "external_id", "kind", "as_of_time", "subject_id")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    SHOW_SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    limit: int
    kinds: _containers.RepeatedScalarFieldContainer[ItemKind]
    filter: _memory_pb2.MemoryFilter
    min_similarity: float
    show_superseded: bool
    mode: SearchMode
    external_id: str
    kind: ItemKind
    as_of_time: _timestamp_pb2.Timestamp
    subject_id: str
    def __init__(self, item_id: _Optional[str] = ..., limit: _Optional[int] = ..., kinds: _Optional[_Iterable[_Union[ItemKind, str]]] = ..., filter: _Optional[_Union[_memory_pb2.MemoryFilter, _Mapping]] = ..., min_similarity: _Optional[float] = ..., show_superseded: _Optional[bool] = ..., mode: _Optional[_Union[SearchMode, str]] = ..., external_id: _Optional[str] = ..., kind: _Optional[_Union[ItemKind, str]] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., subject_id: _Optional[str] = ...) -> None: ...

class FindSimilarResponse(_message.Message):
    __slots__ = ("hits", "model", "dense_path", "dense_unavailable", "filter_emptied", "filter_truncated", "emptied_by", "formula", "pending_embedding_count", "purged_count")
    HITS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DENSE_PATH_FIELD_NUMBER: _ClassVar[int]
    DENSE_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    FILTER_EMPTIED_FIELD_NUMBER: _ClassVar[int]
    FILTER_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    EMPTIED_BY_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    PURGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[Hit]
    model: str
    dense_path: str
    dense_unavailable: bool
    filter_emptied: bool
    filter_truncated: bool
    emptied_by: _containers.RepeatedScalarFieldContainer[str]
    formula: str
    pending_embedding_count: int
    purged_count: int
    def __init__(self, hits: _Optional[_Iterable[_Union[Hit, _Mapping]]] = ..., model: _Optional[str] = ..., dense_path: _Optional[str] = ..., dense_unavailable: _Optional[bool] = ..., filter_emptied: _Optional[bool] = ..., filter_truncated: _Optional[bool] = ..., emptied_by: _Optional[_Iterable[str]] = ..., formula: _Optional[str] = ..., pending_embedding_count: _Optional[int] = ..., purged_count: _Optional[int] = ...) -> None: ...

class GetSearchCountsRequest(_message.Message):
    __slots__ = ("start_time", "end_time")
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    def __init__(self, start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetSearchCountsResponse(_message.Message):
    __slots__ = ("days",)
    DAYS_FIELD_NUMBER: _ClassVar[int]
    days: _containers.RepeatedCompositeFieldContainer[SearchDay]
    def __init__(self, days: _Optional[_Iterable[_Union[SearchDay, _Mapping]]] = ...) -> None: ...

class SearchDay(_message.Message):
    __slots__ = ("start_time", "search_count", "unanswered_count", "durations")
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    SEARCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DURATIONS_FIELD_NUMBER: _ClassVar[int]
    start_time: _timestamp_pb2.Timestamp
    search_count: int
    unanswered_count: int
    durations: _containers.RepeatedCompositeFieldContainer[SearchDuration]
    def __init__(self, start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., search_count: _Optional[int] = ..., unanswered_count: _Optional[int] = ..., durations: _Optional[_Iterable[_Union[SearchDuration, _Mapping]]] = ...) -> None: ...

class SearchDuration(_message.Message):
    __slots__ = ("max_milliseconds", "search_count")
    MAX_MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    max_milliseconds: int
    search_count: int
    def __init__(self, max_milliseconds: _Optional[int] = ..., search_count: _Optional[int] = ...) -> None: ...

class EmbedTextRequest(_message.Message):
    __slots__ = ("texts", "purpose")
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    purpose: EmbedPurpose
    def __init__(self, texts: _Optional[_Iterable[str]] = ..., purpose: _Optional[_Union[EmbedPurpose, str]] = ...) -> None: ...

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
    __slots__ = ("model", "provider", "dimensions", "active", "create_time", "endpoint", "remote_model", "batch_size", "timeout_seconds", "window_characters", "followed", "query_prefix", "passage_prefix", "similarity_floor", "similarity_ceiling", "offered")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    REMOTE_MODEL_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWED_FIELD_NUMBER: _ClassVar[int]
    QUERY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_PREFIX_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FLOOR_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_CEILING_FIELD_NUMBER: _ClassVar[int]
    OFFERED_FIELD_NUMBER: _ClassVar[int]
    model: str
    provider: str
    dimensions: int
    active: bool
    create_time: _timestamp_pb2.Timestamp
    endpoint: str
    remote_model: str
    batch_size: int
    timeout_seconds: float
    window_characters: int
    followed: bool
    query_prefix: str
    passage_prefix: str
    similarity_floor: float
    similarity_ceiling: float
    offered: bool
    def __init__(self, model: _Optional[str] = ..., provider: _Optional[str] = ..., dimensions: _Optional[int] = ..., active: _Optional[bool] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., endpoint: _Optional[str] = ..., remote_model: _Optional[str] = ..., batch_size: _Optional[int] = ..., timeout_seconds: _Optional[float] = ..., window_characters: _Optional[int] = ..., followed: _Optional[bool] = ..., query_prefix: _Optional[str] = ..., passage_prefix: _Optional[str] = ..., similarity_floor: _Optional[float] = ..., similarity_ceiling: _Optional[float] = ..., offered: _Optional[bool] = ...) -> None: ...

class ListEmbeddingModelsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEmbeddingModelsResponse(_message.Message):
    __slots__ = ("embedding_models", "next_page_token")
    EMBEDDING_MODELS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    embedding_models: _containers.RepeatedCompositeFieldContainer[EmbeddingModel]
    next_page_token: str
    def __init__(self, embedding_models: _Optional[_Iterable[_Union[EmbeddingModel, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("items", "defer_embedding")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    DEFER_EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[IndexItem]
    defer_embedding: bool
    def __init__(self, items: _Optional[_Iterable[_Union[IndexItem, _Mapping]]] = ..., defer_embedding: _Optional[bool] = ...) -> None: ...

class IndexItemsResponse(_message.Message):
    __slots__ = ("indexed_count",)
    INDEXED_COUNT_FIELD_NUMBER: _ClassVar[int]
    indexed_count: int
    def __init__(self, indexed_count: _Optional[int] = ...) -> None: ...

class IndexBacklogRequest(_message.Message):
    __slots__ = ("limit", "count_only", "max_characters")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    COUNT_ONLY_FIELD_NUMBER: _ClassVar[int]
    MAX_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    limit: int
    count_only: bool
    max_characters: int
    def __init__(self, limit: _Optional[int] = ..., count_only: _Optional[bool] = ..., max_characters: _Optional[int] = ...) -> None: ...

class IndexBacklogResponse(_message.Message):
    __slots__ = ("indexed_count", "more", "active", "pending_count", "oldest_pending_time")
    INDEXED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    OLDEST_PENDING_TIME_FIELD_NUMBER: _ClassVar[int]
    indexed_count: int
    more: bool
    active: bool
    pending_count: int
    oldest_pending_time: _timestamp_pb2.Timestamp
    def __init__(self, indexed_count: _Optional[int] = ..., more: _Optional[bool] = ..., active: _Optional[bool] = ..., pending_count: _Optional[int] = ..., oldest_pending_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

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

class PutEmbeddingRequest(_message.Message):
    __slots__ = ("item_id", "external_id", "kind", "model", "embeddings", "revision", "request_id", "provider")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    external_id: str
    kind: ItemKind
    model: str
    embeddings: _containers.RepeatedCompositeFieldContainer[Embedding]
    revision: int
    request_id: str
    provider: str
    def __init__(self, item_id: _Optional[str] = ..., external_id: _Optional[str] = ..., kind: _Optional[_Union[ItemKind, str]] = ..., model: _Optional[str] = ..., embeddings: _Optional[_Iterable[_Union[Embedding, _Mapping]]] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ..., provider: _Optional[str] = ...) -> None: ...

class PutEmbeddingResponse(_message.Message):
    __slots__ = ("item_id", "model", "vector_count")
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VECTOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    item_id: str
    model: str
    vector_count: int
    def __init__(self, item_id: _Optional[str] = ..., model: _Optional[str] = ..., vector_count: _Optional[int] = ...) -> None: ...

class BatchGetIndexStatesRequest(_message.Message):
    __slots__ = ("item_ids", "kind", "show_embeddings")
    ITEM_IDS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SHOW_EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    item_ids: _containers.RepeatedScalarFieldContainer[str]
    kind: ItemKind
    show_embeddings: bool
    def __init__(self, item_ids: _Optional[_Iterable[str]] = ..., kind: _Optional[_Union[ItemKind, str]] = ..., show_embeddings: _Optional[bool] = ...) -> None: ...

class BatchGetIndexStatesResponse(_message.Message):
    __slots__ = ("states", "not_found_ids", "unread_ids")
    STATES_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_IDS_FIELD_NUMBER: _ClassVar[int]
    UNREAD_IDS_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[IndexState]
    not_found_ids: _containers.RepeatedScalarFieldContainer[str]
    unread_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, states: _Optional[_Iterable[_Union[IndexState, _Mapping]]] = ..., not_found_ids: _Optional[_Iterable[str]] = ..., unread_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class IndexState(_message.Message):
    __slots__ = ("name", "item_id", "revision", "pending", "vectors")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    name: str
    item_id: str
    revision: int
    pending: bool
    vectors: _containers.RepeatedCompositeFieldContainer[ModelVectors]
    def __init__(self, name: _Optional[str] = ..., item_id: _Optional[str] = ..., revision: _Optional[int] = ..., pending: _Optional[bool] = ..., vectors: _Optional[_Iterable[_Union[ModelVectors, _Mapping]]] = ...) -> None: ...

class ModelVectors(_message.Message):
    __slots__ = ("model", "provider", "dimensions", "vector_count", "active", "from_caller", "put_time", "embeddings")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    VECTOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    FROM_CALLER_FIELD_NUMBER: _ClassVar[int]
    PUT_TIME_FIELD_NUMBER: _ClassVar[int]
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    model: str
    provider: str
    dimensions: int
    vector_count: int
    active: bool
    from_caller: bool
    put_time: _timestamp_pb2.Timestamp
    embeddings: _containers.RepeatedCompositeFieldContainer[Embedding]
    def __init__(self, model: _Optional[str] = ..., provider: _Optional[str] = ..., dimensions: _Optional[int] = ..., vector_count: _Optional[int] = ..., active: _Optional[bool] = ..., from_caller: _Optional[bool] = ..., put_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., embeddings: _Optional[_Iterable[_Union[Embedding, _Mapping]]] = ...) -> None: ...

class Reindex(_message.Message):
    __slots__ = ("reindex_id", "model", "tenant_id", "state", "texts_per_second", "tenant_count", "done_tenant_count", "document_count", "seen_count", "embedded_count", "missing_count", "create_time", "cancel_time", "created_by")
    REINDEX_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TEXTS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    TENANT_COUNT_FIELD_NUMBER: _ClassVar[int]
    DONE_TENANT_COUNT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SEEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    EMBEDDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MISSING_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CANCEL_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    reindex_id: str
    model: str
    tenant_id: str
    state: ReindexState
    texts_per_second: float
    tenant_count: int
    done_tenant_count: int
    document_count: int
    seen_count: int
    embedded_count: int
    missing_count: int
    create_time: _timestamp_pb2.Timestamp
    cancel_time: _timestamp_pb2.Timestamp
    created_by: str
    def __init__(self, reindex_id: _Optional[str] = ..., model: _Optional[str] = ..., tenant_id: _Optional[str] = ..., state: _Optional[_Union[ReindexState, str]] = ..., texts_per_second: _Optional[float] = ..., tenant_count: _Optional[int] = ..., done_tenant_count: _Optional[int] = ..., document_count: _Optional[int] = ..., seen_count: _Optional[int] = ..., embedded_count: _Optional[int] = ..., missing_count: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., cancel_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ...) -> None: ...

class StartReindexRequest(_message.Message):
    __slots__ = ("model", "tenant_id", "texts_per_second", "request_id")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    TEXTS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    model: str
    tenant_id: str
    texts_per_second: float
    request_id: str
    def __init__(self, model: _Optional[str] = ..., tenant_id: _Optional[str] = ..., texts_per_second: _Optional[float] = ..., request_id: _Optional[str] = ...) -> None: ...

class StartReindexResponse(_message.Message):
    __slots__ = ("reindex",)
    REINDEX_FIELD_NUMBER: _ClassVar[int]
    reindex: Reindex
    def __init__(self, reindex: _Optional[_Union[Reindex, _Mapping]] = ...) -> None: ...

class GetReindexRequest(_message.Message):
    __slots__ = ("reindex_id",)
    REINDEX_ID_FIELD_NUMBER: _ClassVar[int]
    reindex_id: str
    def __init__(self, reindex_id: _Optional[str] = ...) -> None: ...

class GetReindexResponse(_message.Message):
    __slots__ = ("reindex",)
    REINDEX_FIELD_NUMBER: _ClassVar[int]
    reindex: Reindex
    def __init__(self, reindex: _Optional[_Union[Reindex, _Mapping]] = ...) -> None: ...

class ListReindexesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListReindexesResponse(_message.Message):
    __slots__ = ("reindexes", "next_page_token")
    REINDEXES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reindexes: _containers.RepeatedCompositeFieldContainer[Reindex]
    next_page_token: str
    def __init__(self, reindexes: _Optional[_Iterable[_Union[Reindex, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelReindexRequest(_message.Message):
    __slots__ = ("reindex_id", "request_id")
    REINDEX_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    reindex_id: str
    request_id: str
    def __init__(self, reindex_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelReindexResponse(_message.Message):
    __slots__ = ("reindex",)
    REINDEX_FIELD_NUMBER: _ClassVar[int]
    reindex: Reindex
    def __init__(self, reindex: _Optional[_Union[Reindex, _Mapping]] = ...) -> None: ...

class CompareEmbeddingModelsRequest(_message.Message):
    __slots__ = ("model", "tenant_id", "queries", "limit", "samples")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    model: str
    tenant_id: str
    queries: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    samples: int
    def __init__(self, model: _Optional[str] = ..., tenant_id: _Optional[str] = ..., queries: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., samples: _Optional[int] = ...) -> None: ...

class ModelAgreement(_message.Message):
    __slots__ = ("tenant_id", "query_count", "agreement", "same_first_count")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_COUNT_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    SAME_FIRST_COUNT_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    query_count: int
    agreement: float
    same_first_count: int
    def __init__(self, tenant_id: _Optional[str] = ..., query_count: _Optional[int] = ..., agreement: _Optional[float] = ..., same_first_count: _Optional[int] = ...) -> None: ...

class CompareEmbeddingModelsResponse(_message.Message):
    __slots__ = ("active_model", "model", "limit", "overall", "tenants", "truncated")
    ACTIVE_MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OVERALL_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    active_model: str
    model: str
    limit: int
    overall: ModelAgreement
    tenants: _containers.RepeatedCompositeFieldContainer[ModelAgreement]
    truncated: bool
    def __init__(self, active_model: _Optional[str] = ..., model: _Optional[str] = ..., limit: _Optional[int] = ..., overall: _Optional[_Union[ModelAgreement, _Mapping]] = ..., tenants: _Optional[_Iterable[_Union[ModelAgreement, _Mapping]]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class ActivateEmbeddingModelRequest(_message.Message):
    __slots__ = ("model", "force", "request_id")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    model: str
    force: bool
    request_id: str
    def __init__(self, model: _Optional[str] = ..., force: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class ActivateEmbeddingModelResponse(_message.Message):
    __slots__ = ("embedding_model", "former_model")
    EMBEDDING_MODEL_FIELD_NUMBER: _ClassVar[int]
    FORMER_MODEL_FIELD_NUMBER: _ClassVar[int]
    embedding_model: EmbeddingModel
    former_model: str
    def __init__(self, embedding_model: _Optional[_Union[EmbeddingModel, _Mapping]] = ..., former_model: _Optional[str] = ...) -> None: ...

class OfferEmbeddingModelRequest(_message.Message):
    __slots__ = ("model", "withdraw", "request_id")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    model: str
    withdraw: bool
    request_id: str
    def __init__(self, model: _Optional[str] = ..., withdraw: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class OfferEmbeddingModelResponse(_message.Message):
    __slots__ = ("embedding_model",)
    EMBEDDING_MODEL_FIELD_NUMBER: _ClassVar[int]
    embedding_model: EmbeddingModel
    def __init__(self, embedding_model: _Optional[_Union[EmbeddingModel, _Mapping]] = ...) -> None: ...

class DeleteEmbeddingModelRequest(_message.Message):
    __slots__ = ("model", "request_id")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    model: str
    request_id: str
    def __init__(self, model: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteEmbeddingModelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListDueTenantsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDueTenantsResponse(_message.Message):
    __slots__ = ("tenant_ids", "next_page_token")
    TENANT_IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant_ids: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: str
    def __init__(self, tenant_ids: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListDueReindexesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDueReindexesResponse(_message.Message):
    __slots__ = ("tenant_ids", "next_page_token")
    TENANT_IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tenant_ids: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: str
    def __init__(self, tenant_ids: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ContinueReindexRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ContinueReindexResponse(_message.Message):
    __slots__ = ("embedded_count", "more")
    EMBEDDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    embedded_count: int
    more: bool
    def __init__(self, embedded_count: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...
