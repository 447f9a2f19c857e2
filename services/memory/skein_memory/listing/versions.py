"""Earlier versions of memories: which fields a change concerned. No gRPC, no SQL, no clock."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from skein_memory.memories.model import Draft

if TYPE_CHECKING:
    from skein_memory.memories.model import Memory

_SAID = tuple(field.name for field in dataclasses.fields(Draft))
# Of the first version these are always set.
_GIVEN = frozenset({"create_time", "scope", "level", "confidence", "importance"})


def changed_fields(before: Memory | None, after: Memory) -> list[str]:
    """Return the fields that differ, in order; all that say something when there was nothing before."""
    if before is None:
        return [name for name in _SAID if name not in _GIVEN and getattr(after.draft, name)]
    changed = [name for name in _SAID if getattr(before.draft, name) != getattr(after.draft, name)]
    return changed if before.delete_time == after.delete_time else [*changed, "delete_time"]
