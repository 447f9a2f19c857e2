"""An organization. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, kw_only=True, slots=True)
class Organization:
    """A group of tenants with one owner."""

    organization_id: UUID
    display_name: str
    slug: str
    # JSON text.
    metadata: str | None
    revision: int
    create_time: datetime
    update_time: datetime
