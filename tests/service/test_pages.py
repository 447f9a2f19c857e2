"""Pages: what their answers have, and what leaves them with the commit of a change, without any worker."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_calls import all_pages, stamp
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_command import skein
from fix_console import BrowserSession
from fix_extraction import extract, learning_tenant, say
from fix_lineage import DOCUMENT, create, named, of, rate, writer
from fix_mcp import Mcp
from fix_spaces import SPACE_KEY, first_spaces, new_key
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import auth_pb2, certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2, history_pb2, memory_pb2
from skein.memory.v1 import pages_pb2 as pb
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import limits_pb2

PROFILE = "subject:anna"
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "PAGE_NOT_FOUND")
INVALID = (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


async def get(caller: Stubs, page_id: str = PROFILE, **fields: Any) -> pb.GetPageResponse:
    return await caller.curation.GetPage(pb.GetPageRequest(page_id=page_id, **fields))


async def make(caller: Stubs, **fields: Any) -> pb.Page:
    return (await caller.curation.CreatePage(pb.CreatePageRequest(page=pb.Page(**fields)))).page


async def fact(caller: Stubs, content: str, *sources: memory_pb2.SourceReference, **fields: Any) -> memory_pb2.Memory:
    return await create(caller, content, *sources, **{"type": "fact", "subject_id": "anna", **fields})


async def supersede(caller: Stubs, content: str, **fields: Any) -> memory_pb2.Memory:
    memory = memory_pb2.Memory(**{"content": content, "type": "fact", "subject_id": "anna", "key": "city", **fields})
    request = memory_pb2.CreateMemoryRequest(memory=memory, on_conflict=memory_pb2.ON_CONFLICT_SUPERSEDE)
    return (await caller.memory.CreateMemory(request)).memory


def texts(answer: pb.GetPageResponse) -> list[str]:
    return [sentence.text for section in answer.sections for sentence in section.sentences]


async def shown(caller: Stubs, page_id: str = PROFILE, **fields: Any) -> list[str]:
    return texts(await get(caller, page_id, **fields))


async def listed(caller: Stubs, **fields: Any) -> list[pb.Page]:
    return await all_pages(caller.curation.ListPages, pb.ListPagesRequest(page_size=2, **fields), "pages")


async def update(caller: Stubs, page_id: str, *paths: str, **fields: Any) -> pb.Page:
    request = pb.UpdatePageRequest(page=pb.Page(page_id=page_id, **fields), update_mask=FieldMask(paths=paths))
    return (await caller.curation.UpdatePage(request)).page


async def test_a_subject_with_facts_has_a_profile_whose_sentences_name_their_memories(tenant: Tenant) -> None:
    note = await create(tenant, "Anna fixed\nthe kettle", subject_id="anna")
    city = await fact(tenant, "Lives in Graz", key="city")
    await fact(tenant, "Lives in Rome", subject_id="berta", key="city")

    answer = await get(tenant)

    assert (answer.page.page_id, answer.page.subject_id, answer.page.revision) == (PROFILE, "anna", 0)
    assert answer.text == (
        "# anna\n\n## Facts\n\n- city: Lives in Graz [1]\n\n## Notes\n\n- Anna fixed the kettle [2]\n\n"
        f"[1] memory {city.memory_id} revision 1\n[2] memory {note.memory_id} revision 1\n"
    )
    assert [section.title for section in answer.sections] == ["Facts", "Notes"]
    assert answer.sections[0].sentences[0] == pb.PageSentence(
        number=1,
        text="city: Lives in Graz",
        memory_id=city.memory_id,
        revision=1,
        type="fact",
        create_time=city.create_time,
    )
    assert not answer.truncated


async def test_a_subject_without_facts_has_no_profile(tenant: Tenant) -> None:
    await create(tenant, "The kettle boils")

    for page_id in (PROFILE, "subject:", "nonsense", str(uuid.uuid4())):
        with refused(*NOT_FOUND):
            await get(tenant, page_id)


@pytest.mark.system
async def test_the_same_data_give_the_same_bytes(tenant: Tenant) -> None:
    for number in range(5):
        await fact(tenant, f"Likes tea {number}", key=f"tea {number}")
        await create(tenant, f"Note {number}", subject_id="anna")

    answers = await asyncio.gather(*(get(tenant) for _ in range(5)))

    assert len({answer.SerializeToString(deterministic=True) for answer in answers}) == 1
    await fact(tenant, "Likes rum", key="rum")
    assert (await get(tenant)).etag != answers[0].etag


@pytest.mark.system
async def test_a_superseded_fact_is_gone_with_the_write_and_is_there_as_of_before(tenant: Tenant) -> None:
    older = await supersede(tenant, "Lives in Graz")

    newer = await supersede(tenant, "Lives in Oslo")

    assert await shown(tenant) == ["city: Lives in Oslo"]
    assert await shown(tenant, as_of_time=older.record_time) == ["city: Lives in Graz"]
    assert await shown(tenant, as_of_time=newer.record_time) == ["city: Lives in Oslo"]


@pytest.mark.system
async def test_a_superseding_link_hides_a_memory_without_a_key_until_its_author_is_distrusted(
    cluster: Cluster, tenant: Tenant
) -> None:
    other, principal = await writer(cluster, tenant, "the linker")
    older, newer = await fact(tenant, "Lives in Graz"), await fact(tenant, "Lives in Oslo")
    link = memory_pb2.Link(from_memory_id=newer.memory_id, to_memory_id=older.memory_id, relation="supersedes")
    await other.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))

    assert await shown(tenant) == ["Lives in Oslo"]
    await rate(tenant, principal, 0.1)
    assert await shown(tenant) == ["Lives in Graz", "Lives in Oslo"]


@pytest.mark.system
async def test_a_sentence_whose_source_loses_trust_is_gone_before_a_worker_follows_its_chain(
    cluster: Cluster, tenant: Tenant
) -> None:
    other, principal = await writer(cluster, tenant, "the stranger")
    rumour = await fact(other, "Lives in Rome")
    await fact(tenant, "Says that Anna lives in Rome", of(rumour))
    await fact(tenant, "Read that Anna cooks", named(DOCUMENT, "a leaflet"))
    await fact(tenant, "Likes tea")
    assert len(await shown(tenant)) == 4

    await rate(tenant, principal, 0.1)
    await rate(tenant, "a leaflet", 0.2)

    assert await shown(tenant) == ["Likes tea"]
    await tenant.curation.DeleteSourceTrust(curation_pb2.DeleteSourceTrustRequest(source="a leaflet"))
    async with asyncio.timeout(30):
        while await shown(tenant) != ["Read that Anna cooks", "Likes tea"]:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("end", ["delete", "purge", "archive", "expire", "close"])
async def test_what_ends_is_gone_at_once(tenant: Tenant, end: str) -> None:
    await fact(tenant, "Likes tea")
    memory = await fact(tenant, "Lives in Graz")
    name = memory.memory_id
    past, soon = (stamp(datetime.now(UTC) + timedelta(seconds=seconds)) for seconds in (-1, 0.5))
    changed = memory_pb2.Memory(memory_id=name, archive_time=past, valid_to_time=past, expire_time=soon)
    path = {"archive": "archive_time", "expire": "expire_time", "close": "valid_to_time"}.get(end)

    if end == "delete":
        await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=name))
    elif end == "purge":
        selection = memory_pb2.MemorySelection(memory_ids=[name])
        await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    else:
        mask = FieldMask(paths=[str(path)])
        await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=mask))

    async with asyncio.timeout(30):
        while end == "expire" and len(await shown(tenant)) > 1:
            await asyncio.sleep(0.1)
    assert await shown(tenant) == ["Likes tea"]


@pytest.mark.system
@pytest.mark.parametrize("change", ["correct", "delete", "purge"])
async def test_a_fact_leaves_the_page_with_its_message_before_the_worker_has_followed(
    cluster: Cluster, change: str
) -> None:
    tenant = await learning_tenant(cluster)
    (said,) = await say(tenant, "I live in Porto.", subject_id="anna")
    await extract(cluster, tenant)
    assert await shown(tenant) == ["lives_in: I live in Porto"]

    if change == "correct":
        message = session_pb2.Message(message_id=said.message_id, content="I live in Rome.")
        await tenant.sessions.UpdateMessage(
            session_pb2.UpdateMessageRequest(message=message, update_mask=FieldMask(paths=["content"]))
        )
    elif change == "delete":
        await tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=said.message_id))
    else:
        await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="talk"))

    with refused(*NOT_FOUND):
        await get(tenant)


@pytest.mark.system
async def test_a_page_is_about_an_entity_with_what_is_linked_with_it_and_its_aliases(tenant: Tenant) -> None:
    actions = await create(tenant, "GitHub Actions", type="entity", external_id="actions")
    alias = await create(tenant, "GHA", type="entity", external_id="gha")
    await tenant.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id="gha", canonical_memory_id="actions")
    )
    for entity, content in ((actions, "Actions has runners"), (alias, "GHA is billed by the minute")):
        memory = await create(tenant, content)
        link = memory_pb2.Link(from_memory_id=memory.memory_id, to_memory_id=entity.memory_id, relation="related")
        await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))
    await create(tenant, "Has nothing to do with it")

    sections = [pb.PageSection(title="All")]
    page = await make(tenant, title="Builds", entity_memory_id="gha", sections=sections)

    assert page.entity_memory_id == alias.memory_id
    assert await shown(tenant, page.page_id) == [
        "GitHub Actions", "GHA", "Actions has runners", "GHA is billed by the minute",
    ]  # fmt: skip


@pytest.mark.system
async def test_sections_choose_by_type_and_key_and_a_memory_is_in_the_first_one(tenant: Tenant) -> None:
    await fact(tenant, "Lives in Graz", key="City")
    await fact(tenant, "Born in May", key="birthday")
    await create(tenant, "Chose the train", type="decision", subject_id="anna")
    await create(tenant, "A note", subject_id="anna")
    sections = [
        pb.PageSection(title="Home", keys=["city", "street"]),
        pb.PageSection(title="Known", types=["fact", "decision"]),
    ]

    page = await make(tenant, title="Of Anna", subject_id="anna", sections=sections)
    answer = await get(tenant, page.page_id)

    assert [(section.title, [sentence.text for sentence in section.sentences]) for section in answer.sections] == [
        ("Home", ["City: Lives in Graz"]),
        ("Known", ["birthday: Born in May", "Chose the train"]),
    ]
    assert answer.text.startswith("# Of Anna\n")


@pytest.mark.system
async def test_a_filter_chooses_and_the_newest_of_too_many_are_shown(tenant: Tenant) -> None:
    for number in range(4):
        await create(tenant, f"Release {number}", tags=["release"])
    await create(tenant, "Another")
    sections = [pb.PageSection(title="Releases", limit=2)]

    where = memory_pb2.MemoryFilter(where='tags:any("release")')
    page = await make(tenant, title="Releases", filter=where, sections=sections)
    answer = await get(tenant, page.page_id)

    assert texts(answer) == ["Release 2", "Release 3"]
    assert answer.truncated


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"title": "t"}, "page.subject_id"),
        ({"filter": {"types": ["note"]}}, "page.title"),
        ({"title": "t", "filter": {"subject_id": "anna"}}, "page.filter"),
        ({"title": "t", "filter": {"where": 'subject_id = "anna"'}}, "page.filter"),
        ({"title": "t", "filter": {"types": ["note"], "visible_to": {"agent_id": "a"}}}, "page.filter.visible_to"),
    ],
)
async def test_a_page_about_nothing_or_about_a_person_by_its_filter_is_refused(
    tenant: Tenant, fields: dict[str, Any], path: str
) -> None:
    with refused(*INVALID) as caught:
        await make(tenant, **fields)

    assert path in str(caught.value)


async def test_a_bad_filter_and_an_unknown_entity_are_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "FILTER_INVALID"):
        await make(tenant, title="t", filter=memory_pb2.MemoryFilter(where="type ="))
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await make(tenant, title="t", entity_memory_id="nobody")


async def test_a_stored_page_without_facts_is_empty(tenant: Tenant) -> None:
    page = await make(tenant, subject_id="anna")

    answer = await get(tenant, page.page_id)

    assert (answer.text, list(answer.sections)) == ("# anna\n", [])


@pytest.mark.system
async def test_pages_are_listed_the_pinned_first_and_the_profiles_behind(tenant: Tenant) -> None:
    for name in ("anna", "berta", "carl"):
        await fact(tenant, f"About {name}", subject_id=name)
    await create(tenant, "Waits", type="task", subject_id="dora")
    first, second = await make(tenant, subject_id="anna"), await make(tenant, subject_id="berta")
    pinned = await make(tenant, title="T", filter=memory_pb2.MemoryFilter(types=["note"]), pinned=True)

    pages = await listed(tenant)

    assert [page.page_id for page in pages] == [
        pinned.page_id, first.page_id, second.page_id, PROFILE, "subject:berta", "subject:carl",
    ]  # fmt: skip
    assert [page.page_id for page in await listed(tenant, pinned_only=True)] == [pinned.page_id]


async def test_an_update_checks_the_revision_and_a_profile_is_not_changed(tenant: Tenant) -> None:
    await fact(tenant, "Likes tea")
    page = await make(tenant, subject_id="anna")

    changed = await update(tenant, page.page_id, "pinned", "title", pinned=True, title="Tea", revision=1)

    assert (changed.pinned, changed.title, changed.subject_id, changed.revision) == (True, "Tea", "anna", 2)
    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await update(tenant, page.page_id, "pinned", revision=1)
    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await tenant.curation.DeletePage(pb.DeletePageRequest(page_id=page.page_id, revision=1))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await update(tenant, page.page_id, "revision")
    with refused(*INVALID):
        await update(tenant, page.page_id, "subject_id")
    with refused(*NOT_FOUND):
        await update(tenant, PROFILE, "pinned", pinned=True)
    await tenant.curation.DeletePage(pb.DeletePageRequest(page_id=page.page_id, revision=2))
    with refused(*NOT_FOUND):
        await get(tenant, page.page_id)


@pytest.mark.system
async def test_a_reader_sees_what_is_for_it(cluster: Cluster, tenant: Tenant) -> None:
    scope = memory_pb2.SCOPE_AGENT
    await fact(tenant, "For all")
    await fact(tenant, "For the butler", scope=scope, agent_id="butler")
    await fact(tenant, "For the cook", scope=scope, agent_id="cook")
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="bound", agent_id="cook"))
    bound = cluster.with_key(key.secret)

    assert await shown(tenant, visible_to={"agent_id": "butler"}) == ["For all", "For the butler"]
    # The credential's wall holds, whichever reader the request names.
    assert await shown(bound) == ["For all", "For the cook"]
    assert await shown(bound, visible_to={"agent_id": "butler"}) == ["For all"]


@pytest.mark.system
async def test_a_page_has_the_facts_of_the_spaces_that_its_reader_sees(cluster: Cluster, tenant: Tenant) -> None:
    own_id, other_id = await first_spaces(cluster, tenant, "own", "other")
    _, both = await new_key(cluster, tenant, [own_id, other_id])
    _, single = await new_key(cluster, tenant, [own_id])
    _, bound = await new_key(cluster, tenant, [own_id], bind=True)
    in_own, in_other = (cluster.with_key(both, **{SPACE_KEY: id_}) for id_ in (own_id, other_id))
    await fact(tenant, "In the default space")
    await fact(in_own, "In the own space")
    await fact(in_other, "In the other space", subject_id="anna")
    page = await make(in_other, subject_id="anna")

    assert sorted(await shown(cluster.with_key(single))) == ["In the default space", "In the own space"]
    assert await shown(cluster.with_key(bound)) == ["In the own space"]
    assert len(await shown(cluster.with_key(both), page.page_id)) == 3
    for caller in (cluster.with_key(single), cluster.with_key(bound), in_own):
        with refused(*NOT_FOUND):
            await get(caller, page.page_id)
        assert page.page_id not in {one.page_id for one in await listed(caller)}


@pytest.mark.system
async def test_forget_removes_the_pages_about_a_person_and_counts_them_in_the_certificate(tenant: Tenant) -> None:
    await fact(tenant, "Likes tea")
    page = await make(tenant, subject_id="anna", title="Anna's page")
    request = pb.CreatePageRequest(page=pb.Page(subject_id="anna", title="Anna again"), request_id="r")
    await tenant.curation.CreatePage(request)
    kept = await make(tenant, subject_id="berta")

    await tenant.gateway.Forget(gateway_pb2.ForgetRequest(subject_id="anna"))

    assert [one.page_id for one in await listed(tenant)] == [kept.page_id]
    with refused(*NOT_FOUND):
        await get(tenant, page.page_id)
    with refused(*NOT_FOUND):
        await get(tenant)
    certificates = await tenant.auth.ListErasureCertificates(certificates_pb2.ListErasureCertificatesRequest())
    assert certificates.certificates[0].deleted_counts["memory.pages"] == 2
    usage = (await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())).usage
    assert next(one.used for one in usage if one.kind == "pages") == 1
    # The saved response does not have it any more.
    assert (await tenant.curation.CreatePage(request)) == pb.CreatePageResponse()


async def test_a_page_goes_with_the_purge_of_its_entity(tenant: Tenant) -> None:
    entity = await create(tenant, "Kettle", type="entity")
    page = await make(tenant, title="Kettle", entity_memory_id=entity.memory_id)
    selection = memory_pb2.MemorySelection(memory_ids=[entity.memory_id])

    purged = await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))

    assert purged.receipt.deleted_counts["memory.pages"] == 1
    with refused(*NOT_FOUND):
        await get(tenant, page.page_id)


async def test_more_pages_than_the_quota_are_refused(cluster: Cluster, tenant: Tenant) -> None:
    operator = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    quota = limits_pb2.Quota(pages=1)
    await operator.tenancy.UpdateQuota(
        limits_pb2.UpdateQuotaRequest(quota=quota, update_mask=FieldMask(paths=["pages"]))
    )
    page = await make(tenant, subject_id="anna")

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await make(tenant, subject_id="anna")

    await tenant.curation.DeletePage(pb.DeletePageRequest(page_id=page.page_id))
    await make(tenant, subject_id="anna")


@pytest.mark.system
async def test_pages_are_resources_of_mcp(cluster: Cluster, tenant: Tenant) -> None:
    await fact(tenant, "Likes tea")
    page = await make(tenant, subject_id="anna", pinned=True)
    await make(tenant, subject_id="berta")

    async with Mcp.of(cluster.addresses["http"], tenant.api_key, "?toolsets=curation") as mcp:
        first = await mcp.ask("resources/list")
        rest = await mcp.ask("resources/list", {"cursor": first["nextCursor"]})
        read = (await mcp.ask("resources/read", {"uri": f"skein://pages/{PROFILE}"}))["contents"][0]
        called = await mcp.call("get_page", page_id=PROFILE)
        missing = await mcp.error("resources/read", {"uri": "skein://pages/subject:carl"})

    assert [(one["uri"], one["title"]) for one in first["resources"]] == [(f"skein://pages/{page.page_id}", "anna")]
    assert all(one["uri"].startswith("skein://memories/") for one in rest["resources"])
    assert (read["mimeType"], read["text"]) == ("text/markdown", (await get(tenant)).text)
    assert "Likes tea" in str(called)
    assert missing["code"] == -32002


@pytest.mark.system
async def test_the_command_lists_shows_makes_pins_and_deletes(cluster: Cluster, tenant: Tenant) -> None:
    environment = {**cluster.environment, "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    old = await supersede(tenant, "Lives in Graz")
    await supersede(tenant, "Lives in Oslo")

    shown_text = (await skein("pages", "show", PROFILE, environment=environment)).out
    before = await skein("pages", "show", PROFILE, "--as-of", old.record_time.ToJsonString(), environment=environment)
    made = await skein(
        *("pages", "create", "--title", "Plans", "--where", 'type = "decision"', "--section", "Plans=decision,task"),
        environment=environment,
    )
    (page_id,) = re.findall(r"[0-9a-f-]{36}", made.out)
    pinned = await skein("pages", "pin", PROFILE, "--json", environment=environment)
    await skein("pages", "pin", page_id, environment=environment)
    unpinned = await skein("pages", "unpin", page_id, "--json", environment=environment)
    list_ = await skein("pages", "list", "--json", environment=environment)
    await skein("pages", "delete", page_id, environment=environment)

    assert "city: Lives in Oslo [1]" in shown_text
    assert "city: Lives in Graz [1]" in before.out
    assert (pinned.json["subject_id"], pinned.json["pinned"]) == ("anna", True)
    assert not unpinned.json.get("pinned")
    assert [one["page_id"] for one in list_.json["pages"]] == [pinned.json["page_id"], page_id, PROFILE]
    with refused(*NOT_FOUND):
        await get(tenant, page_id)


@pytest.mark.system
async def test_the_console_lists_shows_pins_and_deletes(cluster: Cluster, tenant: Tenant) -> None:
    memory = await fact(tenant, "Likes <b>tea</b>")
    async with BrowserSession.of(cluster.addresses["http"]) as browser:
        await browser.show_key(tenant.api_key)
        profiles = await browser.page("pages")
        page = await browser.page("page", id=PROFILE)
        after_pin = await browser.client.get((await browser.submit(page, step="pin")).headers["location"])
        (stored,) = await listed(tenant, pinned_only=True)
        stored_page = await browser.page("page", id=stored.page_id)
        after_delete = await browser.client.get((await browser.submit(stored_page, step="delete")).headers["location"])

    assert "subject%3Aanna" in profiles.text or "subject:anna" in profiles.text
    assert "Likes &lt;b&gt;tea&lt;/b&gt;" in page.text
    assert memory.memory_id in page.text
    assert "The page is pinned." in after_pin.text
    assert "The page is deleted." in after_delete.text
    assert await listed(tenant, pinned_only=True) == []


async def test_a_change_of_a_page_is_in_the_event_log_without_its_words(tenant: Tenant) -> None:
    page = await make(tenant, subject_id="anna", title="A secret title")
    await update(tenant, page.page_id, "pinned", pinned=True)
    await tenant.curation.DeletePage(pb.DeletePageRequest(page_id=page.page_id))

    changes = await _changes(tenant)

    assert [change.event_type for change in changes] == ["page_created", "page_updated", "page_deleted"]
    assert {change.entity_id for change in changes} == {page.page_id}
    assert "secret" not in str(changes)


async def _changes(tenant: Tenant) -> Sequence[Any]:
    request = history_pb2.ListChangesRequest(filter={"entity_type": "page"})
    async with asyncio.timeout(30):
        while len(changes := (await tenant.history.ListChanges(request)).changes) < 3:
            await asyncio.sleep(0.05)
    return changes
