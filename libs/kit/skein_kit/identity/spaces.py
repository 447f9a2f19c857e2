"""Spaces of a tenant, and the roles of a caller in them, as an identity token has them. No SQL, no clock."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from uuid import UUID

# Everything that is put in no other space lies here.
DEFAULT_SPACE = UUID(int=0)
# The reach of what goes through every space of a tenant. No space has this id: who compares it with one finds nothing.
ALL_SPACES = (UUID(int=2**128 - 1),)
# Spaces beside the default one that an identity token carries. A caller with more grants sees the oldest ones.
MAX_SPACES = 32
READER, WRITER, MANAGER = "reader", "writer", "manager"
# The lowest role first.
ROLES = (READER, WRITER, MANAGER)
_CLAIMS = {role: role[0] for role in ROLES}
_ROLES = {claim: role for role, claim in _CLAIMS.items()}

# The role of a caller in each space that it sees.
Spaces = tuple[tuple[UUID, str], ...]


def to_claims(spaces: Spaces) -> list[str]:
    """Return the claims of an identity token."""
    return [f"{space_id}:{_CLAIMS[role]}" for space_id, role in spaces]


def of_claims(claims: Iterable[str]) -> Spaces:
    """Return the spaces of a token's claims. Raises ValueError and KeyError for others."""
    pairs = (claim.split(":") for claim in claims)
    return tuple((UUID(space_id), _ROLES[role]) for space_id, role in pairs)


def to_grant_claims(grant_ids: Iterable[UUID]) -> list[str]:
    """Return ids of grants as claims, of 22 characters each."""
    return [urlsafe_b64encode(grant_id.bytes).decode().rstrip("=") for grant_id in grant_ids]


def of_grant_claims(claims: Iterable[str]) -> tuple[UUID, ...]:
    """Return the ids of a token's claims. Raises ValueError for others."""
    return tuple(UUID(bytes=urlsafe_b64decode(f"{claim}==")) for claim in claims)
