"""Positions in lists, as this service's page tokens hold them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from skein_kit.errors import PageTokenInvalid


def parse_time_position(position: list[str] | None) -> tuple[datetime, UUID] | None:
    """Read time and id of the last row of the page before; None for the first page. Raises PageTokenInvalid."""
    if position is None:
        return None
    try:
        time, row_id = position
        return datetime.fromisoformat(time).astimezone(UTC), UUID(row_id)
    except (ValueError, OverflowError):
        raise PageTokenInvalid from None
