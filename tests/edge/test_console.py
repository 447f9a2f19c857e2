"""The console in a real browser: Debian's Chromium, driven by playwright-core.

With CONSOLE_SCREENSHOTS, a folder, what it saw is kept there; with CONSOLE_TOUR the pictures of docs/guides/console.md.
"""

from __future__ import annotations

import json
import os
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_console import attempt_deliveries, certify, furnished
from fix_forgetting import index_backlog
from fix_node import run, tool, version_of
from fix_receipts import recall_with_receipt
from fix_web import PASSWORD, new_person

from skein.memory.v1 import blocks_pb2, memory_pb2, webhooks_pb2
from skein.tenancy.v1 import members_pb2, tenancy_pb2
from skein_gateway.console.pages import GROUPS

SCRIPT = Path(__file__).with_name("console.mjs")
MANAGEMENT = Path(__file__).with_name("console_management.mjs")
KEYS = Path(__file__).with_name("console_keys.mjs")
TOUR = Path(__file__).with_name("console_tour.mjs")
# Shared by all four.
BROWSER = Path(__file__).with_name("console_browser.mjs")
# Each goes through dozens of pages, which a busy machine shows slowly.
PATIENCE_SECONDS = 500.0
# What the scripts note when a page is not as it should be.
FAULTS = ("console", "elsewhere", "wide", "faint", "unnamed", "small")


@pytest.mark.essential
@pytest.mark.timeout(600)
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
        before=BROWSER,
        patience_seconds=PATIENCE_SECONDS,
    )

    assert version_of("playwright-core")
    text = report["told"]
    assert text["skip"] == "Skip to content"
    assert text["hit"] == "Anna drinks tea"
    first = text["first"].replace("T", " ")
    assert (text["spoken"], text["now"], text["moved"]) == (f"{first} UTC", "", True)
    # A browser leaves out the seconds of a whole minute.
    assert text["then"].startswith(f"As it was known on {datetime.fromisoformat(first):%Y-%m-%d %H:%M:%S} UTC.")
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
    assert {kind: report[kind] for kind in FAULTS} == {kind: [] for kind in FAULTS}


@pytest.mark.timeout(600)
async def test_a_tenant_is_managed_without_script_and_on_every_screen(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    seeded = await furnished(tenant)
    await certify(tenant)
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    await recall_with_receipt(tenant, "tea")
    memory_id = seeded.memory_ids["tea"]
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_OWNER)
    folder = Path(os.environ.get("CONSOLE_SCREENSHOTS", tmp_path)).absolute()

    async def answer(question: dict[str, Any]) -> str:
        if "deliver" in question:
            request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="told to the till"))
            await tenant.memory.CreateMemory(request)
            await attempt_deliveries(cluster, tenant, question["deliver"])
            return ""
        changed = memory_pb2.Memory(memory_id=memory_id, content=question["change"])
        update = memory_pb2.UpdateMemoryRequest(memory=changed)
        update.update_mask.paths.append("content")
        await tenant.memory.UpdateMemory(update)
        return ""

    report = await run(
        MANAGEMENT,
        {
            "CHROMIUM": tool("chromium"),
            "ORIGIN": f"http://{cluster.addresses['http']}",
            "EMAIL": person.email,
            "PASSWORD": PASSWORD,
            "API_KEY": tenant.api_key,
            "MEMORY": memory_id,
            "FOLDER": str(folder),
        },
        answer,
        before=BROWSER,
        patience_seconds=PATIENCE_SECONDS,
    )

    text = report["told"]
    assert (text["key"], text["signing"], text["link"]) == ("skein_", "whsec_", "/account/invitation")
    assert text["remembered"] == "The memory is stored. Now recall it."
    assert text["recalled"] == "Ben repairs clocks"
    assert "Compare both" in text["conflict"]
    assert text["marked"] == ["black", "green", "Never after six."]
    assert (text["edited"], text["unchanged"]) == ("The memory is saved.", "Nothing was changed.")
    assert text["replayed"].startswith("Replayed: the search, run again on what it saw then, found the same.")
    assert re.match(r"[1-9]\d* items? ha(s|ve) another rank or another text", text["difference"])
    assert (text["compared"], text["file"]) == (True, f"{text['receipt']}.json")
    assert text["block"] == "The block is created."
    assert text["history"] == ["are brief.", "never guess."]
    assert (text["failure"], text["retried"]) == (
        "the name of the server is unknown, or its address is not public",
        "The delivery is tried again now.",
    )
    assert text["invitations"] == 1
    assert (text["menu"], text["closed"]) == (sum(len(entries) for _, entries in GROUPS), True)
    assert {kind: report[kind] for kind in FAULTS} == {kind: [] for kind in FAULTS}


