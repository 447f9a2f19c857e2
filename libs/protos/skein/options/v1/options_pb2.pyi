from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ApprovalRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPROVAL_RULE_UNSPECIFIED: _ClassVar[ApprovalRule]
    APPROVAL_RULE_WAITS: _ClassVar[ApprovalRule]
    APPROVAL_RULE_PASSES: _ClassVar[ApprovalRule]
    APPROVAL_RULE_REFUSED: _ClassVar[ApprovalRule]

class ScreeningRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCREENING_RULE_UNSPECIFIED: _ClassVar[ScreeningRule]
    SCREENING_RULE_CHAIN: _ClassVar[ScreeningRule]
    SCREENING_RULE_METHOD: _ClassVar[ScreeningRule]
    SCREENING_RULE_NONE: _ClassVar[ScreeningRule]

class SpaceRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPACE_RULE_UNSPECIFIED: _ClassVar[SpaceRule]
    SPACE_RULE_WALLED: _ClassVar[SpaceRule]
    SPACE_RULE_DEFAULT: _ClassVar[SpaceRule]
    SPACE_RULE_NO_ITEMS: _ClassVar[SpaceRule]
    SPACE_RULE_ALL: _ClassVar[SpaceRule]

class TextKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TEXT_KIND_UNSPECIFIED: _ClassVar[TextKind]
    TEXT_KIND_CONTENT: _ClassVar[TextKind]
    TEXT_KIND_NAME: _ClassVar[TextKind]
    TEXT_KIND_SETTING: _ClassVar[TextKind]
APPROVAL_RULE_UNSPECIFIED: ApprovalRule
APPROVAL_RULE_WAITS: ApprovalRule
APPROVAL_RULE_PASSES: ApprovalRule
APPROVAL_RULE_REFUSED: ApprovalRule
SCREENING_RULE_UNSPECIFIED: ScreeningRule
SCREENING_RULE_CHAIN: ScreeningRule
SCREENING_RULE_METHOD: ScreeningRule
SCREENING_RULE_NONE: ScreeningRule
SPACE_RULE_UNSPECIFIED: SpaceRule
SPACE_RULE_WALLED: SpaceRule
SPACE_RULE_DEFAULT: SpaceRule
SPACE_RULE_NO_ITEMS: SpaceRule
SPACE_RULE_ALL: SpaceRule
TEXT_KIND_UNSPECIFIED: TextKind
TEXT_KIND_CONTENT: TextKind
TEXT_KIND_NAME: TextKind
TEXT_KIND_SETTING: TextKind
RULE_FIELD_NUMBER: _ClassVar[int]
rule: _descriptor.FieldDescriptor
SERVICE_FIELD_NUMBER: _ClassVar[int]
service: _descriptor.FieldDescriptor
TEXT_FIELD_NUMBER: _ClassVar[int]
text: _descriptor.FieldDescriptor

class MethodRule(_message.Message):
    __slots__ = ("permission", "authenticated", "public", "without_tenant", "only_service", "in_deleted_tenant", "approval", "screening", "unrecorded", "for_all_agents", "agent_field", "audit_event", "audit_target", "audited_by_method", "more_services", "for_extractors", "spaces", "memory_operation")
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_TENANT_FIELD_NUMBER: _ClassVar[int]
    ONLY_SERVICE_FIELD_NUMBER: _ClassVar[int]
    IN_DELETED_TENANT_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    SCREENING_FIELD_NUMBER: _ClassVar[int]
    UNRECORDED_FIELD_NUMBER: _ClassVar[int]
    FOR_ALL_AGENTS_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_FIELD_NUMBER: _ClassVar[int]
    AUDIT_EVENT_FIELD_NUMBER: _ClassVar[int]
    AUDIT_TARGET_FIELD_NUMBER: _ClassVar[int]
    AUDITED_BY_METHOD_FIELD_NUMBER: _ClassVar[int]
    MORE_SERVICES_FIELD_NUMBER: _ClassVar[int]
    FOR_EXTRACTORS_FIELD_NUMBER: _ClassVar[int]
    SPACES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_OPERATION_FIELD_NUMBER: _ClassVar[int]
    permission: str
    authenticated: bool
    public: bool
    without_tenant: bool
    only_service: str
    in_deleted_tenant: bool
    approval: ApprovalRule
    screening: ScreeningRule
    unrecorded: bool
    for_all_agents: bool
    agent_field: str
    audit_event: str
    audit_target: str
    audited_by_method: bool
    more_services: _containers.RepeatedScalarFieldContainer[str]
    for_extractors: bool
    spaces: SpaceRule
    memory_operation: MemoryOperation
    def __init__(self, permission: _Optional[str] = ..., authenticated: _Optional[bool] = ..., public: _Optional[bool] = ..., without_tenant: _Optional[bool] = ..., only_service: _Optional[str] = ..., in_deleted_tenant: _Optional[bool] = ..., approval: _Optional[_Union[ApprovalRule, str]] = ..., screening: _Optional[_Union[ScreeningRule, str]] = ..., unrecorded: _Optional[bool] = ..., for_all_agents: _Optional[bool] = ..., agent_field: _Optional[str] = ..., audit_event: _Optional[str] = ..., audit_target: _Optional[str] = ..., audited_by_method: _Optional[bool] = ..., more_services: _Optional[_Iterable[str]] = ..., for_extractors: _Optional[bool] = ..., spaces: _Optional[_Union[SpaceRule, str]] = ..., memory_operation: _Optional[_Union[MemoryOperation, _Mapping]] = ...) -> None: ...

class MemoryOperation(_message.Message):
    __slots__ = ("name", "subject", "records", "query")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    name: str
    subject: str
    records: str
    query: str
    def __init__(self, name: _Optional[str] = ..., subject: _Optional[str] = ..., records: _Optional[str] = ..., query: _Optional[str] = ...) -> None: ...

class ServiceRule(_message.Message):
    __slots__ = ("recorded",)
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    recorded: bool
    def __init__(self, recorded: _Optional[bool] = ...) -> None: ...
