"""API keys: what a new one shall be, and the form that its holder has. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

from skein_kit.database import NO_TENANT
from skein_kit.errors import FieldInvalid
from skein_kit.tokens import Token

PREFIX = "skein_"


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A tenant's key on its way in."""

    display_name: str
    permissions: list[str]
    # The agent that its calls act as; empty for none.
    agent_id: str
    # None: never.
    expire_time: datetime | None
    # The principal that makes it.
    created_by: str
    # The key that the principal is, which this one must not outlive; None when it is none.
    creator_id: UUID | None = None

    def ends(self, at: datetime, creator_ends: datetime | None) -> datetime | None:
        """Return when the key expires, which is no later than its creator does. Raises FieldInvalid for the past."""
        if self.expire_time is not None and self.expire_time <= at:
            raise FieldInvalid(violations=[("expire_time", "must lie in the future")])
        return min((end for end in (self.expire_time, creator_ends) if end is not None), default=None)


class Key(Token):
    """One API key as its holder has it; of the nil tenant it is a key of the operator."""

    __slots__ = ()

    @classmethod
    def new(cls, tenant_id: UUID, key_id: UUID) -> Self:
        """Make a key with a fresh secret."""
        return cls.made(PREFIX, tenant_id, key_id)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a key; None for a text that is not exactly one."""
        return cls.read(PREFIX, text)

    @property
    def key_id(self) -> UUID:
        """Return the id of the key's row."""
        return self.token_id

    @property
    def is_operators(self) -> bool:
        """Say whether the key belongs to the operator rather than to a tenant."""
        return self.tenant_id == NO_TENANT
