"""Ctrl-C, as a terminal sends it to the process of a command."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from fix_cluster import test_environment
from fix_command import start

from skein_cluster.cli.exit_codes import ExitCode


@pytest.mark.system
async def test_ctrl_c_ends_a_command_with_130_and_one_sentence(tmp_path: Path) -> None:
    pipe = tmp_path / "records.jsonl"
    os.mkfifo(pipe)

    # Tests that a shell started in the background ignore the signal, and so would what they start.
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = await start("import", "jsonl", str(pipe), "--dry-run", environment=test_environment())
    finally:
        signal.signal(signal.SIGINT, ours)
    try:
        # Opens when the command does, which waits for a first line then.
        with await asyncio.to_thread(pipe.open, "w", encoding="utf-8"):
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()

    assert process.returncode == ExitCode.INTERRUPTED
    # Python may mention the file that it was just opening.
    error_lines = [line for line in err.decode().splitlines() if line.startswith(("Error", "Aborted", "Traceback"))]
    assert (out, error_lines) == (b"", ["Error: Interrupted. Completed steps are kept."])
