import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from skein.session.v1 import archives_pb2 as _archives_pb2
from skein.session.v1 import ledgers_pb2 as _ledgers_pb2
from skein.session.v1 import states_pb2 as _states_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_STATE_UNSPECIFIED: _ClassVar[SessionState]
    SESSION_STATE_ACTIVE: _ClassVar[SessionState]
    SESSION_STATE_PAUSED: _ClassVar[SessionState]
    SESSION_STATE_COMPLETED: _ClassVar[SessionState]
    SESSION_STATE_ENDED: _ClassVar[SessionState]
    SESSION_STATE_HIDDEN: _ClassVar[SessionState]

class MessageRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MESSAGE_ROLE_UNSPECIFIED: _ClassVar[MessageRole]
    MESSAGE_ROLE_USER: _ClassVar[MessageRole]
    MESSAGE_ROLE_ASSISTANT: _ClassVar[MessageRole]
    MESSAGE_ROLE_SYSTEM: _ClassVar[MessageRole]
    MESSAGE_ROLE_TOOL: _ClassVar[MessageRole]

class SearchMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEARCH_MODE_UNSPECIFIED: _ClassVar[SearchMode]
    SEARCH_MODE_KEYWORD: _ClassVar[SearchMode]
    SEARCH_MODE_LITERAL: _ClassVar[SearchMode]
    SEARCH_MODE_SEMANTIC: _ClassVar[SearchMode]
    SEARCH_MODE_HYBRID: _ClassVar[SearchMode]

class SummaryMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUMMARY_METHOD_UNSPECIFIED: _ClassVar[SummaryMethod]
    SUMMARY_METHOD_EXTRACTIVE: _ClassVar[SummaryMethod]
    SUMMARY_METHOD_MODEL: _ClassVar[SummaryMethod]

