import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.memory.v1 import memory_pb2 as _memory_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Block(_message.Message):
    __slots__ = ("block_id", "label", "value", "limit", "description", "read_only", "is_template", "template_name", "subject_id", "metadata", "metadata_json", "revision", "create_time", "update_time", "delete_time", "created_by", "updated_by", "character_count", "nearly_full", "record_time", "writers", "trust")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    IS_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_NAME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BY_FIELD_NUMBER: _ClassVar[int]
    CHARACTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEARLY_FULL_FIELD_NUMBER: _ClassVar[int]
    RECORD_TIME_FIELD_NUMBER: _ClassVar[int]
    WRITERS_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    label: str
    value: str
    limit: int
    description: str
    read_only: bool
    is_template: bool
    template_name: str
    subject_id: str
    metadata: _struct_pb2.Struct
    metadata_json: str
    revision: int
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    delete_time: _timestamp_pb2.Timestamp
    created_by: str
    updated_by: str
    character_count: int
    nearly_full: bool
    record_time: _timestamp_pb2.Timestamp
    writers: _containers.RepeatedScalarFieldContainer[str]
    trust: float
    def __init__(self, block_id: _Optional[str] = ..., label: _Optional[str] = ..., value: _Optional[str] = ..., limit: _Optional[int] = ..., description: _Optional[str] = ..., read_only: _Optional[bool] = ..., is_template: _Optional[bool] = ..., template_name: _Optional[str] = ..., subject_id: _Optional[str] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., metadata_json: _Optional[str] = ..., revision: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delete_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., updated_by: _Optional[str] = ..., character_count: _Optional[int] = ..., nearly_full: _Optional[bool] = ..., record_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., writers: _Optional[_Iterable[str]] = ..., trust: _Optional[float] = ...) -> None: ...

class BlockRevision(_message.Message):
    __slots__ = ("block", "until_time", "changed_by")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    block: Block
    until_time: _timestamp_pb2.Timestamp
    changed_by: str
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., changed_by: _Optional[str] = ...) -> None: ...

class CreateBlockRequest(_message.Message):
    __slots__ = ("block", "agent_id", "request_id", "keep_times")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_TIMES_FIELD_NUMBER: _ClassVar[int]
    block: Block
    agent_id: str
    request_id: str
    keep_times: bool
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ..., agent_id: _Optional[str] = ..., request_id: _Optional[str] = ..., keep_times: _Optional[bool] = ...) -> None: ...

