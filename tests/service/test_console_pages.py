"""What the console's pages show and do: search, graph, conflicts, changes, policy, keys, and what a role may not do."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession, SeededData, filled, furnished
from fix_database import all_told
from fix_web import PASSWORD, new_person

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import members_pb2, subjects_pb2
from skein_gateway.console.policy import inputs


@pytest.fixture
async def seeded(tenant: Tenant) -> SeededData:
    return await furnished(tenant)


async def browsing_as(cluster: Cluster, tenant: Tenant, role: members_pb2.Role, web: BrowserSession) -> None:
    """Replace the login of the browser by a person with a role."""
    person = await new_person(cluster, tenant, role=role)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)


@pytest.mark.system
async def test_the_overview_counts_and_says_what_is_new(web: BrowserSession, seeded: SeededData) -> None:
    page = await web.page()

    assert re.search(r"<dt>memories</dt>\s*<dd><a[^>]*>22</a>", page.text)
    assert re.search(r"<dt>open conflicts</dt>\s*<dd><a[^>]*>2</a>", page.text)
    assert seeded.memory_ids["office"] in page.text
    assert page.text.count("serving") == 8


async def test_an_empty_tenant_shows_how_to_begin(web: BrowserSession) -> None:
    page = await web.page()

    assert "No memories yet" in page.text
    assert f'href="/console/{web.tenant_id}/start">First steps</a></p>' in page.text


@pytest.mark.system
async def test_search_says_what_each_score_is_made_of(web: BrowserSession, seeded: SeededData) -> None:
    page = await web.page("search", q="what does Anna drink?")

    first = page.text.split('<li class="hit card">')[1]
    score = float(re.findall(r'<strong class="score">([\d.]+)<', first)[0])
    widths = [float(width) for width in re.findall(r'<rect class="s\d" x="[\d.]+" width="([\d.]+)"', first)]
    gives = [float(share) for share in re.findall(r"<strong>([\d.]+)</strong>", first)]
    assert seeded.memory_ids["tea"] in first
    assert sum(widths) / 100 == pytest.approx(score, abs=0.02)
    assert sum(gives) == pytest.approx(score, abs=0.01)
    assert "BM25 over the words" in first


@pytest.mark.system
async def test_search_is_narrowed_as_it_is_asked(web: BrowserSession, seeded: SeededData) -> None:
    page = await web.page("search", q="milk", memories="on", subject="clara")

    assert seeded.memory_ids["cake"] in page.text
    assert seeded.memory_ids["allergy"] not in page.text
    assert "messages:" not in page.text


@pytest.mark.system
async def test_search_is_by_words_or_by_meaning_alone_as_it_is_asked(web: BrowserSession, seeded: SeededData) -> None:
    words = await web.page("search", q="milk", mode="keyword", memories="on")
    none = await web.page("search", q="zeppelin", mode="keyword")
    meaning = await web.page("search", q="zeppelin", mode="semantic")

    assert seeded.memory_ids["cake"] in words.text
    assert "Keyword search only: no model was used." in words.text
    assert '<option value="keyword" selected>' in words.text
    assert "Nothing was found." in none.text
    assert "Formula semantic-" in meaning.text
    assert meaning.text.count('<li class="hit card">') > 1
    assert "BM25 over the words" not in meaning.text


@pytest.mark.system
@pytest.mark.usefixtures("seeded")
async def test_search_tells_what_a_typo_was_read_as(web: BrowserSession) -> None:
    page = await web.page("search", q="mlik", mode="keyword")

    assert "Read <bdi>mlik</bdi> as <bdi>milk</bdi>." in page.text


@pytest.mark.system
async def test_search_names_the_condition_that_left_nothing(web: BrowserSession, seeded: SeededData) -> None:
    assert seeded
    page = await web.page("search", q="milk", type="journal")

    assert "The filter removed every hit: types" in page.text


async def test_lists_go_on_from_page_to_page(web: BrowserSession, tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content=f"memory number {number}") for number in range(60)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))

    seen: list[str] = []
    page = await web.page("memories")
    for _ in range(5):
        seen += re.findall(r"memory number \d+", page.text)
        following = re.findall(r'rel="next" href="([^"]+)"', page.text)
        if not following:
            break
        page = await web.client.get(following[0].replace("&amp;", "&"))

    assert (len(seen), len(set(seen))) == (60, 60)


@pytest.mark.system
async def test_a_memory_shows_all_there_is_about_it(web: BrowserSession, seeded: SeededData) -> None:
    office = (await web.page("memory", id=seeded.memory_ids["office"])).text
    allergy = (await web.page("memory", id=seeded.memory_ids["allergy"])).text

    assert "Hardturmstrasse 17" in office
    assert "Hardturmstrasse 11" in office
    assert "fact updated: content" in office
    assert "Ben cycles to work" in office
    assert "&#34;casein&#34;" in allergy
    assert re.search(r"Confidence <strong>[\d.]+</strong>", allergy)


@pytest.mark.system
async def test_looking_at_links_does_not_count_as_use_of_what_is_linked(
    web: BrowserSession, seeded: SeededData
) -> None:
    await web.page("memory", id=seeded.memory_ids["tea"])
    await web.page("graph", id=seeded.memory_ids["tea"])

    async with asyncio.timeout(30):
        while "GetMemory" not in (await web.page("memory", id=seeded.memory_ids["tea"])).text:
            await asyncio.sleep(0.05)
    page = (await web.page("memories", order="importance desc")).text
    assert seeded.memory_ids["oat"] in page
    assert "0 times" in (await web.page("memory", id=seeded.memory_ids["oat"])).text


@pytest.mark.system
async def test_a_deleted_memory_says_so(web: BrowserSession, tenant: Tenant, seeded: SeededData) -> None:
    memory_id = seeded.memory_ids["window"]
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))

    assert "deleted <time" in (await web.page("memory", id=memory_id)).text
    assert memory_id not in (await web.page("memories")).text
    assert memory_id in (await web.page("memories", deleted="on")).text


async def test_a_secret_is_not_shown(web: BrowserSession, tenant: Tenant) -> None:
    made = await tenant.memory.CreateMemory(
        memory_pb2.CreateMemoryRequest(
            memory=memory_pb2.Memory(
                type="knowledge_vault", title="router", content="of the router", secret_value="hush"
            )
        )
    )

    page = await web.page("memory", id=made.memory.memory_id)

    assert ("••••" in page.text, "hush" in page.text) == (True, False)


@pytest.mark.system
async def test_a_graph_is_drawn_alike_each_time_and_told_as_a_list(web: BrowserSession, seeded: SeededData) -> None:
    fields = {"id": seeded.memory_ids["allergy"], "radius": "2"}

    page, again = await web.page("graph", **fields), await web.page("graph", **fields)

    def drawing(text: str) -> str:
        return text[text.index('<svg class="graph"') : text.index("List of links")]

    assert drawing(page.text) == drawing(again.text)
    assert page.text.count("<circle ") == page.text.count('class="node')
    list_text = page.text[page.text.index("List of links") :]
    for name in ("oat", "doctor", "cake", "tea", "birthday"):
        assert seeded.memory_ids[name] in drawing(page.text)
        assert seeded.memory_ids[name] in list_text


@pytest.mark.system
async def test_a_graph_is_filtered_by_relation_and_radius(web: BrowserSession, seeded: SeededData) -> None:
    one = await web.page("graph", id=seeded.memory_ids["allergy"], radius="1")
    supports = await web.page("graph", id=seeded.memory_ids["allergy"], relation="supports", radius="1")
    nothing = await web.page("graph", id=seeded.memory_ids["allergy"], relation="nothing_of_ours")

    assert seeded.memory_ids["tea"] not in one.text
    assert "<title>causes</title>" in one.text
    assert "<title>causes</title>" not in supports.text
    assert "No links of the relation “nothing_of_ours”" in nothing.text


@pytest.mark.system
async def test_a_graph_of_many_is_cut_and_says_so(web: BrowserSession, tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content=f"{number}") for number in range(100)]
    made = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    ids = [memory.memory_id for memory in made.memories]
    links = [memory_pb2.Link(from_memory_id=ids[0], to_memory_id=other) for other in ids[1:]]
    await tenant.links.BatchCreateLinks(memory_pb2.BatchCreateLinksRequest(links=links))

    page = await web.page("graph", id=ids[0])

    assert page.text.count("<circle ") == 80
    assert "more lie within 2 links" in page.text


@pytest.mark.system
async def test_a_conflict_is_settled_by_a_form(web: BrowserSession, tenant: Tenant, seeded: SeededData) -> None:
    page = await web.page("conflicts")
    assert "<mark>router</mark>" in page.text

    form = filled(page, "resolve")
    url = form.pop("")
    answer = await web.send(url, {**form, "a": seeded.a_id, "b": seeded.b_id, "decision": "b", "note": "<i>seen</i>"})

    after = await web.client.get(answer.headers["location"])
    settled = await web.page("conflicts", settled="on")
    response = await tenant.curation.ListConflictResolutions(curation_pb2.ListConflictResolutionsRequest())
    assert "The conflict is resolved." in after.text
    assert "Same key" not in after.text
    assert "&lt;i&gt;seen&lt;/i&gt;" in settled.text
    assert [one.canonical_memory_id for one in response.resolutions] == [seeded.b_id]


@pytest.mark.system
async def test_an_impossible_resolution_changes_nothing(web: BrowserSession, seeded: SeededData) -> None:
    assert seeded
    page = await web.page("conflicts")

    for changed, status in (
        ({"decision": "neither"}, 400),
        ({"decision": ""}, 400),
        ({"decision": "a", "a": "", "b": ""}, 400),
        ({"decision": "a", "a": "no such memory"}, 404),
        ({"decision": "a", "note": "x" * 4001}, 400),
        ({"decision": "both", "revision": "99"}, 409),
    ):
        answer = await web.submit(page, "resolve", **changed)

        assert (answer.status_code, 'role="alert"' in answer.text) == (status, True), changed
    assert (await web.page("conflicts")).text.count('class="card conflict"') == 2


@pytest.mark.system
async def test_changes_come_newest_first_and_then_live(
    cluster: Cluster, web: BrowserSession, tenant: Tenant, seeded: SeededData
) -> None:
    assert seeded
    await all_told(cluster.postgres)
    page = await web.page("changes", kind="memory")
    first = re.findall(r'<span class="chip">(\w+)</span>', page.text)
    links = await web.page("changes", kind="link")
    live = re.findall(r'data-live="([^"]+)"', page.text)[0].replace("&amp;", "&")

    async with asyncio.timeout(60), web.client.stream("GET", live) as stream:
        made = await tenant.memory.CreateMemory(
            memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="never in a change"))
        )
        received_events: list[str] = []
        async for line in stream.aiter_lines():
            received_events.append(line)
            if line.startswith("data: ") and "event" in json.loads(line[6:]):
                break

    assert first[0] == "memory_updated"
    assert "Ben&#39;s office" in page.text
    assert re.search(r"Last train from Milan</bdi></a> → <a [^>]+><bdi>Last train from Milan", links.text)
    assert set(first) == {"memory_updated", "memory_created"}
    assert json.loads(received_events[-1][6:])["url"].endswith(made.memory.memory_id)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["cache-control"] == "no-store"
    # The log has no content: the name is read with the rights of the browser's caller.
    assert json.loads(received_events[-1][6:])["entity"] == "never in a change"


@pytest.mark.system
async def test_a_browser_that_was_cut_off_resumes_where_it_was(web: BrowserSession, tenant: Tenant) -> None:
    live = re.findall(r'data-live="([^"]+)"', (await web.page("changes")).text)[0].replace("&amp;", "&")
    made = [
        (
            await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=text)))
        ).memory.memory_id
        for text in ("one", "two")
    ]

    async def next_events(headers: dict[str, str], count: int) -> list[tuple[str, str]]:
        results, last = [], ""
        async with asyncio.timeout(60), web.client.stream("GET", live, headers=headers) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("id: "):
                    last = line[4:]
                if line.startswith("data: ") and "entity" in json.loads(line[6:]):
                    results.append((last, json.loads(line[6:])["url"].partition("id=")[2]))
                    if len(results) == count:
                        break
        return results

    both = await next_events({}, 2)
    rest = await next_events({"last-event-id": both[0][0]}, 1)

    assert [entity for _, entity in both] == made
    assert rest == both[1:]


async def test_an_anonymous_browser_gets_no_events_and_is_told_not_to_reconnect(web: BrowserSession) -> None:
    web.client.cookies.clear()

    assert (await web.page("changes/live")).status_code == 204


async def test_the_policys_form_holds_every_field_of_the_policy() -> None:
    fields = {field.name for field in subjects_pb2.Policy.DESCRIPTOR.fields}

    assert {one.name for _, group in inputs() for one in group} == fields - {"revision", "update_time"}


@pytest.mark.system
async def test_a_policy_is_changed_by_what_differs(web: BrowserSession, tenant: Tenant) -> None:
    changed = {"memory_types": "fact\nnote\n\n fact", "audit_query_text": "on", "recall_weights-lexical": "0.75"}

    answer = await web.submit(await web.page("policy"), "save", **changed)

    policy = (await tenant.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())).policy
    assert "done=saved" in answer.headers["location"]
    assert (list(policy.memory_types), policy.audit_query_text) == (["fact", "note"], True)
    assert dict(policy.recall_weights) == {"lexical": 0.75}
    assert (policy.decay_days, policy.private_mode) == (30, True)
    again = await web.submit(await web.page("policy"), "save")
    assert "done=unchanged" in again.headers["location"]


async def test_a_policy_that_changed_meanwhile_is_not_overwritten(web: BrowserSession, tenant: Tenant) -> None:
    opened = await web.page("policy")
    await web.submit(await web.page("policy"), "save", decay_days="60")

    late = await web.submit(opened, "save", decay_days="90", retention_days="400")

    policy = (await tenant.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())).policy
    assert (late.status_code, policy.decay_days, policy.retention_days) == (409, 60, 3650)
    assert 'value="400"' in late.text


@pytest.mark.system
async def test_a_policy_that_cannot_be_is_refused_in_words(web: BrowserSession, tenant: Tenant) -> None:
    before = (await tenant.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())).policy
    page = await web.page("policy")

    for name, value in (
        ("decay_days", "many"),
        ("decay_days", "0"),
        ("decay_days", "99999999999999999999"),
        ("min_link_suggestion_score", "nan"),
        ("min_link_suggestion_score", "2"),
        ("recall_weights-dense", "-1"),
        ("search_language", "klingon"),
        ("importance_formula", "77"),
        ("memory_types", "x" * 64),
    ):
        answer = await web.submit(page, "save", **{name: value})

        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), name
    assert (await tenant.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())).policy == before


@pytest.mark.system
async def test_a_key_is_shown_once_and_works(cluster: Cluster, web: BrowserSession) -> None:
    form = filled(await web.page("keys"), "create")
    url = form.pop("")
    form |= {"display_name": "<b>reader</b>", "permission-keys.read": "on"}

    made = await web.send(url, form)
    again = await web.send(url, form)

    secret = re.findall(r'value="(skein_\w+)"', made.text)[0]
    me = await cluster.with_key(secret).auth.GetMe(auth_pb2.GetMeRequest())
    assert set(me.permissions) == {
        "memory.read", "memory.write", "recall.read", "session.read", "session.write", "keys.read",
    }  # fmt: skip
    assert "&lt;b&gt;reader&lt;/b&gt;" in made.text
    assert ("This form was already submitted" in again.text, secret in again.text) == (True, False)
    assert secret not in (await web.page("keys")).text
    assert (await web.page("keys")).text.count("&lt;b&gt;reader") == 2


@pytest.mark.system
async def test_a_key_that_cannot_be_is_refused_in_words(web: BrowserSession, tenant: Tenant) -> None:
    form = {name: value for name, value in filled(await web.page("keys"), "create").items() if value != "on"}
    url = form.pop("")

    for changed in (
        {"display_name": "", "permission-memory.read": "on"},
        {"display_name": "x" * 256, "permission-memory.read": "on"},
        {"display_name": "k"},
    ):
        answer = await web.send(url, {**form, **changed})

        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)
    assert len((await tenant.auth.ListApiKeys(auth_pb2.ListApiKeysRequest())).api_keys) == 1


async def test_a_key_is_revoked_by_a_form(web: BrowserSession, tenant: Tenant) -> None:
    made = (await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="old"))).api_key

    answer = await web.submit(await web.page("keys"), "revoke", api_key_id=made.api_key_id)

    page = await web.client.get(answer.headers["location"])
    assert "The key is revoked" in page.text
    assert "revoked <time" in page.text


@pytest.mark.system
async def test_a_viewer_is_offered_nothing_that_changes_anything(
    cluster: Cluster, web: BrowserSession, tenant: Tenant, seeded: SeededData
) -> None:
    assert seeded
    tokens = {name: filled(await web.page(name), step) for name, step in (("conflicts", "resolve"), ("policy", "save"))}
    await browsing_as(cluster, tenant, members_pb2.ROLE_VIEWER, web)

    conflicts, policy, keys = await web.page("conflicts"), await web.page("policy"), await web.page("keys")

    assert 'value="resolve"' not in conflicts.text
    assert "need the permission memory.write" in conflicts.text
    assert "disabled" in policy.text
    assert "Save the policy" not in policy.text
    assert ">API keys</a>" not in (await web.page()).text
    assert (keys.status_code, "need the permission keys.read" in keys.text) == (403, True)
    assert tokens["policy"]["form_token"] not in policy.text


@pytest.mark.system
async def test_a_form_that_a_role_may_not_send_is_refused(
    cluster: Cluster, web: BrowserSession, tenant: Tenant, seeded: SeededData
) -> None:
    await browsing_as(cluster, tenant, members_pb2.ROLE_VIEWER, web)
    # A form of the page that is offered to a viewer as well; its token is for this address.
    policy = filled(await web.page("policy"), "save")
    url = policy.pop("")

    answer = await web.send(url, {**policy, "decay_days": "99"})

    assert seeded
    assert (answer.status_code, "permission tenant.write" in answer.text) == (403, True)


async def test_a_key_that_may_little_sees_little(web: BrowserSession, tenant: Tenant) -> None:
    made = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="sessions", permissions=["session.read"])
    )
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session_pb2.Session(title="a talk")))
    web.client.cookies.clear()
    page = await web.show_key(made.secret)

    assert ("a talk" in page.text, page.status_code) == (True, 200)
    assert re.findall(r"<li><a href=[^>]*>(\w[\w ]*)</a>", page.text) == ["Overview", "First steps", "Sessions"]
    assert "need the permission memory.read" in (await web.page("memories")).text
    assert (await web.page("memories")).status_code == 403


@pytest.mark.system
async def test_roles_see_the_access_log_only_if_they_may(
    cluster: Cluster, web: BrowserSession, tenant: Tenant, seeded: SeededData
) -> None:
    await browsing_as(cluster, tenant, members_pb2.ROLE_MEMBER, web)

    page = await web.page("memory", id=seeded.memory_ids["tea"])

    assert "You need the permission audit.read to see the access log" in page.text


@pytest.mark.system
async def test_the_lineage_shows_what_a_memory_was_made_of(web: BrowserSession, tenant: Tenant) -> None:
    origin = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_DOCUMENT, name="Letter <of> the clinic")
    first = memory_pb2.Memory(content="Anna is allergic to nuts.", title="Allergy", derived_from=[origin])
    fact = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=first))).memory
    source = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MEMORY, id=fact.memory_id)
    second = memory_pb2.Memory(content="No nuts for Anna.", derived_from=[source])
    derived = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=second))).memory
    for name, trust in (("letter <of> the clinic", 0.9), (fact.created_by, 1.0)):
        await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source=name, trust=trust))

    page = await web.page("lineage", id=derived.memory_id)
    memory = await web.page("memory", id=derived.memory_id)

    assert page.text.count("<circle") == 3
    assert page.text.count("marker-end=") == 2
    assert "Letter &lt;of&gt; the clinic" in page.text
    assert page.text.count("trust 0.90") > 2
    assert f"lineage?id={derived.memory_id}" in memory.text
