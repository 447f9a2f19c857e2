"""What every group of RPCs is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id

if TYPE_CHECKING:
    from uuid import UUID

    from skein_tenancy.parts import Parts


class Rpcs:
    """Some RPCs of a service, over the parts that the composition root made."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts


def id_from_page_token(place: list[str] | None) -> UUID | None:
    """Read the place of a page of a list by ids: the last one of the page before, or None."""
    if place is None:
        return None
    found = parse_id(place[0]) if place else None
    if found is None:
        raise PageTokenInvalid
    return found
