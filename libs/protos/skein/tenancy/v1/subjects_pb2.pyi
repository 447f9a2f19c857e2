import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubjectStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUBJECT_STATUS_UNSPECIFIED: _ClassVar[SubjectStatus]
    SUBJECT_STATUS_ACTIVE: _ClassVar[SubjectStatus]
    SUBJECT_STATUS_INACTIVE: _ClassVar[SubjectStatus]

class ImportanceFormula(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IMPORTANCE_FORMULA_UNSPECIFIED: _ClassVar[ImportanceFormula]
    IMPORTANCE_FORMULA_DYNAMIC: _ClassVar[ImportanceFormula]
    IMPORTANCE_FORMULA_WEIGHTED: _ClassVar[ImportanceFormula]
SUBJECT_STATUS_UNSPECIFIED: SubjectStatus
SUBJECT_STATUS_ACTIVE: SubjectStatus
SUBJECT_STATUS_INACTIVE: SubjectStatus
IMPORTANCE_FORMULA_UNSPECIFIED: ImportanceFormula
IMPORTANCE_FORMULA_DYNAMIC: ImportanceFormula
IMPORTANCE_FORMULA_WEIGHTED: ImportanceFormula

class Subject(_message.Message):
    __slots__ = ("subject_id", "display_name", "status", "timezone", "profile", "profile_json", "preferences", "preferences_json", "account_id", "revision", "create_time", "update_time", "created_by", "updated_by", "delete_time", "writers", "trust")
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_JSON_FIELD_NUMBER: _ClassVar[int]
    PREFERENCES_FIELD_NUMBER: _ClassVar[int]
    PREFERENCES_JSON_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    DELETE_TIME_FIELD_NUMBER: _ClassVar[int]
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    subject_id: str
    display_name: str
    status: SubjectStatus
    timezone: str
    profile: _struct_pb2.Struct
    profile_json: str
    preferences: _struct_pb2.Struct
    preferences_json: str
    account_id: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    delete_time: _timestamp_pb2.Timestamp
    writers: _containers.RepeatedScalarFieldContainer[str]
    trust: float
    def __init__(self, subject_id: _Optional[str] = ..., display_name: _Optional[str] = ..., status: _Optional[_Union[SubjectStatus, str]] = ..., timezone: _Optional[str] = ..., profile: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., profile_json: _Optional[str] = ..., preferences: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., preferences_json: _Optional[str] = ..., account_id: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ..., delete_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., writers: _Optional[_Iterable[str]] = ..., trust: _Optional[float] = ...) -> None: ...

class PropertyMatch(_message.Message):
    __slots__ = ("path", "value", "value_json")
    PATH_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    path: str
    value: _struct_pb2.Value
    value_json: str
    def __init__(self, path: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., value_json: _Optional[str] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("tool_id", "name", "description", "json_schema", "json_schema_json", "source_type", "source_code", "tags", "metadata", "metadata_json", "revision", "create_time", "update_time", "created_by", "updated_by", "delete_time")
    TOOL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    JSON_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    JSON_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_CODE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    DELETE_TIME_FIELD_NUMBER: _ClassVar[int]
    tool_id: str
    name: str
    description: str
    json_schema: _struct_pb2.Struct
    json_schema_json: str
    source_type: str
    source_code: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    metadata: _struct_pb2.Struct
    metadata_json: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    delete_time: _timestamp_pb2.Timestamp
    def __init__(self, tool_id: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., json_schema: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., json_schema_json: _Optional[str] = ..., source_type: _Optional[str] = ..., source_code: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., metadata_json: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ..., delete_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("decay_days", "max_inferred_edges", "min_link_suggestion_score", "retention_days", "private_mode", "snapshot_retention", "path_max_hops", "subgraph_default_radius", "importance_formula", "memory_types", "revision", "update_time", "audit_strict", "audit_query_text", "session_idle_minutes", "archive_days", "webhook_max_failures", "enforce_level_capacities", "capacity_strategic", "capacity_tactical", "capacity_operational", "capacity_contextual", "search_language", "recall_fusion", "recall_weights", "expiry_grace_hours", "recall_min_relevance", "recall_min_best_relevance", "guard_secrets", "guard_personal_data", "guard_ignored_kinds", "approval", "approval_expiry_days", "recall_receipts", "time_zone", "recall_token_vectors", "embedding_model", "extraction", "extraction_roles", "extraction_messages", "extraction_quiet_seconds", "extraction_instructions", "extraction_url", "extraction_model", "extraction_key_id", "extraction_types")
    class RecallWeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    DECAY_DAYS_FIELD_NUMBER: _ClassVar[int]
    MAX_INFERRED_EDGES_FIELD_NUMBER: _ClassVar[int]
    MIN_LINK_SUGGESTION_SCORE_FIELD_NUMBER: _ClassVar[int]
    RETENTION_DAYS_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_MODE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_RETENTION_FIELD_NUMBER: _ClassVar[int]
    PATH_MAX_HOPS_FIELD_NUMBER: _ClassVar[int]
    SUBGRAPH_DEFAULT_RADIUS_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FORMULA_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TYPES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    AUDIT_STRICT_FIELD_NUMBER: _ClassVar[int]
    AUDIT_QUERY_TEXT_FIELD_NUMBER: _ClassVar[int]
    SESSION_IDLE_MINUTES_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_DAYS_FIELD_NUMBER: _ClassVar[int]
    WEBHOOK_MAX_FAILURES_FIELD_NUMBER: _ClassVar[int]
    ENFORCE_LEVEL_CAPACITIES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_STRATEGIC_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_TACTICAL_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_OPERATIONAL_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_CONTEXTUAL_FIELD_NUMBER: _ClassVar[int]
    SEARCH_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    RECALL_FUSION_FIELD_NUMBER: _ClassVar[int]
    RECALL_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_GRACE_HOURS_FIELD_NUMBER: _ClassVar[int]
    RECALL_MIN_RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    RECALL_MIN_BEST_RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    GUARD_SECRETS_FIELD_NUMBER: _ClassVar[int]
    GUARD_PERSONAL_DATA_FIELD_NUMBER: _ClassVar[int]
    GUARD_IGNORED_KINDS_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_EXPIRY_DAYS_FIELD_NUMBER: _ClassVar[int]
    RECALL_RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    RECALL_TOKEN_VECTORS_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_MODEL_FIELD_NUMBER: _ClassVar[int]
    EXTRACTION_FIELD_NUMBER: _ClassVar[int]
    EXTRACTION_ROLES_FIELD_NUMBER: _ClassVar[int]
    EXTRACTION_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    EXTRACTION_QUIET_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXTRACTION_INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    EXTRACTION_URL_FIELD_NUMBER: _ClassVar[int]
    EXTRACTION_MODEL_FIELD_NUMBER: _ClassVar[int]
    EXTRACTION_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    EXTRACTION_TYPES_FIELD_NUMBER: _ClassVar[int]
    decay_days: int
    max_inferred_edges: int
    min_link_suggestion_score: float
    retention_days: int
    private_mode: bool
    snapshot_retention: int
    path_max_hops: int
    subgraph_default_radius: int
    importance_formula: ImportanceFormula
    memory_types: _containers.RepeatedScalarFieldContainer[str]
    revision: int
    update_time: _timestamp_pb2.Timestamp
    audit_strict: bool
    audit_query_text: bool
    session_idle_minutes: int
    archive_days: int
    webhook_max_failures: int
    enforce_level_capacities: bool
    capacity_strategic: int
    capacity_tactical: int
    capacity_operational: int
    capacity_contextual: int
    search_language: str
    recall_fusion: str
    recall_weights: _containers.ScalarMap[str, float]
    expiry_grace_hours: int
    recall_min_relevance: float
    recall_min_best_relevance: float
    guard_secrets: str
    guard_personal_data: str
    guard_ignored_kinds: _containers.RepeatedScalarFieldContainer[str]
    approval: str
    approval_expiry_days: int
    recall_receipts: str
    time_zone: str
    recall_token_vectors: bool
    embedding_model: str
    extraction: str
    extraction_roles: _containers.RepeatedScalarFieldContainer[str]
    extraction_messages: int
    extraction_quiet_seconds: int
    extraction_instructions: str
    extraction_url: str
    extraction_model: str
    extraction_key_id: str
    extraction_types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, decay_days: _Optional[int] = ..., max_inferred_edges: _Optional[int] = ..., min_link_suggestion_score: _Optional[float] = ..., retention_days: _Optional[int] = ..., private_mode: _Optional[bool] = ..., snapshot_retention: _Optional[int] = ..., path_max_hops: _Optional[int] = ..., subgraph_default_radius: _Optional[int] = ..., importance_formula: _Optional[_Union[ImportanceFormula, str]] = ..., memory_types: _Optional[_Iterable[str]] = ..., revision: _Optional[int] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., audit_strict: _Optional[bool] = ..., audit_query_text: _Optional[bool] = ..., session_idle_minutes: _Optional[int] = ..., archive_days: _Optional[int] = ..., webhook_max_failures: _Optional[int] = ..., enforce_level_capacities: _Optional[bool] = ..., capacity_strategic: _Optional[int] = ..., capacity_tactical: _Optional[int] = ..., capacity_operational: _Optional[int] = ..., capacity_contextual: _Optional[int] = ..., search_language: _Optional[str] = ..., recall_fusion: _Optional[str] = ..., recall_weights: _Optional[_Mapping[str, float]] = ..., expiry_grace_hours: _Optional[int] = ..., recall_min_relevance: _Optional[float] = ..., recall_min_best_relevance: _Optional[float] = ..., guard_secrets: _Optional[str] = ..., guard_personal_data: _Optional[str] = ..., guard_ignored_kinds: _Optional[_Iterable[str]] = ..., approval: _Optional[str] = ..., approval_expiry_days: _Optional[int] = ..., recall_receipts: _Optional[str] = ..., time_zone: _Optional[str] = ..., recall_token_vectors: _Optional[bool] = ..., embedding_model: _Optional[str] = ..., extraction: _Optional[str] = ..., extraction_roles: _Optional[_Iterable[str]] = ..., extraction_messages: _Optional[int] = ..., extraction_quiet_seconds: _Optional[int] = ..., extraction_instructions: _Optional[str] = ..., extraction_url: _Optional[str] = ..., extraction_model: _Optional[str] = ..., extraction_key_id: _Optional[str] = ..., extraction_types: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateSubjectRequest(_message.Message):
    __slots__ = ("subject", "request_id", "keep_times")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    request_id: str
    keep_times: bool
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ..., request_id: _Optional[str] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class CreateSubjectResponse(_message.Message):
    __slots__ = ("subject",)
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ...) -> None: ...

class GetSubjectRequest(_message.Message):
    __slots__ = ("subject_id", "as_of_time", "revision")
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    subject_id: str
    as_of_time: _timestamp_pb2.Timestamp
    revision: int
    def __init__(self, subject_id: _Optional[str] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class GetSubjectResponse(_message.Message):
    __slots__ = ("subject",)
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ...) -> None: ...

class ListSubjectsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "properties", "status", "show_deleted")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SHOW_DELETED_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    properties: _containers.RepeatedCompositeFieldContainer[PropertyMatch]
    status: SubjectStatus
    show_deleted: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[PropertyMatch, _Mapping]]] = ..., status: _Optional[_Union[SubjectStatus, str]] = ..., show_deleted: _Optional[bool] = ...) -> None: ...

