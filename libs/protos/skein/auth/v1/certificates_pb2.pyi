import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErasureCertificate(_message.Message):
    __slots__ = ("certificate_id", "tenant_id", "complete", "tombstone_count", "create_time", "sign_time", "key_id", "document", "kind", "deleted_counts", "start_time", "end_time", "settle_time", "backups_remove_time")
    class DeletedCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CERTIFICATE_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    SIGN_TIME_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DELETED_COUNTS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    SETTLE_TIME_FIELD_NUMBER: _ClassVar[int]
    BACKUPS_REMOVE_TIME_FIELD_NUMBER: _ClassVar[int]
    certificate_id: str
    tenant_id: str
    complete: bool
    tombstone_count: int
    create_time: _timestamp_pb2.Timestamp
    sign_time: _timestamp_pb2.Timestamp
    key_id: str
    document: str
    kind: str
    deleted_counts: _containers.ScalarMap[str, int]
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    settle_time: _timestamp_pb2.Timestamp
    backups_remove_time: _timestamp_pb2.Timestamp
    def __init__(self, certificate_id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., complete: _Optional[bool] = ..., tombstone_count: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sign_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., key_id: _Optional[str] = ..., document: _Optional[str] = ..., kind: _Optional[str] = ..., deleted_counts: _Optional[_Mapping[str, int]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., backups_remove_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetErasureCertificateRequest(_message.Message):
    __slots__ = ("certificate_id", "tenant_id")
    CERTIFICATE_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    certificate_id: str
    tenant_id: str
    def __init__(self, certificate_id: _Optional[str] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class GetErasureCertificateResponse(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: ErasureCertificate
    def __init__(self, certificate: _Optional[_Union[ErasureCertificate, _Mapping]] = ...) -> None: ...

class ListErasureCertificatesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "tenant_id")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    tenant_id: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class ListErasureCertificatesResponse(_message.Message):
    __slots__ = ("certificates", "next_page_token")
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    certificates: _containers.RepeatedCompositeFieldContainer[ErasureCertificate]
    next_page_token: str
    def __init__(self, certificates: _Optional[_Iterable[_Union[ErasureCertificate, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class IssueErasureCertificateRequest(_message.Message):
    __slots__ = ("erasure_key", "cumulative", "complete", "start_time", "end_time", "deleted_counts", "receipt_ids", "memory_tombstones", "session_tombstones", "log_position", "settle_time", "kind", "next_erasure_key", "remaining_memory_ids", "event_position")
    class DeletedCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ERASURE_KEY_FIELD_NUMBER: _ClassVar[int]
    CUMULATIVE_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETED_COUNTS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_IDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOMBSTONES_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOMBSTONES_FIELD_NUMBER: _ClassVar[int]
    LOG_POSITION_FIELD_NUMBER: _ClassVar[int]
    SETTLE_TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NEXT_ERASURE_KEY_FIELD_NUMBER: _ClassVar[int]
    REMAINING_MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    EVENT_POSITION_FIELD_NUMBER: _ClassVar[int]
    erasure_key: bytes
    cumulative: bool
    complete: bool
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    deleted_counts: _containers.ScalarMap[str, int]
    receipt_ids: _containers.RepeatedScalarFieldContainer[str]
    memory_tombstones: _containers.RepeatedScalarFieldContainer[bytes]
    session_tombstones: _containers.RepeatedScalarFieldContainer[bytes]
    log_position: str
    settle_time: _timestamp_pb2.Timestamp
    kind: str
    next_erasure_key: bytes
    remaining_memory_ids: _containers.RepeatedScalarFieldContainer[str]
    event_position: str
    def __init__(self, erasure_key: _Optional[bytes] = ..., cumulative: _Optional[bool] = ..., complete: _Optional[bool] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deleted_counts: _Optional[_Mapping[str, int]] = ..., receipt_ids: _Optional[_Iterable[str]] = ..., memory_tombstones: _Optional[_Iterable[bytes]] = ..., session_tombstones: _Optional[_Iterable[bytes]] = ..., log_position: _Optional[str] = ..., settle_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., kind: _Optional[str] = ..., next_erasure_key: _Optional[bytes] = ..., remaining_memory_ids: _Optional[_Iterable[str]] = ..., event_position: _Optional[str] = ...) -> None: ...

class SignRecallReceiptsRequest(_message.Message):
    __slots__ = ("receipt_ids", "digests")
    RECEIPT_IDS_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    receipt_ids: _containers.RepeatedScalarFieldContainer[bytes]
    digests: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, receipt_ids: _Optional[_Iterable[bytes]] = ..., digests: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SignRecallReceiptsResponse(_message.Message):
    __slots__ = ("key_id", "signatures")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    signatures: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, key_id: _Optional[str] = ..., signatures: _Optional[_Iterable[bytes]] = ...) -> None: ...

class IssueDeletionCertificateRequest(_message.Message):
    __slots__ = ("tenant_id", "complete", "start_time", "end_time", "deleted_counts")
    class DeletedCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETED_COUNTS_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    complete: bool
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    deleted_counts: _containers.ScalarMap[str, int]
    def __init__(self, tenant_id: _Optional[str] = ..., complete: _Optional[bool] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deleted_counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class IssueDeletionCertificateResponse(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: ErasureCertificate
    def __init__(self, certificate: _Optional[_Union[ErasureCertificate, _Mapping]] = ...) -> None: ...

class IssueErasureCertificateResponse(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: ErasureCertificate
    def __init__(self, certificate: _Optional[_Union[ErasureCertificate, _Mapping]] = ...) -> None: ...
