"""Times of imported rows: the permission to set them, and their validation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from google.protobuf.message import Message

from skein_kit.errors import PermissionMissing
from skein_kit.identity.identity_token import Caller
from skein_kit.rpc.well_known_types import read_time

# The later of two versions wins, so a key with write permission only must not choose times.
KEEP_TIMES = "tenant.write"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportTimes:
    """The times of creation and of the last change of a row, here or in another system."""

    create_time: datetime
    update_time: datetime

    @classmethod
    def read(cls, message: Message, caller: Caller, at: datetime, *, keep_times: bool) -> Self:
        """Return `at` twice, or with `keep_times` those of the message. Raises PermissionMissing, FieldInvalid.

        Without an update_time in the message the row has not changed since its creation.
        """
        if not keep_times:
            return cls(create_time=at, update_time=at)
        require_keep_times(caller)
        create_time = read_past_time(message, "create_time", at)
        update_time = read_past_time(message, "update_time", at)
        return cls(create_time=create_time or update_time or at, update_time=update_time or create_time or at)


def require_keep_times(caller: Caller) -> None:
    """Raise PermissionMissing unless the caller may set the times of rows."""
    if KEEP_TIMES not in caller.permissions:
        raise PermissionMissing(permission=KEEP_TIMES)


def read_past_time(message: Message, name: str, at: datetime) -> datetime | None:
    """Read an optional time; one in the future becomes `at`. Raises FieldInvalid."""
    time = read_time(message, name)
    return None if time is None else min(time, at)
