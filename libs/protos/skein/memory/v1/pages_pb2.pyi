import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import memory_pb2 as _memory_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Page(_message.Message):
    __slots__ = ("page_id", "title", "subject_id", "entity_memory_id", "filter", "sections", "pinned", "revision", "create_time", "update_time", "created_by", "updated_by")
    PAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    ENTITY_MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SECTIONS_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    page_id: str
    title: str
    subject_id: str
    entity_memory_id: str
    filter: _memory_pb2.MemoryFilter
    sections: _containers.RepeatedCompositeFieldContainer[PageSection]
    pinned: bool
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    def __init__(self, page_id: _Optional[str] = ..., title: _Optional[str] = ..., subject_id: _Optional[str] = ..., entity_memory_id: _Optional[str] = ..., filter: _Optional[_Union[_memory_pb2.MemoryFilter, _Mapping]] = ..., sections: _Optional[_Iterable[_Union[PageSection, _Mapping]]] = ..., pinned: _Optional[bool] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ...) -> None: ...

class PageSection(_message.Message):
    __slots__ = ("title", "types", "keys", "limit")
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    title: str
    types: _containers.RepeatedScalarFieldContainer[str]
    keys: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    def __init__(self, title: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ..., keys: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ...) -> None: ...

class PageText(_message.Message):
    __slots__ = ("title", "sentences")
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    title: str
    sentences: _containers.RepeatedCompositeFieldContainer[PageSentence]
    def __init__(self, title: _Optional[str] = ..., sentences: _Optional[_Iterable[_Union[PageSentence, _Mapping]]] = ...) -> None: ...

class PageSentence(_message.Message):
    __slots__ = ("number", "text", "memory_id", "revision", "type", "create_time")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    number: int
    text: str
    memory_id: str
    revision: int
    type: str
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, number: _Optional[int] = ..., text: _Optional[str] = ..., memory_id: _Optional[str] = ..., revision: _Optional[int] = ..., type: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreatePageRequest(_message.Message):
    __slots__ = ("page", "request_id")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    page: Page
    request_id: str
    def __init__(self, page: _Optional[_Union[Page, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreatePageResponse(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: Page
    def __init__(self, page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class GetPageRequest(_message.Message):
    __slots__ = ("page_id", "visible_to", "as_of_time", "brief", "memory_ids")
    PAGE_ID_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_TO_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    BRIEF_FIELD_NUMBER: _ClassVar[int]
    MEMORY_IDS_FIELD_NUMBER: _ClassVar[int]
    page_id: str
    visible_to: _memory_pb2.ScopeContext
    as_of_time: _timestamp_pb2.Timestamp
    brief: bool
    memory_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, page_id: _Optional[str] = ..., visible_to: _Optional[_Union[_memory_pb2.ScopeContext, _Mapping]] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., brief: _Optional[bool] = ..., memory_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetPageResponse(_message.Message):
    __slots__ = ("page", "sections", "text", "etag", "truncated")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    SECTIONS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    page: Page
    sections: _containers.RepeatedCompositeFieldContainer[PageText]
    text: str
    etag: str
    truncated: bool
    def __init__(self, page: _Optional[_Union[Page, _Mapping]] = ..., sections: _Optional[_Iterable[_Union[PageText, _Mapping]]] = ..., text: _Optional[str] = ..., etag: _Optional[str] = ..., truncated: _Optional[bool] = ...) -> None: ...

class ListPagesRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "pinned_only")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PINNED_ONLY_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    pinned_only: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., pinned_only: _Optional[bool] = ...) -> None: ...

class ListPagesResponse(_message.Message):
    __slots__ = ("pages", "next_page_token")
    PAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    pages: _containers.RepeatedCompositeFieldContainer[Page]
    next_page_token: str
    def __init__(self, pages: _Optional[_Iterable[_Union[Page, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdatePageRequest(_message.Message):
    __slots__ = ("page", "update_mask", "request_id")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    page: Page
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, page: _Optional[_Union[Page, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdatePageResponse(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: Page
    def __init__(self, page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class DeletePageRequest(_message.Message):
    __slots__ = ("page_id", "revision", "request_id")
    PAGE_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    page_id: str
    revision: int
    request_id: str
    def __init__(self, page_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeletePageResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
