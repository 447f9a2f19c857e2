"""The Python client against a real cluster."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant
from fix_gateway import gateway_before
from fix_states import expire
from google.protobuf.field_mask_pb2 import FieldMask

import skein_client
from skein.auth.v1 import auth_pb2
from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2, snapshots_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_client import Client, ClientClosed, Memory, Message, RetryPolicy, sync
from skein_kit import errors
from skein_kit.calls.call import Call


@pytest.fixture
async def skein(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Client]:
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as client:
        yield client


def user_message(content: str) -> Message:
    return Message(role=skein_client.MESSAGE_ROLE_USER, content=content)


async def test_a_stored_memory_is_recalled(skein: Client) -> None:
    await skein.remember(
        ["Anna prefers green tea"], messages=[user_message("The kettle is broken")], session_id="kitchen"
    )

    response = await skein.recall("tea")

    assert response.hits[0].memory.content == "Anna prefers green tea"
    assert not response.incomplete


async def test_memories_may_be_dicts_with_plain_names_and_branches_have_some(skein: Client) -> None:
    await skein.remember({"content": "Anna prefers green tea", "scope": "global", "level": None})
    await skein.remember([{"content": "Tea is at four", "scope": "SCOPE_AGENT", "agent_id": "a"}, "Tea grows in Assam"])

    response = await skein.recall("tea", branches=["memories"])

    scopes = {hit.memory.content: hit.memory.scope for hit in response.hits}
    assert scopes["Anna prefers green tea"] == memory_pb2.SCOPE_GLOBAL
    assert scopes["Tea is at four"] == memory_pb2.SCOPE_AGENT
    with pytest.raises(ValueError, match="Scope is global, agent, user, session, not 'galaxy'"):
        await skein.remember({"content": "x", "scope": "galaxy"})
    with pytest.raises(ValueError, match="Branch is memories, messages, blocks, profile, window, page, not 'all'"):
        await skein.recall("tea", branches=["all"])  # type: ignore[list-item]  # What a type checker would refuse.


async def test_messages_may_be_dicts_with_plain_roles(skein: Client) -> None:
    turns: list[dict[str, str | None]] = [
        {"role": "system", "content": "Be brief", "name": None},
        {"role": "user", "content": "The kettle is broken", "name": "Anna"},
        {"role": "assistant", "content": "I will order one"},
    ]

    one = await skein.remember(messages=turns[0], session_id="kitchen")
    more = await skein.remember(messages=turns[1:], session_id="kitchen")

    messages = [*one.messages, *more.messages]
    assert [message.content for message in messages] == [turn["content"] for turn in turns]
    assert [message.role for message in messages] == [
        skein_client.MESSAGE_ROLE_SYSTEM,
        skein_client.MESSAGE_ROLE_USER,
        skein_client.MESSAGE_ROLE_ASSISTANT,
    ]
    assert messages[1].name == "Anna"


async def test_corrected_messages_are_sent_again_under_the_failed_calls_id(skein: Client) -> None:
    with pytest.raises(skein_client.InvalidArgument) as caught:
        await skein.remember("Buy a kettle", messages={"role": "user", "content": " "}, session_id="kitchen")

    await skein.remember(
        "Buy a kettle",
        messages={"role": "user", "content": "Kettle!"},
        session_id="kitchen",
        request_id=caught.value.request_id,
    )

    assert [memory.content async for memory in skein.list_memories()] == ["Buy a kettle"]


async def test_branches_and_filters_are_passed_on(skein: Client) -> None:
    await skein.remember([Memory(content="Anna drinks tea", tags=["drinks"]), "Tea grows in Assam"])

    response = await skein.recall(
        "tea",
        branches=[skein_client.BRANCH_MEMORIES],
        filter=skein_client.MemoryFilter(tags_any=["drinks"]),
        limit=5,
    )

    assert [hit.memory.content for hit in response.hits] == ["Anna drinks tea"]


async def test_a_search_is_by_words_by_meaning_or_by_both(cluster: Cluster, tenant: Tenant, skein: Client) -> None:
    await skein.remember(["We took the automobile", "My car is red"])

    def blocking() -> list[str]:
        with sync.Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as client:
            response = client.recall("automobiles", mode="keyword")
            packed = client.build_context("automobiles", mode="keyword")
            return [*(hit.memory.content for hit in response.hits), *(cited.item_id for cited in packed.citations)]

    by_words = (await skein.recall("automobiles", mode="keyword")).hits
    by_meaning = await skein.recall("automobiles", mode=recall_pb2.SEARCH_MODE_SEMANTIC)
    by_both = (await skein.recall("automobiles", min_relevance=0)).hits
    by_default = (await skein.recall("automobiles")).hits
    packed = await skein.build_context("automobiles", mode="keyword")
    again = await asyncio.to_thread(blocking)

    assert [hit.memory.content for hit in by_words] == ["We took the automobile"]
    assert by_meaning.formula.startswith("semantic-")
    assert {hit.memory.content: hit.has_query_words for hit in by_both} == {
        "We took the automobile": True,
        "My car is red": False,
    }
    assert by_default[0].memory.content == "We took the automobile"
    assert [cited.item_id for cited in packed.citations] == [by_words[0].item_id]
    assert again == ["We took the automobile", by_words[0].item_id]


async def test_similar_memories_are_found_by_words_by_meaning_or_by_both(
    cluster: Cluster, tenant: Tenant, skein: Client
) -> None:
    stored = (await skein.remember(["We took the automobile", "My car is red", "Automobiles rust"])).memories
    item_id = stored[0].memory_id

    def blocking() -> list[str]:
        with sync.Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as client:
            return [hit.memory.content for hit in client.find_similar(item_id, mode="keyword").hits]

    by_meaning = await skein.find_similar(item_id, mode="semantic")
    by_both = await skein.find_similar(item_id, limit=1)

    assert await asyncio.to_thread(blocking) == ["Automobiles rust"]
    assert by_meaning.formula.startswith("semantic-")
    assert {hit.memory.content for hit in by_meaning.hits} == {"My car is red", "Automobiles rust"}
    assert [hit.memory.content for hit in by_both.hits] == ["Automobiles rust"]


async def test_a_mode_that_there_is_not_is_refused_before_the_call(skein: Client) -> None:
    with pytest.raises(ValueError, match="hybrid, keyword, semantic, not 'lexical'"):
        await skein.recall("tea", mode="lexical")  # type: ignore[arg-type]  # There is no such mode.


async def test_memories_are_packed_for_a_prompt(cluster: Cluster, tenant: Tenant, skein: Client) -> None:
    await skein.remember("Anna drinks tea", messages=[{"role": "user", "content": "Hello"}], session_id="kitchen")

    packed = await skein.build_context("What does Anna drink?", token_budget=100, session_id="kitchen")
    with sync.Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as blocking:
        again = await asyncio.to_thread(
            blocking.build_context, "What does Anna drink?", token_budget=100, session_id="kitchen"
        )

    assert [citation.number for citation in packed.citations] == [1, 2]
    assert "Anna drinks tea" in packed.text
    assert again.text == packed.text


@pytest.mark.system
async def test_a_ledger_continues_its_text_and_begins_anew_when_it_has_expired(
    cluster: Cluster, tenant: Tenant, skein: Client
) -> None:
    await skein.remember("Anna drinks tea")
    context = skein.context_ledger("talk", token_budget=500)
    await context.turn("What does Anna drink?")
    first = context.text
    await skein.remember("Anna drinks no coffee")

    await context.turn("What does Anna drink?")
    continued, parts = context.text, list(context.parts)
    await expire(cluster, tenant, "context_ledgers")
    anew = await context.turn("What does Anna drink?")
    with sync.Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as blocking:
        of_sync = blocking.context_ledger("talk", token_budget=500)
        taken_over = await asyncio.to_thread(of_sync.turn, "What does Anna drink?")

    assert continued.startswith(first)
    assert "".join(parts) == continued
    assert len(parts) == 2
    assert anew.rebase
    assert context.text == anew.text == of_sync.text == taken_over.text


async def test_a_list_is_gone_through_page_by_page(skein: Client) -> None:
    for part in range(3):
        await skein.remember([f"note {part}.{number}" for number in range(5)])

    listed = [memory.content async for memory in skein.list_memories(page_size=4)]

    assert len(listed) == len(set(listed)) == 15
    assert listed[0].startswith("note 2")


async def test_a_session_is_read_in_both_directions(skein: Client) -> None:
    await skein.remember(messages=[user_message(str(number)) for number in range(5)], session_id="s")

    forth = [message.content async for message in skein.list_messages("s", page_size=2)]
    back = [message.content async for message in skein.list_messages("s", newest_first=True, page_size=2)]

    assert forth == ["0", "1", "2", "3", "4"]
    assert back == forth[::-1]


async def test_every_list_answers(skein: Client, cluster: Cluster) -> None:
    one = (await skein.remember(["a note"])).memories[0]
    await skein.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=tenancy_pb2.Agent(agent_id="a")))

    assert [link async for link in skein.list_links(one.memory_id)] == []
    assert [session async for session in skein.list_sessions()] == []
    assert [agent.agent_id async for agent in skein.list_agents()] == ["a"]
    assert len([tenant async for tenant in skein.list_tenants()]) == 1
    assert len([key async for key in skein.list_api_keys()]) == 1
    async with Client(endpoint=cluster.endpoint, api_key=cluster.operator_key) as operator:
        assert [organization async for organization in operator.list_organizations()]


async def test_an_error_has_the_class_of_its_kind_and_its_reason(skein: Client) -> None:
    with pytest.raises(skein_client.NotFound) as caught:
        await skein.memories.GetMemory(memory_pb2.GetMemoryRequest(memory_id=str(uuid.uuid4())))

    assert caught.value.reason == "MEMORY_NOT_FOUND"


async def test_a_broken_rule_names_the_field(skein: Client) -> None:
    with pytest.raises(skein_client.InvalidArgument) as caught:
        await skein.memories.CreateMemory(memory_pb2.CreateMemoryRequest(memory=Memory(content="tea", tags=["ok", ""])))

    assert [violation.field for violation in caught.value.violations] == ["memory.tags[1]"]


async def test_a_wrong_key_is_unauthenticated(cluster: Cluster) -> None:
    async with Client(endpoint=cluster.endpoint, api_key="nonsense") as stranger:
        with pytest.raises(skein_client.Unauthenticated) as caught:
            await stranger.auth.GetMe(auth_pb2.GetMeRequest())

    assert caught.value.reason == "CREDENTIAL_INVALID"


async def test_a_missing_permission_is_denied(skein: Client, cluster: Cluster) -> None:
    created = await skein.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="reader", permissions=["memory.read"])
    )
    async with Client(endpoint=cluster.endpoint, api_key=created.secret) as reader:
        with pytest.raises(skein_client.PermissionDenied) as caught:
            await reader.remember(["tea"])

    assert caught.value.metadata == {"permission": "memory.write"}


async def test_an_operator_acts_in_a_tenant(cluster: Cluster, tenant: Tenant) -> None:
    async with Client(
        endpoint=cluster.endpoint, api_key=cluster.operator_key, tenant_id=str(tenant.tenant_id)
    ) as operator:
        await operator.remember(["tea"])

        assert [memory.content async for memory in operator.list_memories()] == ["tea"]


async def test_a_cluster_that_does_not_answer_is_unavailable() -> None:
    retries = RetryPolicy(attempts=2, first_pause_seconds=0.01)

    async with Client(endpoint="127.0.0.1:9", api_key="key", retries=retries) as unreachable:
        with pytest.raises(skein_client.Unavailable):
            await unreachable.recall("tea")


@pytest.mark.system
async def test_a_read_survives_a_service_that_is_away_for_a_moment(cluster: Cluster, tenant: Tenant) -> None:
    away = iter([True, True, False])

    async def recall(_request: recall_pb2.RecallRequest, _call: Call) -> recall_pb2.RecallResponse:
        if next(away):
            raise errors.DatabaseUnavailable
        return recall_pb2.RecallResponse(model="m")

    async with gateway_before(cluster, tenant, {"Recall": recall}) as gateway:
        endpoint = gateway.host.addresses["gateway"]
        async with Client(endpoint=endpoint, api_key=tenant.api_key) as skein:
            response = await skein.recall("tea", branches=[skein_client.BRANCH_MEMORIES])

    assert response.model == "m"


async def test_a_deadline_ends_the_call(cluster: Cluster, tenant: Tenant) -> None:
    async def never(_request: recall_pb2.RecallRequest, _call: Call) -> recall_pb2.RecallResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with gateway_before(cluster, tenant, {"Recall": never}) as gateway:
        endpoint = gateway.host.addresses["gateway"]
        async with Client(endpoint=endpoint, api_key=tenant.api_key) as skein:
            with pytest.raises(skein_client.DeadlineExceeded):
                await skein.index.Recall(recall_pb2.RecallRequest(query="tea"), timeout=0.2)


async def test_a_client_that_is_not_open_says_what_to_do(cluster: Cluster, tenant: Tenant) -> None:
    client = Client(endpoint=cluster.endpoint, api_key=tenant.api_key)
    with pytest.raises(ClientClosed, match="async with"):
        await client.remember("tea")
    async with client:
        await client.remember("tea")
        memories = client.memories
    with pytest.raises(ClientClosed, match="async with"):
        await client.recall("tea")
    with pytest.raises(ClientClosed, match="with"):
        await memories.ListMemories(memory_pb2.ListMemoriesRequest())

    blocking = sync.Client(endpoint=cluster.endpoint, api_key=tenant.api_key)
    with pytest.raises(ClientClosed, match="`with"):
        blocking.remember("tea")
    with blocking:
        kept = blocking.memories
    with pytest.raises(ClientClosed, match="with"):
        kept.ListMemories(memory_pb2.ListMemoriesRequest())
    with pytest.raises(AttributeError, match="nothing"):
        _ = blocking.nothing


async def test_the_environment_leads_to_the_cluster(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    saved = {"endpoint": cluster.endpoint, "http": "", "api_key": tenant.api_key, "tenant_id": str(tenant.tenant_id)}
    (tmp_path / "credentials.json").write_text(json.dumps(saved))

    async with Client.from_environment({"SKEIN_DATA_DIR": str(tmp_path)}) as skein:
        me = await skein.auth.GetMe(auth_pb2.GetMeRequest())

    assert me.tenant_id == str(tenant.tenant_id)


async def test_the_synchronous_face_does_the_same(cluster: Cluster, tenant: Tenant) -> None:
    def use() -> tuple[list[str], list[str], str]:
        with sync.Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as skein:
            skein.remember(["Anna drinks tea", "Ben drinks coffee", "Cleo drinks milk"])
            found = [hit.memory.content for hit in skein.recall("tea").hits]
            listed = [memory.content for memory in skein.list_memories(page_size=2)]
            with pytest.raises(skein_client.NotFound) as caught:
                skein.memories.GetMemory(memory_pb2.GetMemoryRequest(memory_id=str(uuid.uuid4())))
            return found, listed, caught.value.reason

    # In a thread, because the cluster may live on this one's event loop.
    found, listed, reason = await asyncio.to_thread(use)

    assert found[0] == "Anna drinks tea"
    assert len(listed) == 3
    assert reason == "MEMORY_NOT_FOUND"


async def test_blocks_curation_and_snapshots_are_attributes(skein: Client) -> None:
    block = blocks_pb2.Block(label="persona", value="You are patient.")
    await skein.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="kitchen"))
    await skein.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="before the move"))

    prompt = await skein.blocks.CompileBlocks(blocks_pb2.CompileBlocksRequest(agent_id="kitchen"))
    conflicts = await skein.curation.ListConflicts(curation_pb2.ListConflictsRequest())

    assert "You are patient." in prompt.text
    assert not conflicts.conflicts


async def test_a_recall_and_a_context_are_as_of_a_time(tenant: Tenant, skein: Client) -> None:
    (memory,) = (await skein.remember("Ada lives in Paris")).memories
    known = datetime.now(UTC)
    changed = memory_pb2.Memory(memory_id=memory.memory_id, content="Ada lives in Rome")
    mask = FieldMask(paths=["content"])
    await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=changed, update_mask=mask))

    then = await skein.recall("where does Ada live?", as_of_time=known)
    zoneless = await skein.recall("where does Ada live?", as_of_time=known.replace(tzinfo=None))
    packed = await skein.build_context("where does Ada live?", as_of_time=known)

    assert [hit.memory.content for hit in then.hits] == ["Ada lives in Paris"]
    assert zoneless.hits == then.hits
    assert "Ada lives in Paris" in packed.text
