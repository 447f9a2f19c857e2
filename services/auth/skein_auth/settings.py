"""Settings of the auth service."""

from __future__ import annotations

import dataclasses

from skein_kit.settings import SettingInvalid, Settings

MIN_SYSTEM_KEY = 32
_HOW = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(48))'"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuthSettings(Settings):
    """What the auth service is told, besides what every process is told."""

    # The system key before this one: still opens sealed signing keys and is still accepted from the cluster's services,
    # so that a cluster can change its key without a pause.
    previous_system_key: str = dataclasses.field(default="", repr=False)
    # Seconds until a replica notices a signing key that another one made.
    signing_key_refresh_seconds: float = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class SystemKeys:
    """The secret that the cluster's services share with auth, and the one before it; the current one first."""

    keys: tuple[str, ...] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, current: str, previous: str = "") -> SystemKeys:
        """Take the keys, or raise SettingInvalid naming the variable and how to make a key."""
        if not current:
            raise SettingInvalid(f"SKEIN_SYSTEM_KEY is needed by auth, which seals its signing keys with it; {_HOW}.")
        named = {"SKEIN_SYSTEM_KEY": current, "SKEIN_PREVIOUS_SYSTEM_KEY": previous}
        for name, key in named.items():
            if key and len(key) < MIN_SYSTEM_KEY:
                raise SettingInvalid(f"{name} needs at least {MIN_SYSTEM_KEY} characters; {_HOW}.")
        return cls(tuple(key for key in (current, previous) if key))
