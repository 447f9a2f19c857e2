"""AppendMessages: the order, the rules, one effect for one request."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import groupby

import grpc
import pytest
from fix_cluster import Tenant, refused
from google.protobuf.struct_pb2 import ListValue, Struct
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from skein.session.v1 import session_pb2 as pb

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def user(content: str, **fields: object) -> pb.Message:
    return pb.Message(role=pb.MESSAGE_ROLE_USER, content=content, **fields)  # type: ignore[arg-type]  # Any fields.


def list_of(*values: str) -> ListValue:
    result = ListValue()
    result.extend(values)
    return result


async def append(tenant: Tenant, *messages: pb.Message, session_id: str = "s", **fields: object) -> list[pb.Message]:
    fields.setdefault("create_session", True)
    request = pb.AppendMessagesRequest(session_id=session_id, messages=messages, **fields)  # type: ignore[arg-type]
    return list((await tenant.sessions.AppendMessages(request)).messages)


async def session(tenant: Tenant, session_id: str = "s") -> pb.Session:
    return (await tenant.sessions.GetSession(pb.GetSessionRequest(session_id=session_id))).session


async def transcript(tenant: Tenant, session_id: str = "s") -> list[pb.Message]:
    request = pb.ListMessagesRequest(session_id=session_id, page_size=1000)
    return list((await tenant.sessions.ListMessages(request)).messages)


async def test_messages_are_stored_whole(tenant: Tenant) -> None:
    metadata = Struct()
    metadata.update({"mood": "calm", "certainty": 0.5})
    sent = pb.Message(
        external_id="ext-1",
        role=pb.MESSAGE_ROLE_TOOL,
        content="21 degrees",
        name="thermometer",
        subject_id="ada",
        agent_id="butler",
        parts=list_of("21 degrees"),
        tool_calls=list_of("read"),
        tool_call_id="call-1",
        tool_returns=list_of("ok"),
        model="m-1",
        step_id="step-1",
        group_id="group-1",
        sender_id="sender-1",
        offline_thread_id="thread-1",
        metadata=metadata,
    )
    sent.create_time.FromDatetime(datetime(2024, 2, 29, 12, 0, 0, 123_456, tzinfo=UTC))

    (stored,) = await append(tenant, sent)

    assert (await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=stored.message_id))).message == stored
    assert await transcript(tenant) == [stored]
    for field in sent.DESCRIPTOR.fields:
        if sent.HasField(field.name) if field.message_type else getattr(sent, field.name):
            assert getattr(stored, field.name) == getattr(sent, field.name), field.name
    assert (stored.session_id, stored.sequence) == ("s", 1)
    assert stored.created_by


@pytest.mark.system
async def test_a_session_counts_its_messages_and_takes_its_title_from_the_user(tenant: Tenant) -> None:
    await append(tenant, pb.Message(role=pb.MESSAGE_ROLE_SYSTEM, content="Be brief."))
    untitled = await session(tenant)
    await append(tenant, user("Where did I leave my keys? " * 10), user("Hello?"))
    titled = await session(tenant)
    await append(tenant, user("Something else"))

    assert untitled.title == ""
    assert titled.title == ("Where did I leave my keys? " * 10)[:100]
    assert (await session(tenant)).title == titled.title
    assert ((await session(tenant)).message_count, (await session(tenant)).last_sequence) == (4, 4)
    assert titled.update_time.ToNanoseconds() > untitled.update_time.ToNanoseconds()


async def test_a_title_of_the_callers_stays(tenant: Tenant) -> None:
    await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=pb.Session(session_id="s", title="Keys")))

    await append(tenant, user("Where did I leave my keys?"))

    assert (await session(tenant)).title == "Keys"


async def test_a_paused_session_takes_messages(tenant: Tenant) -> None:
    paused = pb.Session(session_id="s", state=pb.SESSION_STATE_PAUSED)
    await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=paused))

    assert [message.sequence for message in await append(tenant, user("a"))] == [1]


async def test_appending_to_no_session_is_refused_unless_it_may_be_opened(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await append(tenant, user("a"), create_session=False)

    await append(tenant, user("a"), create_session=True)
    await append(tenant, user("b"), create_session=False)

    assert [message.content for message in await transcript(tenant)] == ["a", "b"]


async def test_an_ended_session_takes_no_messages(tenant: Tenant) -> None:
    await append(tenant, user("a"))
    await tenant.sessions.EndSession(pb.EndSessionRequest(session_id="s"))

    with refused(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ENDED"):
        await append(tenant, user("xylophone"))

    assert [message.content for message in await transcript(tenant)] == ["a"]
    response = await tenant.sessions.SearchMessages(pb.SearchMessagesRequest(query="xylophone"))
    assert not response.hits


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (user(""), "CONTENT_EMPTY"),
        (user(" \t\n"), "CONTENT_EMPTY"),
        (user("x" * 100_001), "CONTENT_TOO_LONG"),
        (pb.Message(content="who?"), "INVALID_FIELD"),
        (pb.Message(content="who?", role=42), "INVALID_FIELD"),  # type: ignore[arg-type]  # A newer client's.
        (user("x", external_id="e" * 256), "INVALID_FIELD"),
        (user("x", external_id="e-1"), "DUPLICATE_IN_BATCH"),
        (user("a\0b"), "TEXT_NOT_STORABLE"),
        (user("x", name="a\0b"), "TEXT_NOT_STORABLE"),
    ],
)
async def test_a_batch_with_one_wrong_message_stores_nothing(tenant: Tenant, wrong: pb.Message, reason: str) -> None:
    with refused(INVALID, reason) as caught:
        await append(tenant, user("quetzal", external_id="e-1"), wrong)

    status = rpc_status.from_call(caught.value)  # type: ignore[arg-type]  # Reads three methods that both have.
    assert "quetzal" not in str(status)
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await session(tenant)
    assert not (await tenant.sessions.SearchMessages(pb.SearchMessagesRequest(query="quetzal"))).hits
    with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
        await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id="e-1"))


async def test_a_refusal_says_which_message_it_means(tenant: Tenant) -> None:
    with refused(INVALID, "CONTENT_EMPTY") as caught:
        await append(tenant, user("a"), user("b"), user(""))

    status = rpc_status.from_call(caught.value)  # type: ignore[arg-type]  # Reads three methods that both have.
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    status.details[0].Unpack(info)
    assert info.metadata["index"] == "2"


async def test_a_message_from_the_future_is_refused(tenant: Tenant) -> None:
    early = user("not yet")
    early.create_time.FromDatetime(datetime.now(UTC) + timedelta(minutes=10))

    with refused(INVALID, "INVALID_FIELD"):
        await append(tenant, early)


async def test_the_longest_content_is_taken(tenant: Tenant) -> None:
    content = "ü " * 50_000

    (stored,) = await append(tenant, user(content))

    assert (await transcript(tenant))[0].content == content == stored.content


async def test_a_message_without_text_needs_something_else(tenant: Tenant) -> None:
    silent = pb.Message(role=pb.MESSAGE_ROLE_ASSISTANT, tool_calls=list_of("lights.on"))

    response = await tenant.sessions.AppendMessages(
        pb.AppendMessagesRequest(session_id="s", messages=[silent], create_session=True)
    )

    assert response.pending_embedding_count == 0
    assert (await transcript(tenant))[0].tool_calls == silent.tool_calls
    with refused(INVALID, "CONTENT_EMPTY"):
        await append(tenant, pb.Message(role=pb.MESSAGE_ROLE_ASSISTANT, tool_calls=ListValue()))


@pytest.mark.system
async def test_an_external_id_names_its_message(tenant: Tenant, other_tenant: Tenant) -> None:
    uuid_like = "01890000-0000-7000-8000-000000000000"
    (first, second) = await append(tenant, user("a", external_id="e-1"), user("b", external_id=uuid_like))

    for name, message in (("e-1", first), (uuid_like, second), (first.message_id, first)):
        assert (await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=name))).message == message
        with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
            await other_tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=name))


async def test_an_external_id_is_taken_once_in_all_sessions_and_months(tenant: Tenant, other_tenant: Tenant) -> None:
    old = user("a", external_id="e-1")
    old.create_time.FromDatetime(datetime(2016, 4, 1, tzinfo=UTC))
    await append(tenant, old)

    with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN") as caught:
        await append(tenant, user("b", external_id="e-2"), user("c", external_id="e-1"), session_id="other")
    await append(other_tenant, user("a", external_id="e-1"))

    status = rpc_status.from_call(caught.value)  # type: ignore[arg-type]  # Reads three methods that both have.
    assert status is not None
    info = error_details_pb2.ErrorInfo()
    status.details[0].Unpack(info)
    assert info.metadata["external_id"] == "e-1"
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await session(tenant, "other")


async def test_a_request_repeated_at_the_same_moment_has_one_effect(tenant: Tenant) -> None:
    request = pb.AppendMessagesRequest(session_id="s", messages=[user("a")], create_session=True, request_id="r-1")

    answers = await asyncio.gather(*(tenant.sessions.AppendMessages(request) for _ in range(6)))

    assert len({answer.messages[0].message_id for answer in answers}) == 1
    assert len(await transcript(tenant)) == 1


async def test_a_refused_request_may_be_repeated(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await append(tenant, user("a"), create_session=False, request_id="r-1")
    await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=pb.Session(session_id="s")))

    assert len(await append(tenant, user("a"), create_session=False, request_id="r-1")) == 1


@pytest.mark.system
async def test_eight_callers_at_once_leave_no_gap_and_keep_their_batches_together(tenant: Tenant) -> None:
    async def caller(name: int) -> None:
        for batch in range(6):
            messages = [user(f"{name}/{batch}/{place}") for place in range(1 + (name + batch) % 4)]
            stored = await append(tenant, *messages)
            assert [message.content for message in stored] == [message.content for message in messages]
            first = stored[0].sequence
            assert [message.sequence for message in stored] == list(range(first, first + len(stored)))

    await asyncio.gather(*(caller(name) for name in range(8)))

    messages = await transcript(tenant)
    total = sum(1 + (name + batch) % 4 for name in range(8) for batch in range(6))
    assert [message.sequence for message in messages] == list(range(1, total + 1))
    batches = [key for key, _ in groupby(messages, lambda message: message.content.rpartition("/")[0])]
    assert len(batches) == len(set(batches)) == 48
    for name in range(8):
        own = [batch for batch in batches if batch.startswith(f"{name}/")]
        assert own == [f"{name}/{batch}" for batch in range(6)]
    assert ((await session(tenant)).message_count, (await session(tenant)).last_sequence) == (total, total)


@pytest.mark.system
async def test_imports_of_many_months_at_once_succeed(tenant: Tenant) -> None:
    async def month(number: int) -> None:
        message = user(f"month {number}")
        message.create_time.FromDatetime(datetime(2016 + number // 12, number % 12 + 1, 15, tzinfo=UTC))
        await append(tenant, message, user("now"), session_id=f"s-{number % 3}")

    await asyncio.gather(*(month(number) for number in range(12)))

    lengths = [len(await transcript(tenant, f"s-{number}")) for number in range(3)]
    assert lengths == [8, 8, 8]


async def test_messages_of_all_ages_keep_the_order_given(tenant: Tenant) -> None:
    times = [datetime(2016, 7, 1, tzinfo=UTC), datetime(1999, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]
    messages = [user(f"said in {time.year}") for time in times]
    for message, time in zip(messages, times, strict=True):
        message.create_time.FromDatetime(time)

    stored = await append(tenant, *messages)

    assert [message.sequence for message in stored] == [1, 2, 3]
    assert await transcript(tenant) == stored
    for message in stored:
        assert (
            await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=message.message_id))
        ).message == message
        await tenant.sessions.DeleteMessage(pb.DeleteMessageRequest(message_id=message.message_id))
    assert await transcript(tenant) == []


@pytest.mark.system
async def test_a_thousand_messages_go_in_at_once_and_their_vectors_are_made_later(tenant: Tenant) -> None:
    request = pb.AppendMessagesRequest(
        session_id="s", messages=[user(f"line {number} of the log") for number in range(1000)], create_session=True
    )

    response = await tenant.sessions.AppendMessages(request)

    assert response.pending_embedding_count == 1000
    assert [message.sequence for message in await transcript(tenant)] == list(range(1, 1001))


async def test_few_messages_have_their_vectors_at_once(tenant: Tenant) -> None:
    request = pb.AppendMessagesRequest(session_id="s", messages=[user("a"), user("b")], create_session=True)

    assert (await tenant.sessions.AppendMessages(request)).pending_embedding_count == 0


@pytest.mark.parametrize("count", [0, 1001])
async def test_a_batch_has_between_one_and_a_thousand_messages(tenant: Tenant, count: int) -> None:
    with refused(INVALID, "INVALID_FIELD"):
        await append(tenant, *[user("a")] * count)
