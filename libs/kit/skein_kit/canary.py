"""The two synthetic tenants that watch over isolation: who they are, for the services that must know them.

Tenancy makes them, auth lets the worker act in them as an admin would, the access log keeps no record of what they
read, and nobody's list of tenants shows them. In all else they are tenants like those that people made.
"""

from __future__ import annotations

import dataclasses
import hashlib
from uuid import UUID

from skein_kit.settings import Settings

# After every id that is made of a time, so that neither is ever the oldest.
ORGANIZATION = UUID("ffca0000-0000-7000-8000-000000000000")
SLUG = "skein-canary"
DEFAULT_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class CanarySettings(Settings):
    """How often the tenants look whether they see each other."""

    # Seconds between two rounds in which two synthetic tenants look for each other's data with every reading RPC; 0: no
    # such tenants are made and nothing is looked for.
    canary_seconds: float = DEFAULT_SECONDS


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """One of the two."""

    tenant_id: UUID
    # Somebody who is a member and has no account, so nobody ever signs in as them.
    account_id: UUID
    slug: str

    @property
    def word(self) -> str:
        """Return the word that its texts are found by; no other text has it."""
        return f"canary{_letters(f'word {self.tenant_id}')}"

    @property
    def secret(self) -> str:
        """Return the word that stands in each of its texts and in no request: who reads it has seen the text."""
        return f"nestling{_letters(f'secret {self.tenant_id}')}"


A = Canary(
    tenant_id=UUID("ffca0000-0000-7000-8000-00000000000a"),
    account_id=UUID("ffca0000-0000-7000-8000-0000000000a0"),
    slug="skein-canary-a",
)
B = Canary(
    tenant_id=UUID("ffca0000-0000-7000-8000-00000000000b"),
    account_id=UUID("ffca0000-0000-7000-8000-0000000000b0"),
    slug="skein-canary-b",
)
CANARIES = (A, B)
TENANTS = frozenset(canary.tenant_id for canary in CANARIES)


def _letters(text: str) -> str:
    """Return sixteen letters that follow from a text: one word for every stemmer, and none that anybody writes."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return "".join(chr(ord("a") + int(digit, 16)) for digit in digest)
