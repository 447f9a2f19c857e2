"""Checks of the settings of the authorization server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from skein_kit.settings import SettingInvalid

if TYPE_CHECKING:
    from skein_auth.settings import AuthSettings

_REGISTRATION = ("open", "token", "closed")
_LEAST_TOKEN = 32
_MOST_CODE_SECONDS = 600
_AT_LEAST_ONE = (
    "access_token_seconds",
    "refresh_token_seconds",
    "sign_in_seconds",
    "device_code_seconds",
    "client_unused_days",
    "unused_clients_per_address_most",
    "unused_clients_most",
)


def check_oauth_settings(settings: AuthSettings) -> None:
    """Raise SettingInvalid for a setting that OAuth cannot work with."""
    if settings.registration not in _REGISTRATION:
        raise SettingInvalid(f"SKEIN_REGISTRATION should be one of {', '.join(_REGISTRATION)}.")
    if settings.registration == "token" and len(settings.initial_access_token) < _LEAST_TOKEN:
        raise SettingInvalid(f"SKEIN_INITIAL_ACCESS_TOKEN needs at least {_LEAST_TOKEN} characters.")
    if not 1 <= settings.code_seconds <= _MOST_CODE_SECONDS:
        raise SettingInvalid(f"SKEIN_CODE_SECONDS should be 1 to {_MOST_CODE_SECONDS}.")
    for name in _AT_LEAST_ONE:
        if getattr(settings, name) < 1:
            raise SettingInvalid(f"SKEIN_{name.upper()} should be at least 1.")
    if settings.refresh_grace_seconds < 0:
        raise SettingInvalid("SKEIN_REFRESH_GRACE_SECONDS should be 0 or more.")
    issuer = urlsplit(settings.issuer.rstrip("/"))
    if settings.issuer and (
        issuer.scheme not in {"https", "http"} or issuer.geturl() != f"{issuer.scheme}://{issuer.netloc}"
    ):
        raise SettingInvalid("SKEIN_ISSUER should be an origin such as https://skein.example, without a path.")
    for resource in settings.more_resources():
        if not urlsplit(resource).scheme or "#" in resource:
            raise SettingInvalid("SKEIN_RESOURCES should be absolute URIs without a fragment.")
