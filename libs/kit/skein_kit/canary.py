"""The canary: synthetic tenants that look for leaks all the time, two between tenants and a third between its spaces.

This module holds their ids. Tenancy creates them, auth lets the worker act in them as an admin, the access log skips
their reads, and lists of tenants omit them. Otherwise they are ordinary tenants.
"""

from __future__ import annotations

import dataclasses
import hashlib
from uuid import UUID

from skein_kit.settings import Settings

# Greater than any id with a time, so that neither tenant is ever the oldest.
ORGANIZATION = UUID("ffca0000-0000-7000-8000-000000000000")
SLUG = "skein-canary"
DEFAULT_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class CanarySettings(Settings):
    """Settings of the canary."""

    # Seconds between two rounds of the canary, in which two synthetic tenants try to read each other's data with every
    # reading RPC. 0: no canary, and no such tenants.
    canary_seconds: float = DEFAULT_SECONDS


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CanaryTenant:
    """One of the two tenants, or one of the two spaces of the third."""

    tenant_id: UUID
    # The id of a member without an account, so no login as this member is possible.
    account_id: UUID
    slug: str
    # The space of the tenant that has its rows; empty: the default one.
    space: str = ""

    @property
    def word(self) -> str:
        """Return the search word of the tenant's texts; no other text contains it."""
        return f"canary{_letters(f'word {self.tenant_id}{self.space}')}"

    @property
    def secret(self) -> str:
        """Return the word in all of the tenant's texts that no request has: an answer with it shows such a text."""
        return f"nestling{_letters(f'secret {self.tenant_id}{self.space}')}"


CANARY_A = CanaryTenant(
    tenant_id=UUID("ffca0000-0000-7000-8000-00000000000a"),
    account_id=UUID("ffca0000-0000-7000-8000-0000000000a0"),
    slug="skein-canary-a",
)
CANARY_B = CanaryTenant(
    tenant_id=UUID("ffca0000-0000-7000-8000-00000000000b"),
    account_id=UUID("ffca0000-0000-7000-8000-0000000000b0"),
    slug="skein-canary-b",
)
# It has two spaces, in which some calls of the other two would be refused.
CANARY_C = CanaryTenant(
    tenant_id=UUID("ffca0000-0000-7000-8000-00000000000c"),
    account_id=UUID("ffca0000-0000-7000-8000-0000000000c0"),
    slug="skein-canary-c",
)
CANARY_TENANTS = (CANARY_A, CANARY_B, CANARY_C)
CANARY_PAIR = (CANARY_A, CANARY_B)
CANARY_SPACES = tuple(
    dataclasses.replace(CANARY_C, slug=f"{CANARY_C.slug}-{space}", space=space) for space in ("kitchen", "doctor")
)
CANARY_TENANT_IDS = frozenset(canary.tenant_id for canary in CANARY_TENANTS)


def _letters(text: str) -> str:
    """Return sixteen letters derived from a text: one word for every stemmer, and no natural word."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return "".join(chr(ord("a") + int(digit, 16)) for digit in digest)
