"""What every group of RPCs is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id
from skein_kit.requests import Once

if TYPE_CHECKING:
    from uuid import UUID

    from google.protobuf.message import Message

    from skein_auth.parts import Parts
    from skein_kit.identity import Caller


class Rpcs:
    """Some RPCs of a service, over the parts that the composition root made."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts


def once_of(caller: Caller, request: Message, *secrets: str) -> Once:
    """Recognise a request by everything in it but its secrets: not even their hashes are kept with its answer."""
    rest = type(request)()
    rest.CopyFrom(request)
    for name in secrets:
        rest.ClearField(name)
    return Once.of(caller, rest)


def id_before(place: list[str] | None) -> UUID | None:
    """Read the place of a page of a list by ids: the last one of the page before, or None."""
    if place is None:
        return None
    found = parse_id(place[0]) if place else None
    if found is None:
        raise PageTokenInvalid
    return found
