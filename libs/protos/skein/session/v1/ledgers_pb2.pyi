import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LedgerItemKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEDGER_ITEM_KIND_UNSPECIFIED: _ClassVar[LedgerItemKind]
    LEDGER_ITEM_KIND_BLOCK: _ClassVar[LedgerItemKind]
    LEDGER_ITEM_KIND_PROFILE: _ClassVar[LedgerItemKind]
    LEDGER_ITEM_KIND_MEMORY: _ClassVar[LedgerItemKind]
    LEDGER_ITEM_KIND_MESSAGE: _ClassVar[LedgerItemKind]

class LedgerEntryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEDGER_ENTRY_STATE_UNSPECIFIED: _ClassVar[LedgerEntryState]
    LEDGER_ENTRY_STATE_SENT: _ClassVar[LedgerEntryState]
    LEDGER_ENTRY_STATE_CONTAINED: _ClassVar[LedgerEntryState]
    LEDGER_ENTRY_STATE_SUPERSEDED: _ClassVar[LedgerEntryState]
    LEDGER_ENTRY_STATE_EXPIRED: _ClassVar[LedgerEntryState]
    LEDGER_ENTRY_STATE_FORMER: _ClassVar[LedgerEntryState]
LEDGER_ITEM_KIND_UNSPECIFIED: LedgerItemKind
LEDGER_ITEM_KIND_BLOCK: LedgerItemKind
LEDGER_ITEM_KIND_PROFILE: LedgerItemKind
LEDGER_ITEM_KIND_MEMORY: LedgerItemKind
LEDGER_ITEM_KIND_MESSAGE: LedgerItemKind
LEDGER_ENTRY_STATE_UNSPECIFIED: LedgerEntryState
LEDGER_ENTRY_STATE_SENT: LedgerEntryState
LEDGER_ENTRY_STATE_CONTAINED: LedgerEntryState
LEDGER_ENTRY_STATE_SUPERSEDED: LedgerEntryState
LEDGER_ENTRY_STATE_EXPIRED: LedgerEntryState
LEDGER_ENTRY_STATE_FORMER: LedgerEntryState

class ContextLedger(_message.Message):
    __slots__ = ("ledger_id", "revision", "session_id", "subject_id", "entries", "next_number", "first_token_count", "appended_token_count", "salt", "reader_digest", "request_id", "request_digest", "rebase", "create_time", "expire_time", "space_ids")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    APPENDED_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    READER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    REBASE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    SPACE_IDS_FIELD_NUMBER: _ClassVar[int]
    ledger_id: str
    revision: int
    session_id: str
    subject_id: str
    entries: _containers.RepeatedCompositeFieldContainer[LedgerEntry]
    next_number: int
    first_token_count: int
    appended_token_count: int
    salt: bytes
    reader_digest: bytes
    request_id: str
    request_digest: bytes
    rebase: int
    create_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    space_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ledger_id: _Optional[str] = ..., revision: _Optional[int] = ..., session_id: _Optional[str] = ..., subject_id: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[LedgerEntry, _Mapping]]] = ..., next_number: _Optional[int] = ..., first_token_count: _Optional[int] = ..., appended_token_count: _Optional[int] = ..., salt: _Optional[bytes] = ..., reader_digest: _Optional[bytes] = ..., request_id: _Optional[str] = ..., request_digest: _Optional[bytes] = ..., rebase: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., space_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class LedgerEntry(_message.Message):
    __slots__ = ("kind", "item_id", "revision", "number", "state", "digest", "max_characters", "turn", "change", "page_place")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MAX_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    PAGE_PLACE_FIELD_NUMBER: _ClassVar[int]
    kind: LedgerItemKind
    item_id: str
    revision: int
    number: int
    state: LedgerEntryState
    digest: bytes
    max_characters: int
    turn: int
    change: bool
    page_place: int
    def __init__(self, kind: _Optional[_Union[LedgerItemKind, str]] = ..., item_id: _Optional[str] = ..., revision: _Optional[int] = ..., number: _Optional[int] = ..., state: _Optional[_Union[LedgerEntryState, str]] = ..., digest: _Optional[bytes] = ..., max_characters: _Optional[int] = ..., turn: _Optional[int] = ..., change: _Optional[bool] = ..., page_place: _Optional[int] = ...) -> None: ...

class GetContextLedgerRequest(_message.Message):
    __slots__ = ("ledger_id",)
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    ledger_id: str
    def __init__(self, ledger_id: _Optional[str] = ...) -> None: ...

class GetContextLedgerResponse(_message.Message):
    __slots__ = ("ledger",)
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    ledger: ContextLedger
    def __init__(self, ledger: _Optional[_Union[ContextLedger, _Mapping]] = ...) -> None: ...

class PutContextLedgerRequest(_message.Message):
    __slots__ = ("ledger", "last_revision")
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    LAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    ledger: ContextLedger
    last_revision: int
    def __init__(self, ledger: _Optional[_Union[ContextLedger, _Mapping]] = ..., last_revision: _Optional[int] = ...) -> None: ...

class PutContextLedgerResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...
