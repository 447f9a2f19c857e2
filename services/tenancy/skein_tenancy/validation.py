"""What requests and callers must meet, as several features check it. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from uuid import UUID
from zoneinfo import available_timezones

from skein_kit.errors import FieldInvalid, PageTokenInvalid, TenantMissing
from skein_kit.identity.identity_token import Caller


def check_time_zone(name: str, field: str) -> None:
    """Reject what is neither empty nor a name of the IANA time zone database. Raises FieldInvalid."""
    if name and name not in _time_zones():
        raise FieldInvalid(violations=[(field, "is no name of the IANA time zone database")])


@cache
def _time_zones() -> frozenset[str]:
    # "localtime" means another zone on every machine.
    return frozenset(available_timezones() - {"localtime"})


def parse_time_position(position: list[str] | None) -> tuple[datetime, UUID] | None:
    """Read time and id of the last row of the page before; None for the first page. Raises PageTokenInvalid."""
    if position is None:
        return None
    try:
        time, row_id = position
        return datetime.fromisoformat(time).astimezone(UTC), UUID(row_id)
    except (ValueError, OverflowError):
        raise PageTokenInvalid from None


def require_tenant(caller: Caller) -> UUID:
    """Return the caller's tenant, for methods whose access rule does not ask for one. Raises TenantMissing."""
    if caller.tenant_id is None:
        raise TenantMissing
    return caller.tenant_id