@pytest.mark.timeout(600)
async def test_every_page_is_used_with_keys_alone(cluster: Cluster, tenant: Tenant) -> None:
    seeded = await furnished(tenant)
    await certify(tenant)
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_OWNER)
    block = blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(label="persona", value="Kind."), agent_id="kitchen")
    webhook = webhooks_pb2.Webhook(display_name="till", event_types=["*"], webhook_url="https://127.0.0.1/hook")
    created = await tenant.history.CreateWebhook(webhooks_pb2.CreateWebhookRequest(webhook=webhook))
    await tenant.set_policy(recall_receipts="all", audit_query_text=True)
    receipt_ids = [(await recall_with_receipt(tenant, query)).receipt_id for query in ("tea", "what does Anna drink?")]
    ids = {
        "receipt": receipt_ids[0],
        "other": receipt_ids[1],
        "memory": seeded.memory_ids["tea"],
        "block": (await tenant.blocks.CreateBlock(block)).block.block_id,
        "webhook": created.webhook.webhook_id,
    }

    report = await run(
        KEYS,
        {
            "CHROMIUM": tool("chromium"),
            "ORIGIN": f"http://{cluster.addresses['http']}",
            "EMAIL": person.email,
            "PASSWORD": PASSWORD,
            "TENANT": str(tenant.tenant_id),
            "IDS": json.dumps(ids),
        },
        before=BROWSER,
        patience_seconds=PATIENCE_SECONDS,
    )

    assert report["told"]["pages"] == 27
    assert (report["keys"], report["console"]) == ([], [])


@pytest.mark.timeout(600)
async def test_the_tour_of_the_documents_leads_through_the_console(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    # Before the first write, since a policy is cached for a second.
    await tenant.set_policy(approval="agents")
    seeded = await furnished(tenant)
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=seeded.hostile_id))
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_OWNER)
    named = tenancy_pb2.Tenant(tenant_id=str(tenant.tenant_id), display_name="A household")
    await tenant.tenancy.UpdateTenant(
        tenancy_pb2.UpdateTenantRequest(tenant=named, update_mask={"paths": ["display_name"]})
    )
    waiting = memory_pb2.Memory(content="Anna drinks coffee now.", subject_id="anna", type="user_preference")
    request = memory_pb2.CreateMemoryRequest(memory=waiting)
    created = await tenant.memory.CreateMemory(request, metadata=(("skein-agent-id", "kitchen"),))
    assert created.memory.pending_approval
    folder = Path(os.environ.get("CONSOLE_TOUR", tmp_path)).absolute()
    # Without vectors a hit has no relevance to show.
    await index_backlog(tenant, cluster.addresses)

    report = await run(
        TOUR,
        {
            "CHROMIUM": tool("chromium"),
            "ORIGIN": f"http://{cluster.addresses['http']}",
            "EMAIL": person.email,
            "PASSWORD": PASSWORD,
            "MEMORY": seeded.memory_ids["tea"],
            "FOLDER": str(folder),
        },
        before=BROWSER,
        patience_seconds=PATIENCE_SECONDS,
    )

    for shown in folder.glob("*.png"):
        shown.unlink()
    pictures = {path.stem for path in folder.glob("*.webp")}
    assert pictures == {"overview", "search", "memory", "graph", "approvals", "conflicts", "usage"}
    assert {kind: report[kind] for kind in FAULTS} == {kind: [] for kind in FAULTS}
