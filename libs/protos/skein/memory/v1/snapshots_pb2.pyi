import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import blocks_pb2 as _blocks_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SnapshotState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SNAPSHOT_STATE_UNSPECIFIED: _ClassVar[SnapshotState]
    SNAPSHOT_STATE_CREATING: _ClassVar[SnapshotState]
    SNAPSHOT_STATE_READY: _ClassVar[SnapshotState]

class DifferenceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIFFERENCE_TYPE_UNSPECIFIED: _ClassVar[DifferenceType]
    DIFFERENCE_TYPE_ADDED: _ClassVar[DifferenceType]
    DIFFERENCE_TYPE_CHANGED: _ClassVar[DifferenceType]
    DIFFERENCE_TYPE_REMOVED: _ClassVar[DifferenceType]

class ImportMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IMPORT_MODE_UNSPECIFIED: _ClassVar[ImportMode]
    IMPORT_MODE_MERGE: _ClassVar[ImportMode]
    IMPORT_MODE_OVERWRITE: _ClassVar[ImportMode]
    IMPORT_MODE_SKIP_EXISTING: _ClassVar[ImportMode]

class ImportFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IMPORT_FORMAT_UNSPECIFIED: _ClassVar[ImportFormat]
    IMPORT_FORMAT_SKEIN_EXPORT_V1: _ClassVar[ImportFormat]
    IMPORT_FORMAT_MEMORYVAULT_EXPORT_V1: _ClassVar[ImportFormat]
SNAPSHOT_STATE_UNSPECIFIED: SnapshotState
SNAPSHOT_STATE_CREATING: SnapshotState
SNAPSHOT_STATE_READY: SnapshotState
DIFFERENCE_TYPE_UNSPECIFIED: DifferenceType
DIFFERENCE_TYPE_ADDED: DifferenceType
DIFFERENCE_TYPE_CHANGED: DifferenceType
DIFFERENCE_TYPE_REMOVED: DifferenceType
IMPORT_MODE_UNSPECIFIED: ImportMode
IMPORT_MODE_MERGE: ImportMode
IMPORT_MODE_OVERWRITE: ImportMode
IMPORT_MODE_SKIP_EXISTING: ImportMode
IMPORT_FORMAT_UNSPECIFIED: ImportFormat
IMPORT_FORMAT_SKEIN_EXPORT_V1: ImportFormat
IMPORT_FORMAT_MEMORYVAULT_EXPORT_V1: ImportFormat

class Snapshot(_message.Message):
    __slots__ = ("snapshot_id", "label", "summary", "state", "as_of_time", "item_counts", "policy", "policy_json", "create_time", "created_by")
    class ItemCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNTS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POLICY_JSON_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    label: str
    summary: str
    state: SnapshotState
    as_of_time: _timestamp_pb2.Timestamp
    item_counts: _containers.ScalarMap[str, int]
    policy: _struct_pb2.Struct
    policy_json: str
    create_time: _timestamp_pb2.Timestamp
    created_by: str
    def __init__(self, snapshot_id: _Optional[str] = ..., label: _Optional[str] = ..., summary: _Optional[str] = ..., state: _Optional[_Union[SnapshotState, str]] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., item_counts: _Optional[_Mapping[str, int]] = ..., policy: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., policy_json: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ...) -> None: ...

