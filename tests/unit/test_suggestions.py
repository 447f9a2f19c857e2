from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from fix_catalogue import over

from skein_cluster.cli import command_lines


def a_program(folder: Path) -> Path:
    """Make a file that a shell would run as `skein`."""
    folder.mkdir()
    path = folder / "skein"
    path.touch(mode=0o755)
    return path


@pytest.fixture(autouse=True)
def data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the data folder that the shell knows."""
    folder = tmp_path / "known"
    monkeypatch.setenv("SKEIN_DATA_DIR", str(folder))
    return folder


def test_a_program_on_the_path_is_named_alone_and_another_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_path, other = a_program(tmp_path / "bin"), a_program(tmp_path / "a clone")
    monkeypatch.setenv("PATH", str(on_path.parent))

    named = []
    for called in (str(on_path), str(other), "skein_cluster/__main__.py"):
        monkeypatch.setattr("sys.argv", [called])
        named.append(command_lines.program_name())

    assert named == ["skein", shlex.quote(str(other)), "skein"]


@over(
    "argument",
    ["plain", "two words", "what's that?", 'say "tea"', "costs $5", "a `b`", "so!", "two\nlines", "-", "a\\b"],
)
def test_a_shell_reads_an_argument_as_it_is(argument: str) -> None:
    line = command_lines.command_line("recall", argument, environment={})

    assert shlex.split(line) == ["skein", "recall", argument]


def test_the_data_folder_is_named_only_where_the_shell_knows_another(data_folder: Path, tmp_path: Path) -> None:
    known = command_lines.command_line("status", environment={"SKEIN_DATA_DIR": str(data_folder)})
    other = command_lines.command_line("status", environment={"SKEIN_DATA_DIR": str(tmp_path / "a folder")})

    assert known == "skein status"
    assert shlex.split(other) == ["skein", "status", "--data-dir", str(tmp_path / "a folder")]
