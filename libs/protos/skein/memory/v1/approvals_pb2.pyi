import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import memory_pb2 as _memory_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PendingMemory(_message.Message):
    __slots__ = ("pending_id", "memory", "update_mask", "created_by", "agent_id", "create_time", "expire_time", "key_holder_id", "refusal_reason")
    PENDING_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    KEY_HOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_REASON_FIELD_NUMBER: _ClassVar[int]
    pending_id: str
    memory: _memory_pb2.Memory
    update_mask: _field_mask_pb2.FieldMask
    created_by: str
    agent_id: str
    create_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    key_holder_id: str
    refusal_reason: str
    def __init__(self, pending_id: _Optional[str] = ..., memory: _Optional[_Union[_memory_pb2.Memory, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., created_by: _Optional[str] = ..., agent_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., key_holder_id: _Optional[str] = ..., refusal_reason: _Optional[str] = ...) -> None: ...

class ListPendingMemoriesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPendingMemoriesResponse(_message.Message):
    __slots__ = ("pending_memories", "next_page_token")
    PENDING_MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    pending_memories: _containers.RepeatedCompositeFieldContainer[PendingMemory]
    next_page_token: str
    def __init__(self, pending_memories: _Optional[_Iterable[_Union[PendingMemory, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListRefusedFactsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRefusedFactsResponse(_message.Message):
    __slots__ = ("refused_facts", "next_page_token")
    REFUSED_FACTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    refused_facts: _containers.RepeatedCompositeFieldContainer[PendingMemory]
    next_page_token: str
    def __init__(self, refused_facts: _Optional[_Iterable[_Union[PendingMemory, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ApproveMemoryRequest(_message.Message):
    __slots__ = ("pending_id", "memory", "update_mask", "request_id")
    PENDING_ID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    pending_id: str
    memory: _memory_pb2.Memory
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, pending_id: _Optional[str] = ..., memory: _Optional[_Union[_memory_pb2.Memory, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ApproveMemoryResponse(_message.Message):
    __slots__ = ("memory", "embedding_pending")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_PENDING_FIELD_NUMBER: _ClassVar[int]
    memory: _memory_pb2.Memory
    embedding_pending: bool
    def __init__(self, memory: _Optional[_Union[_memory_pb2.Memory, _Mapping]] = ..., embedding_pending: _Optional[bool] = ...) -> None: ...

class RefuseMemoryRequest(_message.Message):
    __slots__ = ("pending_id", "request_id")
    PENDING_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    pending_id: str
    request_id: str
    def __init__(self, pending_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RefuseMemoryResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
