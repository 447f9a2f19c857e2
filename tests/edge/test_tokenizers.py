"""The counts that the estimate of tokens is measured with are those of the vocabularies that packages bring."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".edge/tokenizers/bin/python"
PROGRAM, COUNTS = ROOT / "tests/tools/token_counts.py", ROOT / "tests/golden/token_counts.json"


async def test_published_vocabularies_count_what_the_golden_counts_say() -> None:
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON.relative_to(ROOT)} is missing; run these tests with: make test-edge")
    process = await asyncio.create_subprocess_exec(str(PYTHON), str(PROGRAM), stdout=asyncio.subprocess.PIPE)
    printed = (await process.communicate())[0]

    assert process.returncode == 0
    assert json.loads(printed) == json.loads(COUNTS.read_text("utf-8"))
