"""Links between memories and the rules they obey. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from skein_kit.errors import FieldInvalid
from skein_kit.ids import new_id
from skein_kit.wire import json_of
from skein_memory.errors import LinkToItself
from skein_memory.texts import must_be_storable

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein.memory.v1 import memory_pb2 as pb

DEFAULT_RELATION = "related"
DEFAULT_WEIGHT = 1.0
# What a name of a memory may be, counted in characters.
MAX_NAME = 255


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkDraft:
    """What a caller says of a link. The ends are ids or external ids; `metadata` is JSON text."""

    from_name: str
    to_name: str
    relation: str
    label: str | None
    weight: float
    metadata: str | None

    @classmethod
    def of(cls, link: pb.Link) -> Self:
        """Read a caller's message."""
        for field in ("from_memory_id", "to_memory_id"):
            if not 0 < len(getattr(link, field)) <= MAX_NAME:
                raise FieldInvalid(violations=[(field, f"must have 1 to {MAX_NAME} characters")])
        metadata = json_of(link, "metadata")
        must_be_storable([("label", link.label)], [("metadata", metadata)])
        return cls(
            from_name=link.from_memory_id,
            to_name=link.to_memory_id,
            relation=link.relation or DEFAULT_RELATION,
            label=link.label or None,
            weight=link.weight if link.HasField("weight") else DEFAULT_WEIGHT,
            metadata=metadata,
        )

    def between(self, from_id: UUID, to_id: UUID, *, at: datetime, by: str) -> Link:
        """Make the link of the memories that the names stand for."""
        if from_id == to_id:
            raise LinkToItself
        return Link(
            link_id=new_id(at),
            from_memory_id=from_id,
            to_memory_id=to_id,
            relation=self.relation,
            label=self.label,
            weight=self.weight,
            metadata=self.metadata,
            create_time=at,
            created_by=by,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """A directed link between two memories."""

    link_id: UUID
    from_memory_id: UUID
    to_memory_id: UUID
    relation: str
    label: str | None
    weight: float
    metadata: str | None
    create_time: datetime
    created_by: str
