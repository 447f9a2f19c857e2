"""LangGraph's store on Skein: what its base class promises, and that any other client reads what it keeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
)

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein_client import Client, ClientClosed, InvalidArgument, PermissionDenied
from skein_langgraph.namespaces import MAX_DEPTH
from skein_langgraph.search_filters import SearchLimitExceeded
from skein_langgraph.store import SkeinStore

ANNA, BOB = ("users", "anna"), ("users", "bob")


def store_of(cluster: Cluster, tenant: Tenant, **options: Any) -> SkeinStore:
    return SkeinStore(endpoint=cluster.endpoint, api_key=tenant.api_key, **options)


@pytest.fixture
async def store(cluster: Cluster, tenant: Tenant) -> AsyncIterator[SkeinStore]:
    async with store_of(cluster, tenant) as opened:
        yield opened


@pytest.fixture
async def skein(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Client]:
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as opened:
        yield opened


def keys(items: list[SearchItem]) -> list[str]:
    return [item.key for item in items]


async def test_an_item_that_is_put_is_got(store: SkeinStore) -> None:
    value = {"likes": "green tea", "cups": 3, "ratio": 0.5, "often": True, "not": None, "in": ["a", {"b": []}]}

    await store.aput(ANNA, "drinks", value)
    item = await store.aget(ANNA, "drinks")

    assert item is not None
    assert (item.namespace, item.key, item.value) == (ANNA, "drinks", value)
    assert item.created_at == item.updated_at
    assert await store.aget(ANNA, "food") is None
    assert await store.aget(BOB, "drinks") is None


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"": ""},
        {"n": 2**70},
        {"n": -(2**53) - 1},
        {"whole": 1.0, "number": 1},
        {"minus": -0.0},
        {"tiny": 5e-324, "huge": 1.7e308},
        {"a": {"b": {"c": [[[[{"d": 1.0}]]]]}}},
        {"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["bottom"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
        {"text": 'Grüße, 茶 \U0001f375 "quoted" \\ \n\t'},
        {"exact": "not what it seems", "namespace": ["x"], "key": 5},
    ],
)
async def test_any_json_comes_back_as_it_was(store: SkeinStore, value: dict[str, Any]) -> None:
    await store.aput(ANNA, "value", value)

    item = await store.aget(ANNA, "value")

    assert item is not None
    assert repr(sorted(item.value.items())) == repr(sorted(value.items()))


@pytest.mark.parametrize("value", [{"at": object()}, {"n": float("nan")}, {"n": float("inf")}])
async def test_a_value_that_is_no_json_is_refused_before_anything_is_stored(
    store: SkeinStore, value: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError)):
        await store.aput(ANNA, "value", value)

    assert await store.alist_namespaces() == []


async def test_a_value_too_large_is_refused_by_name(store: SkeinStore) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await store.aput(ANNA, "value", {"text": "x" * 300_000}, index=False)

    assert "data" in str(caught.value)


async def test_putting_again_changes_the_item_and_keeps_when_it_was_made(store: SkeinStore) -> None:
    await store.aput(ANNA, "drinks", {"likes": "tea", "cups": 1})
    first = await store.aget(ANNA, "drinks")
    await store.aput(ANNA, "drinks", {"likes": "coffee"})
    second = await store.aget(ANNA, "drinks")

    assert first is not None
    assert second is not None
    assert second.value == {"likes": "coffee"}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


@pytest.mark.system
async def test_an_item_of_a_person_is_recalled_for_no_other(
    cluster: Cluster, tenant: Tenant, store: SkeinStore, skein: Client
) -> None:
    async with store_of(cluster, tenant, subject_of=lambda namespace: namespace[1]) as of_people:
        await store.aput(BOB, "drinks", {"likes": "coffee"})
        await of_people.aput(BOB, "drinks", {"likes": "black coffee"})
        await of_people.aput(ANNA, "drinks", {"likes": "green tea"})
    await store.aput(BOB, "drinks", {"likes": "espresso"})

    for_anna = await skein.recall("likes", subject_id="anna", min_relevance=0)
    for_bob = await skein.recall("likes", subject_id="bob", min_relevance=0)

    assert [hit.memory.content for hit in for_anna.hits if hit.memory.content] == ["likes: green tea"]
    assert [hit.memory.content for hit in for_bob.hits if hit.memory.content] == ["likes: espresso"]


@pytest.mark.parametrize("long", ["", "x" * 300])
async def test_every_form_of_a_name_is_the_same_namespace(store: SkeinStore, long: str) -> None:
    decomposed, composed = ("users", f"Zu\u0308rich{long}"), ("users", f"Z\u00fcrich{long}")

    await store.aput(decomposed, "cafe\u0301", {"n": 1})
    await store.aput(composed, "caf\u00e9", {"n": 2})

    for namespace, key in ((decomposed, "cafe\u0301"), (composed, "caf\u00e9")):
        item = await store.aget(namespace, key)
        assert item is not None
        assert item.value == {"n": 2}
    assert len(await store.asearch(decomposed)) == 1


async def test_a_label_that_would_be_another_path_is_refused(store: SkeinStore) -> None:
    for label in ("anna\u2024drinks", "\u3000", "a\uff0eb"):
        with pytest.raises(ValueError, match="period"):
            await store.aput(("users", label), "k", {"n": 1})


async def test_a_deleted_item_is_gone_and_can_be_put_anew(store: SkeinStore) -> None:
    await store.aput(ANNA, "drinks", {"likes": "tea"})
    first = await store.aget(ANNA, "drinks")
    await store.adelete(ANNA, "drinks")
    await store.adelete(ANNA, "drinks")
    gone = await store.aget(ANNA, "drinks")
    await store.aput(ANNA, "drinks", {"likes": "water"})
    again = await store.aget(ANNA, "drinks")

    assert gone is None
    assert first is not None
    assert again is not None
    assert again.value == {"likes": "water"}
    assert again.created_at > first.created_at


async def test_nothing_is_left_of_what_is_deleted(store: SkeinStore, skein: Client) -> None:
    await store.aput(ANNA, "drinks", {"likes": "tea"})
    await store.abatch([PutOp(ANNA, "drinks", None)])

    remaining = [memory async for memory in skein.list_memories(show_deleted=True, show_archived=True)]

    assert remaining == []


async def test_a_batch_reads_what_was_there_before_and_its_last_write_counts(store: SkeinStore) -> None:
    await store.aput(ANNA, "a", {"n": 1})

    results = await store.abatch(
        [
            PutOp(ANNA, "a", {"n": 2}),
            GetOp(ANNA, "a"),
            PutOp(ANNA, "a", {"n": 3}),
            PutOp(ANNA, "b", {"n": 4}),
            PutOp(ANNA, "b", None),
            GetOp(ANNA, "b"),
            SearchOp(("users",)),
            ListNamespacesOp(),
        ]
    )

    assert [getattr(result, "value", None) for result in (results[1], results[5])] == [{"n": 1}, None]
    assert keys(results[6]) == ["a"]  # type: ignore[arg-type]  # What a search returns.
    assert results[7] == [ANNA]
    after = await store.abatch([GetOp(ANNA, "a"), GetOp(ANNA, "b"), GetOp(ANNA, "a")])
    assert [getattr(result, "value", None) for result in after] == [{"n": 3}, None, {"n": 3}]


async def test_a_prefix_finds_what_is_below_it_and_nothing_beside(store: SkeinStore) -> None:
    for namespace in (("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("b", "a")):
        await store.aput(namespace, "key", {"path": "/".join(namespace)})

    async def under(*prefix: str) -> list[str]:
        return sorted(item.value["path"] for item in await store.asearch(prefix))

    assert await under() == ["a", "a/b", "a/b/c", "ab", "b/a"]
    assert await under("a") == ["a", "a/b", "a/b/c"]
    assert await under("a", "b") == ["a/b", "a/b/c"]
    assert await under("a", "c") == []
    assert await under("A") == []


async def test_limits_and_offsets_page_through_everything_once(store: SkeinStore) -> None:
    await store.abatch([PutOp(ANNA, str(n), {"n": n, "odd": n % 2}, index=False) for n in range(25)])

    pages = [keys(await store.asearch(ANNA, limit=10, offset=offset)) for offset in (0, 10, 20, 30)]
    odd = [keys(await store.asearch(ANNA, filter={"odd": 1}, limit=5, offset=offset)) for offset in (0, 5, 10, 15)]

    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert sorted(int(key) for page in pages for key in page) == list(range(25))
    assert [len(page) for page in odd] == [5, 5, 2, 0]
    assert sorted(int(key) for page in odd for key in page) == list(range(1, 25, 2))
    assert await store.asearch(ANNA, limit=0) == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"color": "red"}, ["apple", "car"]),
        ({"color": {"$eq": "red"}}, ["apple", "car"]),
        ({"color": {"$ne": "red"}}, ["leaf", "nothing"]),
        ({"color": "Red"}, []),
        ({"size": 3}, ["apple"]),
        ({"size": {"$gt": 3}}, ["car"]),
        ({"size": {"$gte": 3, "$lt": 400}}, ["apple"]),
        ({"size": {"$lte": 3}}, ["apple", "leaf"]),
        ({"color": "red", "size": {"$gt": 3}}, ["car"]),
        ({"made": {"$gt": "2024-01-01"}}, ["car"]),
        ({"maker": {"name": "Ada"}}, ["car"]),
        ({"maker": {"name": {"$ne": "Ada"}}}, []),
        ({"maker.name": "Ada"}, []),
        ({"parts": ["wheel", "door"]}, ["car"]),
        ({"parts": "wheel"}, []),
        ({"color": None}, ["nothing"]),
        ({"color": ""}, []),
        ({'qu"ote\\': "x"}, []),
        ({"color": 'r"ed\\'}, []),
    ],
)
async def test_filters_compare_as_the_base_class_says(
    store: SkeinStore, condition: dict[str, Any], expected: list[str]
) -> None:
    await store.abatch(
        [
            PutOp(("things",), "apple", {"color": "red", "size": 3}),
            PutOp(
                ("things",),
                "car",
                {
                    "color": "red",
                    "size": 400,
                    "made": "2024-05-05",
                    "maker": {"name": "Ada"},
                    "parts": ["wheel", "door"],
                },
            ),
            PutOp(("things",), "leaf", {"color": "green", "size": 1.5, "made": "2023-05-05"}),
            PutOp(("things",), "nothing", {"parts": []}),
        ]
    )

    assert sorted(keys(await store.asearch(("things",), filter=condition))) == expected


async def test_an_operator_that_there_is_none_of_is_refused(store: SkeinStore) -> None:
    await store.aput(ANNA, "a", {"n": 1})

    with pytest.raises(ValueError, match="operators are"):
        await store.asearch(ANNA, filter={"n": {"$in": [1]}})


@pytest.mark.system
async def test_a_search_by_meaning_finds_the_best_first_with_scores(store: SkeinStore) -> None:
    await store.aput(ANNA, "drinks", {"text": "I drink green tea every morning"})
    await store.aput(ANNA, "sport", {"text": "Football is played on Sundays"})
    await store.aput(BOB, "drinks", {"text": "He prefers coffee"})

    items = await store.asearch(ANNA, query="which tea does she like?", limit=2)
    all_items = await store.asearch(("users",), query="hot drinks", limit=2, offset=1)
    filtered = await store.asearch(("users",), query="drinks", filter={"text": "He prefers coffee"})

    assert keys(items) == ["drinks", "sport"]
    scores = [item.score for item in items]
    assert all(score is not None and 0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True, key=lambda score: score or 0)
    assert len(all_items) == 2
    assert [(item.namespace, item.key) for item in filtered] == [(BOB, "drinks")]


@pytest.mark.system
async def test_a_small_namespace_is_found_among_many_others(store: SkeinStore) -> None:
    await store.abatch([PutOp(("noise",), str(n), {"text": f"green tea number {n}"}) for n in range(150)])
    await store.aput(ANNA, "drinks", {"text": "green tea"})

    assert keys(await store.asearch(ANNA, query="green tea")) == ["drinks"]


async def test_index_says_what_is_searched(cluster: Cluster, tenant: Tenant) -> None:
    async with store_of(cluster, tenant, fields=["title"]) as store:
        value = {"title": "breakfast", "body": [{"text": "porridge"}, {"text": "marmalade"}]}
        await store.aput(("docs",), "by default", value)
        await store.aput(("docs",), "by path", value, index=["body[*].text"])
        await store.aput(("docs",), "not at all", value, index=False)

        by_title = await store.asearch(("docs",), query="breakfast")
        by_body = await store.asearch(("docs",), query="marmalade")
        listed = await store.asearch(("docs",))

    assert by_title[0].key == "by default"
    assert by_body[0].key == "by path"
    assert "not at all" not in keys(by_title) + keys(by_body)
    assert sorted(keys(listed)) == ["by default", "by path", "not at all"]


async def test_an_oversized_request_is_refused_and_not_cut(store: SkeinStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.abatch([PutOp((f"n{n}",), "k", {"n": n}, index=False) for n in range(12)])
    monkeypatch.setattr("skein_langgraph.batch_plan.MAX_LOOKED_AT", 10)

    with pytest.raises(SearchLimitExceeded, match="longer prefix"):
        await store.asearch((), filter={"n": {"$gt": 100}})
    with pytest.raises(SearchLimitExceeded, match="longer prefix"):
        await store.alist_namespaces()
    with pytest.raises(SearchLimitExceeded, match="up to 100"):
        await store.asearch((), query="tea", limit=101)


async def test_namespaces_are_listed_by_prefix_suffix_and_depth(store: SkeinStore) -> None:
    there = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("z",)]
    await store.abatch([PutOp(namespace, "k", {"n": 1}, index=False) for namespace in there])

    assert await store.alist_namespaces() == sorted(there)
    assert await store.alist_namespaces(prefix=("a", "b"), max_depth=3) == [
        ("a", "b", "c"),
        ("a", "b", "d"),
        ("a", "b", "f"),
    ]
    assert await store.alist_namespaces(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
    assert await store.alist_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert await store.alist_namespaces(prefix=("a",), suffix=("d", "*")) == [
        ("a", "b", "d", "e"),
        ("a", "b", "d", "i"),
    ]
    assert await store.alist_namespaces(limit=2, offset=1) == sorted(there)[1:3]
    assert await store.alist_namespaces(prefix=("nobody",)) == []


@pytest.mark.system
async def test_a_namespace_is_listed_as_long_as_it_holds_something(store: SkeinStore) -> None:
    await store.aput(ANNA, "a", {"n": 1})
    await store.aput(ANNA, "b", {"n": 1})
    await store.aput((*ANNA, "below"), "c", {"n": 1})

    await store.adelete(ANNA, "a")
    with_one = await store.alist_namespaces()
    await store.adelete(ANNA, "b")
    with_none = await store.alist_namespaces()

    assert with_one == [ANNA, (*ANNA, "below")]
    assert with_none == [(*ANNA, "below")]


@pytest.mark.system
async def test_an_item_whose_time_is_over_is_gone(store: SkeinStore, skein: Client) -> None:
    await store.aput(ANNA, "short", {"text": "green tea"}, ttl=60)
    await store.aput(ANNA, "long", {"text": "black tea"}, ttl=60)
    first = await store.aget(ANNA, "short", refresh_ttl=False)
    # An hour is over as soon as it ends with this very second.
    filter_ = memory_pb2.MemoryFilter(where='metadata.langgraph.key = "short"')
    (memory,) = [memory async for memory in skein.list_memories(filter=filter_)]
    memory.expire_time.FromNanoseconds(time.time_ns() + 300_000_000)
    await skein.memories.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=memory, update_mask={"paths": ["expire_time"]})
    )
    async with asyncio.timeout(60):
        while await store.aget(ANNA, "short", refresh_ttl=False) is not None:
            await asyncio.sleep(0.05)

    listed = await store.asearch(ANNA)
    items = await store.asearch(ANNA, query="tea")
    await store.aput(ANNA, "short", {"text": "mint tea"})
    again = await store.aget(ANNA, "short")

    assert first is not None
    assert (keys(listed), keys(items)) == (["long"], ["long"])
    assert again is not None
    assert (again.value, again.created_at > first.created_at) == ({"text": "mint tea"}, True)


@pytest.mark.system
async def test_reading_an_item_sets_its_time_anew_and_changes_nothing_else(
    cluster: Cluster, tenant: Tenant, skein: Client
) -> None:
    async def expiry(key: str) -> float:
        filter_ = memory_pb2.MemoryFilter(where=f'metadata.langgraph.key = "{key}"')
        (memory,) = [memory async for memory in skein.list_memories(filter=filter_)]
        return memory.expire_time.ToDatetime().timestamp()

    async with store_of(cluster, tenant, ttl={"default_ttl": 1 / 6, "refresh_on_read": True}) as store:
        await store.aput(ANNA, "a", {"n": 1})
        await store.aput(ANNA, "stays", {"n": 1}, ttl=None)
        before, made = await expiry("a"), await store.aget(ANNA, "a", refresh_ttl=False)
        # A tenth of its time.
        worn = time.time() + 1.1
        while time.time() < worn:
            await store.aget(ANNA, "a", refresh_ttl=False)
        unmoved = await expiry("a")
        read = await store.aget(ANNA, "a")
        moved = await expiry("a")
        (searched,) = [item for item in await store.asearch(ANNA) if item.key == "a"]

    assert unmoved == before
    assert moved > before
    assert made is not None
    assert read is not None
    assert (read.updated_at, searched.updated_at) == (made.updated_at, made.updated_at)


async def test_any_other_client_reads_an_item(store: SkeinStore, skein: Client) -> None:
    await store.aput(ANNA, "drinks", {"likes": "green tea", "cups": 3})

    (hit,) = (await skein.recall("green tea")).hits
    by_key = memory_pb2.MemoryFilter(types=["langgraph"], where='metadata.langgraph.key = "drinks" AND data.cups > 2')
    (memory,) = [each async for each in skein.list_memories(filter=by_key)]

    assert hit.memory.memory_id == memory.memory_id
    assert memory.external_id == "langgraph:users.anna..drinks"
    assert memory.content == "likes: green tea\ncups: 3"
    assert dict(memory.data.items()) == {"cups": 3, "likes": "green tea"}
    assert sorted(memory.tags) == ["langgraph", "langgraph:users", "langgraph:users.anna", "langgraph_in:users.anna"]


async def test_an_item_that_another_client_deleted_can_be_put_anew(store: SkeinStore, skein: Client) -> None:
    await store.aput(ANNA, "drinks", {"likes": "tea"})
    await skein.memories.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id="langgraph:users.anna..drinks"))
    gone = await store.aget(ANNA, "drinks")

    await store.aput(ANNA, "drinks", {"likes": "water"})
    again = await store.aget(ANNA, "drinks")

    assert gone is None
    assert again is not None
    assert again.value == {"likes": "water"}


@pytest.mark.system
async def test_two_who_put_at_once_leave_one_of_both(cluster: Cluster, tenant: Tenant, store: SkeinStore) -> None:
    async with store_of(cluster, tenant) as other:
        await asyncio.gather(
            *(each.aput(ANNA, "drinks", {"who": n}) for n, each in enumerate((store, other, store, other)))
        )

        items = await store.asearch(ANNA)

    assert len(items) == 1
    assert items[0].value["who"] in range(4)
    assert await store.alist_namespaces() == [ANNA]


async def test_a_memory_that_another_client_tagged_alike_is_no_item(store: SkeinStore, skein: Client) -> None:
    await store.aput(ANNA, "drinks", {"likes": "green tea"})
    for tag, external_id in (
        ("langgraph", "langgraph:users.anna..food"),
        ("langgraph:users", ""),
        ("langgraph_namespaces", ""),
    ):
        await skein.memories.CreateMemory(
            memory_pb2.CreateMemoryRequest(
                memory=memory_pb2.Memory(content="green tea, too", tags=[tag], external_id=external_id)
            )
        )

    listed = await store.asearch(())
    items = await store.asearch(("users",), query="green tea")
    item = await store.aget(ANNA, "food")
    namespaces = await store.alist_namespaces()
    await store.aput(ANNA, "food", {"likes": "rice"})
    put = await store.aget(ANNA, "food")
    relisted = await store.asearch(("users",))

    assert (keys(listed), keys(items), item, namespaces) == (["drinks"], ["drinks"], None, [ANNA])
    assert put is not None
    assert put.value == {"likes": "rice"}
    assert sorted(keys(relisted)) == ["drinks", "food"]


async def test_stores_of_different_roots_and_tenants_see_nothing_of_each_other(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, store: SkeinStore
) -> None:
    await store.aput(ANNA, "drinks", {"likes": "tea"})

    async with store_of(cluster, tenant, root="other") as beside, store_of(cluster, other_tenant) as abroad:
        for stranger in (beside, abroad):
            assert await stranger.aget(ANNA, "drinks") is None
            assert await stranger.asearch(()) == []
            assert await stranger.asearch((), query="tea") == []
            assert await stranger.alist_namespaces() == []
            await stranger.adelete(ANNA, "drinks")

    assert await store.aget(ANNA, "drinks") is not None


@pytest.mark.parametrize("namespace", [(), ("",), ("a.b",), ("langgraph", "x"), (5,), ("a\0",)])
async def test_a_namespace_that_the_base_class_refuses_is_refused(store: SkeinStore, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError):
        await store.aput(namespace, "k", {"n": 1})


async def test_operations_that_pass_the_methods_by_are_looked_at_as_well(store: SkeinStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        await store.abatch([GetOp(("a.b",), "k")])


@pytest.mark.parametrize(
    ("namespace", "key"),
    [
        (("l" * 300, "m" * 300), "k" * 1000),
        (tuple(str(n) for n in range(MAX_DEPTH)), "k"),
        ((" spaces ", "/slash:colon#", "é\U0001f375"), " key .. "),
        (("case", "CASE"), ""),
        (("a",), "..b"),
    ],
)
async def test_names_of_any_length_and_kind_are_kept_apart(
    store: SkeinStore, namespace: tuple[str, ...], key: str
) -> None:
    await store.aput(namespace, key, {"n": 1})
    await store.aput(namespace, f"{key}x", {"n": 2})
    item = await store.aget(namespace, key)

    assert item is not None
    assert (item.namespace, item.key, item.value) == (namespace, key, {"n": 1})
    assert len(await store.asearch(namespace)) == 2
    assert len(await store.asearch(namespace[:1])) == 2
    assert await store.asearch((*namespace, "x")[-MAX_DEPTH:] if len(namespace) < MAX_DEPTH else ("x",)) == []
    assert await store.alist_namespaces(prefix=namespace) == [namespace]


async def test_a_namespace_too_deep_is_refused(store: SkeinStore) -> None:
    with pytest.raises(ValueError, match=f"up to {MAX_DEPTH} labels"):
        await store.aput(tuple(str(n) for n in range(MAX_DEPTH + 1)), "k", {"n": 1})


async def test_a_credential_that_may_only_read_reads(cluster: Cluster, tenant: Tenant, store: SkeinStore) -> None:
    await store.aput(ANNA, "drinks", {"likes": "tea"})
    made = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="reader", permissions=["memory.read", "recall.read"])
    )

    async with SkeinStore(endpoint=cluster.endpoint, api_key=made.secret) as reader:
        assert await reader.aget(ANNA, "drinks") is not None
        assert keys(await reader.asearch(ANNA, query="tea")) == ["drinks"]
        with pytest.raises(PermissionDenied):
            await reader.aput(ANNA, "drinks", {"likes": "water"})


@pytest.mark.system
async def test_it_blocks_as_well(cluster: Cluster, tenant: Tenant) -> None:
    def work() -> tuple[Any, ...]:
        with store_of(cluster, tenant) as store:
            store.put(ANNA, "drinks", {"likes": "tea"})
            store.put(ANNA, "drinks", {"likes": "green tea"})
            got, found = store.get(ANNA, "drinks"), store.search(("users",), query="tea")
            listed = store.list_namespaces(max_depth=1)
            store.delete(ANNA, "drinks")
            return got, found, listed, store.get(ANNA, "drinks")

    got, found, listed, gone = await asyncio.to_thread(work)

    assert got.value == {"likes": "green tea"}
    assert (keys(found), listed, gone) == (["drinks"], [("users",)], None)


async def test_a_store_that_blocks_can_be_awaited(cluster: Cluster, tenant: Tenant) -> None:
    with store_of(cluster, tenant) as store:
        await store.aput(ANNA, "drinks", {"likes": "tea"})

        assert await store.aget(ANNA, "drinks") is not None


async def test_a_store_of_a_loop_serves_other_threads_and_never_blocks_its_own(store: SkeinStore) -> None:
    await asyncio.to_thread(store.put, ANNA, "drinks", {"likes": "tea"})

    item = await asyncio.to_thread(store.get, ANNA, "drinks")

    assert item is not None
    with pytest.raises(asyncio.InvalidStateError, match="await store"):
        store.get(ANNA, "drinks")


async def test_a_store_that_is_not_open_says_so(cluster: Cluster, tenant: Tenant) -> None:
    store = store_of(cluster, tenant)
    async with store:
        pass

    with pytest.raises(ClientClosed, match="with SkeinStore"):
        await store.aget(ANNA, "drinks")


@over("root", ["", "Lang", "a.b", "1a", "a" * 33, "a_in", "a_namespace", "a_namespaces"])
def test_a_root_that_could_be_mistaken_is_refused(root: str) -> None:
    with pytest.raises(ValueError, match="root"):
        SkeinStore(endpoint="127.0.0.1:1", api_key="k", root=root)
