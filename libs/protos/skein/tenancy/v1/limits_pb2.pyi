import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Quota(_message.Message):
    __slots__ = ("requests_per_minute", "requests_per_hour", "requests_per_day", "caller_requests_per_minute", "tenants", "members", "agents", "subjects", "tools", "api_keys", "sessions", "messages", "memories", "links", "revision", "update_time", "blocks", "snapshots", "agent_states", "session_items", "webhooks", "pages")
    REQUESTS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_DAY_FIELD_NUMBER: _ClassVar[int]
    CALLER_REQUESTS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    API_KEYS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    AGENT_STATES_FIELD_NUMBER: _ClassVar[int]
    SESSION_ITEMS_FIELD_NUMBER: _ClassVar[int]
    WEBHOOKS_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    requests_per_minute: int
    requests_per_hour: int
    requests_per_day: int
    caller_requests_per_minute: int
    tenants: int
    members: int
    agents: int
    subjects: int
    tools: int
    api_keys: int
    sessions: int
    messages: int
    memories: int
    links: int
    revision: int
    update_time: _timestamp_pb2.Timestamp
    blocks: int
    snapshots: int
    agent_states: int
    session_items: int
    webhooks: int
    pages: int
    def __init__(self, requests_per_minute: _Optional[int] = ..., requests_per_hour: _Optional[int] = ..., requests_per_day: _Optional[int] = ..., caller_requests_per_minute: _Optional[int] = ..., tenants: _Optional[int] = ..., members: _Optional[int] = ..., agents: _Optional[int] = ..., subjects: _Optional[int] = ..., tools: _Optional[int] = ..., api_keys: _Optional[int] = ..., sessions: _Optional[int] = ..., messages: _Optional[int] = ..., memories: _Optional[int] = ..., links: _Optional[int] = ..., revision: _Optional[int] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., blocks: _Optional[int] = ..., snapshots: _Optional[int] = ..., agent_states: _Optional[int] = ..., session_items: _Optional[int] = ..., webhooks: _Optional[int] = ..., pages: _Optional[int] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("kind", "used", "limit")
    KIND_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    used: int
    limit: int
    def __init__(self, kind: _Optional[str] = ..., used: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class GetQuotaRequest(_message.Message):
    __slots__ = ("organization_id",)
    ORGANIZATION_ID_FIELD_NUMBER: _ClassVar[int]
    organization_id: str
    def __init__(self, organization_id: _Optional[str] = ...) -> None: ...

class GetQuotaResponse(_message.Message):
    __slots__ = ("quota",)
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    quota: Quota
    def __init__(self, quota: _Optional[_Union[Quota, _Mapping]] = ...) -> None: ...

class UpdateQuotaRequest(_message.Message):
    __slots__ = ("organization_id", "quota", "update_mask", "request_id")
    ORGANIZATION_ID_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    organization_id: str
    quota: Quota
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, organization_id: _Optional[str] = ..., quota: _Optional[_Union[Quota, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateQuotaResponse(_message.Message):
    __slots__ = ("quota",)
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    quota: Quota
    def __init__(self, quota: _Optional[_Union[Quota, _Mapping]] = ...) -> None: ...

class GetUsageRequest(_message.Message):
    __slots__ = ("organization_id",)
    ORGANIZATION_ID_FIELD_NUMBER: _ClassVar[int]
    organization_id: str
    def __init__(self, organization_id: _Optional[str] = ...) -> None: ...

class GetUsageResponse(_message.Message):
    __slots__ = ("usage", "collect_time")
    USAGE_FIELD_NUMBER: _ClassVar[int]
    COLLECT_TIME_FIELD_NUMBER: _ClassVar[int]
    usage: _containers.RepeatedCompositeFieldContainer[Usage]
    collect_time: _timestamp_pb2.Timestamp
    def __init__(self, usage: _Optional[_Iterable[_Union[Usage, _Mapping]]] = ..., collect_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AcquireRateLimitRequest(_message.Message):
    __slots__ = ("tenant_tokens", "caller_tokens")
    TENANT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CALLER_TOKENS_FIELD_NUMBER: _ClassVar[int]
    tenant_tokens: int
    caller_tokens: int
    def __init__(self, tenant_tokens: _Optional[int] = ..., caller_tokens: _Optional[int] = ...) -> None: ...

class AcquireRateLimitResponse(_message.Message):
    __slots__ = ("tenant_tokens", "caller_tokens", "lifetime", "retry_delay", "exhausted_limit", "tenant_rate", "caller_rate")
    TENANT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CALLER_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTED_LIMIT_FIELD_NUMBER: _ClassVar[int]
    TENANT_RATE_FIELD_NUMBER: _ClassVar[int]
    CALLER_RATE_FIELD_NUMBER: _ClassVar[int]
    tenant_tokens: int
    caller_tokens: int
    lifetime: _duration_pb2.Duration
    retry_delay: _duration_pb2.Duration
    exhausted_limit: str
    tenant_rate: float
    caller_rate: float
    def __init__(self, tenant_tokens: _Optional[int] = ..., caller_tokens: _Optional[int] = ..., lifetime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., exhausted_limit: _Optional[str] = ..., tenant_rate: _Optional[float] = ..., caller_rate: _Optional[float] = ...) -> None: ...

class CollectUsageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CollectUsageResponse(_message.Message):
    __slots__ = ("usage",)
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: _containers.RepeatedCompositeFieldContainer[Usage]
    def __init__(self, usage: _Optional[_Iterable[_Union[Usage, _Mapping]]] = ...) -> None: ...
