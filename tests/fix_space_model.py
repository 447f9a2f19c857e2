"""A model of spaces: who sees what, and what each call must be answered."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

DEFAULT = str(uuid.UUID(int=0))
ROLES = ("reader", "writer", "manager")


@dataclass
class Model:
    """Who sees what."""

    bound: set[str]
    # Roles by principal and space, without the default one.
    roles: dict[tuple[str, str], str] = field(default_factory=dict)
    # Spaces of memories that are not deleted, of messages by their texts, and of blocks by their values.
    memories: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)
    block_ids: set[tuple[str, str]] = field(default_factory=set)
    # The delegates by whom principals have a grant of a space.
    delegates: dict[tuple[str, str], str] = field(default_factory=dict)

    def role(self, principal: str, space_id: str) -> str:
        if space_id == DEFAULT:
            return "" if principal in self.bound else "writer"
        return self.roles.get((principal, space_id), "")

    def visible(self, principal: str) -> set[str]:
        return self._visible(principal, self.memories)

    def visible_items(self, principal: str) -> tuple[set[str], ...]:
        return tuple(self._visible(principal, items) for items in (self.memories, self.messages, self.blocks))

    def _visible(self, principal: str, items: dict[str, str]) -> set[str]:
        return {name for name, space_id in items.items() if self.role(principal, space_id)}

    def write_error(self, principal: str, space_id: str) -> str:
        role = self.role(principal, space_id)
        return {"": "SPACE_NOT_FOUND", "reader": "SPACE_READ_ONLY"}.get(role, "")

    def act_error(self, principal: str, space_id: str, memory_id: str) -> str:
        """Return why a write in a space does not reach a memory; empty if it does."""
        if error := self.write_error(principal, space_id):
            return error
        return "" if self.memories[memory_id] == space_id else "MEMORY_NOT_FOUND"

    def move_error(self, principal: str, space_id: str, target_id: str, memory_id: str) -> str:
        if error := self.write_error(principal, space_id) or self.write_error(principal, target_id):
            return error
        if space_id == target_id:
            return "INVALID_FIELD"
        return self.act_error(principal, space_id, memory_id)

    def grant(self, principal: str, space_id: str, role: str, delegate: str = "") -> None:
        self.revoke(principal, space_id)
        self.roles[principal, space_id] = role
        if delegate:
            self.delegates[principal, space_id] = delegate

    def revoke(self, principal: str, space_id: str) -> str:
        """End a grant and those that were passed on by it; return the role that ended."""
        for other, space in [key for key, by in self.delegates.items() if by == principal and key[1] == space_id]:
            del self.delegates[other, space]
            self.roles.pop((other, space), None)
        self.delegates.pop((principal, space_id), None)
        return self.roles.pop((principal, space_id), "")