class DueWork(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DUE_WORK_UNSPECIFIED: _ClassVar[DueWork]
    DUE_WORK_EXPIRY: _ClassVar[DueWork]
    DUE_WORK_LIFECYCLE: _ClassVar[DueWork]
    DUE_WORK_EXTRACTION: _ClassVar[DueWork]
    DUE_WORK_MODEL_EXTRACTION: _ClassVar[DueWork]
SESSION_STATE_UNSPECIFIED: SessionState
SESSION_STATE_ACTIVE: SessionState
SESSION_STATE_PAUSED: SessionState
SESSION_STATE_COMPLETED: SessionState
SESSION_STATE_ENDED: SessionState
SESSION_STATE_HIDDEN: SessionState
MESSAGE_ROLE_UNSPECIFIED: MessageRole
MESSAGE_ROLE_USER: MessageRole
MESSAGE_ROLE_ASSISTANT: MessageRole
MESSAGE_ROLE_SYSTEM: MessageRole
MESSAGE_ROLE_TOOL: MessageRole
SEARCH_MODE_UNSPECIFIED: SearchMode
SEARCH_MODE_KEYWORD: SearchMode
SEARCH_MODE_LITERAL: SearchMode
SEARCH_MODE_SEMANTIC: SearchMode
SEARCH_MODE_HYBRID: SearchMode
SUMMARY_METHOD_UNSPECIFIED: SummaryMethod
SUMMARY_METHOD_EXTRACTIVE: SummaryMethod
SUMMARY_METHOD_MODEL: SummaryMethod
DUE_WORK_UNSPECIFIED: DueWork
DUE_WORK_EXPIRY: DueWork
DUE_WORK_LIFECYCLE: DueWork
DUE_WORK_EXTRACTION: DueWork
DUE_WORK_MODEL_EXTRACTION: DueWork

class Session(_message.Message):
    __slots__ = ("session_id", "title", "state", "session_type", "subject_id", "agent_id", "metadata", "metadata_json", "summary", "end_reason", "message_count", "last_sequence", "revision", "create_time", "update_time", "end_time", "created_by", "hide_time", "archive_time")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SESSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    END_REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    HIDE_TIME_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_TIME_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    title: str
    state: SessionState
    session_type: str
    subject_id: str
    agent_id: str
    metadata: _struct_pb2.Struct
    metadata_json: str
    summary: str
    end_reason: str
    message_count: int
    last_sequence: int
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    created_by: str
    hide_time: _timestamp_pb2.Timestamp
    archive_time: _timestamp_pb2.Timestamp
    def __init__(self, session_id: _Optional[str] = ..., title: _Optional[str] = ..., state: _Optional[_Union[SessionState, str]] = ..., session_type: _Optional[str] = ..., subject_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., metadata_json: _Optional[str] = ..., summary: _Optional[str] = ..., end_reason: _Optional[str] = ..., message_count: _Optional[int] = ..., last_sequence: _Optional[int] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., hide_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., archive_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("message_id", "external_id", "session_id", "sequence", "role", "content", "name", "subject_id", "agent_id", "parts", "parts_json", "tool_calls", "tool_calls_json", "tool_call_id", "tool_returns", "tool_returns_json", "model", "step_id", "group_id", "sender_id", "offline_thread_id", "metadata", "metadata_json", "create_time", "created_by", "revision", "update_time", "updated_by", "pending_approval")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    PARTS_JSON_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_JSON_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_RETURNS_FIELD_NUMBER: _ClassVar[int]
    TOOL_RETURNS_JSON_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    SENDER_ID_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    PENDING_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    external_id: str
    session_id: str
    sequence: int
    role: MessageRole
    content: str
    name: str
    subject_id: str
    agent_id: str
    parts: _struct_pb2.ListValue
    parts_json: str
    tool_calls: _struct_pb2.ListValue
    tool_calls_json: str
    tool_call_id: str
    tool_returns: _struct_pb2.ListValue
    tool_returns_json: str
    model: str
    step_id: str
    group_id: str
    sender_id: str
    offline_thread_id: str
    metadata: _struct_pb2.Struct
    metadata_json: str
    create_time: _timestamp_pb2.Timestamp
    created_by: str
    revision: int
    update_time: _timestamp_pb2.Timestamp
    updated_by: str
    pending_approval: bool
    def __init__(self, message_id: _Optional[str] = ..., external_id: _Optional[str] = ..., session_id: _Optional[str] = ..., sequence: _Optional[int] = ..., role: _Optional[_Union[MessageRole, str]] = ..., content: _Optional[str] = ..., name: _Optional[str] = ..., subject_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., parts: _Optional[_Union[_struct_pb2.ListValue, _Mapping]] = ..., parts_json: _Optional[str] = ..., tool_calls: _Optional[_Union[_struct_pb2.ListValue, _Mapping]] = ..., tool_calls_json: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., tool_returns: _Optional[_Union[_struct_pb2.ListValue, _Mapping]] = ..., tool_returns_json: _Optional[str] = ..., model: _Optional[str] = ..., step_id: _Optional[str] = ..., group_id: _Optional[str] = ..., sender_id: _Optional[str] = ..., offline_thread_id: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., metadata_json: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., revision: _Optional[int] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_by: _Optional[str] = ..., pending_approval: _Optional[bool] = ...) -> None: ...

class SessionProperty(_message.Message):
    __slots__ = ("path", "value", "value_json")
    PATH_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    path: str
    value: _struct_pb2.Value
    value_json: str
    def __init__(self, path: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., value_json: _Optional[str] = ...) -> None: ...

class CreateSessionRequest(_message.Message):
    __slots__ = ("session", "request_id", "keep_times")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    session: Session
    request_id: str
    keep_times: bool
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ..., request_id: _Optional[str] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class CreateSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class GetSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "state", "subject_id", "agent_id", "states", "session_type", "start_time", "end_time", "properties")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    SESSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    state: SessionState
    subject_id: str
    agent_id: str
    states: _containers.RepeatedScalarFieldContainer[SessionState]
    session_type: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    properties: _containers.RepeatedCompositeFieldContainer[SessionProperty]
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., state: _Optional[_Union[SessionState, str]] = ..., subject_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., states: _Optional[_Iterable[_Union[SessionState, str]]] = ..., session_type: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., properties: _Optional[_Iterable[_Union[SessionProperty, _Mapping]]] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    next_page_token: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateSessionRequest(_message.Message):
    __slots__ = ("session", "update_mask", "request_id")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session: Session
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class EndSessionRequest(_message.Message):
    __slots__ = ("session_id", "summary", "reason", "request_id", "end_time", "keep_times")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    summary: str
    reason: str
    request_id: str
    end_time: _timestamp_pb2.Timestamp
    keep_times: bool
    def __init__(self, session_id: _Optional[str] = ..., summary: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class EndSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class HideSessionRequest(_message.Message):
    __slots__ = ("session_id", "request_id", "hide_time", "keep_times")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    HIDE_TIME_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    hide_time: _timestamp_pb2.Timestamp
    keep_times: bool
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ..., hide_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class HideSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class UnhideSessionRequest(_message.Message):
    __slots__ = ("session_id", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UnhideSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class DeleteSessionRequest(_message.Message):
    __slots__ = ("session_id", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MoveSessionRequest(_message.Message):
    __slots__ = ("session_id", "space_id", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    space_id: str
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., space_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class MoveSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AppendMessagesRequest(_message.Message):
    __slots__ = ("session_id", "messages", "create_session", "request_id", "subject_id", "agent_id", "defer_embedding", "keep_times")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    CREATE_SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    DEFER_EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    create_session: bool
    request_id: str
    subject_id: str
    agent_id: str
    defer_embedding: bool
    keep_times: bool
    def __init__(self, session_id: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., create_session: _Optional[bool] = ..., request_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., defer_embedding: _Optional[bool] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class AppendMessagesResponse(_message.Message):
    __slots__ = ("messages", "pending_embedding_count")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    pending_embedding_count: int
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., pending_embedding_count: _Optional[int] = ...) -> None: ...

class GetMessageRequest(_message.Message):
    __slots__ = ("message_id", "as_of_time", "revision")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    as_of_time: _timestamp_pb2.Timestamp
    revision: int
    def __init__(self, message_id: _Optional[str] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class GetMessageResponse(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: Message
    def __init__(self, message: _Optional[_Union[Message, _Mapping]] = ...) -> None: ...

class ListMessagesRequest(_message.Message):
    __slots__ = ("session_id", "page_size", "page_token", "newest_first", "show_archived", "as_of_time")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    SHOW_ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    page_size: int
    page_token: str
    newest_first: bool
    show_archived: bool
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, session_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., newest_first: _Optional[bool] = ..., show_archived: _Optional[bool] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListMessagesResponse(_message.Message):
    __slots__ = ("messages", "next_page_token")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    next_page_token: str
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListAgentMessagesRequest(_message.Message):
    __slots__ = ("agent_id", "subject_id", "page_size", "page_token", "start_time", "end_time", "pending_approval")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    PENDING_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    subject_id: str
    page_size: int
    page_token: str
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    pending_approval: bool
    def __init__(self, agent_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pending_approval: _Optional[bool] = ...) -> None: ...

class ListAgentMessagesResponse(_message.Message):
    __slots__ = ("messages", "next_page_token")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    next_page_token: str
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetRecentWindowRequest(_message.Message):
    __slots__ = ("session_id", "token_budget", "as_of_time")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_BUDGET_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    token_budget: int
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, session_id: _Optional[str] = ..., token_budget: _Optional[int] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetRecentWindowResponse(_message.Message):
    __slots__ = ("messages", "summary", "token_count", "truncated")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    summary: str
    token_count: int
    truncated: bool
    def __init__(self, messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., summary: _Optional[str] = ..., token_count: _Optional[int] = ..., truncated: _Optional[bool] = ...) -> None: ...

class SearchMessagesRequest(_message.Message):
    __slots__ = ("query", "session_id", "limit", "context_size", "start_time", "end_time", "mode", "page_token")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_SIZE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    query: str
    session_id: str
    limit: int
    context_size: int
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    mode: SearchMode
    page_token: str
    def __init__(self, query: _Optional[str] = ..., session_id: _Optional[str] = ..., limit: _Optional[int] = ..., context_size: _Optional[int] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., mode: _Optional[_Union[SearchMode, str]] = ..., page_token: _Optional[str] = ...) -> None: ...

class MessageHit(_message.Message):
    __slots__ = ("message", "score", "before", "after")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    message: Message
    score: float
    before: _containers.RepeatedCompositeFieldContainer[Message]
    after: _containers.RepeatedCompositeFieldContainer[Message]
    def __init__(self, message: _Optional[_Union[Message, _Mapping]] = ..., score: _Optional[float] = ..., before: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., after: _Optional[_Iterable[_Union[Message, _Mapping]]] = ...) -> None: ...

class SearchMessagesResponse(_message.Message):
    __slots__ = ("hits", "truncated", "next_page_token", "dense_unavailable")
    HITS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DENSE_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[MessageHit]
    truncated: bool
    next_page_token: str
    dense_unavailable: bool
    def __init__(self, hits: _Optional[_Iterable[_Union[MessageHit, _Mapping]]] = ..., truncated: _Optional[bool] = ..., next_page_token: _Optional[str] = ..., dense_unavailable: _Optional[bool] = ...) -> None: ...

class UpdateMessageRequest(_message.Message):
    __slots__ = ("message", "update_mask", "request_id")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    message: Message
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, message: _Optional[_Union[Message, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateMessageResponse(_message.Message):
    __slots__ = ("message", "embedding_pending")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    message: Message
    embedding_pending: bool
    def __init__(self, message: _Optional[_Union[Message, _Mapping]] = ..., embedding_pending: _Optional[bool] = ...) -> None: ...

class StreamMessagesRequest(_message.Message):
    __slots__ = ("session_id", "after_sequence")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    after_sequence: int
    def __init__(self, session_id: _Optional[str] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class StreamMessagesResponse(_message.Message):
    __slots__ = ("message", "sequence", "is_over")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    IS_OVER_FIELD_NUMBER: _ClassVar[int]
    message: Message
    sequence: int
    is_over: bool
    def __init__(self, message: _Optional[_Union[Message, _Mapping]] = ..., sequence: _Optional[int] = ..., is_over: _Optional[bool] = ...) -> None: ...

class DeleteMessageRequest(_message.Message):
    __slots__ = ("message_id", "request_id")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    request_id: str
    def __init__(self, message_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteMessageResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UndeleteMessageRequest(_message.Message):
    __slots__ = ("message_id", "request_id")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    request_id: str
    def __init__(self, message_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UndeleteMessageResponse(_message.Message):
    __slots__ = ("message", "embedding_pending")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    message: Message
    embedding_pending: bool
    def __init__(self, message: _Optional[_Union[Message, _Mapping]] = ..., embedding_pending: _Optional[bool] = ...) -> None: ...

class SummarizeSessionRequest(_message.Message):
    __slots__ = ("session_id", "max_characters", "method", "store", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    max_characters: int
    method: SummaryMethod
    store: bool
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., max_characters: _Optional[int] = ..., method: _Optional[_Union[SummaryMethod, str]] = ..., store: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class SummarizeSessionResponse(_message.Message):
    __slots__ = ("summary", "method", "fallback_reason", "session", "truncated")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_REASON_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    summary: str
    method: SummaryMethod
    fallback_reason: str
    session: Session
    truncated: bool
    def __init__(self, summary: _Optional[str] = ..., method: _Optional[_Union[SummaryMethod, str]] = ..., fallback_reason: _Optional[str] = ..., session: _Optional[_Union[Session, _Mapping]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class EndIdleSessionsRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class EndIdleSessionsResponse(_message.Message):
    __slots__ = ("ended_count", "more")
    ENDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ended_count: int
    more: bool
    def __init__(self, ended_count: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

class InheritParticipantsRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class InheritParticipantsResponse(_message.Message):
    __slots__ = ("changed_count", "more")
    CHANGED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    changed_count: int
    more: bool
    def __init__(self, changed_count: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

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

class StartExtractionRequest(_message.Message):
    __slots__ = ("since_time", "max_messages", "request_id")
    SINCE_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    since_time: _timestamp_pb2.Timestamp
    max_messages: int
    request_id: str
    def __init__(self, since_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_messages: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class StartExtractionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFailedExtractionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListFailedExtractionsResponse(_message.Message):
    __slots__ = ("failures", "next_page_token")
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    failures: _containers.RepeatedCompositeFieldContainer[ExtractionFailure]
    next_page_token: str
    def __init__(self, failures: _Optional[_Iterable[_Union[ExtractionFailure, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelExtractionRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class CancelExtractionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaseExtractionRequest(_message.Message):
    __slots__ = ("endpoints", "model_extractor")
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_EXTRACTOR_FIELD_NUMBER: _ClassVar[int]
    endpoints: Endpoints
    model_extractor: str
    def __init__(self, endpoints: _Optional[_Union[Endpoints, _Mapping]] = ..., model_extractor: _Optional[str] = ...) -> None: ...

class Endpoints(_message.Message):
    __slots__ = ("has_own", "allows_tenants")
    HAS_OWN_FIELD_NUMBER: _ClassVar[int]
    ALLOWS_TENANTS_FIELD_NUMBER: _ClassVar[int]
    has_own: bool
    allows_tenants: bool
    def __init__(self, has_own: _Optional[bool] = ..., allows_tenants: _Optional[bool] = ...) -> None: ...

class LeaseExtractionResponse(_message.Message):
    __slots__ = ("messages", "uses_model", "memory_types")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    USES_MODEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TYPES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DueMessage]
    uses_model: bool
    memory_types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, messages: _Optional[_Iterable[_Union[DueMessage, _Mapping]]] = ..., uses_model: _Optional[bool] = ..., memory_types: _Optional[_Iterable[str]] = ...) -> None: ...

class LeaseModelExtractionRequest(_message.Message):
    __slots__ = ("endpoints", "message_seconds")
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    endpoints: Endpoints
    message_seconds: int
    def __init__(self, endpoints: _Optional[_Union[Endpoints, _Mapping]] = ..., message_seconds: _Optional[int] = ...) -> None: ...

class LeaseModelExtractionResponse(_message.Message):
    __slots__ = ("messages", "model", "memory_types", "waiting_count")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TYPES_FIELD_NUMBER: _ClassVar[int]
    WAITING_COUNT_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DueMessage]
    model: ModelInstructions
    memory_types: _containers.RepeatedScalarFieldContainer[str]
    waiting_count: int
    def __init__(self, messages: _Optional[_Iterable[_Union[DueMessage, _Mapping]]] = ..., model: _Optional[_Union[ModelInstructions, _Mapping]] = ..., memory_types: _Optional[_Iterable[str]] = ..., waiting_count: _Optional[int] = ...) -> None: ...

class ModelInstructions(_message.Message):
    __slots__ = ("instructions", "url", "model", "has_key")
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    HAS_KEY_FIELD_NUMBER: _ClassVar[int]
    instructions: str
    url: str
    model: str
    has_key: bool
    def __init__(self, instructions: _Optional[str] = ..., url: _Optional[str] = ..., model: _Optional[str] = ..., has_key: _Optional[bool] = ...) -> None: ...

class DueMessage(_message.Message):
    __slots__ = ("message_id", "change_time", "message", "is_new", "is_purged", "time_zone", "is_exempt", "needs_model", "session_id", "read_revision", "answered", "previous_message_id", "following_text", "revision")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    IS_PURGED_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    IS_EXEMPT_FIELD_NUMBER: _ClassVar[int]
    NEEDS_MODEL_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    READ_REVISION_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    FOLLOWING_TEXT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    change_time: _timestamp_pb2.Timestamp
    message: Message
    is_new: bool
    is_purged: bool
    time_zone: str
    is_exempt: bool
    needs_model: bool
    session_id: str
    read_revision: int
    answered: AnsweredMessage
    previous_message_id: str
    following_text: str
    revision: int
    def __init__(self, message_id: _Optional[str] = ..., change_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., is_new: _Optional[bool] = ..., is_purged: _Optional[bool] = ..., time_zone: _Optional[str] = ..., is_exempt: _Optional[bool] = ..., needs_model: _Optional[bool] = ..., session_id: _Optional[str] = ..., read_revision: _Optional[int] = ..., answered: _Optional[_Union[AnsweredMessage, _Mapping]] = ..., previous_message_id: _Optional[str] = ..., following_text: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class AnsweredMessage(_message.Message):
    __slots__ = ("message_id", "content", "create_time", "revision")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    content: str
    create_time: _timestamp_pb2.Timestamp
    revision: int
    def __init__(self, message_id: _Optional[str] = ..., content: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class StartModelCallRequest(_message.Message):
    __slots__ = ("message_id", "session_id", "subject_id", "endpoint", "model", "character_count", "max_tokens_per_day", "sent_count", "tokens")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CHARACTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_PER_DAY_FIELD_NUMBER: _ClassVar[int]
    SENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    session_id: str
    subject_id: str
    endpoint: str
    model: str
    character_count: int
    max_tokens_per_day: int
    sent_count: int
    tokens: int
    def __init__(self, message_id: _Optional[str] = ..., session_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., endpoint: _Optional[str] = ..., model: _Optional[str] = ..., character_count: _Optional[int] = ..., max_tokens_per_day: _Optional[int] = ..., sent_count: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class StartModelCallResponse(_message.Message):
    __slots__ = ("retry_delay",)
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    retry_delay: _duration_pb2.Duration
    def __init__(self, retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CompleteExtractionRequest(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DueMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[DueMessage, _Mapping]]] = ...) -> None: ...

class CompleteModelExtractionRequest(_message.Message):
    __slots__ = ("messages", "failures", "sent_count", "tokens")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[DueMessage]
    failures: _containers.RepeatedCompositeFieldContainer[ExtractionFailure]
    sent_count: int
    tokens: int
    def __init__(self, messages: _Optional[_Iterable[_Union[DueMessage, _Mapping]]] = ..., failures: _Optional[_Iterable[_Union[ExtractionFailure, _Mapping]]] = ..., sent_count: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class CompleteModelExtractionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExtractionFailure(_message.Message):
    __slots__ = ("message_id", "session_id", "reason", "attempt_count", "last_attempt_time", "retry_delay", "is_final")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_ATTEMPT_TIME_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    IS_FINAL_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    session_id: str
    reason: str
    attempt_count: int
    last_attempt_time: _timestamp_pb2.Timestamp
    retry_delay: _duration_pb2.Duration
    is_final: bool
    def __init__(self, message_id: _Optional[str] = ..., session_id: _Optional[str] = ..., reason: _Optional[str] = ..., attempt_count: _Optional[int] = ..., last_attempt_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., is_final: _Optional[bool] = ...) -> None: ...

class CompleteExtractionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

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

class ExportSubjectRequest(_message.Message):
    __slots__ = ("subject_id", "page_size", "page_token", "all_spaces")
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ALL_SPACES_FIELD_NUMBER: _ClassVar[int]
    subject_id: str
    page_size: int
    page_token: str
    all_spaces: bool
    def __init__(self, subject_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., all_spaces: _Optional[bool] = ...) -> None: ...

class SubjectRecord(_message.Message):
    __slots__ = ("session", "message", "state", "item", "ledger", "deleted", "former_versions", "truncated", "space_id")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    FORMER_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    session: Session
    message: Message
    state: _states_pb2.AgentState
    item: _states_pb2.SessionItem
    ledger: _ledgers_pb2.ContextLedger
    deleted: bool
    former_versions: _containers.RepeatedCompositeFieldContainer[MessageVersion]
    truncated: bool
    space_id: str
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., state: _Optional[_Union[_states_pb2.AgentState, _Mapping]] = ..., item: _Optional[_Union[_states_pb2.SessionItem, _Mapping]] = ..., ledger: _Optional[_Union[_ledgers_pb2.ContextLedger, _Mapping]] = ..., deleted: _Optional[bool] = ..., former_versions: _Optional[_Iterable[_Union[MessageVersion, _Mapping]]] = ..., truncated: _Optional[bool] = ..., space_id: _Optional[str] = ...) -> None: ...

class MessageVersion(_message.Message):
    __slots__ = ("message", "until_time")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    message: Message
    until_time: _timestamp_pb2.Timestamp
    def __init__(self, message: _Optional[_Union[Message, _Mapping]] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ExportSubjectResponse(_message.Message):
    __slots__ = ("records", "next_page_token", "space_ids")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SPACE_IDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[SubjectRecord]
    next_page_token: str
    space_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, records: _Optional[_Iterable[_Union[SubjectRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., space_ids: _Optional[_Iterable[str]] = ...) -> None: ...
