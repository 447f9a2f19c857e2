"""The second factor: codes of an authenticator (RFC 6238), and recovery codes in place of them. No SQL."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

if TYPE_CHECKING:
    from datetime import datetime

DIGITS = 6
STEP_SECONDS = 30
# Codes of the step before and of the one after are good too: clocks differ, and people type slowly.
_STEPS_AROUND = 1
# What RFC 4226 asks for: as long as the hash.
_SECRET_BYTES = 20
RECOVERY_CODES = 10
# 80 bits: nobody guesses them, so nothing slower than SHA-256 is needed to keep them.
_RECOVERY_BYTES = 10
_GROUP = 4
_NAME = "Skein"


@dataclass(frozen=True, slots=True)
class Secret:
    """What an authenticator and Skein share."""

    raw: bytes

    @classmethod
    def made(cls) -> Secret:
        return cls(secrets.token_bytes(_SECRET_BYTES))

    def text(self) -> str:
        """Return what a person types into an authenticator."""
        return base64.b32encode(self.raw).decode("ascii").rstrip("=")

    def uri(self, account: str) -> str:
        """Return what a QR code holds."""
        return self._codes().get_provisioning_uri(account, _NAME)

    def step_of(self, code: str, at: datetime, *, after: int) -> int | None:
        """Return the time step that a code is of, if that is about now and later than the step `after`."""
        codes, current = self._codes(), int(at.timestamp()) // STEP_SECONDS
        found = None
        for step in range(current - _STEPS_AROUND, current + _STEPS_AROUND + 1):
            # Each step is looked at, whichever it is: how long it takes tells nothing.
            if hmac.compare_digest(codes.generate(step * STEP_SECONDS), code.encode()) and step > after:
                found = step
        return found

    def __repr__(self) -> str:
        return "Secret()"

    def _codes(self) -> TOTP:
        return TOTP(self.raw, DIGITS, SHA1(), STEP_SECONDS)  # noqa: S303 - authenticators know no other.


def recovery_codes() -> list[str]:
    """Make recovery codes such as "abcd-2efg-hij3-klmn", all different."""
    texts = {
        base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode("ascii").lower() for _ in range(RECOVERY_CODES)
    }
    return ["-".join(text[start : start + _GROUP] for start in range(0, len(text), _GROUP)) for text in texts]


def recovery_hash(code: str) -> bytes:
    """Return what a recovery code is recognised by, however it was typed."""
    return hashlib.sha256(normalize_code(code).encode()).digest()


def is_totp(code: str) -> bool:
    """Say whether it has the form of an authenticator's code; anything else may be a recovery code."""
    typed = normalize_code(code)
    return len(typed) == DIGITS and typed.isascii() and typed.isdigit()


def normalize_code(code: str) -> str:
    """Return a code without what people put in between."""
    return "".join(each for each in code.lower() if each.isalnum())


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondFactor:
    """What an account signs in with, besides its name."""

    # Both empty when the row was read for its second factor alone.
    email: str = ""
    password_hash: str | None = field(default=None, repr=False)
    # Empty: none was started.
    sealed_secret: bytes = field(repr=False)
    confirmed: bool
    # The last time step that a code was accepted for.
    step: int
