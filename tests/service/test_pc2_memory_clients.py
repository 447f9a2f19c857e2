"""Port 7140 as the goal manager, the knowledge base and the session agent use it, in the fields that they read."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fix_catalogue import over
from fix_cluster import Tenant
from fix_pc2 import Assistant
from fix_pc2_memory import Client, ids, memory_client

from skein.memory.v1 import memory_pb2 as pb
from skein.session.v1 import session_pb2

ACTIVE = "status:active OR status:pending OR status:planning"


@pytest.fixture
async def client(assistant: Assistant) -> AsyncIterator[Client]:
    async with memory_client(assistant) as result:
        yield result


# The goal manager.


@pytest.mark.system
async def test_goals_and_their_tasks_survive_a_restart_of_their_manager(client: Client) -> None:
    goal_ids = {
        status: await client.add(
            f"Goal that is {status}",
            memory_type="goal",
            memory_tier="long",
            importance=importance,
            metadata={"description": f"a {status} goal", "status": status, "user_id": "ana", "priority": 3},
        )
        for status, importance in (("active", 0.4), ("pending", 0.9), ("planning", 0.6), ("completed", 1.0))
    }
    for number in (1, 2):
        await client.add(
            f"Task {number}",
            memory_type="task",
            metadata={"status": "pending", "description": f"task {number}", "sequence": number},
            parent_id=goal_ids["active"],
        )
    await client.request(
        "update_memory", memory_id=goal_ids["planning"], update_data={"metadata": {"status": "active"}}
    )

    # The manager restarts: these replies are all its data.
    result = await client.request("search_memory", query=ACTIVE, memory_type="goal", limit=100)
    tasks = await client.request("get_children", parent_id=goal_ids["active"], limit=50)
    goal = (await client.request("get_memory", memory_id=goal_ids["planning"]))["memory"]

    # The most important first.
    assert ids(result["results"]) == [goal_ids["pending"], goal_ids["planning"], goal_ids["active"]]
    assert result["results"][2]["metadata"] == {
        "description": "a active goal",
        "status": "active",
        "user_id": "ana",
        "priority": 3,
    }
    assert [task["content"] for task in tasks["results"]] == ["Task 2", "Task 1"]
    assert {task["memory_type"] for task in tasks["results"]} == {"task"}
    assert tasks["children"] == tasks["results"] == tasks["memories"]
    assert goal["metadata"]["status"] == "active"
    assert goal["metadata"]["description"] == "a planning goal"


async def test_goals_are_listed_by_one_status_and_by_type_alone(client: Client) -> None:
    completed_goal = await client.add("Paint the boat", memory_type="goal", metadata={"status": "completed"})
    waits = await client.add("Plant a tree", memory_type="goal", metadata={"status": "in progress"})
    await client.add("Trees need water", memory_type="note", metadata={"status": "completed"})

    async def listed(query: str) -> list[str]:
        return ids((await client.request("search_memory", query=query, memory_type="goal", limit=100))["results"])

    assert await listed("status:completed") == [completed_goal]
    assert await listed('status:"in progress"') == [waits]
    assert await listed("status:failed") == []
    assert await listed("") == [waits, completed_goal]
    # search_goals looks for words.
    assert await listed("tree") == [waits]


async def test_a_task_keeps_an_object_as_its_content(client: Client, tenant: Tenant) -> None:
    content = {"description": "Buy a brush", "status": "pending", "steps": ["shop", "pay"]}

    task = await client.add(content, memory_type="task", metadata={"n": 1})
    await client.request("update_memory", memory_id=task, update_data={"metadata": {"status": "done"}})

    memory = (await client.request("get_memory", memory_id=task))["memory"]
    assert (memory["content"], memory["metadata"]) == (content, {"n": 1, "status": "done"})
    assert ids((await client.request("search_memory", query="brush", memory_type="task"))["results"]) == [task]
    await client.request("update_memory", memory_id=task, update_data={"content": {"description": "Sell it"}})
    memory = (await client.request("get_memory", memory_id=task))["memory"]
    assert (memory["content"], memory["metadata"]) == ({"description": "Sell it"}, {"n": 1, "status": "done"})
    stored = (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=task))).memory
    assert (stored.type, stored.content) == ("task", "Sell it")


# The knowledge base.


async def fact(client: Client, topic: str, content: Any, **data: Any) -> str:
    """Add a fact as the knowledge base does."""
    return await client.add(
        content,
        memory_type="knowledge_fact",
        memory_tier="long",
        metadata={"topic": topic, "source": "user"},
        tags=[topic.lower()],
        **data,
    )


async def fact_of(client: Client, topic: str) -> Any:
    """Find a fact as the knowledge base does: by meaning, then by words; None is "Fact not found"."""
    results = (await client.request("semantic_search", query=topic, k=1))["results"]
    if not results:
        reply = await client.request("search_memory", query=topic, memory_type="knowledge_fact", limit=1)
        results = reply["results"]
    return results[0] if results else None


async def test_a_fact_is_found_by_its_topic_listed_and_updated(client: Client) -> None:
    sugar = await fact(client, "Photosynthesis", "Plants turn light into sugar")
    paris = await fact(client, "Capital of France", {"answer": "Paris", "since": 987})

    assert (await fact_of(client, "Photosynthesis"))["memory_id"] == sugar
    result = await fact_of(client, "Capital of France")
    assert (result["memory_id"], result["content"]) == (paris, {"answer": "Paris", "since": 987})
    await client.request("update_memory", memory_id=paris, update_data={"content": "Paris, on the Seine"})
    assert (await fact_of(client, "capital of france"))["content"] == "Paris, on the Seine"
    listed = await client.request("search_memory", query="", memory_type="knowledge_fact", limit=100)
    assert set(ids(listed["results"])) == {sugar, paris}
    assert listed["count"] == 2


@pytest.mark.parametrize("topic", ["Capital of Germany", "Gravity", "nonexistent_topic_xyz"])
async def test_a_topic_without_a_fact_has_none_however_near_its_neighbours_are(client: Client, topic: str) -> None:
    await fact(client, "Capital of France", "Paris is the capital of France")
    await fact(client, "Photosynthesis", "Plants turn light into sugar", importance=1.0)

    assert await fact_of(client, topic) is None


async def test_the_fact_of_a_topic_comes_before_more_important_ones_that_mention_it(client: Client) -> None:
    await fact(client, "Kitchen", "Tea and coffee are in the kitchen, tea above the coffee", importance=1.0)
    tea = await fact(client, "Tea", "It comes from Assam", importance=0.1)

    by_words = await client.request("search_memory", query="tea", memory_type="knowledge_fact", limit=1)

    assert ids(by_words["results"]) == [tea]
    assert (await fact_of(client, "TEA"))["memory_id"] == tea


async def test_a_fact_whose_topic_changes_is_found_by_the_new_one_alone(client: Client) -> None:
    memory_id = await fact(client, "Pluto", "It is small and cold")

    await client.request(
        "update_memory", memory_id=memory_id, update_data={"metadata": {"topic": "Gazpacho"}, "tags": []}
    )

    assert (await fact_of(client, "gazpacho"))["memory_id"] == memory_id
    assert await fact_of(client, "Pluto") is None


async def test_words_find_the_most_important_first_and_inside_of_words(client: Client) -> None:
    scores = {0.2: "", 0.9: "", 0.5: ""}
    for importance in scores:
        scores[importance] = await client.add(f"The electric kettle of {importance}", importance=importance)

    for query in ("electric kettle", "electri"):
        results = (await client.request("search_memory", query=query))["results"]

        assert ids(results) == [scores[0.9], scores[0.5], scores[0.2]]


# The session memory agent.


async def test_the_session_agent_stores_and_reads_a_conversation(client: Client, tenant: Tenant) -> None:
    session_id = await client.session()
    turns = [("user", "Is there tea?"), ("assistant", "In the cupboard."), ("user", "Thank you")]
    for role, content in turns:
        await client.add(
            content,
            memory_type="interaction",
            metadata={"role": role, "timestamp": time.time()},
            parent_id=session_id,
        )

    reply = await client.request(
        "get_children", parent_id=session_id, limit=20, sort_field="created_at", sort_order="asc"
    )
    newest = await client.request("get_children", parent_id=session_id, limit=1)
    await client.request("update_memory", memory_id=session_id, update_data={"metadata": {"expired": True}})
    session = (await client.request("get_memory", memory_id=session_id))["memory"]

    assert [(one["metadata"]["role"], one["content"]) for one in reply["results"]] == turns
    assert {one["parent_id"] for one in reply["results"]} == {session_id}
    assert ([one["content"] for one in newest["results"]], newest["truncated"]) == (["Thank you"], True)
    assert (session["memory_id"], session["metadata"]) == (session_id, {"device": "kitchen", "expired": True})
    assert session["created_at"] == pytest.approx(time.time(), abs=60)
    stored = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=session_id))).session
    assert (stored.subject_id, stored.session_type, stored.agent_id) == ("ana", "conversation", "SessionMemoryAgent")
    listing = pb.ListMemoriesRequest(filter=pb.MemoryFilter(session_id=session_id))
    assert len((await tenant.memory.ListMemories(listing)).memories) == 3
    links = await tenant.links.ListLinks(pb.ListLinksRequest(memory_id=reply["results"][0]["memory_id"]))
    assert not links.links


@pytest.mark.system
async def test_interactions_are_searched_in_the_session_that_is_named(client: Client) -> None:
    ana, ben = await client.session("ana"), await client.session("ben")
    hers = await client.add("My password is tulip", memory_type="interaction", parent_id=ana)
    his = await client.add("I forgot my password", memory_type="interaction", parent_id=ben)
    reply = await client.add("Tulip is a nice password", memory_type="interaction", parent_id=hers)

    async def search(action: str, **data: Any) -> list[str]:
        return ids((await client.request(action, query="password", **data))["results"])

    for action in ("semantic_search", "search_memory"):
        assert await search(action, filters={"parent_id": ana}) == [hers], action
        assert await search(action, parent_id=ben) == [his], action
        assert await search(action, filters={"parent_id": hers}) == [reply], action
        assert set(await search(action)) == {hers, his, reply}, action
    assert await search("search_memory", filters={"session_id": ben}) == [his]
    refused = await client.send(
        action="semantic_search", data={"query": "password", "parent_id": ana, "filters": {"parent_id": ben}}
    )
    assert refused["status"] == "error"


@pytest.mark.system
async def test_two_people_of_one_tenant_find_their_own(client: Client) -> None:
    own = {user: await client.add("tea is liked", metadata={"user_id": user, "mood": user}) for user in ("ana", "ben")}
    named = await client.add("tea was bought", user_id="ana", memory_type="note")

    async def search(action: str, **data: Any) -> set[str]:
        return set(ids((await client.request(action, query="tea", **data))["results"]))

    for action in ("search_memory", "semantic_search"):
        assert await search(action, filters={"user_id": "ana"}) == {own["ana"], named}, action
        assert await search(action, user_id="ben") == {own["ben"]}, action
        assert await search(action, filters={"user_id": "eve"}) == set(), action
        assert await search(action, filters={"mood": "ben"}) == {own["ben"]}, action
        assert await search(action, filters={"metadata": {"mood": ["ana", "x"]}}) == {own["ana"]}, action
        assert await search(action, filters={"memory_type": "note"}) == {named}, action


@pytest.mark.system
async def test_filters_keep_to_tiers_tags_and_importance(client: Client) -> None:
    short = await client.add("tea one", tags=["a"], importance=0.2)
    medium = await client.add("tea two", memory_tier="medium", tags=["b"], importance=0.6)

    async def search(**filters: Any) -> list[str]:
        return ids((await client.request("search_memory", query="tea", filters=filters))["results"])

    assert await search(memory_tier="short") == [short]
    assert await search(tier="medium") == [medium]
    assert await search(tags=["b", "c"]) == [medium]
    assert await search(min_importance=0.5) == [medium]
    assert await search(max_importance=0.5) == [short]
    assert await search(parent_id=None) == [medium, short]


@over(
    "data",
    [
        {"filters": []},
        {"filters": {"parent_id": "nothing"}},
        {"filters": {"parent_id": 5}},
        {"filters": {"mood": {"a": 1}}},
        {"filters": {"mood": []}},
        {"filters": {"": "x"}},
        {"filters": {"memory_type": "no/pe"}},
        {"filters": {"memory_tier": "eternal"}},
        {"filters": {'a"b) OR is_active = true': "x" * 5000}},
    ],
)
async def test_a_filter_that_cannot_be_kept_is_refused(client: Client, data: dict[str, Any]) -> None:
    await client.add("tea")

    reply = await client.send(action="semantic_search", data={"query": "tea", **data})

    assert (reply["status"], "results" in reply) == ("error", False)


async def test_a_filter_is_a_value_and_no_condition(client: Client) -> None:
    await client.add("tea", metadata={"mood": "calm"})

    for filters in ({"mood": 'x" OR is_active = true OR mood = "'}, {'mood" = "calm" OR metadata."a': "x"}):
        reply = await client.request("search_memory", query="tea", filters=filters)

        assert reply["results"] == []


@pytest.mark.system
async def test_a_deleted_session_takes_its_children_along_and_leaves_those_of_others(
    client: Client, tenant: Tenant
) -> None:
    ana, ben = await client.session("ana"), await client.session("ben")
    children = [await client.add(f"turn {number}", parent_id=ana) for number in range(3)]
    below = await client.add("about turn 0", parent_id=children[0])
    kept_id = await client.add("his turn", parent_id=ben)

    reply = await client.request("delete_memory", memory_id=ana, cascade=True)

    assert (reply["memory_id"], reply["deleted_count"], reply["message"]) == (ana, 5, "Memory deleted")
    for memory_id in (ana, *children, below):
        assert (await client.send(action="get_memory", data={"memory_id": memory_id}))["status"] == "error"
    assert (await client.send(action="get_children", data={"parent_id": ana}))["status"] == "error"
    assert (await client.send(action="delete_memory", data={"memory_id": ana, "cascade": True}))["status"] == "error"
    assert ids((await client.request("get_children", parent_id=ben))["results"]) == [kept_id]
    remaining = await tenant.memory.ListMemories(pb.ListMemoriesRequest())
    assert [memory.external_id for memory in remaining.memories] == [kept_id]


async def test_a_session_deleted_without_cascade_leaves_its_memories(client: Client) -> None:
    session_id = await client.session()
    memory_id = await client.add("turn", parent_id=session_id)

    reply = await client.request("delete_memory", memory_id=session_id)

    assert reply["deleted_count"] == 1
    assert (await client.request("get_memory", memory_id=memory_id))["memory"]["content"] == "turn"
    assert (await client.send(action="get_memory", data={"memory_id": session_id}))["status"] == "error"


@pytest.mark.system
async def test_a_memory_moves_between_parents_of_both_kinds(client: Client) -> None:
    session_id, parent = await client.session(), await client.add("parent")
    child = await client.add("child", parent_id=parent)

    async def places() -> tuple[str | None, list[str], list[str]]:
        memory = (await client.request("get_memory", memory_id=child))["memory"]
        under = [(await client.request("get_children", parent_id=one))["results"] for one in (session_id, parent)]
        return memory["parent_id"], ids(under[0]), ids(under[1])

    await client.request("update_memory", memory_id=child, update_data={"parent_id": session_id})
    in_session = await places()
    await client.request("update_memory", memory_id=child, update_data={"parent_id": parent})
    back = await places()
    await client.request("update_memory", memory_id=child, update_data={"parent_id": session_id})
    await client.request("update_memory", memory_id=child, update_data={"parent_id": None})
    free = await places()

    assert in_session == (session_id, [child], [])
    assert back == (parent, [], [child])
    assert free == (None, [], [])


async def test_a_session_has_metadata_alone_to_be_updated(client: Client) -> None:
    session_id = await client.session()

    reply = await client.send(action="update_memory", data={"memory_id": session_id, "update_data": {"content": "x"}})

    assert reply["status"] == "error"
    assert "metadata" in reply["message"]


@pytest.mark.system
@pytest.mark.parametrize("is_session", [True, False])
async def test_children_come_in_the_order_that_is_asked_for(client: Client, *, is_session: bool) -> None:
    parent = await client.session() if is_session else await client.add("parent")
    first, second, third = [
        await client.add(name, parent_id=parent, importance=importance)
        for name, importance in (("first", 0.5), ("second", 0.9), ("third", 0.1))
    ]
    await client.request("get_memory", memory_id=first)

    async def order(**data: Any) -> list[str]:
        return ids((await client.request("get_children", parent_id=parent, **data))["results"])

    assert await order() == [third, second, first]
    assert await order(sort_field="created_at", sort_order="ASC") == [first, second, third]
    assert await order(sort_field="importance", sort_order="desc") == [second, first, third]
    assert await order(sort_field="importance", sort_order="asc", limit=2) == [third, first]
    for data in ({"sort_field": "content; --"}, {"sort_order": "up"}, {"limit": 0}):
        refused = await client.send(action="get_children", data={"parent_id": parent, **data})
        assert refused["status"] == "error"
