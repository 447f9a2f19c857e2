"""The cursor of lists that are paged by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id
from skein_kit.rpc.pagination import read_token

if TYPE_CHECKING:
    from uuid import UUID

    from google.protobuf.message import Message


def read_id_cursor(request: Message, tenant_id: UUID) -> UUID | None:
    """Return the last id of the page before; None for the first page."""
    token = read_token(request.page_token, tenant_id, request)  # type: ignore[attr-defined]  # Every list has one.
    if token is None:
        return None
    id_ = parse_id(token[0]) if len(token) == 1 else None
    if id_ is None:
        raise PageTokenInvalid
    return id_
