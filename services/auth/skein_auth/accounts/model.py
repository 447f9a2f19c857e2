"""Accounts: what a new one shall be, what of one can change, and how an address is written. No SQL, no clock."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts.passwords import is_known
from skein_auth.errors import PasswordHashUnknown
from skein_kit.errors import FieldInvalid
from skein_kit.rpc import well_known_types
from skein_kit.rpc.row_times import read_past_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from google.protobuf.field_mask_pb2 import FieldMask

_MOST_EMAIL = 254
# What HTML calls a valid e-mail address, which is what the protos check elsewhere.
_EMAIL = re.compile(
    r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)
_STATUSES = {pb.ACCOUNT_STATUS_ACTIVE: "active", pb.ACCOUNT_STATUS_DEACTIVATED: "deactivated"}
OWN = ("display_name", "email")
OPERATORS = ("status", "display_name", "email")


def normal_email(text: str) -> str:
    """Return an address as it is looked up: whatever was typed, in lower case and without spaces around it."""
    return text.strip().lower()


def valid_email(text: str, name: str = "email") -> str:
    """Return an address as it is kept, or raise FieldInvalid for what is none."""
    email = normal_email(text)
    if len(email) > _MOST_EMAIL or _EMAIL.fullmatch(email) is None:
        raise FieldInvalid(violations=[(name, "is no e-mail address")])
    return email


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """An account on its way in."""

    email: str
    display_name: str
    # None: nobody signs in with a password.
    password_hash: str | None = field(default=None, repr=False)
    email_verified: bool = False
    # When it was made and last changed where the person comes from; None: it is made now.
    create_time: datetime | None = None
    update_time: datetime | None = None

    @classmethod
    def of(cls, request: pb.CreateAccountRequest, *, at: datetime) -> Self:
        """Read what the operator wants at the time `at`. Raises PasswordHashUnknown."""
        if request.password_hash and not is_known(request.password_hash):
            raise PasswordHashUnknown
        return cls(
            email=valid_email(request.email),
            display_name=request.display_name,
            password_hash=request.password_hash or None,
            email_verified=request.email_verified,
            create_time=read_past_time(request, "create_time", at),
            update_time=read_past_time(request, "update_time", at),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """New values for some fields of one account."""

    account_id: UUID
    # 0: whatever it is now.
    revision: int
    values: Mapping[str, str]

    @classmethod
    def own(cls, account_id: UUID, account: pb.Account, mask: FieldMask) -> Self:
        """Read what somebody changes about their own account; without a mask the name alone."""
        fields = well_known_types.updated_fields(mask, OWN) if mask.paths else frozenset({"display_name"})
        return cls(account_id=account_id, revision=account.revision, values=_values(account, fields))

    @classmethod
    def operators(cls, account_id: UUID, account: pb.Account, mask: FieldMask) -> Self:
        """Read what the operator changes; without a mask everything that can change."""
        return cls(
            account_id=account_id,
            revision=account.revision,
            values=_values(account, well_known_types.updated_fields(mask, OPERATORS)),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginCredentials:
    """What decides whether somebody signs into an account."""

    account_id: UUID
    # Empty for an account without one.
    email: str
    # What takes its place once it is verified; empty for none.
    new_email: str
    email_verified: bool
    password_hash: str | None = field(repr=False)
    active: bool
    has_second_factor: bool
    # Devices that signed in under an earlier one are unknown.
    device_generation: int
    revision: int


def _values(account: pb.Account, fields: frozenset[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    if "display_name" in fields:
        values["display_name"] = account.display_name
    if "email" in fields:
        values["email"] = valid_email(account.email, "account.email")
    if "status" in fields:
        if account.status not in _STATUSES:
            raise FieldInvalid(violations=[("account.status", "should be active or deactivated")])
        values["status"] = _STATUSES[account.status]
    return values