class CreateBlockResponse(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: Block
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class CreateBlockFromTemplateRequest(_message.Message):
    __slots__ = ("template_block_id", "variables", "block", "agent_id", "request_id")
    class VariablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TEMPLATE_BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    template_block_id: str
    variables: _containers.ScalarMap[str, str]
    block: Block
    agent_id: str
    request_id: str
    def __init__(self, template_block_id: _Optional[str] = ..., variables: _Optional[_Mapping[str, str]] = ..., block: _Optional[_Union[Block, _Mapping]] = ..., agent_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateBlockFromTemplateResponse(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: Block
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class GetBlockRequest(_message.Message):
    __slots__ = ("block_id", "show_deleted", "as_of_time", "revision")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    SHOW_DELETED_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    show_deleted: bool
    as_of_time: _timestamp_pb2.Timestamp
    revision: int
    def __init__(self, block_id: _Optional[str] = ..., show_deleted: _Optional[bool] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class GetBlockResponse(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: Block
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class ListBlocksRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "label", "subject_id", "template_name", "is_template", "show_deleted", "as_of_time")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_NAME_FIELD_NUMBER: _ClassVar[int]
    IS_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    SHOW_DELETED_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    label: str
    subject_id: str
    template_name: str
    is_template: bool
    show_deleted: bool
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., label: _Optional[str] = ..., subject_id: _Optional[str] = ..., template_name: _Optional[str] = ..., is_template: _Optional[bool] = ..., show_deleted: _Optional[bool] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListBlocksResponse(_message.Message):
    __slots__ = ("blocks", "next_page_token")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[Block]
    next_page_token: str
    def __init__(self, blocks: _Optional[_Iterable[_Union[Block, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateBlockRequest(_message.Message):
    __slots__ = ("block", "update_mask", "request_id")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block: Block
    update_mask: _field_mask_pb2.FieldMask
    request_id: str
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateBlockResponse(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: Block
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class DeleteBlockRequest(_message.Message):
    __slots__ = ("block_id", "revision", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    revision: int
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class DeleteBlockResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UndeleteBlockRequest(_message.Message):
    __slots__ = ("block_id", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UndeleteBlockResponse(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: Block
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class PurgeBlockRequest(_message.Message):
    __slots__ = ("block_id", "dry_run", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    dry_run: bool
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., dry_run: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class PurgeBlockResponse(_message.Message):
    __slots__ = ("receipt",)
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    receipt: _memory_pb2.PurgeReceipt
    def __init__(self, receipt: _Optional[_Union[_memory_pb2.PurgeReceipt, _Mapping]] = ...) -> None: ...

class AppendToBlockRequest(_message.Message):
    __slots__ = ("block_id", "text", "revision", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    text: str
    revision: int
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., text: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class AppendToBlockResponse(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: Block
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class ReplaceInBlockRequest(_message.Message):
    __slots__ = ("block_id", "old_text", "new_text", "revision", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    OLD_TEXT_FIELD_NUMBER: _ClassVar[int]
    NEW_TEXT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    old_text: str
    new_text: str
    revision: int
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., old_text: _Optional[str] = ..., new_text: _Optional[str] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReplaceInBlockResponse(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: Block
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class InsertIntoBlockRequest(_message.Message):
    __slots__ = ("block_id", "text", "line", "revision", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    text: str
    line: int
    revision: int
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., text: _Optional[str] = ..., line: _Optional[int] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class InsertIntoBlockResponse(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: Block
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class AttachBlockRequest(_message.Message):
    __slots__ = ("block_id", "agent_id", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    agent_id: str
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class AttachBlockResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DetachBlockRequest(_message.Message):
    __slots__ = ("block_id", "agent_id", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    agent_id: str
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DetachBlockResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BlockAgent(_message.Message):
    __slots__ = ("agent_id", "attach_time", "attached_by")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTACH_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_BY_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    attach_time: _timestamp_pb2.Timestamp
    attached_by: str
    def __init__(self, agent_id: _Optional[str] = ..., attach_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attached_by: _Optional[str] = ...) -> None: ...

class ListBlockAgentsRequest(_message.Message):
    __slots__ = ("block_id", "page_size", "page_token", "as_of_time")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    page_size: int
    page_token: str
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, block_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListBlockAgentsResponse(_message.Message):
    __slots__ = ("agents", "next_page_token")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[BlockAgent]
    next_page_token: str
    def __init__(self, agents: _Optional[_Iterable[_Union[BlockAgent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListAgentBlocksRequest(_message.Message):
    __slots__ = ("agent_id", "subject_id", "page_size", "page_token", "hide_other_subjects", "as_of_time")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HIDE_OTHER_SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    subject_id: str
    page_size: int
    page_token: str
    hide_other_subjects: bool
    as_of_time: _timestamp_pb2.Timestamp
    def __init__(self, agent_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., hide_other_subjects: _Optional[bool] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListAgentBlocksResponse(_message.Message):
    __slots__ = ("blocks", "next_page_token")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[Block]
    next_page_token: str
    def __init__(self, blocks: _Optional[_Iterable[_Union[Block, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CompileBlocksRequest(_message.Message):
    __slots__ = ("agent_id", "subject_id", "variables", "labels", "as_of_time", "min_trust")
    class VariablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_TIME_FIELD_NUMBER: _ClassVar[int]
    MIN_TRUST_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    subject_id: str
    variables: _containers.ScalarMap[str, str]
    labels: _containers.RepeatedScalarFieldContainer[str]
    as_of_time: _timestamp_pb2.Timestamp
    min_trust: float
    def __init__(self, agent_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., variables: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Iterable[str]] = ..., as_of_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_trust: _Optional[float] = ...) -> None: ...

class CompileBlocksResponse(_message.Message):
    __slots__ = ("text", "character_count", "block_ids", "nearly_full_block_ids")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CHARACTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_IDS_FIELD_NUMBER: _ClassVar[int]
    NEARLY_FULL_BLOCK_IDS_FIELD_NUMBER: _ClassVar[int]
    text: str
    character_count: int
    block_ids: _containers.RepeatedScalarFieldContainer[str]
    nearly_full_block_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, text: _Optional[str] = ..., character_count: _Optional[int] = ..., block_ids: _Optional[_Iterable[str]] = ..., nearly_full_block_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListBlockRevisionsRequest(_message.Message):
    __slots__ = ("block_id", "page_size", "page_token")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    page_size: int
    page_token: str
    def __init__(self, block_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListBlockRevisionsResponse(_message.Message):
    __slots__ = ("revisions", "next_page_token")
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    revisions: _containers.RepeatedCompositeFieldContainer[BlockRevision]
    next_page_token: str
    def __init__(self, revisions: _Optional[_Iterable[_Union[BlockRevision, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RevertBlockRequest(_message.Message):
    __slots__ = ("block_id", "to_revision", "revision", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    TO_REVISION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    to_revision: int
    revision: int
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., to_revision: _Optional[int] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class RevertBlockResponse(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: Block
    def __init__(self, block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class MoveBlockRequest(_message.Message):
    __slots__ = ("block_id", "space_id", "request_id")
    BLOCK_ID_FIELD_NUMBER: _ClassVar[int]
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    block_id: str
    space_id: str
    request_id: str
    def __init__(self, block_id: _Optional[str] = ..., space_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class MoveBlockResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
