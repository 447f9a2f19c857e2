import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_KIND_UNSPECIFIED: _ClassVar[JobKind]
    JOB_KIND_EMBEDDING: _ClassVar[JobKind]
    JOB_KIND_REINDEX: _ClassVar[JobKind]
    JOB_KIND_DECAY: _ClassVar[JobKind]
    JOB_KIND_CONSOLIDATION: _ClassVar[JobKind]
    JOB_KIND_IMPORT: _ClassVar[JobKind]
    JOB_KIND_RETENTION: _ClassVar[JobKind]
    JOB_KIND_EXPIRY: _ClassVar[JobKind]
    JOB_KIND_ARCHIVE: _ClassVar[JobKind]
    JOB_KIND_SESSION_ARCHIVE: _ClassVar[JobKind]
    JOB_KIND_SUMMARIES: _ClassVar[JobKind]
    JOB_KIND_EXTRACTION: _ClassVar[JobKind]
    JOB_KIND_MODEL_EXTRACTION: _ClassVar[JobKind]

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_IDLE: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_PAUSED: _ClassVar[JobState]
    JOB_STATE_CEILING_REACHED: _ClassVar[JobState]

class JobCost(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_COST_UNSPECIFIED: _ClassVar[JobCost]
    JOB_COST_ITEMS: _ClassVar[JobCost]
    JOB_COST_EMBEDDINGS: _ClassVar[JobCost]
    JOB_COST_TOKENS: _ClassVar[JobCost]
JOB_KIND_UNSPECIFIED: JobKind
JOB_KIND_EMBEDDING: JobKind
JOB_KIND_REINDEX: JobKind
JOB_KIND_DECAY: JobKind
JOB_KIND_CONSOLIDATION: JobKind
JOB_KIND_IMPORT: JobKind
JOB_KIND_RETENTION: JobKind
JOB_KIND_EXPIRY: JobKind
JOB_KIND_ARCHIVE: JobKind
JOB_KIND_SESSION_ARCHIVE: JobKind
JOB_KIND_SUMMARIES: JobKind
JOB_KIND_EXTRACTION: JobKind
JOB_KIND_MODEL_EXTRACTION: JobKind
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_IDLE: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_PAUSED: JobState
JOB_STATE_CEILING_REACHED: JobState
JOB_COST_UNSPECIFIED: JobCost
JOB_COST_ITEMS: JobCost
JOB_COST_EMBEDDINGS: JobCost
JOB_COST_TOKENS: JobCost

class JobLimits(_message.Message):
    __slots__ = ("items_per_second", "max_cost_per_day")
    ITEMS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_PER_DAY_FIELD_NUMBER: _ClassVar[int]
    items_per_second: float
    max_cost_per_day: int
    def __init__(self, items_per_second: _Optional[float] = ..., max_cost_per_day: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("kind", "state", "limits", "cost", "day_cost", "done_count", "remaining_count", "recent_rate", "expected_end_time", "run_start_time", "last_batch_time", "pause_time", "paused_by")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    DAY_COST_FIELD_NUMBER: _ClassVar[int]
    DONE_COUNT_FIELD_NUMBER: _ClassVar[int]
    REMAINING_COUNT_FIELD_NUMBER: _ClassVar[int]
    RECENT_RATE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_END_TIME_FIELD_NUMBER: _ClassVar[int]
    RUN_START_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_BATCH_TIME_FIELD_NUMBER: _ClassVar[int]
    PAUSE_TIME_FIELD_NUMBER: _ClassVar[int]
    PAUSED_BY_FIELD_NUMBER: _ClassVar[int]
    kind: JobKind
    state: JobState
    limits: JobLimits
    cost: JobCost
    day_cost: int
    done_count: int
    remaining_count: int
    recent_rate: float
    expected_end_time: _timestamp_pb2.Timestamp
    run_start_time: _timestamp_pb2.Timestamp
    last_batch_time: _timestamp_pb2.Timestamp
    pause_time: _timestamp_pb2.Timestamp
    paused_by: str
    def __init__(self, kind: _Optional[_Union[JobKind, str]] = ..., state: _Optional[_Union[JobState, str]] = ..., limits: _Optional[_Union[JobLimits, _Mapping]] = ..., cost: _Optional[_Union[JobCost, str]] = ..., day_cost: _Optional[int] = ..., done_count: _Optional[int] = ..., remaining_count: _Optional[int] = ..., recent_rate: _Optional[float] = ..., expected_end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., run_start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_batch_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pause_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., paused_by: _Optional[str] = ...) -> None: ...

class GetJobsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class PauseJobRequest(_message.Message):
    __slots__ = ("kind", "request_id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    kind: JobKind
    request_id: str
    def __init__(self, kind: _Optional[_Union[JobKind, str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class PauseJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ResumeJobRequest(_message.Message):
    __slots__ = ("kind", "request_id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    kind: JobKind
    request_id: str
    def __init__(self, kind: _Optional[_Union[JobKind, str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResumeJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class LimitJobRequest(_message.Message):
    __slots__ = ("kind", "limits", "request_id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    kind: JobKind
    limits: JobLimits
    request_id: str
    def __init__(self, kind: _Optional[_Union[JobKind, str]] = ..., limits: _Optional[_Union[JobLimits, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class LimitJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class AdvanceImportRequest(_message.Message):
    __slots__ = ("requested_count", "done_count", "remaining_count", "finished", "request_id")
    REQUESTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DONE_COUNT_FIELD_NUMBER: _ClassVar[int]
    REMAINING_COUNT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    requested_count: int
    done_count: int
    remaining_count: int
    finished: bool
    request_id: str
    def __init__(self, requested_count: _Optional[int] = ..., done_count: _Optional[int] = ..., remaining_count: _Optional[int] = ..., finished: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class AdvanceImportResponse(_message.Message):
    __slots__ = ("granted_count", "retry_delay", "state")
    GRANTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    granted_count: int
    retry_delay: _duration_pb2.Duration
    state: JobState
    def __init__(self, granted_count: _Optional[int] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., state: _Optional[_Union[JobState, str]] = ...) -> None: ...
