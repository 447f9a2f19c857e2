"""Recall reads the names in a query as the other names of the same entity, as far as the caller may see them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from fix_cluster import Tenant
from fix_expiry import expire
from fix_models import until
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import now

ALIAS = pb.QUERY_EXPANSION_REASON_ALIAS
KEYWORD, SEMANTIC, HYBRID = pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC, pb.SEARCH_MODE_HYBRID
NOTES = [
    "The workflow of GitHub Actions takes nine minutes.",
    "GHA got slower after the upgrade.",
    "GitHub was down on Monday.",
    "Her actions spoke for themselves.",
    "The dishwasher is broken.",
]


async def name(tenant: Tenant, text: str, **fields: Any) -> str:
    return await tenant.remember("an entity", title=text, type="entity", **fields)


async def resolve(tenant: Tenant, alias: str, canonical: str, **fields: Any) -> None:
    request = curation_pb2.ResolveEntityRequest(alias_memory_id=alias, canonical_memory_id=canonical, **fields)
    await tenant.curation.ResolveEntity(request)


async def noted(tenant: Tenant, **fields: Any) -> None:
    for note in NOTES:
        await tenant.remember(note, **fields)


async def named(tenant: Tenant, *, alias: dict[str, Any] | None = None, canonical: dict[str, Any] | None = None) -> str:
    """Make GHA an alias of GitHub Actions; return the alias's id."""
    alias_id = await name(tenant, "GHA", **(alias or {}))
    await resolve(tenant, alias_id, await name(tenant, "GitHub Actions", **(canonical or {})))
    return alias_id


def contents(response: pb.RecallResponse | pb.FindSimilarResponse) -> list[str]:
    return [hit.memory.content for hit in response.hits if hit.memory.type != "entity"]


def scores(response: pb.RecallResponse) -> list[tuple[str, float]]:
    return [(hit.item_id, hit.score) for hit in response.hits]


def expansions(response: pb.RecallResponse) -> list[tuple[str, str]]:
    assert {one.reason for one in response.query_expansions} <= {ALIAS}
    return [(one.written, one.read_as) for one in response.query_expansions]


@pytest.mark.system
async def test_a_name_finds_what_is_written_about_its_entity_under_any_name(tenant: Tenant) -> None:
    await noted(tenant)
    await named(tenant)

    by_alias = await tenant.search("gha", mode=KEYWORD)
    by_canonical = await tenant.search("What of GitHub Actions?", mode=KEYWORD)

    assert set(contents(by_alias)) == set(NOTES[:2])
    assert expansions(by_alias) == [("gha", "GitHub Actions")]
    assert set(contents(by_canonical)[:2]) == set(NOTES[:2])
    assert expansions(by_canonical) == [("GitHub Actions", "GHA")]
    assert all(0 < hit.score <= 1 and hit.has_query_words for hit in by_canonical.hits)


async def test_aliases_of_one_entity_find_each_other(tenant: Tenant) -> None:
    canonical_id = await name(tenant, "Maria Rossi")
    for alias in ("Nonna", "Mimi"):
        await resolve(tenant, await name(tenant, alias), canonical_id)
    await tenant.remember("Nonna cooks gnocchi.")

    response = await tenant.search("Mimi", mode=KEYWORD)

    assert contents(response) == ["Nonna cooks gnocchi."]
    assert expansions(response) == [("Mimi", "Maria Rossi"), ("Mimi", "Nonna")]


@pytest.mark.system
async def test_the_meaning_of_the_other_name_is_searched(tenant: Tenant) -> None:
    await tenant.remember("A container cluster runs our services.")
    await tenant.remember("The parrot is called Olga.")
    before = await tenant.search("ZKR upgrade", mode=SEMANTIC)
    await resolve(tenant, await name(tenant, "ZKR"), await name(tenant, "Kubernetes"))

    async def after() -> bool:
        response = await tenant.search("ZKR upgrade", mode=SEMANTIC)
        similarity = {hit.memory.content: hit.similarity for hit in response.hits}
        return similarity[content] > before_similarity + 0.1

    content = "A container cluster runs our services."
    before_similarity = {hit.memory.content: hit.similarity for hit in before.hits}[content]
    # An alias takes effect within a second.
    await until(after)


async def test_the_hybrid_search_ranks_both_names_before_other_items(tenant: Tenant) -> None:
    await noted(tenant)
    await named(tenant)

    assert set(contents(await tenant.search("How slow is GHA?"))[:2]) == set(NOTES[:2])
    assert set(contents(await tenant.search("speed of GitHub Actions"))[:2]) == set(NOTES[:2])


