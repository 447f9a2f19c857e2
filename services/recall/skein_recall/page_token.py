"""Positions in lists, as this service's page tokens hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id

if TYPE_CHECKING:
    from uuid import UUID


def parse_id_position(position: list[str] | None) -> UUID | None:
    """Read the id of the last row of the page before; None for the first page. Raises PageTokenInvalid."""
    if position is None:
        return None
    row_id = parse_id(position[0]) if len(position) == 1 else None
    if row_id is None:
        raise PageTokenInvalid
    return row_id
