import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import curation_pb2 as _curation_pb2
from skein.memory.v1 import memory_pb2 as _memory_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from skein.recall.v1 import recall_pb2 as _recall_pb2
from skein.session.v1 import session_pb2 as _session_pb2
from skein.tenancy.v1 import subjects_pb2 as _subjects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Branch(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BRANCH_UNSPECIFIED: _ClassVar[Branch]
    BRANCH_MEMORIES: _ClassVar[Branch]
    BRANCH_MESSAGES: _ClassVar[Branch]
    BRANCH_BLOCKS: _ClassVar[Branch]
    BRANCH_PROFILE: _ClassVar[Branch]
    BRANCH_WINDOW: _ClassVar[Branch]
    BRANCH_PAGE: _ClassVar[Branch]

class BranchState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BRANCH_STATE_UNSPECIFIED: _ClassVar[BranchState]
    BRANCH_STATE_OK: _ClassVar[BranchState]
    BRANCH_STATE_TIMED_OUT: _ClassVar[BranchState]
    BRANCH_STATE_UNAVAILABLE: _ClassVar[BranchState]
    BRANCH_STATE_LEXICAL_ONLY: _ClassVar[BranchState]
    BRANCH_STATE_SKIPPED: _ClassVar[BranchState]

class OnPartial(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_PARTIAL_UNSPECIFIED: _ClassVar[OnPartial]
    ON_PARTIAL_RETURN: _ClassVar[OnPartial]
    ON_PARTIAL_FAIL: _ClassVar[OnPartial]

class ContextFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTEXT_FORMAT_UNSPECIFIED: _ClassVar[ContextFormat]
    CONTEXT_FORMAT_MARKDOWN: _ClassVar[ContextFormat]
    CONTEXT_FORMAT_TEXT: _ClassVar[ContextFormat]

class ContextOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTEXT_ORDER_UNSPECIFIED: _ClassVar[ContextOrder]
    CONTEXT_ORDER_OLDEST_FIRST: _ClassVar[ContextOrder]
    CONTEXT_ORDER_NEWEST_FIRST: _ClassVar[ContextOrder]

class RebaseReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REBASE_REASON_UNSPECIFIED: _ClassVar[RebaseReason]
    REBASE_REASON_REQUESTED: _ClassVar[RebaseReason]
    REBASE_REASON_REQUEST_CHANGED: _ClassVar[RebaseReason]
    REBASE_REASON_ITEM_GONE: _ClassVar[RebaseReason]
    REBASE_REASON_BUDGET: _ClassVar[RebaseReason]
    REBASE_REASON_ANSWER_LOST: _ClassVar[RebaseReason]
    REBASE_REASON_SPACE_LOST: _ClassVar[RebaseReason]

class ServiceState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVICE_STATE_UNSPECIFIED: _ClassVar[ServiceState]
    SERVICE_STATE_SERVING: _ClassVar[ServiceState]
    SERVICE_STATE_NOT_SERVING: _ClassVar[ServiceState]
    SERVICE_STATE_UNREACHABLE: _ClassVar[ServiceState]
BRANCH_UNSPECIFIED: Branch
BRANCH_MEMORIES: Branch
BRANCH_MESSAGES: Branch
BRANCH_BLOCKS: Branch
BRANCH_PROFILE: Branch
BRANCH_WINDOW: Branch
BRANCH_PAGE: Branch
BRANCH_STATE_UNSPECIFIED: BranchState
BRANCH_STATE_OK: BranchState
BRANCH_STATE_TIMED_OUT: BranchState
BRANCH_STATE_UNAVAILABLE: BranchState
BRANCH_STATE_LEXICAL_ONLY: BranchState
BRANCH_STATE_SKIPPED: BranchState
ON_PARTIAL_UNSPECIFIED: OnPartial
ON_PARTIAL_RETURN: OnPartial
ON_PARTIAL_FAIL: OnPartial
CONTEXT_FORMAT_UNSPECIFIED: ContextFormat
CONTEXT_FORMAT_MARKDOWN: ContextFormat
CONTEXT_FORMAT_TEXT: ContextFormat
CONTEXT_ORDER_UNSPECIFIED: ContextOrder
CONTEXT_ORDER_OLDEST_FIRST: ContextOrder
CONTEXT_ORDER_NEWEST_FIRST: ContextOrder
REBASE_REASON_UNSPECIFIED: RebaseReason
REBASE_REASON_REQUESTED: RebaseReason
REBASE_REASON_REQUEST_CHANGED: RebaseReason
REBASE_REASON_ITEM_GONE: RebaseReason
REBASE_REASON_BUDGET: RebaseReason
REBASE_REASON_ANSWER_LOST: RebaseReason
REBASE_REASON_SPACE_LOST: RebaseReason
SERVICE_STATE_UNSPECIFIED: ServiceState
SERVICE_STATE_SERVING: ServiceState
SERVICE_STATE_NOT_SERVING: ServiceState
SERVICE_STATE_UNREACHABLE: ServiceState

class RememberRequest(_message.Message):
    __slots__ = ("session_id", "messages", "memories", "request_id", "on_similar", "subject_id", "agent_id", "on_conflict")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_SIMILAR_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    messages: _containers.RepeatedCompositeFieldContainer[_session_pb2.Message]
    memories: _containers.RepeatedCompositeFieldContainer[_memory_pb2.Memory]
    request_id: str
    on_similar: _memory_pb2.OnSimilar
    subject_id: str
    agent_id: str
    on_conflict: _memory_pb2.OnConflict
    def __init__(self, session_id: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_session_pb2.Message, _Mapping]]] = ..., memories: _Optional[_Iterable[_Union[_memory_pb2.Memory, _Mapping]]] = ..., request_id: _Optional[str] = ..., on_similar: _Optional[_Union[_memory_pb2.OnSimilar, str]] = ..., subject_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., on_conflict: _Optional[_Union[_memory_pb2.OnConflict, str]] = ...) -> None: ...