class PortableBlock(_message.Message):
    __slots__ = ("block", "agent_ids")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    block: _blocks_pb2.Block
    agent_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, block: _Optional[_Union[_blocks_pb2.Block, _Mapping]] = ..., agent_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateSnapshotRequest(_message.Message):
    __slots__ = ("label", "summary", "request_id")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    label: str
    summary: str
    request_id: str
    def __init__(self, label: _Optional[str] = ..., summary: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class GetSnapshotRequest(_message.Message):
    __slots__ = ("snapshot_id",)
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    def __init__(self, snapshot_id: _Optional[str] = ...) -> None: ...

class GetSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots", "next_page_token")
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    next_page_token: str
    def __init__(self, snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Difference(_message.Message):
    __slots__ = ("kind", "item_id", "type", "fields")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    item_id: str
    type: DifferenceType
    fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., item_id: _Optional[str] = ..., type: _Optional[_Union[DifferenceType, str]] = ..., fields: _Optional[_Iterable[str]] = ...) -> None: ...

class DiffSnapshotsRequest(_message.Message):
    __slots__ = ("snapshot_id", "other_snapshot_id", "page_size", "page_token")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    OTHER_SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    other_snapshot_id: str
    page_size: int
    page_token: str
    def __init__(self, snapshot_id: _Optional[str] = ..., other_snapshot_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class DiffSnapshotsResponse(_message.Message):
    __slots__ = ("differences", "next_page_token")
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    differences: _containers.RepeatedCompositeFieldContainer[Difference]
    next_page_token: str
    def __init__(self, differences: _Optional[_Iterable[_Union[Difference, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RestoreSnapshotRequest(_message.Message):
    __slots__ = ("snapshot_id", "replace", "page_token", "page_size", "request_id")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    replace: bool
    page_token: str
    page_size: int
    request_id: str
    def __init__(self, snapshot_id: _Optional[str] = ..., replace: _Optional[bool] = ..., page_token: _Optional[str] = ..., page_size: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class RestoreSnapshotResponse(_message.Message):
    __slots__ = ("counts", "errors", "next_page_token")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    counts: ImportCounts
    errors: _containers.RepeatedCompositeFieldContainer[ImportError]
    next_page_token: str
    def __init__(self, counts: _Optional[_Union[ImportCounts, _Mapping]] = ..., errors: _Optional[_Iterable[_Union[ImportError, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteSnapshotRequest(_message.Message):
    __slots__ = ("snapshot_id", "request_id")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    request_id: str
    def __init__(self, snapshot_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteSnapshotResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportDataRequest(_message.Message):
    __slots__ = ("page_token", "page_size")
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    page_token: str
    page_size: int
    def __init__(self, page_token: _Optional[str] = ..., page_size: _Optional[int] = ...) -> None: ...

class ExportDataResponse(_message.Message):
    __slots__ = ("lines", "item_count", "as_of_time", "next_page_token")
    LINES_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    lines: str
    item_count: int
    as_of_time: _timestamp_pb2.Timestamp
    next_page_token: str
    def __init__(self, lines: _Optional[str] = ..., item_count: _Optional[int] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ImportDataRequest(_message.Message):
    __slots__ = ("lines", "format", "mode", "dry_run", "request_id")
    LINES_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    lines: str
    format: ImportFormat
    mode: ImportMode
    dry_run: bool
    request_id: str
    def __init__(self, lines: _Optional[str] = ..., format: _Optional[_Union[ImportFormat, str]] = ..., mode: _Optional[_Union[ImportMode, str]] = ..., dry_run: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class ImportCounts(_message.Message):
    __slots__ = ("created", "updated", "unchanged", "removed", "refused", "expired")
    class CreatedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class UpdatedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class UnchangedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class RemovedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class RefusedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ExpiredEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CREATED_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    created: _containers.ScalarMap[str, int]
    updated: _containers.ScalarMap[str, int]
    unchanged: _containers.ScalarMap[str, int]
    removed: _containers.ScalarMap[str, int]
    refused: _containers.ScalarMap[str, int]
    expired: _containers.ScalarMap[str, int]
    def __init__(self, created: _Optional[_Mapping[str, int]] = ..., updated: _Optional[_Mapping[str, int]] = ..., unchanged: _Optional[_Mapping[str, int]] = ..., removed: _Optional[_Mapping[str, int]] = ..., refused: _Optional[_Mapping[str, int]] = ..., expired: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ImportError(_message.Message):
    __slots__ = ("line", "kind", "reason", "field")
    LINE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    line: int
    kind: str
    reason: str
    field: str
    def __init__(self, line: _Optional[int] = ..., kind: _Optional[str] = ..., reason: _Optional[str] = ..., field: _Optional[str] = ...) -> None: ...

class ImportDataResponse(_message.Message):
    __slots__ = ("counts", "errors", "pending_embedding_count", "kept_embedding_count", "remade_embeddings")
    class RemadeEmbeddingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    PENDING_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEPT_EMBEDDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    REMADE_EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    counts: ImportCounts
    errors: _containers.RepeatedCompositeFieldContainer[ImportError]
    pending_embedding_count: int
    kept_embedding_count: int
    remade_embeddings: _containers.ScalarMap[str, int]
    def __init__(self, counts: _Optional[_Union[ImportCounts, _Mapping]] = ..., errors: _Optional[_Iterable[_Union[ImportError, _Mapping]]] = ..., pending_embedding_count: _Optional[int] = ..., kept_embedding_count: _Optional[int] = ..., remade_embeddings: _Optional[_Mapping[str, int]] = ...) -> None: ...
