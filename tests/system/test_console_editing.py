"""The console's form of one memory: it saves what was changed, and shows what another caller changed meanwhile."""

from __future__ import annotations

import re

import pytest
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession, SeededData, filled, furnished
from fix_web import PASSWORD, new_person

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import members_pb2


@pytest.fixture
async def seeded(tenant: Tenant) -> SeededData:
    return await furnished(tenant)


async def stored(tenant: Tenant, memory_id: str) -> memory_pb2.Memory:
    response = await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id, show_deleted=True))
    return response.memory


async def change(tenant: Tenant, memory_id: str, **values: str) -> None:
    request = memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=memory_id, **values))  # type: ignore[arg-type]
    request.update_mask.paths.extend(values)
    await tenant.memory.UpdateMemory(request)


async def test_a_memory_is_changed_by_what_differs(web: BrowserSession, tenant: Tenant, seeded: SeededData) -> None:
    memory_id = seeded.memory_ids["allergy"]
    before = await stored(tenant, memory_id)

    answer = await web.submit(
        await web.page("edit", id=memory_id),
        "save",
        content="Milk.\r\nOf cows.",
        tags="health\r\n<b>bold</b>\r\nhealth\r\n",
        confidence="0.5",
        valid_from_time="2026-03-14T09:30",
        scope="user",
    )

    page = await web.client.get(answer.headers["location"])
    after = await stored(tenant, memory_id)
    assert "The memory is saved." in page.text
    assert (after.content, list(after.tags), after.confidence) == ("Milk.\nOf cows.", ["health", "<b>bold</b>"], 0.5)
    assert after.valid_from_time.ToJsonString() == "2026-03-14T09:30:00Z"
    assert (after.scope, after.revision) == (memory_pb2.SCOPE_USER, before.revision + 1)
    assert (after.title, after.data, after.source) == (before.title, before.data, before.source)
    versions = await tenant.memory.ListMemoryVersions(memory_pb2.ListMemoryVersionsRequest(memory_id=memory_id))
    assert set(versions.versions[0].changed_fields) == {"content", "tags", "confidence", "valid_from_time", "scope"}


async def test_a_form_that_changes_nothing_writes_nothing(
    web: BrowserSession, tenant: Tenant, seeded: SeededData
) -> None:
    for memory_id in (seeded.memory_ids["allergy"], seeded.hostile_id):
        before = await stored(tenant, memory_id)

        answer = await web.submit(await web.page("edit", id=memory_id), "save")

        assert "done=unchanged" in answer.headers["location"]
        assert (await stored(tenant, memory_id)).revision == before.revision


async def test_a_memory_that_changed_meanwhile_is_shown_beside_what_was_typed(
    web: BrowserSession, tenant: Tenant, seeded: SeededData
) -> None:
    memory_id = seeded.memory_ids["train"]
    opened = await web.page("edit", id=memory_id)
    await change(tenant, memory_id, content="The last train from Milan to Zurich leaves at 19:10.", source="timetable")

    late = await web.submit(opened, "save", content="The last train from Milan to Zurich leaves at <b>22:10</b>.")

    assert late.status_code == 409
    assert "Compare both" in late.text
    assert re.search(r"Stored now</h4><div[^>]*>[^<]*<mark>19:10.</mark>", late.text)
    assert "<mark>&lt;b&gt;22:10&lt;/b&gt;.</mark>" in late.text
    assert (await stored(tenant, memory_id)).content.endswith("19:10.")
    # What the person did not touch keeps the other's change, and the next save is at the current revision.
    assert filled(late, "save")["source"] == "timetable"
    saved = await web.submit(late, "save")
    after = await stored(tenant, memory_id)
    assert "done=edited" in saved.headers["location"]
    assert after.content.endswith("<b>22:10</b>.")
    assert after.source == "timetable"


async def test_a_memory_that_cannot_be_is_refused_in_words(
    web: BrowserSession, tenant: Tenant, seeded: SeededData
) -> None:
    memory_id = seeded.memory_ids["tea"]
    before = await stored(tenant, memory_id)
    page = await web.page("edit", id=memory_id)

    for name, value in (
        ("content", "  "),
        ("content", "x" * 100_001),
        ("confidence", "much"),
        ("importance", "2"),
        ("importance", "nan"),
        ("expire_time", "tomorrow"),
        ("expire_time", "2001-01-01T00:00"),
        ("data", "[1]"),
        ("metadata", "{not json"),
        ("type", "No Type"),
        ("scope", "galaxy"),
        ("tags", "x" * 256),
    ):
        answer = await web.submit(page, "save", **{name: value})

        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), name
        assert filled(answer, "save")["title"] == before.title
    assert (await stored(tenant, memory_id)).revision == before.revision


async def test_a_long_text_can_be_saved(web: BrowserSession, tenant: Tenant, seeded: SeededData) -> None:
    memory_id, text = seeded.memory_ids["tea"], "茶 " * 33_000 + "end"

    answer = await web.submit(await web.page("edit", id=memory_id), "save", content=text)

    assert answer.status_code == 303, answer.text[:2000]
    assert (await stored(tenant, memory_id)).content == text


async def test_a_memory_is_deleted_and_comes_back(web: BrowserSession, tenant: Tenant, seeded: SeededData) -> None:
    memory_id = seeded.memory_ids["window"]
    opened = await web.page("edit", id=memory_id)
    await change(tenant, memory_id, title="The window in the bath sticks")

    late = await web.submit(opened, "delete")
    deleted = await web.submit(await web.page("edit", id=memory_id), "delete")
    page = await web.client.get(deleted.headers["location"])
    back = await web.submit(page, "undelete")

    assert late.status_code == 409
    assert "It can be undeleted" in page.text
    assert "The memory is back." in (await web.client.get(back.headers["location"])).text
    assert not (await stored(tenant, memory_id)).HasField("delete_time")


async def test_a_viewer_can_edit_nothing(
    cluster: Cluster, web: BrowserSession, tenant: Tenant, seeded: SeededData
) -> None:
    memory_id = seeded.memory_ids["tea"]
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_VIEWER)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)

    memory, page = await web.page("memory", id=memory_id), await web.page("edit", id=memory_id)
    answer = await web.submit(page, "save", title="mine")

    assert ">Edit</a>" not in memory.text
    assert ("disabled" in page.text, "Save the memory" in page.text) == (True, False)
    assert (answer.status_code, "permission memory.write" in answer.text) == (403, True)
