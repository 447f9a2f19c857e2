"""The console in a real browser: Debian's Chromium, driven by playwright-core.

With CONSOLE_SCREENSHOTS, a folder, what it saw is kept there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fix_console import furnished
from fix_node import run, tool, version_of
from fix_web import PASSWORD, new_person

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import members_pb2

if TYPE_CHECKING:
    from fix_cluster import Cluster, Tenant

SCRIPT = Path(__file__).with_name("console.mjs")


@pytest.mark.timeout(240)
async def test_people_find_their_way_through_the_console(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    seeded = await furnished(tenant)
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_OWNER)
    folder = Path(os.environ.get("CONSOLE_SCREENSHOTS", tmp_path)).absolute()

    async def answer(question: dict[str, Any]) -> str:
        request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=question["remember"]))
        return str((await tenant.memory.CreateMemory(request)).memory.memory_id)

    report = await run(
        SCRIPT,
        {
            "CHROMIUM": tool("chromium"),
            "ORIGIN": f"http://{cluster.addresses['http']}",
            "EMAIL": person.email,
            "PASSWORD": PASSWORD,
            "API_KEY": tenant.api_key,
            "HOSTILE": seeded.hostile_id,
            "FOLDER": str(folder),
        },
        answer,
    )

    assert version_of("playwright-core")
    text = report["told"]
    assert text["skip"] == "Skip to content"
    assert text["hit"] == "Anna drinks tea"
    assert text["bar"].startswith("Score 0.")
    assert (round(text["zoomed"], 1), round(text["back"], 1), round(text["plainZoom"], 1)) == (2.0, 1.0, 2.0)
    assert set(text["relations"]) == {"related"}
    assert (text["conflicts"], text["left"]) == (2, 1)
    assert text["done"] == text["plainDone"] == "The conflict is resolved."
    assert text["saved"] == "The policy is saved."
    assert text["secret"].startswith("skein_")
    assert text["title"].startswith("<img src=x")
    assert text["plainChanges"] > 10
    assert text["left_for"] == "/"
    assert {kind: report[kind] for kind in ("console", "elsewhere", "wide", "faint", "unnamed", "small")} == {
        kind: [] for kind in ("console", "elsewhere", "wide", "faint", "unnamed", "small")
    }
