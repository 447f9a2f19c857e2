from __future__ import annotations

import pytest
from fix_catalogue import over

from skein_auth.settings import AuthSettings, check_settings
from skein_kit.settings import SettingInvalid


@over(
    "environment",
    [
        {},
        {"SKEIN_ISSUER": "https://skein.example/"},
        {"SKEIN_ISSUER": "http://127.0.0.1:8080"},
        {"SKEIN_RESOURCES": "https://tools.example/mcp, urn:example:device"},
        {"SKEIN_REGISTRATION": "token", "SKEIN_INITIAL_ACCESS_TOKEN": "i" * 32},
        {"SKEIN_REGISTRATION": "closed"},
        {"SKEIN_SIGN_IN_SECONDS": "600"},
    ],
)
def test_oauth_works_with_these_settings(environment: dict[str, str]) -> None:
    check_settings(AuthSettings.read(environment))


@over(
    ("name", "value"),
    [
        ("SKEIN_ISSUER", "skein.example"),
        ("SKEIN_ISSUER", "https://skein.example/auth"),
        ("SKEIN_ISSUER", "https://skein.example?x"),
        ("SKEIN_ISSUER", "ftp://skein.example"),
        ("SKEIN_RESOURCES", "tools"),
        ("SKEIN_RESOURCES", "https://tools.example#x"),
        ("SKEIN_REGISTRATION", "yes"),
        ("SKEIN_SIGN_IN_SECONDS", "0"),
        ("SKEIN_AUDIT_DAYS", "30"),
        ("SKEIN_ADVANCED_MAX_ATTEMPTS", "0"),
        ("SKEIN_ADVANCED_ADDRESS_LIMIT_FACTOR", "0"),
    ],
)
def test_a_setting_that_cannot_work_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingInvalid, match=name):
        check_settings(AuthSettings.read({name: value}))


def test_a_registration_by_token_needs_the_token() -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_INITIAL_ACCESS_TOKEN needs at least 32 characters"):
        check_settings(AuthSettings.read({"SKEIN_REGISTRATION": "token"}))
