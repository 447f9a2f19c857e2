"""By which URL a service connects: that of SKEIN_DATABASE_URL, or one of its own role."""

from __future__ import annotations

from pathlib import Path

import pytest
from fix_catalogue import over

from skein_kit.database.connection_settings import service_url
from skein_kit.database.database_roles import is_password_of
from skein_kit.settings import SettingInvalid

# Made by Postgres 18 for the password "of memory".
STORED = (
    "SCRAM-SHA-256$4096:4k/1aEEMjjEbGBBAEMe19Q==$DLPW/wbXA0n8GLvmjvLaWqvFGVpZ6Jczu29FgRH4iF4="
    ":w0EmVCktmKN4uVmnrqqSBHAUQg3Yg6EMKzoD78P6Fb4="
)


@over(
    ("url", "expected"),
    [
        ("postgresql://admin:old@db:5432/skein", "postgresql://skein_memory:a%20%40%2F%3F@db:5432/skein"),
        (
            "postgresql://db1:1,db2:2/skein?target_session_attrs=primary&password=old&user=admin",
            "postgresql://skein_memory:a%20%40%2F%3F@db1:1,db2:2/skein?target_session_attrs=primary",
        ),
        (
            "postgresql://admin@/skein?host=%2Frun%2Fa%20b&port=5433",
            "postgresql://skein_memory:a%20%40%2F%3F@/skein?host=%2Frun%2Fa%20b&port=5433",
        ),
    ],
)
def test_a_service_with_a_password_connects_as_its_own_role(url: str, expected: str) -> None:
    assert service_url(url, "memory", {"SKEIN_MEMORY_DATABASE_PASSWORD": "a @/?"}) == expected


def test_a_service_without_a_password_connects_as_the_user_of_the_url(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("of a file\n", "utf-8")
    url = "postgresql://admin@db/skein"

    assert service_url(url, "memory", {"SKEIN_SESSION_DATABASE_PASSWORD": "x"}) == url
    assert service_url(url, "memory", {"SKEIN_MEMORY_DATABASE_PASSWORD_FILE": str(tmp_path / "password")}) == (
        "postgresql://skein_memory:of%20a%20file@db/skein"
    )
    with pytest.raises(SettingInvalid, match="SKEIN_MEMORY_DATABASE_PASSWORD_FILE names a file that cannot be read"):
        service_url(url, "memory", {"SKEIN_MEMORY_DATABASE_PASSWORD_FILE": str(tmp_path / "missing")})


def test_a_stored_secret_is_that_of_its_password_alone() -> None:
    assert is_password_of(STORED, "of memory")
    assert not is_password_of(STORED, "of memorY")
    assert not is_password_of("md5" + "0" * 32, "of memory")
