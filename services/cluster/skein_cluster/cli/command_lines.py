"""Suggested command lines, quoted for the user's shell."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from skein_client.connection import data_dir

PROGRAM = "skein"
# Example text of suggestions, and a query that finds it.
EXAMPLE = "Anna prefers tea to coffee"
QUESTION = "what does Anna drink?"


def program_name() -> str:
    """Return the command's name for this shell: `skein` if the PATH finds it, else the name of the call."""
    script_path = Path(sys.argv[0])
    if script_path.name != PROGRAM:
        return PROGRAM
    program_path = shutil.which(PROGRAM)
    is_on_path = program_path is not None and script_path.exists() and script_path.samefile(program_path)
    return PROGRAM if is_on_path else shlex.quote(sys.argv[0])


def command_line(*arguments: str, environment: Mapping[str, str]) -> str:
    """Return a command line that calls the same cluster as `environment`, from the shell that runs this process."""
    words = [program_name(), *(quote_argument(argument) for argument in arguments)]
    folder = environment.get("SKEIN_DATA_DIR", "")
    if folder and Path(folder).expanduser() != data_dir(os.environ):
        words += ["--data-dir", shlex.quote(folder)]
    return " ".join(words)


def quote_argument(argument: str) -> str:
    """Quote an argument for a shell, in double quotes if possible, because they are easier to read."""
    quoted = shlex.quote(argument)
    is_plain_text = not set(argument) & set('"$`\\!\n')
    return f'"{argument}"' if quoted != argument and is_plain_text else quoted


def store_hint(environment: Mapping[str, str]) -> str:
    """Return a hint for an empty tenant: how to store a memory."""
    return f"The tenant is empty. Store a memory: {command_line('remember', EXAMPLE, environment=environment)}"
