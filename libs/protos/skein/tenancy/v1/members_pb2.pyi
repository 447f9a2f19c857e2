import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from skein.options.v1 import options_pb2 as _options_pb2
from skein.tenancy.v1 import spaces_pb2 as _spaces_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_VIEWER: _ClassVar[Role]
    ROLE_MEMBER: _ClassVar[Role]
    ROLE_ADMIN: _ClassVar[Role]
    ROLE_OWNER: _ClassVar[Role]

class DeletionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELETION_STATE_UNSPECIFIED: _ClassVar[DeletionState]
    DELETION_STATE_GRACE: _ClassVar[DeletionState]
    DELETION_STATE_PURGING: _ClassVar[DeletionState]
    DELETION_STATE_DONE: _ClassVar[DeletionState]
    DELETION_STATE_CANCELLED: _ClassVar[DeletionState]

class TenantState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TENANT_STATE_UNSPECIFIED: _ClassVar[TenantState]
    TENANT_STATE_ACTIVE: _ClassVar[TenantState]
    TENANT_STATE_DELETED: _ClassVar[TenantState]

class DueWork(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DUE_WORK_UNSPECIFIED: _ClassVar[DueWork]
    DUE_WORK_EXPIRY: _ClassVar[DueWork]
    DUE_WORK_USAGE: _ClassVar[DueWork]
ROLE_UNSPECIFIED: Role
ROLE_VIEWER: Role
ROLE_MEMBER: Role
ROLE_ADMIN: Role
ROLE_OWNER: Role
DELETION_STATE_UNSPECIFIED: DeletionState
DELETION_STATE_GRACE: DeletionState
DELETION_STATE_PURGING: DeletionState
DELETION_STATE_DONE: DeletionState
DELETION_STATE_CANCELLED: DeletionState
TENANT_STATE_UNSPECIFIED: TenantState
TENANT_STATE_ACTIVE: TenantState
TENANT_STATE_DELETED: TenantState
DUE_WORK_UNSPECIFIED: DueWork
DUE_WORK_EXPIRY: DueWork
DUE_WORK_USAGE: DueWork

class Member(_message.Message):
    __slots__ = ("account_id", "role", "email", "display_name", "create_time", "update_time", "created_by", "revision")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    role: Role
    email: str
    display_name: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    created_by: str
    revision: int
    def __init__(self, account_id: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., email: _Optional[str] = ..., display_name: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class Invitation(_message.Message):
    __slots__ = ("invitation_id", "email", "role", "create_time", "expire_time", "created_by")
    INVITATION_ID_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    invitation_id: str
    email: str
    role: Role
    create_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    created_by: str
    def __init__(self, invitation_id: _Optional[str] = ..., email: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ...) -> None: ...

class Deletion(_message.Message):
    __slots__ = ("tenant_id", "organization_id", "state", "create_time", "purge_time", "finish_time", "created_by", "deleted_counts", "stage")
    class DeletedCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ORGANIZATION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    PURGE_TIME_FIELD_NUMBER: _ClassVar[int]
    FINISH_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    DELETED_COUNTS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    organization_id: str
    state: DeletionState
    create_time: _timestamp_pb2.Timestamp
    purge_time: _timestamp_pb2.Timestamp
    finish_time: _timestamp_pb2.Timestamp
    created_by: str
    deleted_counts: _containers.ScalarMap[str, int]
    stage: str
    def __init__(self, tenant_id: _Optional[str] = ..., organization_id: _Optional[str] = ..., state: _Optional[_Union[DeletionState, str]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., purge_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finish_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., deleted_counts: _Optional[_Mapping[str, int]] = ..., stage: _Optional[str] = ...) -> None: ...

class UndeleteTenantRequest(_message.Message):
    __slots__ = ("tenant_id", "request_id")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    request_id: str
    def __init__(self, tenant_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class UndeleteTenantResponse(_message.Message):
    __slots__ = ("deletion",)
    DELETION_FIELD_NUMBER: _ClassVar[int]
    deletion: Deletion
    def __init__(self, deletion: _Optional[_Union[Deletion, _Mapping]] = ...) -> None: ...

class GetDeletionRequest(_message.Message):
    __slots__ = ("tenant_id",)
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    def __init__(self, tenant_id: _Optional[str] = ...) -> None: ...

class GetDeletionResponse(_message.Message):
    __slots__ = ("deletion",)
    DELETION_FIELD_NUMBER: _ClassVar[int]
    deletion: Deletion
    def __init__(self, deletion: _Optional[_Union[Deletion, _Mapping]] = ...) -> None: ...

class ListDeletionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDeletionsResponse(_message.Message):
    __slots__ = ("deletions", "next_page_token")
    DELETIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    deletions: _containers.RepeatedCompositeFieldContainer[Deletion]
    next_page_token: str
    def __init__(self, deletions: _Optional[_Iterable[_Union[Deletion, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TransferOwnershipRequest(_message.Message):
    __slots__ = ("account_id", "from_account_id", "request_id")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    from_account_id: str
    request_id: str
    def __init__(self, account_id: _Optional[str] = ..., from_account_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class TransferOwnershipResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: Member
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class AddMemberRequest(_message.Message):
    __slots__ = ("account_id", "role", "request_id")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    role: Role
    request_id: str
    def __init__(self, account_id: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class AddMemberResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: Member
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class GetMemberRequest(_message.Message):
    __slots__ = ("account_id",)
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    def __init__(self, account_id: _Optional[str] = ...) -> None: ...

class GetMemberResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: Member
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class ListMembersRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListMembersResponse(_message.Message):
    __slots__ = ("members", "next_page_token")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    next_page_token: str
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateMemberRequest(_message.Message):
    __slots__ = ("account_id", "role", "revision", "request_id")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    role: Role
    revision: int
    request_id: str
    def __init__(self, account_id: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., revision: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpdateMemberResponse(_message.Message):
    __slots__ = ("member",)
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    member: Member
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class RemoveMemberRequest(_message.Message):
    __slots__ = ("account_id", "request_id")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    request_id: str
    def __init__(self, account_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RemoveMemberResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaveTenantRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class LeaveTenantResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateInvitationRequest(_message.Message):
    __slots__ = ("email", "role", "lifetime", "request_id")
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    email: str
    role: Role
    lifetime: _duration_pb2.Duration
    request_id: str
    def __init__(self, email: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., lifetime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateInvitationResponse(_message.Message):
    __slots__ = ("invitation", "token", "link")
    INVITATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    invitation: Invitation
    token: str
    link: str
    def __init__(self, invitation: _Optional[_Union[Invitation, _Mapping]] = ..., token: _Optional[str] = ..., link: _Optional[str] = ...) -> None: ...

class ListInvitationsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListInvitationsResponse(_message.Message):
    __slots__ = ("invitations", "next_page_token")
    INVITATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    invitations: _containers.RepeatedCompositeFieldContainer[Invitation]
    next_page_token: str
    def __init__(self, invitations: _Optional[_Iterable[_Union[Invitation, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RevokeInvitationRequest(_message.Message):
    __slots__ = ("invitation_id", "request_id")
    INVITATION_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    invitation_id: str
    request_id: str
    def __init__(self, invitation_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RevokeInvitationResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AcceptInvitationRequest(_message.Message):
    __slots__ = ("token", "request_id")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    token: str
    request_id: str
    def __init__(self, token: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class AcceptInvitationResponse(_message.Message):
    __slots__ = ("member", "tenant_id")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    member: Member
    tenant_id: str
    def __init__(self, member: _Optional[_Union[Member, _Mapping]] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class GetMembershipRequest(_message.Message):
    __slots__ = ("tenant_id", "account_id", "principals", "client_principal", "all_spaces")
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPALS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    ALL_SPACES_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    account_id: str
    principals: _containers.RepeatedScalarFieldContainer[str]
    client_principal: str
    all_spaces: bool
    def __init__(self, tenant_id: _Optional[str] = ..., account_id: _Optional[str] = ..., principals: _Optional[_Iterable[str]] = ..., client_principal: _Optional[str] = ..., all_spaces: _Optional[bool] = ...) -> None: ...

class VisibleSpace(_message.Message):
    __slots__ = ("space_id", "role", "grant_id")
    SPACE_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    GRANT_ID_FIELD_NUMBER: _ClassVar[int]
    space_id: str
    role: _spaces_pb2.SpaceRole
    grant_id: str
    def __init__(self, space_id: _Optional[str] = ..., role: _Optional[_Union[_spaces_pb2.SpaceRole, str]] = ..., grant_id: _Optional[str] = ...) -> None: ...

class GetMembershipResponse(_message.Message):
    __slots__ = ("state", "role", "has_spaces", "spaces")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    HAS_SPACES_FIELD_NUMBER: _ClassVar[int]
    SPACES_FIELD_NUMBER: _ClassVar[int]
    state: TenantState
    role: Role
    has_spaces: bool
    spaces: _containers.RepeatedCompositeFieldContainer[VisibleSpace]
    def __init__(self, state: _Optional[_Union[TenantState, str]] = ..., role: _Optional[_Union[Role, str]] = ..., has_spaces: _Optional[bool] = ..., spaces: _Optional[_Iterable[_Union[VisibleSpace, _Mapping]]] = ...) -> None: ...

class CheckInvitationRequest(_message.Message):
    __slots__ = ("token", "email")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    token: str
    email: str
    def __init__(self, token: _Optional[str] = ..., email: _Optional[str] = ...) -> None: ...

class CheckInvitationResponse(_message.Message):
    __slots__ = ("invitation_id", "mailed")
    INVITATION_ID_FIELD_NUMBER: _ClassVar[int]
    MAILED_FIELD_NUMBER: _ClassVar[int]
    invitation_id: str
    mailed: bool
    def __init__(self, invitation_id: _Optional[str] = ..., mailed: _Optional[bool] = ...) -> None: ...

class RemoveAccountRequest(_message.Message):
    __slots__ = ("account_id",)
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    def __init__(self, account_id: _Optional[str] = ...) -> None: ...

class RemoveAccountResponse(_message.Message):
    __slots__ = ("removed_count",)
    REMOVED_COUNT_FIELD_NUMBER: _ClassVar[int]
    removed_count: int
    def __init__(self, removed_count: _Optional[int] = ...) -> None: ...

class ListDueDeletionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDueDeletionsResponse(_message.Message):
    __slots__ = ("deletions", "next_page_token")
    DELETIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    deletions: _containers.RepeatedCompositeFieldContainer[Deletion]
    next_page_token: str
    def __init__(self, deletions: _Optional[_Iterable[_Union[Deletion, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RecordDeletionRequest(_message.Message):
    __slots__ = ("tenant_id", "stage", "deleted_counts", "finished", "certified")
    class DeletedCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DELETED_COUNTS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    CERTIFIED_FIELD_NUMBER: _ClassVar[int]
    tenant_id: str
    stage: str
    deleted_counts: _containers.ScalarMap[str, int]
    finished: bool
    certified: bool
    def __init__(self, tenant_id: _Optional[str] = ..., stage: _Optional[str] = ..., deleted_counts: _Optional[_Mapping[str, int]] = ..., finished: _Optional[bool] = ..., certified: _Optional[bool] = ...) -> None: ...

class RecordDeletionResponse(_message.Message):
    __slots__ = ("deletion",)
    DELETION_FIELD_NUMBER: _ClassVar[int]
    deletion: Deletion
    def __init__(self, deletion: _Optional[_Union[Deletion, _Mapping]] = ...) -> None: ...

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

class DeleteExpiredRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteExpiredResponse(_message.Message):
    __slots__ = ("deleted_count",)
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    deleted_count: int
    def __init__(self, deleted_count: _Optional[int] = ...) -> None: ...