class RememberResponse(_message.Message):
    __slots__ = ("messages", "memories", "pending_embedding_count", "similar_indexes", "existing_indexes")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIMILAR_INDEXES_FIELD_NUMBER: _ClassVar[int]
    EXISTING_INDEXES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_session_pb2.Message]
    memories: _containers.RepeatedCompositeFieldContainer[_memory_pb2.Memory]
    pending_embedding_count: int
    similar_indexes: _containers.RepeatedScalarFieldContainer[int]
    existing_indexes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, messages: _Optional[_Iterable[_Union[_session_pb2.Message, _Mapping]]] = ..., memories: _Optional[_Iterable[_Union[_memory_pb2.Memory, _Mapping]]] = ..., pending_embedding_count: _Optional[int] = ..., similar_indexes: _Optional[_Iterable[int]] = ..., existing_indexes: _Optional[_Iterable[int]] = ...) -> None: ...

class BranchStatus(_message.Message):
    __slots__ = ("branch", "state", "hit_count", "elapsed", "filter_emptied", "filter_truncated", "unembedded_count")
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    FILTER_EMPTIED_FIELD_NUMBER: _ClassVar[int]
    FILTER_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    UNEMBEDDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    branch: Branch
    state: BranchState
    hit_count: int
    elapsed: _duration_pb2.Duration
    filter_emptied: bool
    filter_truncated: bool
    unembedded_count: int
    def __init__(self, branch: _Optional[_Union[Branch, str]] = ..., state: _Optional[_Union[BranchState, str]] = ..., hit_count: _Optional[int] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., filter_emptied: _Optional[bool] = ..., filter_truncated: _Optional[bool] = ..., unembedded_count: _Optional[int] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("query", "embedding", "limit", "branches", "filter", "min_similarity", "show_superseded", "weights", "fusion", "on_partial", "mode", "min_relevance", "show_duplicates", "message_filter", "min_trust", "as_of_time", "subject_id")
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
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    SHOW_SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    FUSION_FIELD_NUMBER: _ClassVar[int]
    ON_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MIN_RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    SHOW_DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FILTER_FIELD_NUMBER: _ClassVar[int]
    MIN_TRUST_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    query: str
    embedding: _containers.RepeatedScalarFieldContainer[float]
    limit: int
    branches: _containers.RepeatedScalarFieldContainer[Branch]
    filter: _memory_pb2.MemoryFilter
    min_similarity: float
    show_superseded: bool
    weights: _containers.ScalarMap[str, float]
    fusion: str
    on_partial: OnPartial
    mode: _recall_pb2.SearchMode
    min_relevance: float
    show_duplicates: bool
    message_filter: _recall_pb2.MessageFilter
    min_trust: float
    as_of_time: _timestamp_pb2.Timestamp
    subject_id: str
    def __init__(self, query: _Optional[str] = ..., embedding: _Optional[_Iterable[float]] = ..., limit: _Optional[int] = ..., branches: _Optional[_Iterable[_Union[Branch, str]]] = ..., filter: _Optional[_Union[_memory_pb2.MemoryFilter, _Mapping]] = ..., min_similarity: _Optional[float] = ..., show_superseded: _Optional[bool] = ..., weights: _Optional[_Mapping[str, float]] = ..., fusion: _Optional[str] = ..., on_partial: _Optional[_Union[OnPartial, str]] = ..., mode: _Optional[_Union[_recall_pb2.SearchMode, str]] = ..., min_relevance: _Optional[float] = ..., show_duplicates: _Optional[bool] = ..., message_filter: _Optional[_Union[_recall_pb2.MessageFilter, _Mapping]] = ..., min_trust: _Optional[float] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., subject_id: _Optional[str] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("hits", "branches", "incomplete", "model", "dense_path", "emptied_by", "formula", "profile", "nothing_relevant", "query_expansions", "pending_embedding_count", "purged_count", "receipt_id", "asks_for_all")
    HITS_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DENSE_PATH_FIELD_NUMBER: _ClassVar[int]
    EMPTIED_BY_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    NOTHING_RELEVANT_FIELD_NUMBER: _ClassVar[int]
    QUERY_EXPANSIONS_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    PURGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    ASKS_FOR_ALL_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[_recall_pb2.Hit]
    branches: _containers.RepeatedCompositeFieldContainer[BranchStatus]
    incomplete: _containers.RepeatedScalarFieldContainer[Branch]
    model: str
    dense_path: str
    emptied_by: _containers.RepeatedScalarFieldContainer[str]
    formula: str
    profile: _subjects_pb2.Subject
    nothing_relevant: bool
    query_expansions: _containers.RepeatedCompositeFieldContainer[_recall_pb2.QueryExpansion]
    pending_embedding_count: int
    purged_count: int
    receipt_id: str
    asks_for_all: bool
    def __init__(self, hits: _Optional[_Iterable[_Union[_recall_pb2.Hit, _Mapping]]] = ..., branches: _Optional[_Iterable[_Union[BranchStatus, _Mapping]]] = ..., incomplete: _Optional[_Iterable[_Union[Branch, str]]] = ..., model: _Optional[str] = ..., dense_path: _Optional[str] = ..., emptied_by: _Optional[_Iterable[str]] = ..., formula: _Optional[str] = ..., profile: _Optional[_Union[_subjects_pb2.Subject, _Mapping]] = ..., nothing_relevant: _Optional[bool] = ..., query_expansions: _Optional[_Iterable[_Union[_recall_pb2.QueryExpansion, _Mapping]]] = ..., pending_embedding_count: _Optional[int] = ..., purged_count: _Optional[int] = ..., receipt_id: _Optional[str] = ..., asks_for_all: _Optional[bool] = ...) -> None: ...

class BuildContextRequest(_message.Message):
    __slots__ = ("recall", "token_budget", "format", "order", "session_id", "cite_origins", "ledger_id", "ledger_revision", "request_id", "omit_profile_facts")
    RECALL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_BUDGET_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CITE_ORIGINS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    LEDGER_REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OMIT_PROFILE_FACTS_FIELD_NUMBER: _ClassVar[int]
    recall: RecallRequest
    token_budget: int
    format: ContextFormat
    order: ContextOrder
    session_id: str
    cite_origins: bool
    ledger_id: str
    ledger_revision: int
    request_id: str
    omit_profile_facts: bool
    def __init__(self, recall: _Optional[_Union[RecallRequest, _Mapping]] = ..., token_budget: _Optional[int] = ..., format: _Optional[_Union[ContextFormat, str]] = ..., order: _Optional[_Union[ContextOrder, str]] = ..., session_id: _Optional[str] = ..., cite_origins: _Optional[bool] = ..., ledger_id: _Optional[str] = ..., ledger_revision: _Optional[int] = ..., request_id: _Optional[str] = ..., omit_profile_facts: _Optional[bool] = ...) -> None: ...

class Withdrawal(_message.Message):
    __slots__ = ("number", "reason")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    number: int
    reason: _recall_pb2.KnownItemState
    def __init__(self, number: _Optional[int] = ..., reason: _Optional[_Union[_recall_pb2.KnownItemState, str]] = ...) -> None: ...

class Citation(_message.Message):
    __slots__ = ("number", "kind", "item_id", "session_id", "create_time", "score", "truncated", "duplicate_ids", "trust", "origins", "origins_truncated", "relevance")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_IDS_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: _recall_pb2.ItemKind
    item_id: str
    session_id: str
    create_time: _timestamp_pb2.Timestamp
    score: float
    truncated: bool
    duplicate_ids: _containers.RepeatedScalarFieldContainer[str]
    trust: float
    origins: _containers.RepeatedCompositeFieldContainer[_curation_pb2.LineageNode]
    origins_truncated: bool
    relevance: float
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[_Union[_recall_pb2.ItemKind, str]] = ..., item_id: _Optional[str] = ..., session_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., score: _Optional[float] = ..., truncated: _Optional[bool] = ..., duplicate_ids: _Optional[_Iterable[str]] = ..., trust: _Optional[float] = ..., origins: _Optional[_Iterable[_Union[_curation_pb2.LineageNode, _Mapping]]] = ..., origins_truncated: _Optional[bool] = ..., relevance: _Optional[float] = ...) -> None: ...

class BuildContextResponse(_message.Message):
    __slots__ = ("text", "citations", "token_count", "omitted_count", "branches", "incomplete", "model", "emptied_by", "formula", "nothing_relevant", "pending_embedding_count", "purged_count", "receipt_id", "asks_for_all", "ledger_revision", "rebase", "withdrawals", "cache_breakpoints", "prompt_token_count")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CITATIONS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    OMITTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EMPTIED_BY_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    NOTHING_RELEVANT_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    PURGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    ASKS_FOR_ALL_FIELD_NUMBER: _ClassVar[int]
    LEDGER_REVISION_FIELD_NUMBER: _ClassVar[int]
    REBASE_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWALS_FIELD_NUMBER: _ClassVar[int]
    CACHE_BREAKPOINTS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    text: str
    citations: _containers.RepeatedCompositeFieldContainer[Citation]
    token_count: int
    omitted_count: int
    branches: _containers.RepeatedCompositeFieldContainer[BranchStatus]
    incomplete: _containers.RepeatedScalarFieldContainer[Branch]
    model: str
    emptied_by: _containers.RepeatedScalarFieldContainer[str]
    formula: str
    nothing_relevant: bool
    pending_embedding_count: int
    purged_count: int
    receipt_id: str
    asks_for_all: bool
    ledger_revision: int
    rebase: RebaseReason
    withdrawals: _containers.RepeatedCompositeFieldContainer[Withdrawal]
    cache_breakpoints: _containers.RepeatedScalarFieldContainer[int]
    prompt_token_count: int
    def __init__(self, text: _Optional[str] = ..., citations: _Optional[_Iterable[_Union[Citation, _Mapping]]] = ..., token_count: _Optional[int] = ..., omitted_count: _Optional[int] = ..., branches: _Optional[_Iterable[_Union[BranchStatus, _Mapping]]] = ..., incomplete: _Optional[_Iterable[_Union[Branch, str]]] = ..., model: _Optional[str] = ..., emptied_by: _Optional[_Iterable[str]] = ..., formula: _Optional[str] = ..., nothing_relevant: _Optional[bool] = ..., pending_embedding_count: _Optional[int] = ..., purged_count: _Optional[int] = ..., receipt_id: _Optional[str] = ..., asks_for_all: _Optional[bool] = ..., ledger_revision: _Optional[int] = ..., rebase: _Optional[_Union[RebaseReason, str]] = ..., withdrawals: _Optional[_Iterable[_Union[Withdrawal, _Mapping]]] = ..., cache_breakpoints: _Optional[_Iterable[int]] = ..., prompt_token_count: _Optional[int] = ...) -> None: ...

class ReplayContextRequest(_message.Message):
    __slots__ = ("receipt_id", "query", "embedding")
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    receipt_id: str
    query: str
    embedding: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, receipt_id: _Optional[str] = ..., query: _Optional[str] = ..., embedding: _Optional[_Iterable[float]] = ...) -> None: ...

