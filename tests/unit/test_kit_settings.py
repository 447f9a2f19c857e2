from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fix_catalogue import over

from skein_kit.settings import SettingInvalid, Settings, advanced


@dataclass(frozen=True, kw_only=True)
class Example(Settings):
    pool_size: int = 10
    wait_seconds: float = 1.0
    verbose: bool = False
    folder: Path = Path("here")
    secret: str = field(default="", repr=False)
    idle_seconds: float = advanced(120.0)


def test_unset_variables_leave_the_defaults() -> None:
    assert Example.read({}) == Example()


def test_each_type_is_read() -> None:
    environment = {
        "SKEIN_POOL_SIZE": "3",
        "SKEIN_WAIT_SECONDS": "0.5",
        "SKEIN_VERBOSE": "yes",
        "SKEIN_FOLDER": "/there",
        "SKEIN_SECRET": "s",
    }

    assert Example.read(environment) == Example(
        pool_size=3, wait_seconds=0.5, verbose=True, folder=Path("/there"), secret="s"
    )


@over(
    ("name", "value", "expected"),
    [("SKEIN_POOL_SIZE", "ten", "a whole number"), ("SKEIN_VERBOSE", "maybe", "true or false")],
)
def test_a_wrong_value_is_named_with_what_it_should_be(name: str, value: str, expected: str) -> None:
    with pytest.raises(SettingInvalid, match=f"{name} should be {expected}, not '{value}'"):
        Example.read({name: value})


def test_an_advanced_setting_is_read_from_its_own_variable_alone() -> None:
    assert Example.read({"SKEIN_ADVANCED_IDLE_SECONDS": "5"}).idle_seconds == 5.0
    assert Example.read({"SKEIN_IDLE_SECONDS": "5"}).idle_seconds == 120.0


def test_a_secret_can_come_from_a_file_and_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hidden\n")

    settings = Example.read({"SKEIN_SECRET_FILE": str(file)})

    assert settings.secret == "hidden"
    assert "hidden" not in repr(settings)


def test_a_missing_secret_file_is_an_error() -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_SECRET_FILE"):
        Example.read({"SKEIN_SECRET_FILE": "/nowhere/at/all"})
