"""The example of LangGraph in the client's README is run."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from fix_cluster import Cluster, Tenant

README = Path(__file__).parents[2] / "libs/client/README.md"


async def test_the_example_prints_what_it_says(cluster: Cluster, tenant: Tenant) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    (example,) = (block for block in blocks if "SkeinStore" in block)
    environment = {**os.environ, "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", example),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    assert out.decode().splitlines() == [
        "('users', 'anna') drinks green tea",
        "{'cups': 3, 'likes': 'green tea'}",
        "[('users', 'anna'), ('users', 'bob')]",
    ]
