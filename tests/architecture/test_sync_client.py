"""The synchronous client is generated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_synchronous_client_follows_the_asynchronous_one() -> None:
    command = [sys.executable, "libs/client/tools/sync_client.py", "check"]

    checked = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)

    assert checked.returncode == 0, checked.stderr
