"""Position of a page in a list that is ordered by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id

if TYPE_CHECKING:
    from uuid import UUID


def id_before(position: list[str] | None) -> UUID | None:
    """Return the last id of the page before, None for the first page. Raises PageTokenInvalid."""
    if position is None:
        return None
    last_id = parse_id(position[0]) if position else None
    if last_id is None:
        raise PageTokenInvalid
    return last_id
