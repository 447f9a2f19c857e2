"""Codes of an authenticator (RFC 6238), and recovery codes in their place."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

DIGITS = 6
STEP_SECONDS = 30
# Codes of the steps before and after are right too: clocks differ, and people type slowly.
_DRIFT_STEPS = 1
# As long as the hash, as RFC 4226 recommends.
_SECRET_BYTES = 20
RECOVERY_CODES = 10
# 80 bits cannot be guessed, so SHA-256 is enough for their hash.
_RECOVERY_BYTES = 10
_GROUP = 4
_NAME = "Skein"


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret that an authenticator and Skein share."""

    raw: bytes

    @classmethod
    def generate(cls) -> Secret:
        return cls(secrets.token_bytes(_SECRET_BYTES))

    def to_base32(self) -> str:
        """Return the text that a person types into an authenticator."""
        return base64.b32encode(self.raw).decode("ascii").rstrip("=")

    def provisioning_uri(self, account: str) -> str:
        """Return the content of the QR code."""
        return self._codes().get_provisioning_uri(account, _NAME)

    def find_step(self, code: str, at: datetime, *, after: int) -> int | None:
        """Return the time step of a code, if it is near `at` and later than the step `after`; else None."""
        codes, current = self._codes(), int(at.timestamp()) // STEP_SECONDS
        matching_step = None
        for step in range(current - _DRIFT_STEPS, current + _DRIFT_STEPS + 1):
            # Every step is compared, so that the time taken tells nothing.
            if hmac.compare_digest(codes.generate(step * STEP_SECONDS), code.encode()) and step > after:
                matching_step = step
        return matching_step

    def __repr__(self) -> str:
        return "Secret()"

    def _codes(self) -> TOTP:
        return TOTP(self.raw, DIGITS, SHA1(), STEP_SECONDS)  # noqa: S303 - authenticators know no other.


def generate_recovery_codes() -> list[str]:
    """Make recovery codes such as "abcd-2efg-hij3-klmn", all different."""
    texts = {
        base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode("ascii").lower() for _ in range(RECOVERY_CODES)
    }
    return ["-".join(text[start : start + _GROUP] for start in range(0, len(text), _GROUP)) for text in texts]


def hash_recovery_code(code: str) -> bytes:
    """Return the hash of a recovery code, however it is typed."""
    return hashlib.sha256(normalize_code(code).encode()).digest()


def is_totp(code: str) -> bool:
    """Return whether it has the form of an authenticator's code; any other text may be a recovery code."""
    normalized = normalize_code(code)
    return len(normalized) == DIGITS and normalized.isascii() and normalized.isdigit()


def normalize_code(code: str) -> str:
    """Return the letters and digits of a code, in lower case."""
    return "".join(character for character in code.lower() if character.isalnum())


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondFactor:
    """An account's second factor."""

    # Both empty when the row was read under a lock.
    email: str = ""
    password_hash: str | None = field(default=None, repr=False)
    # Empty: not started.
    encrypted_secret: bytes = field(repr=False)
    confirmed: bool
    # The time step of the last code that was spent.
    step: int
