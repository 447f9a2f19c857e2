"""Cold storage of sessions: messages leave the tables, are found no more, and come back as they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import chain
from pathlib import Path

import grpc
import pytest
from fix_cluster import Tenant, refused
from fix_database import TestDatabase
from fix_session_archives import MARKER, Deployment, house_of

from skein.recall.v1 import recall_pb2
from skein.session.v1 import archives_pb2
from skein.session.v1 import session_pb2 as pb

ARCHIVED = (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ARCHIVED")
DAMAGED = (grpc.StatusCode.DATA_LOSS, "ARCHIVE_DAMAGED")
NO_SESSION = (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")


@pytest.fixture
async def deployment(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with house_of(database, tmp_path) as result:
        yield result


@pytest.mark.system
async def test_an_archived_session_is_listed_and_comes_back_as_it_was(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        before = await sessions.hide(title="t")
        await sessions.archive()
        session, (archived,) = await sessions.session(), await sessions.archived()
        texts, hidden = deployment.texts(), await deployment.marked()
        again = await sessions.archive()
        usage = await deployment.usage()
        await sessions.unarchive()
        after, back = await sessions.listed(), await sessions.session()
        response = await sessions.stub.SearchMessages(pb.SearchMessagesRequest(query="heron"))

    assert session.message_count == archived.message_count == usage == 3
    assert session.archive_time == archived.archive_time == again.archive_time
    assert (archived.session_id, archived.title, archived.archived_by) == ("s", "t", "api_key:1")
    assert [MARKER in text for text in texts] == [True]
    assert hidden == []
    assert after == before
    assert [hit.message for hit in response.hits] == [before[0]]
    assert (deployment.files, back.HasField("archive_time"), back.state) == ([], False, session.state)
    assert await deployment.usage() == 3


@pytest.mark.system
async def test_a_request_for_an_archived_session_says_so(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        first = (await sessions.hide())[0]
        await sessions.archive()
        stub = sessions.stub
        correction = pb.UpdateMessageRequest(
            message=pb.Message(message_id="e1", content="x"), update_mask={"paths": ["content"]}
        )
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: stub.ListMessages(pb.ListMessagesRequest(session_id="s")),
            lambda: stub.GetMessage(pb.GetMessageRequest(message_id=first.message_id)),
            lambda: stub.GetMessage(pb.GetMessageRequest(message_id="e1")),
            lambda: stub.UpdateMessage(correction),
            lambda: stub.DeleteMessage(pb.DeleteMessageRequest(message_id="e1")),
            lambda: stub.GetRecentWindow(pb.GetRecentWindowRequest(session_id="s")),
            lambda: stub.SummarizeSession(pb.SummarizeSessionRequest(session_id="s")),
            lambda: stub.UnhideSession(pb.UnhideSessionRequest(session_id="s")),
            lambda: stub.SearchMessages(pb.SearchMessagesRequest(query="heron", session_id="s")),
        ]
        for call in calls:
            with refused(*ARCHIVED):
                await call()
        with refused(*ARCHIVED):
            _ = [response async for response in stub.StreamMessages(pb.StreamMessagesRequest(session_id="s"))]
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_HIDDEN"):
            await stub.AppendMessages(
                pb.AppendMessagesRequest(
                    session_id="s", messages=[pb.Message(role=pb.MESSAGE_ROLE_USER, content="too late")]
                )
            )
        everywhere = await stub.SearchMessages(pb.SearchMessagesRequest(query="heron"))

    assert list(everywhere.hits) == []


@pytest.mark.system
async def test_messages_are_read_from_the_file_when_they_are_asked_for_so(deployment: Deployment) -> None:
    turns = [{"role": 1, "content": f"turn {number}"} for number in range(10)]
    async with deployment.sessions() as sessions:
        before = await sessions.hide("s", *turns)
        await sessions.stub.DeleteMessage(pb.DeleteMessageRequest(message_id=before[4].message_id))
        await sessions.archive()
        pages: dict[bool, list[list[pb.Message]]] = {}
        for newest_first in (False, True):
            request = pb.ListMessagesRequest(session_id="s", show_archived=True, page_size=4, newest_first=newest_first)
            pages[newest_first] = []
            while True:
                page = await sessions.stub.ListMessages(request)
                pages[newest_first].append(list(page.messages))
                if not page.next_page_token:
                    break
                request.page_token = page.next_page_token

    remaining = [message for message in before if message != before[4]]
    assert [len(page) for page in pages[False]] == [len(page) for page in pages[True]] == [4, 4, 1]
    assert [*chain(*pages[False])] == remaining
    assert [*chain(*pages[True])] == remaining[::-1]


async def test_deleted_messages_come_back_deleted(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide()
        await sessions.stub.DeleteMessage(pb.DeleteMessageRequest(message_id="e1"))
        before = await sessions.listed()
        await sessions.archive()
        (archived,) = await sessions.archived()
        await sessions.unarchive()
        after = await sessions.listed()
        with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
            await sessions.stub.GetMessage(pb.GetMessageRequest(message_id="e1"))

    assert (archived.message_count, len(before)) == (2, 2)
    assert after == before
    assert await deployment.usage() == 2


async def test_an_external_id_stays_taken_while_its_message_is_archived(deployment: Deployment) -> None:
    taken = pb.AppendMessagesRequest(
        session_id="other",
        create_session=True,
        messages=[pb.Message(role=pb.MESSAGE_ROLE_USER, content="x", external_id="e1")],
    )
    async with deployment.sessions() as sessions:
        await sessions.hide()
        await sessions.archive()
        with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
            await sessions.stub.AppendMessages(taken)
        await sessions.unarchive()
        response = await sessions.stub.GetMessage(pb.GetMessageRequest(message_id="e1"))

    assert response.message.content == MARKER


@pytest.mark.system
async def test_only_a_hidden_session_is_archived(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide()
        await sessions.stub.UnhideSession(pb.UnhideSessionRequest(session_id="s"))
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_NOT_HIDDEN"):
            await sessions.archive()
        for call in (sessions.archive, sessions.unarchive):
            with refused(*NO_SESSION):
                await call("none")

    assert deployment.files == []


async def test_a_session_without_messages_is_archived_and_comes_back(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        await sessions.stub.CreateSession(pb.CreateSessionRequest(session=pb.Session(session_id="empty")))
        await sessions.stub.HideSession(pb.HideSessionRequest(session_id="empty"))
        await sessions.archive("empty")
        with refused(*ARCHIVED):
            await sessions.listed("empty")
        await sessions.unarchive("empty")
        assert await sessions.listed("empty") == []


@pytest.mark.system
async def test_the_same_request_at_the_same_time_is_done_once(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        before = await sessions.hide()
        answers = await asyncio.gather(*(sessions.archive(request_id="a") for _ in range(4)))
        files = deployment.files
        await asyncio.gather(*(sessions.unarchive(request_id="r") for _ in range(4)))
        after = await sessions.listed()

    assert len({answer.SerializeToString() for answer in answers}) == 1
    assert len(files) == 1
    assert (after, deployment.files) == (before, [])


@pytest.mark.system
async def test_archiving_and_unarchiving_at_once_ends_in_one_of_both(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        before = await sessions.hide()
        for _ in range(3):
            calls = [(sessions.archive, sessions.unarchive)[number % 2]() for number in range(6)]
            for answer in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(answer, grpc.RpcError):
                    assert answer.code() == grpc.StatusCode.ABORTED
                else:
                    assert not isinstance(answer, BaseException)
            is_archived = (await sessions.session()).HasField("archive_time")
            assert len(deployment.files) == is_archived
            await sessions.unarchive()
            assert await sessions.listed() == before


@pytest.mark.system
async def test_a_damaged_file_is_reported_and_nothing_is_lost(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        before = await sessions.hide(subject_id="bob")
        await sessions.archive()
        (file,) = deployment.files
        whole = file.read_bytes()
        for damage in (whole[:-9] + b"not what ", b"", None):
            file.unlink() if damage is None else file.write_bytes(damage)
            with refused(*DAMAGED):
                await sessions.unarchive()
            with refused(*DAMAGED):
                await sessions.listed(show_archived=True)
            with refused(*DAMAGED):
                await sessions.stub.ExportSubject(pb.ExportSubjectRequest(subject_id="bob"))
            with refused(*DAMAGED):
                await sessions.purge_messages("e1")
        assert [one.session_id for one in await sessions.archived()] == ["s"]
        file.write_bytes(whole)
        await sessions.unarchive()

        assert await sessions.listed() == before


@pytest.mark.system
async def test_a_session_whose_file_is_damaged_can_be_purged(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide(subject_id="bob")
        await sessions.archive()
        deployment.files[0].write_bytes(b"x")
        receipt = await sessions.purge_subject("bob")

    assert (list(receipt.session_ids), receipt.more, deployment.files) == (["s"], False, [])


@pytest.mark.system
async def test_archived_sessions_are_listed_page_by_page_and_to_their_tenant_alone(deployment: Deployment) -> None:
    names = [f"session {number}" for number in range(5)]
    neighbour = await deployment.neighbour()
    async with deployment.sessions() as sessions, neighbour.sessions() as others:
        for name in names:
            await sessions.hide(name, {"role": 1, "content": name})
            await sessions.archive(name)
        await sessions.stub.DeleteSession(pb.DeleteSessionRequest(session_id=names[1]))
        request = archives_pb2.ListArchivedSessionsRequest(page_size=2)
        pages = []
        while True:
            page = await sessions.stub.ListArchivedSessions(request)
            pages.append([one.session_id for one in page.sessions])
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        assert await others.archived() == []
        for token in (request.page_token, "nonsense"):
            with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
                await others.archived(page_token=token)

    assert pages == [[names[4], names[3]], [names[2], names[0]]]


@pytest.mark.system
async def test_an_unarchived_session_is_recalled_again(tenant: Tenant) -> None:
    session = pb.Session(session_id="the session of the bittern")
    await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=session))
    message = pb.Message(role=pb.MESSAGE_ROLE_USER, content="the bittern stood in the reeds")
    appended = await tenant.sessions.AppendMessages(
        pb.AppendMessagesRequest(session_id=session.session_id, messages=[message])
    )
    await tenant.sessions.HideSession(pb.HideSessionRequest(session_id=session.session_id))

    async def search_results() -> tuple[list[str], list[str]]:
        recalled = await tenant.recall.Recall(recall_pb2.RecallRequest(query="bittern in the reeds"))
        by_meaning = pb.SearchMessagesRequest(query="a bird at the water", mode=pb.SEARCH_MODE_SEMANTIC)
        searched = await tenant.sessions.SearchMessages(by_meaning)
        return [hit.item_id for hit in recalled.hits], [hit.message.message_id for hit in searched.hits]

    before = await search_results()
    await tenant.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id=session.session_id))
    meanwhile = await search_results()
    await tenant.sessions.UnarchiveSession(archives_pb2.UnarchiveSessionRequest(session_id=session.session_id))

    assert before == ([appended.messages[0].message_id],) * 2
    assert meanwhile == ([], [])
    assert await search_results() == before


async def test_nothing_else_hangs_on_a_message(database: TestDatabase) -> None:
    async with database.superuser() as connection:
        rows = await connection.fetch(
            "SELECT DISTINCT conrelid::regclass::text AS name FROM pg_constraint "
            "WHERE contype = 'f' AND confrelid = 'session.messages'::regclass AND conparentid = 0"
        )

    assert rows == []