class ReplayContextResponse(_message.Message):
    __slots__ = ("text", "citations", "token_count", "omitted_count", "identical", "gaps", "differing_ids", "query_unverified")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CITATIONS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    OMITTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    IDENTICAL_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    DIFFERING_IDS_FIELD_NUMBER: _ClassVar[int]
    QUERY_UNVERIFIED_FIELD_NUMBER: _ClassVar[int]
    text: str
    citations: _containers.RepeatedCompositeFieldContainer[Citation]
    token_count: int
    omitted_count: int
    identical: bool
    gaps: _containers.RepeatedCompositeFieldContainer[_recall_pb2.ReplayGap]
    differing_ids: _containers.RepeatedScalarFieldContainer[str]
    query_unverified: bool
    def __init__(self, text: _Optional[str] = ..., citations: _Optional[_Iterable[_Union[Citation, _Mapping]]] = ..., token_count: _Optional[int] = ..., omitted_count: _Optional[int] = ..., identical: _Optional[bool] = ..., gaps: _Optional[_Iterable[_Union[_recall_pb2.ReplayGap, _Mapping]]] = ..., differing_ids: _Optional[_Iterable[str]] = ..., query_unverified: _Optional[bool] = ...) -> None: ...

class ForgetRequest(_message.Message):
    __slots__ = ("subject_id", "dry_run", "request_id")
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    subject_id: str
    dry_run: bool
    request_id: str
    def __init__(self, subject_id: _Optional[str] = ..., dry_run: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class Erasure(_message.Message):
    __slots__ = ("service", "deleted_counts", "receipt_ids")
    class DeletedCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    DELETED_COUNTS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_IDS_FIELD_NUMBER: _ClassVar[int]
    service: str
    deleted_counts: _containers.ScalarMap[str, int]
    receipt_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, service: _Optional[str] = ..., deleted_counts: _Optional[_Mapping[str, int]] = ..., receipt_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Remains(_message.Message):
    __slots__ = ("settle_time", "dead_rows_until", "log_until", "log_position", "backups_until")
    SETTLE_TIME_FIELD_NUMBER: _ClassVar[int]
    DEAD_ROWS_UNTIL_FIELD_NUMBER: _ClassVar[int]
    LOG_UNTIL_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    BACKUPS_UNTIL_FIELD_NUMBER: _ClassVar[int]
    settle_time: _timestamp_pb2.Timestamp
    dead_rows_until: str
    log_until: str
    log_position: str
    backups_until: str
    def __init__(self, settle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., dead_rows_until: _Optional[str] = ..., log_until: _Optional[str] = ..., log_position: _Optional[str] = ..., backups_until: _Optional[str] = ...) -> None: ...

class ForgetResponse(_message.Message):
    __slots__ = ("erasures", "receipt_id", "forget_time", "digest", "more", "remains", "certificate_id", "remaining_memory_ids")
    ERASURES_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_ID_FIELD_NUMBER: _ClassVar[int]
    FORGET_TIME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    REMAINS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_ID_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    erasures: _containers.RepeatedCompositeFieldContainer[Erasure]
    receipt_id: str
    forget_time: _timestamp_pb2.Timestamp
    digest: str
    more: bool
    remains: Remains
    certificate_id: str
    remaining_memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, erasures: _Optional[_Iterable[_Union[Erasure, _Mapping]]] = ..., receipt_id: _Optional[str] = ..., forget_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., digest: _Optional[str] = ..., more: _Optional[bool] = ..., remains: _Optional[_Union[Remains, _Mapping]] = ..., certificate_id: _Optional[str] = ..., remaining_memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetClusterStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ("service", "state", "elapsed")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    service: str
    state: ServiceState
    elapsed: _duration_pb2.Duration
    def __init__(self, service: _Optional[str] = ..., state: _Optional[_Union[ServiceState, str]] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetClusterStatusResponse(_message.Message):
    __slots__ = ("version", "services")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    version: str
    services: _containers.RepeatedCompositeFieldContainer[ServiceStatus]
    def __init__(self, version: _Optional[str] = ..., services: _Optional[_Iterable[_Union[ServiceStatus, _Mapping]]] = ...) -> None: ...
