"""Messages come back as they were given, and can be corrected."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_states import superuser, waiting
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import ListValue, Struct

from skein.session.v1 import session_pb2 as pb

# Of each text field, the most characters that it takes.
TEXTS = {
    "external_id": 255,
    "name": 255,
    "subject_id": 255,
    "agent_id": 255,
    "tool_call_id": 255,
    "model": 255,
    "step_id": 255,
    "group_id": 255,
    "sender_id": 255,
    "offline_thread_id": 255,
}
LISTS = ("parts", "tool_calls", "tool_returns")


def listed(*values: Any) -> ListValue:
    made = ListValue()
    made.extend(values)
    return made


def facts(**values: Any) -> Struct:
    return json_format.ParseDict(values, Struct())


def user_message(content: str = "the lighthouse", **fields: Any) -> pb.Message:
    return pb.Message(role=pb.MESSAGE_ROLE_USER, content=content, **fields)


async def append(tenant: Tenant, *messages: pb.Message, session_id: str = "s") -> list[pb.Message]:
    request = pb.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
    return list((await tenant.sessions.AppendMessages(request)).messages)


async def get(tenant: Tenant, message_id: str) -> pb.Message:
    return (await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=message_id))).message


async def correct(tenant: Tenant, message: pb.Message, *paths: str, request_id: str = "") -> pb.Message:
    request = pb.UpdateMessageRequest(message=message, update_mask=FieldMask(paths=paths), request_id=request_id)
    return (await tenant.sessions.UpdateMessage(request)).message


async def search_contents(tenant: Tenant, query: str, mode: pb.SearchMode = pb.SEARCH_MODE_KEYWORD) -> list[str]:
    response = await tenant.sessions.SearchMessages(pb.SearchMessagesRequest(query=query, mode=mode))
    return [hit.message.content for hit in response.hits]


async def test_everything_about_a_message_comes_back(tenant: Tenant) -> None:
    message = user_message(
        "Switch on the light",
        parts=listed({"type": "text", "text": "Switch on"}, {"type": "image", "url": "file:1"}, "plain", 3.5, None),
        tool_calls=listed({"id": "call-1", "name": "lights.on", "arguments": {"room": "kitchen", "levels": [1, 2]}}),
        tool_returns=listed({"call": "call-1", "status": "ok", "stdout": ["done"]}),
        metadata=facts(channel="voice", confidence=0.75, tags=["a", None, True]),
        **{name: f"{name} of it" for name in TEXTS},
    )

    (stored,) = await append(tenant, message)

    for field in ("role", "content", *TEXTS, *LISTS, "metadata"):
        assert getattr(stored, field) == getattr(message, field), field
    assert (stored.sequence, stored.revision, stored.session_id) == (1, 1, "s")
    assert (stored.update_time, stored.updated_by) == (stored.create_time, stored.created_by)
    assert await get(tenant, stored.message_id) == stored
    page = await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id="s"))
    assert list(page.messages) == [stored]


@pytest.mark.parametrize("role", ["USER", "ASSISTANT", "SYSTEM", "TOOL"])
async def test_every_role_speaks(tenant: Tenant, role: str) -> None:
    message = pb.Message(role=f"MESSAGE_ROLE_{role}", content="x")

    (stored,) = await append(tenant, message)

    assert (await get(tenant, stored.message_id)).role == message.role


@pytest.mark.parametrize("field", TEXTS)
async def test_a_text_field_takes_what_it_promises_and_no_more(tenant: Tenant, field: str) -> None:
    longest = "é" * TEXTS[field]

    (stored,) = await append(tenant, user_message(**{field: longest}))

    assert getattr(await get(tenant, stored.message_id), field) == longest
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await append(tenant, user_message(**{field: longest + "x"}))


@pytest.mark.parametrize("field", [*LISTS, "metadata"])
async def test_json_of_a_quarter_megabyte_is_kept_and_more_is_refused(tenant: Tenant, field: str) -> None:
    def message(length: int) -> pb.Message:
        value: Any = facts(a="x" * length) if field == "metadata" else listed("x" * length)
        return user_message(**{field: value})

    # {"a":"…"} and ["…"].
    overhead = 8 if field == "metadata" else 4
    longest = 256 * 1024 - overhead

    (stored,) = await append(tenant, message(longest))

    assert getattr(await get(tenant, stored.message_id), field) == getattr(message(longest), field)
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await append(tenant, message(longest + 1))


async def test_a_correction_changes_what_the_mask_names_and_what_search_knows(tenant: Tenant) -> None:
    (stored,) = await append(tenant, user_message("the lighthouse keeper", name="Ada", metadata=facts(a=1)))

    corrected = await correct(
        tenant, pb.Message(message_id=stored.message_id, content="the windmill", metadata=facts(b=2)), "content"
    )

    assert (corrected.content, corrected.name, corrected.metadata) == ("the windmill", "Ada", facts(a=1))
    assert (corrected.revision, corrected.sequence, corrected.create_time) == (2, 1, stored.create_time)
    assert corrected.update_time.ToNanoseconds() > stored.update_time.ToNanoseconds()
    assert await get(tenant, stored.message_id) == corrected
    assert await search_contents(tenant, "lighthouse") == []
    assert await search_contents(tenant, "windmills") == ["the windmill"]
    assert await search_contents(tenant, "lighthouse", pb.SEARCH_MODE_LITERAL) == []
    assert await search_contents(tenant, "a mill that the wind turns", pb.SEARCH_MODE_SEMANTIC) == ["the windmill"]


async def test_a_correction_without_a_mask_replaces_everything_that_can_be(tenant: Tenant) -> None:
    (stored,) = await append(
        tenant,
        user_message(
            "old", name="Ada", parts=listed(1), tool_calls=listed(2), tool_returns=listed(3), metadata=facts(a=1)
        ),
    )

    corrected = await correct(tenant, pb.Message(message_id=stored.message_id, content="new"))

    assert corrected.content == "new"
    assert corrected.name == ""
    assert not any(corrected.HasField(field) for field in ("parts", "tool_calls", "tool_returns", "metadata"))
    assert corrected.role == stored.role


async def test_metadata_alone_leaves_the_index_as_it_is(tenant: Tenant) -> None:
    (stored,) = await append(tenant, user_message("the lighthouse"))

    await correct(tenant, pb.Message(message_id=stored.message_id, metadata=facts(rated=5)), "metadata")

    assert await search_contents(tenant, "lighthouse") == ["the lighthouse"]
    assert await search_contents(tenant, "beacon on the coast", pb.SEARCH_MODE_SEMANTIC) == ["the lighthouse"]


async def test_a_message_is_corrected_by_its_external_id(tenant: Tenant) -> None:
    await append(tenant, user_message(external_id="theirs"))

    assert (await correct(tenant, pb.Message(message_id="theirs", content="new"), "content")).content == "new"
    assert (await correct(tenant, pb.Message(external_id="theirs", content="newer"), "content")).content == "newer"


async def test_a_correction_of_an_older_revision_is_refused(tenant: Tenant) -> None:
    (stored,) = await append(tenant, user_message())
    await correct(tenant, pb.Message(message_id=stored.message_id, content="new", revision=1), "content")

    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await correct(tenant, pb.Message(message_id=stored.message_id, content="newer", revision=1), "content")

    assert (await get(tenant, stored.message_id)).content == "new"


async def test_corrections_at_once_each_count(tenant: Tenant) -> None:
    (stored,) = await append(tenant, user_message())

    await asyncio.gather(
        *(
            correct(tenant, pb.Message(message_id=stored.message_id, content=f"version {n}"), "content")
            for n in range(8)
        )
    )

    last = await get(tenant, stored.message_id)
    assert last.revision == 9
    assert await search_contents(tenant, "version") == [last.content]


async def test_a_text_that_comes_back_at_once_is_what_search_knows(cluster: Cluster, tenant: Tenant) -> None:
    (stored,) = await append(tenant, user_message("kettle"))
    holding, looking = await superuser(cluster), await superuser(cluster)

    def correcting(content: str) -> asyncio.Future[pb.Message]:
        return asyncio.ensure_future(
            correct(tenant, pb.Message(message_id=stored.message_id, content=content), "content")
        )

    try:
        async with holding.transaction():
            await holding.execute("SELECT FROM session.sessions WHERE tenant_id = $1 FOR UPDATE", tenant.tenant_id)
            away = correcting("teapot")
            await waiting(looking, 1)
            back = correcting("kettle")
            await waiting(looking, 2)
        await asyncio.gather(away, back)
    finally:
        await holding.close()
        await looking.close()

    assert (await get(tenant, stored.message_id)).content == "kettle"
    assert (await search_contents(tenant, "kettle"), await search_contents(tenant, "teapot")) == (["kettle"], [])


async def test_a_message_that_says_nothing_any_more_is_refused(tenant: Tenant) -> None:
    (stored,) = await append(tenant, user_message())

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_EMPTY"):
        await correct(tenant, pb.Message(message_id=stored.message_id, content=" "), "content")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_TOO_LONG"):
        await correct(tenant, pb.Message(message_id=stored.message_id, content="x" * 100_001), "content")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"):
        await correct(tenant, pb.Message(message_id=stored.message_id, content="a\0b"), "content")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "UPDATE_MASK_INVALID"):
        await correct(tenant, pb.Message(message_id=stored.message_id, sequence=7), "sequence")
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await correct(tenant, pb.Message(content="x"), "content")

    assert await get(tenant, stored.message_id) == stored
    assert await search_contents(tenant, "lighthouse") == ["the lighthouse"]


async def test_a_text_may_go_when_a_tool_call_stays(tenant: Tenant) -> None:
    (stored,) = await append(tenant, user_message(tool_calls=listed("lights.on")))

    await correct(tenant, pb.Message(message_id=stored.message_id), "content")

    assert await search_contents(tenant, "lighthouse") == []
    await correct(tenant, pb.Message(message_id=stored.message_id, content="the windmill"), "content")
    assert await search_contents(tenant, "windmill") == ["the windmill"]


async def test_a_message_of_an_ended_session_can_be_corrected(tenant: Tenant) -> None:
    (stored,) = await append(tenant, user_message())
    await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s"))

    assert (await correct(tenant, pb.Message(message_id=stored.message_id, content="new"), "content")).content == "new"


async def test_saving_again_adds_and_never_replaces(tenant: Tenant) -> None:
    await append(tenant, user_message("one"), user_message("two"))

    await append(tenant, user_message("three"))

    page = await tenant.sessions.ListMessages(pb.ListMessagesRequest(session_id="s"))
    assert [(message.sequence, message.content) for message in page.messages] == [(1, "one"), (2, "two"), (3, "three")]