class ListSubjectsResponse(_message.Message):
    __slots__ = ("subjects", "next_page_token")
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    subjects: _containers.RepeatedCompositeFieldContainer[Subject]
    next_page_token: str
    def __init__(self, subjects: _Optional[_Iterable[_Union[Subject, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateSubjectRequest(_message.Message):
    __slots__ = ("subject", "update_mask", "request_id")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateSubjectResponse(_message.Message):
    __slots__ = ("subject",)
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ...) -> None: ...

class DeleteSubjectRequest(_message.Message):
    __slots__ = ("subject_id", "request_id")
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    subject_id: str
    request_id: str
    def __init__(self, subject_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteSubjectResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UndeleteSubjectRequest(_message.Message):
    __slots__ = ("subject_id", "request_id")
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    subject_id: str
    request_id: str
    def __init__(self, subject_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UndeleteSubjectResponse(_message.Message):
    __slots__ = ("subject",)
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ...) -> None: ...

class PurgeSubjectRequest(_message.Message):
    __slots__ = ("subject_id", "request_id")
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    subject_id: str
    request_id: str
    def __init__(self, subject_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PurgeSubjectResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateToolRequest(_message.Message):
    __slots__ = ("tool", "request_id", "keep_times")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    tool: Tool
    request_id: str
    keep_times: bool
    def __init__(self, tool: _Optional[_Union[Tool, _Mapping]] = ..., request_id: _Optional[str] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class CreateToolResponse(_message.Message):
    __slots__ = ("tool",)
    TOOL_FIELD_NUMBER: _ClassVar[int]
    tool: Tool
    def __init__(self, tool: _Optional[_Union[Tool, _Mapping]] = ...) -> None: ...

class GetToolRequest(_message.Message):
    __slots__ = ("tool_id",)
    TOOL_ID_FIELD_NUMBER: _ClassVar[int]
    tool_id: str
    def __init__(self, tool_id: _Optional[str] = ...) -> None: ...

class GetToolResponse(_message.Message):
    __slots__ = ("tool",)
    TOOL_FIELD_NUMBER: _ClassVar[int]
    tool: Tool
    def __init__(self, tool: _Optional[_Union[Tool, _Mapping]] = ...) -> None: ...

class ListToolsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "agent_id", "show_deleted")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SHOW_DELETED_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    agent_id: str
    show_deleted: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., agent_id: _Optional[str] = ..., show_deleted: _Optional[bool] = ...) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools", "next_page_token")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    next_page_token: str
    def __init__(self, tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateToolRequest(_message.Message):
    __slots__ = ("tool", "update_mask", "request_id")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    tool: Tool
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, tool: _Optional[_Union[Tool, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateToolResponse(_message.Message):
    __slots__ = ("tool",)
    TOOL_FIELD_NUMBER: _ClassVar[int]
    tool: Tool
    def __init__(self, tool: _Optional[_Union[Tool, _Mapping]] = ...) -> None: ...

class DeleteToolRequest(_message.Message):
    __slots__ = ("tool_id", "request_id")
    TOOL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    tool_id: str
    request_id: str
    def __init__(self, tool_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteToolResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UndeleteToolRequest(_message.Message):
    __slots__ = ("tool_id", "request_id")
    TOOL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    tool_id: str
    request_id: str
    def __init__(self, tool_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UndeleteToolResponse(_message.Message):
    __slots__ = ("tool",)
    TOOL_FIELD_NUMBER: _ClassVar[int]
    tool: Tool
    def __init__(self, tool: _Optional[_Union[Tool, _Mapping]] = ...) -> None: ...

class PurgeToolRequest(_message.Message):
    __slots__ = ("tool_id", "request_id")
    TOOL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    tool_id: str
    request_id: str
    def __init__(self, tool_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PurgeToolResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttachToolRequest(_message.Message):
    __slots__ = ("agent_id", "tool_id", "request_id")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    tool_id: str
    request_id: str
    def __init__(self, agent_id: _Optional[str] = ..., tool_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class AttachToolResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DetachToolRequest(_message.Message):
    __slots__ = ("agent_id", "tool_id", "request_id")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    tool_id: str
    request_id: str
    def __init__(self, agent_id: _Optional[str] = ..., tool_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DetachToolResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPolicyResponse(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class UpdatePolicyRequest(_message.Message):
    __slots__ = ("policy", "update_mask", "request_id")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdatePolicyResponse(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...
