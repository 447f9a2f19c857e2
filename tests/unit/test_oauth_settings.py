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
        {"SKEIN_REFRESH_GRACE_SECONDS": "0"},
        {"SKEIN_CODE_SECONDS": "600"},
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
        ("SKEIN_REGISTRATION", "token"),
        ("SKEIN_CODE_SECONDS", "601"),
        ("SKEIN_CODE_SECONDS", "0"),
        ("SKEIN_ACCESS_TOKEN_SECONDS", "0"),
        ("SKEIN_REFRESH_GRACE_SECONDS", "-1"),
    ],
)
def test_a_setting_that_cannot_work_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_"):
        check_settings(AuthSettings.read({name: value}))
