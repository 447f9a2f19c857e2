"""Each layer of isolation holds by itself: the matrix passes with row-level security off, and with nothing else on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What a layer keeps out. Whom it lets in is seen with both on: one alone lets in no fewer.
CASES = "another_tenants_ids or forged or layer"


@pytest.mark.timeout(420)
@pytest.mark.parametrize("layer", ["keys", pytest.param("rows", marks=pytest.mark.essential)])
def test_the_matrix_passes_with_one_layer_alone(layer: str) -> None:
    result = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--show-capture=no"),
            *("tests/service/test_isolation.py", "-k", CASES),
        ],
        cwd=ROOT,
        env={**os.environ, "SKEIN_TEST_LAYER": layer, "SKEIN_TEST_FORM": "one"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )

    assert result.returncode == 0, result.stdout[-8000:]
    items = re.search(r"(\d+) passed", result.stdout)
    assert items is not None
    assert int(items.group(1)) == 3
