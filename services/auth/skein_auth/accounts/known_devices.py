"""Tokens of known devices, which are browsers that an account logged in from before.

A device token is signed, not stored: account, device, generation and time of the login, then HMAC-SHA256 under a key
derived from the system key. It proves no identity; it gives the device a limit of attempts of its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import UUID

from skein_auth.accounts.model import LoginCredentials
from skein_auth.encryption import derive_keys
from skein_auth.settings import SystemKeys
from skein_kit.ids import new_id

PREFIX = "skein_device_"
# A device without a login in this time is unknown.
LIFETIME = timedelta(days=180)
_PURPOSE = b"skein auth known devices v1"
# Account, device, generation, Unix seconds of the last login.
_PAYLOAD = struct.Struct(">16s16sQQ")
_MAC_BYTES = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownDevice:
    """A device that an account logged in from."""

    account_id: UUID
    device_id: UUID
    # Of the account's devices at the login.
    generation: int
    sign_in_time: datetime


class KnownDevices:
    """Signs and reads the tokens of known devices."""

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        """Sign with the first key; verify with any of them."""
        self._keys = keys

    @classmethod
    def of(cls, system_keys: SystemKeys) -> Self:
        return cls(tuple(derive_keys(system_keys, _PURPOSE)))

    def _token(self, device: KnownDevice) -> str:
        payload = _PAYLOAD.pack(
            device.account_id.bytes, device.device_id.bytes, device.generation, int(device.sign_in_time.timestamp())
        )
        raw = payload + _mac(self._keys[0], payload)
        return PREFIX + base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")

    def renew(self, account: LoginCredentials, device: KnownDevice | None, at: datetime) -> str:
        """Return the token of a device that logged in now; None is a device that the account did not know."""
        return self._token(
            KnownDevice(
                account_id=account.account_id,
                device_id=new_id(at) if device is None else device.device_id,
                generation=account.device_generation,
                sign_in_time=at,
            )
        )

    def read(self, token: str, at: datetime) -> KnownDevice | None:
        """Return the device of a valid token; None for any other text."""
        raw = _decode(token)
        if len(raw) != _PAYLOAD.size + _MAC_BYTES:
            return None
        payload, mac = raw[: _PAYLOAD.size], raw[_PAYLOAD.size :]
        if not any([hmac.compare_digest(_mac(key, payload), mac) for key in self._keys]):  # noqa: C419 - in constant time.
            return None
        account_id, device_id, generation, seconds = _PAYLOAD.unpack(payload)
        sign_in_time = datetime.fromtimestamp(seconds, UTC)
        if at >= sign_in_time + LIFETIME:
            return None
        return KnownDevice(
            account_id=UUID(bytes=account_id),
            device_id=UUID(bytes=device_id),
            generation=generation,
            sign_in_time=sign_in_time,
        )

    def recognize(self, token: str, account: LoginCredentials | None, at: datetime) -> KnownDevice | None:
        """Return the device if the account knows it now; else None."""
        device = self.read(token, at) if token else None
        if device is None or account is None:
            return None
        is_of_account = device.account_id == account.account_id and device.generation == account.device_generation
        return device if is_of_account else None


def _mac(key: bytes, payload: bytes) -> bytes:
    return hmac.digest(key, payload, hashlib.sha256)


def _decode(token: str) -> bytes:
    text = token.removeprefix(PREFIX)
    if not token.startswith(PREFIX) or not text.isascii():
        return b""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
