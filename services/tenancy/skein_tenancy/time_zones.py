"""Names of time zones. Pure."""

from __future__ import annotations

from functools import cache
from zoneinfo import available_timezones

from skein_kit.errors import FieldInvalid


def check_time_zone(name: str, field: str) -> None:
    """Reject what is neither empty nor a name of the IANA time zone database. Raises FieldInvalid."""
    if name and name not in _time_zones():
        raise FieldInvalid(violations=[(field, "is no name of the IANA time zone database")])


@cache
def _time_zones() -> frozenset[str]:
    # "localtime" means another zone on every machine.
    return frozenset(available_timezones() - {"localtime"})