@pytest.mark.parametrize("fields", [{}, {"archive_alias": True}])
async def test_an_archived_alias_still_is_a_name(tenant: Tenant, fields: dict[str, Any]) -> None:
    await tenant.remember(NOTES[0])
    await resolve(tenant, await name(tenant, "GHA"), await name(tenant, "GitHub Actions"), **fields)

    assert contents(await tenant.search("GHA", mode=KEYWORD)) == [NOTES[0]]


async def test_names_are_titles_else_keys_else_short_contents(tenant: Tenant) -> None:
    by_key = await tenant.remember("about something", key="zkr", type="fact", subject_id="s")
    by_content = await tenant.remember("GHA")
    long = await tenant.remember("the robot " * 20, type="entity")
    canonical_id = await name(tenant, "GitHub Actions")
    for alias_id in (by_key, by_content, long):
        await resolve(tenant, alias_id, canonical_id)

    assert expansions(await tenant.search("zkr")) == [("zkr", "GitHub Actions"), ("zkr", "GHA")]
    assert expansions(await tenant.search("the robot")) == []


async def test_a_name_that_is_no_longer_shown_expands_no_query(tenant: Tenant) -> None:
    await noted(tenant)
    alias_id = await named(tenant)
    assert expansions(await tenant.search("GHA")) != []

    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=alias_id))

    response = await tenant.search("GHA", mode=KEYWORD)
    assert (expansions(response), contents(response)) == ([], [NOTES[1]])


async def retitle(tenant: Tenant, memory_id: str, title: str) -> None:
    memory = memory_pb2.Memory(memory_id=memory_id, title=title)
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=["title"]))
    )


async def hide(tenant: Tenant, memory_id: str, state: str) -> None:
    """Make a memory one that recall does not show."""
    if state == "superseded":
        newer = await tenant.remember("another one")
        link = memory_pb2.Link(from_memory_id=newer, to_memory_id=memory_id, relation="supersedes")
        await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))
        return
    memory = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))).memory
    if state == "expired":
        await expire(tenant.snapshots, memory)
        return
    memory.valid_to_time.FromDatetime(now() - timedelta(days=1))
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=["valid_to_time"]))
    )


@pytest.mark.parametrize("mode", [KEYWORD, HYBRID])
async def test_an_alias_of_a_sentence_finds_the_sentence(tenant: Tenant, mode: pb.SearchMode) -> None:
    sentence = "Builds of the desktop client and of every service run on one small rented machine in Oslo."
    await noted(tenant)
    await resolve(tenant, await name(tenant, "Wotan", tags=["a"]), await tenant.remember(sentence, tags=["b"]))

    async def by_words(query: str, **fields: Any) -> list[str]:
        response = await tenant.search(query, mode=mode, **fields)
        return [hit.memory.content for hit in response.hits if hit.has_query_words]

    async def found() -> bool:
        return sentence in await by_words("is Wotan up?")

    await until(found)
    assert sentence not in await by_words("is Wotan up?", filter=memory_pb2.MemoryFilter(tags_any=["a"]))
    assert sentence not in await by_words("is Thor up?")


@pytest.mark.parametrize("state", ["invalid", "expired", "superseded"])
@pytest.mark.parametrize("part", ["alias", "canonical"])
async def test_an_invalid_expired_or_superseded_name_expands_no_query(tenant: Tenant, part: str, state: str) -> None:
    ids = {"alias": await name(tenant, "GHA"), "canonical": await name(tenant, "GitHub Actions")}
    await resolve(tenant, ids["alias"], ids["canonical"])
    assert expansions(await tenant.search("GHA")) != []

    await hide(tenant, ids[part], state)

    for query in ("GHA", "GitHub Actions"):
        assert expansions(await tenant.search(query, show_superseded=True)) == []


def filters(agent: str) -> list[memory_pb2.MemoryFilter]:
    """Each keeps one agent to itself."""
    return [
        memory_pb2.MemoryFilter(visible_to=memory_pb2.ScopeContext(agent_id=agent)),
        memory_pb2.MemoryFilter(agent_id=agent),
        memory_pb2.MemoryFilter(where=f'agent_id = "{agent}"'),
    ]


