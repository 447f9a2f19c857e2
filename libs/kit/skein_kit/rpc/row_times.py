"""Times that an import brings with a row: which callers may give them, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from skein_kit.errors import PermissionMissing
from skein_kit.rpc.well_known_types import read_time

if TYPE_CHECKING:
    from datetime import datetime

    from google.protobuf.message import Message

    from skein_kit.identity.identity_token import Caller

# Times decide which of two versions wins, so that a key that only writes cannot choose them.
KEEP_TIMES = "tenant.write"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportTimes:
    """When a row was made and last changed, here or elsewhere."""

    create_time: datetime
    update_time: datetime

    @classmethod
    def of(cls, message: Message, who: Caller, at: datetime, *, keep_times: bool) -> Self:
        """Return `at` for both, or with `keep_times` what the message gives. Raises PermissionMissing and FieldInvalid.

        A row without an update_time has not been changed since it was made.
        """
        if not keep_times:
            return cls(create_time=at, update_time=at)
        require_keep_times(who)
        create_time = read_past_time(message, "create_time", at)
        update_time = read_past_time(message, "update_time", at)
        return cls(create_time=create_time or update_time or at, update_time=update_time or create_time or at)


def require_keep_times(who: Caller) -> None:
    """Raise PermissionMissing unless the caller may say when something happened elsewhere."""
    if KEEP_TIMES not in who.permissions:
        raise PermissionMissing(permission=KEEP_TIMES)


def read_past_time(message: Message, name: str, at: datetime) -> datetime | None:
    """Read an optional time; one that lies ahead is `at`, as nothing has happened later. Raises FieldInvalid."""
    time = read_time(message, name)
    return None if time is None else min(time, at)