@pytest.mark.system
@pytest.mark.parametrize("part", ["alias", "canonical"])
async def test_a_private_name_of_one_agent_changes_nothing_for_another(tenant: Tenant, part: str) -> None:
    await noted(tenant, agent_id="b", scope=memory_pb2.SCOPE_AGENT)
    scoped = memory_pb2.MemoryFilter(scopes=[memory_pb2.SCOPE_GLOBAL])
    before = [await tenant.search("GHA", min_relevance=0, filter=one) for one in [*filters("b"), scoped]]
    own = {"agent_id": "a", "scope": memory_pb2.SCOPE_AGENT}
    await named(tenant, **{part: own})

    async def seen() -> bool:
        return bool(expansions(await tenant.search("GHA", filter=filters("a")[0])))

    await until(seen)
    after = [await tenant.search("GHA", min_relevance=0, filter=one) for one in [*filters("b"), scoped]]
    assert [expansions(response) for response in after] == [[]] * 4
    assert [contents(response) for response in after] == [contents(response) for response in before]
    assert expansions(await tenant.search("GHA")) == [("GHA", "GitHub Actions")]


@pytest.mark.system
async def test_a_private_alias_changes_no_score_for_another_agent(tenant: Tenant) -> None:
    await noted(tenant)
    alias_id = await name(tenant, "GHA", agent_id="a", scope=memory_pb2.SCOPE_AGENT)
    canonical_id = await name(tenant, "GitHub Actions")
    before = [await tenant.search("GitHub Actions", filter=one) for one in filters("b")]
    await resolve(tenant, alias_id, canonical_id)

    async def seen() -> bool:
        return bool(expansions(await tenant.search("GitHub Actions", filter=filters("a")[0])))

    await until(seen)
    after = [await tenant.search("GitHub Actions", filter=one) for one in filters("b")]
    for later, earlier in zip(after, before, strict=True):
        # The vector cache, which may be loaded in between, gives cosines within 1e-5 of the stored ones.
        assert dict(scores(later)) == pytest.approx(dict(scores(earlier)), abs=1e-5)
    assert canonical_id in dict(scores(before[0]))


@pytest.mark.system
async def test_a_longer_private_name_does_not_hide_a_global_one(tenant: Tenant) -> None:
    await named(tenant)
    own: dict[str, Any] = {"agent_id": "a", "scope": memory_pb2.SCOPE_AGENT}
    await resolve(tenant, await name(tenant, "GHA runner", **own), await name(tenant, "Build machine", **own))

    async def seen() -> bool:
        response = await tenant.search("GHA runner", filter=filters("a")[0])
        return expansions(response) == [("GHA runner", "Build machine")]

    await until(seen)
    for one in filters("b"):
        assert expansions(await tenant.search("GHA runner", filter=one)) == [("GHA", "GitHub Actions")]


@pytest.mark.system
async def test_a_global_name_serves_every_agent(tenant: Tenant) -> None:
    await named(tenant)

    for one in [*filters("b"), memory_pb2.MemoryFilter(types=["note"], subject_id="s")]:
        assert expansions(await tenant.search("GHA", filter=one)) == [("GHA", "GitHub Actions")]


async def test_a_changed_title_is_no_longer_read(tenant: Tenant) -> None:
    alias_id = await named(tenant)
    assert expansions(await tenant.search("GHA")) != []

    await retitle(tenant, alias_id, "CI")

    assert expansions(await tenant.search("GHA")) == []
    assert expansions(await tenant.search("GitHub Actions")) == []


@pytest.mark.system
async def test_another_tenant_does_not_know_the_names(tenant: Tenant, other_tenant: Tenant) -> None:
    await named(tenant)
    await noted(other_tenant)

    response = await other_tenant.search("GHA", mode=KEYWORD)

    assert (expansions(response), contents(response)) == ([], [NOTES[1]])


@pytest.mark.system
async def test_a_changed_or_deleted_alias_takes_effect_within_a_second(tenant: Tenant) -> None:
    alias_id = await named(tenant)
    assert expansions(await tenant.search("GHA")) != []

    await tenant.curation.DeleteAlias(curation_pb2.DeleteAliasRequest(alias_memory_id=alias_id))

    async def gone() -> bool:
        return not expansions(await tenant.search("GHA"))

    await until(gone)


@pytest.mark.system
async def test_similar_items_are_found_by_their_own_words(tenant: Tenant) -> None:
    await noted(tenant)
    await named(tenant)
    item_id = await tenant.remember("About GHA.")

    response = await tenant.recall.FindSimilar(pb.FindSimilarRequest(item_id=item_id, mode=KEYWORD))

    assert contents(response) == [NOTES[1]]


async def test_the_gateway_tells_what_a_query_was_read_as(tenant: Tenant) -> None:
    await named(tenant)

    response = await tenant.gateway.Recall(gateway_pb2.RecallRequest(query="GHA"))

    assert [(one.written, one.read_as) for one in response.query_expansions] == [("GHA", "GitHub Actions")]
