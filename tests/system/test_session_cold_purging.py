"""Purges, exports and the worker where sessions lie in cold storage: nothing is lost, and what is purged is gone."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import chain
from pathlib import Path

import grpc
import pytest
from fix_cluster import refused
from fix_database import TestDatabase
from fix_session_archives import MARKER, SAID, Deployment, Sessions, house_of
from grpc import aio

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc

NO_SESSION = (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
# A process that ended lets its files be due when no call can last any more.
LATER = "UPDATE session.unreferenced_files SET due_time = now() - interval '1 second' WHERE tenant_id = $1"


@pytest.fixture
async def deployment(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with house_of(database, tmp_path) as result:
        yield result


async def exported(sessions: Sessions, subject_id: str, page_size: int = 1000) -> list[pb.SubjectRecord]:
    results: list[pb.SubjectRecord] = []
    request = pb.ExportSubjectRequest(subject_id=subject_id, page_size=page_size)
    while True:
        page = await sessions.stub.ExportSubject(request)
        assert len(page.records) <= page_size
        results += page.records
        if not page.next_page_token:
            return results
        request.page_token = page.next_page_token


def without_archive_time(records: list[pb.SubjectRecord]) -> list[pb.SubjectRecord]:
    for record in records:
        if record.HasField("session"):
            record.session.ClearField("archive_time")
    return records


@pytest.mark.parametrize("way", ["session", "deleted", "owner", "elsewhere", "message"])
async def test_a_purge_reaches_the_file(deployment: Deployment, way: str) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide(subject_id="bob")
        await sessions.archive()
        if way == "deleted":
            await sessions.stub.DeleteSession(pb.DeleteSessionRequest(session_id="s"))
        if way in ("session", "deleted"):
            receipt = await sessions.purge()
        elif way == "message":
            receipt = await sessions.purge_messages("e1")
        else:
            receipt = await sessions.purge_subject("bob" if way == "owner" else "ann")

    assert len(receipt.message_ids) == (1 if way in ("elsewhere", "message") else 3)
    assert (receipt.more, deployment.files, await deployment.marked()) == (False, [], [])
    assert await deployment.usage() == (2 if way in ("elsewhere", "message") else 0)


async def test_the_rest_of_a_purged_archived_session_is_whole(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        before = await sessions.hide()
        await sessions.archive()
        await sessions.purge_messages(before[0].message_id, "unknown")
        after = await sessions.listed()
        taken = pb.Message(role=pb.MESSAGE_ROLE_USER, content="x", external_id="e1")
        with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
            await sessions.stub.AppendMessages(
                pb.AppendMessagesRequest(session_id="other", create_session=True, messages=[taken])
            )

    assert after == before[1:]


async def test_an_external_id_of_an_archived_message_is_taken_for_good_by_a_purge(deployment: Deployment) -> None:
    taken = pb.Message(role=pb.MESSAGE_ROLE_USER, content="x", external_id="e1")
    async with deployment.sessions() as sessions:
        await sessions.hide()
        await sessions.archive()
        receipt = await sessions.purge()
        with refused(grpc.StatusCode.ALREADY_EXISTS, "EXTERNAL_ID_TAKEN"):
            await sessions.stub.AppendMessages(
                pb.AppendMessagesRequest(session_id="other", create_session=True, messages=[taken])
            )

    assert receipt.counts["session.message_external_ids"] == 1


async def test_a_dry_run_counts_what_lies_in_cold_storage(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide("own", {"role": 1, "content": "a"}, {"role": 1, "content": "b"}, subject_id="ann")
        (other, *_) = await sessions.hide("other", *SAID, subject_id="bob")
        for name in ("own", "other"):
            await sessions.archive(name)
        of_session = await sessions.purge("other", dry_run=True)
        of_subject = await sessions.purge_subject("ann", dry_run=True)
        of_messages = await sessions.purge_messages("e1", "unknown", dry_run=True)
        real = await sessions.purge("other")

    assert dict(of_session.counts) == {"session.sessions": 1, "session.archived_messages": 3}
    assert real.counts["session.archived_messages"] == 3
    assert dict(of_subject.counts) == {
        "session.sessions": 1,
        "session.archived_messages": 2,
        "session.messages": 1,
    }
    assert list(of_messages.message_ids) == [other.message_id]
    assert dict(of_messages.counts) == {"session.messages": 1}


async def test_a_purge_with_a_limit_takes_several_calls_and_nothing_purged_comes_back(deployment: Deployment) -> None:
    turns = [{"role": 1, "content": f"turn {number}", "subjectId": "ann"} for number in range(10)]
    async with deployment.sessions() as sessions:
        await sessions.hide("s", *turns, subject_id="bob")
        await sessions.archive()
        first = await sessions.purge(limit=4)
        with refused(*NO_SESSION):
            await sessions.unarchive()
        # It brings back what is left, deleted.
        elsewhere = await sessions.purge_subject("ann", limit=4)
        second = await sessions.purge(limit=4)

    assert [first.counts["session.archived_messages"], first.more, len(first.message_ids)] == [4, True, 4]
    assert [elsewhere.counts["session.messages"], elsewhere.more] == [4, True]
    assert [second.counts["session.messages"], second.more, list(second.session_ids)] == [2, False, ["s"]]
    assert (deployment.files, await deployment.usage()) == ([], 0)


async def test_a_limit_counts_what_is_archived_and_what_is_not(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide("a", {"role": 1, "content": "a"}, {"role": 1, "content": "b"}, subject_id="ann")
        await sessions.hide("b", {"role": 1, "content": "c"}, {"role": 1, "content": "d"}, subject_id="ann")
        await sessions.archive("b")
        receipts = [await sessions.purge_subject("ann", limit=3)]
        while receipts[-1].more:
            receipts.append(await sessions.purge_subject("ann", limit=3))

    assert [len(receipt.message_ids) for receipt in receipts] == [3, 1]
    assert [list(receipt.session_ids) for receipt in receipts] == [["a"], ["b"]]
    assert deployment.files == []


async def test_a_person_is_purged_from_own_sessions_and_from_those_of_others(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide("own", {"role": 1, "content": MARKER}, subject_id="ann")
        for name in ("x", "y"):
            about = {"role": 1, "content": MARKER, "subjectId": "ann"}
            await sessions.hide(name, about, {"role": 1, "content": f"of {name}"}, subject_id="bob")
        for name in ("own", "x", "y"):
            await sessions.archive(name)
        receipts = [await sessions.purge_subject("ann")]
        while receipts[-1].more:
            receipts.append(await sessions.purge_subject("ann"))
        remaining = {name: [message.content for message in await sessions.listed(name)] for name in ("x", "y")}

    assert remaining == {"x": ["of x"], "y": ["of y"]}
    assert sum(len(receipt.message_ids) for receipt in receipts) == 3
    assert (deployment.files, await deployment.marked(), await deployment.usage()) == ([], [], 2)


async def test_purges_and_archives_at_once_leave_nothing_of_what_was_purged(deployment: Deployment) -> None:
    turns = [{"role": 1, "content": f"{MARKER} {n}", "externalId": f"x{n}"} for n in range(6)]
    async with deployment.sessions() as sessions:
        await sessions.hide("s", *turns, {"role": 1, "content": "what stays"})
        calls = chain(*((sessions.purge_messages(f"x{n}"), sessions.archive(), sessions.unarchive()) for n in range(6)))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                assert isinstance(answer, aio.AioRpcError)
                assert answer.code() == grpc.StatusCode.ABORTED, answer
        for number in range(6):
            await sessions.purge_messages(f"x{number}")
        await sessions.unarchive()
        remaining = await sessions.listed()

    assert [message.content for message in remaining] == ["what stays"]
    assert (deployment.files, await deployment.marked(), await deployment.usage()) == ([], [], 1)


async def test_each_purge_that_says_so_has_removed_its_message(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        for number in range(8):
            name = f"s{number}"
            await sessions.hide(name, {"role": 1, "content": MARKER, "externalId": name}, {"role": 1, "content": "x"})
            receipt, *_ = await asyncio.gather(
                sessions.purge_messages(name), sessions.archive(name), return_exceptions=True
            )
            assert not isinstance(receipt, BaseException)
            assert len(receipt.message_ids) == 1

    assert (await deployment.marked(), [MARKER in text for text in deployment.texts()].count(True)) == ([], 0)


@pytest.mark.parametrize("page_size", [1, 2, 1000])
async def test_an_export_reads_what_lies_in_cold_storage_and_leaves_it_there(
    deployment: Deployment, page_size: int
) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide("a", *SAID[1:], {"role": 1, "content": "in her own", "subjectId": "ann"}, subject_id="ann")
        await sessions.hide("b", {"role": 1, "content": "deleted with it"}, subject_id="ann")
        await sessions.hide("c", *SAID, subject_id="bob")
        await sessions.hide("d", {"role": 1, "content": "more of Ann", "subjectId": "ann"}, subject_id="bob")
        before = await exported(sessions, "ann")
        for name in "abcd":
            await sessions.archive(name)
        files = deployment.files
        archived = await exported(sessions, "ann", page_size)
        await sessions.stub.DeleteSession(pb.DeleteSessionRequest(session_id="b"))
        later = await exported(sessions, "ann", page_size)

    kinds = [record.WhichOneof("record") for record in archived]
    assert kinds == ["session", *["message"] * 3, "session", "message", *["message"] * 2]
    assert without_archive_time(archived) == before
    assert [record.deleted for record in later] == [False] * 4 + [True] * 2 + [False] * 2
    assert deployment.files == files


async def test_an_export_of_a_large_archived_session_fits_its_answers(deployment: Deployment) -> None:
    turns = [{"role": 1, "content": "x" * 100_000} for _ in range(30)]
    async with deployment.sessions() as sessions:
        await sessions.hide("s", *turns, subject_id="ann")
        message = pb.Message(role=pb.MESSAGE_ROLE_USER, content="y" * 100_000)
        append = pb.AppendMessagesRequest(session_id="s", messages=[message] * 30)
        await sessions.stub.UnhideSession(pb.UnhideSessionRequest(session_id="s"))
        await sessions.stub.AppendMessages(append)
        await sessions.stub.HideSession(pb.HideSessionRequest(session_id="s"))
        await sessions.archive()

        assert len(await exported(sessions, "ann")) == 61
        assert 20 < len(await sessions.listed(show_archived=True, page_size=1000)) < 60


async def test_the_worker_archives_what_the_tenant_s_rule_says(deployment: Deployment) -> None:
    await deployment.rule(30)
    async with deployment.sessions() as sessions:
        await sessions.hide("old")
        await deployment.grow_old()
        await sessions.hide("of today", {"role": 1, "content": "a"})
        await sessions.stub.CreateSession(pb.CreateSessionRequest(session=pb.Session(session_id="open")))
        first, second = await deployment.work(), await deployment.work()
        archived = await sessions.archived()

    assert [first.archived_count, first.more, second.archived_count] == [1, False, 0]
    assert [(one.session_id, one.archived_by) for one in archived] == [("old", "system:worker")]


async def test_without_a_rule_the_worker_archives_nothing(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide()
        await deployment.grow_old()
        answer = await deployment.work()

    assert (answer.archived_count, answer.more, deployment.files) == (0, False, [])


async def test_the_worker_archives_what_is_away_for_longest_first_a_few_at_a_time(deployment: Deployment) -> None:
    await deployment.rule(30)
    async with deployment.sessions() as sessions:
        for number in range(5):
            await sessions.hide(f"s{number}", {"role": 1, "content": "a"})
        await deployment.grow_old()
        await deployment.execute(
            "UPDATE session.sessions SET hide_time = '2019-01-01T00:00:00Z' WHERE tenant_id = $1 AND session_id = 's3'"
        )
        answers = [await deployment.work(limit=2)]
        first = {one.session_id for one in await sessions.archived()}
        while answers[-1].more:
            answers.append(await deployment.work(limit=2))

    assert first == {"s3", "s0"}
    assert [(answer.archived_count, answer.more) for answer in answers] == [(2, True), (2, True), (1, False)]


async def test_workers_at_once_archive_each_session_once(deployment: Deployment) -> None:
    await deployment.rule(30)
    names = [f"s{number}" for number in range(6)]
    async with deployment.sessions() as sessions:
        before = {name: await sessions.hide(name, {"role": 1, "content": f"in {name}"}) for name in names}
        await deployment.grow_old()
        answers = await asyncio.gather(*(deployment.work() for _ in range(4)))
        files, usage = deployment.files, await deployment.usage()
        for name in names:
            await sessions.unarchive(name)
        after = {name: await sessions.listed(name) for name in names}

    assert sum(answer.archived_count for answer in answers) == len(files) == len(names)
    assert usage == len(names)
    assert (after, deployment.files) == (before, [])


async def test_a_worker_archives_sessions_of_its_tenant_alone(deployment: Deployment) -> None:
    neighbour = await deployment.neighbour()
    await deployment.rule(30)
    for one in (deployment, neighbour):
        async with one.sessions() as sessions:
            await sessions.hide()
            await one.grow_old()
    nothing, done = await neighbour.work(), await deployment.work()
    async with neighbour.sessions() as sessions:
        assert await sessions.archived() == []
        assert len(await sessions.listed()) == 3

    assert (nothing.archived_count, done.archived_count) == (0, 1)


async def test_a_session_that_is_too_long_is_refused_and_passed_over_by_the_worker(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skein_session.cold_storage.rows.MAX_MESSAGES", 2)
    monkeypatch.setattr("skein_session.cold_storage.store.MAX_MESSAGES", 2)
    await deployment.rule(30)
    async with deployment.sessions() as sessions:
        before = await sessions.hide("long")
        await sessions.hide("short", {"role": 1, "content": "a"})
        await deployment.grow_old()
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_TOO_LONG"):
            await sessions.archive("long")
        answer = await deployment.work()

        assert await sessions.listed("long") == before
        assert [one.session_id for one in await sessions.archived()] == ["short"]
    assert answer.archived_count == len(deployment.files) == 1


async def test_calls_that_are_cut_off_at_any_moment_lose_nothing(deployment: Deployment) -> None:
    async with deployment.sessions() as sessions:
        before = await sessions.hide()
        codes = set()
        for milliseconds in range(1, 61, 3):
            for call in (sessions.archive, sessions.unarchive):
                codes.add(await code_of(call, milliseconds / 1000))
                assert len(await sessions.listed(show_archived=True)) == 3
        await sessions.archive()
        await deployment.execute(LATER)
        await deployment.work()
        files = deployment.files
        await sessions.unarchive()

        assert await sessions.listed() == before
    assert grpc.StatusCode.DEADLINE_EXCEEDED in codes
    assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED}
    assert len(files) == 1
    assert (deployment.files, await deployment.usage()) == ([], 3)


async def test_files_of_a_process_killed_before_it_took_the_messages_go_when_they_are_due(
    deployment: Deployment,
) -> None:
    async with deployment.sessions() as sessions:
        before = await sessions.hide()
        await left_behind(deployment, sessions, "'s'")
        (file,) = deployment.files
        await deployment.work()
        kept = deployment.files
        await sessions.archive()
        await deployment.execute(LATER)
        named = [other for other in deployment.files if other != file]
        await deployment.work()

        assert (kept, deployment.files) == ([file], named)
        assert len(named) == 1
        await sessions.unarchive()
        assert await sessions.listed() == before


async def test_files_of_a_process_killed_after_it_brought_them_back_go_at_once(
    deployment: Deployment,
) -> None:
    async with deployment.sessions() as sessions:
        before = await sessions.hide()
        await left_behind(deployment, sessions, "NULL", "'epoch'")
        file_count = len(deployment.files)
        await deployment.work()

        assert (file_count, deployment.files) == (1, [])
        assert await sessions.listed() == before


@pytest.mark.parametrize("way", ["session", "message", pytest.param("person", marks=pytest.mark.essential)])
async def test_a_purge_reaches_what_a_killed_process_left(deployment: Deployment, way: str) -> None:
    async with deployment.sessions() as sessions:
        await sessions.hide(subject_id="bob")
        await left_behind(deployment, sessions, "'s'")
        if way == "session":
            await sessions.purge()
        elif way == "message":
            await sessions.purge_messages("e1")
        else:
            await sessions.purge_subject("ann")

    assert (deployment.files, await deployment.marked()) == ([], [])


async def code_of(call: Callable[..., Awaitable[object]], seconds: float) -> grpc.StatusCode:
    """Make a call with so much time, and return what became of it."""
    try:
        await call(seconds=seconds)
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def left_behind(
    deployment: Deployment, sessions: Sessions, session_id: str, due: str = "now() + interval '1 hour'"
) -> None:
    """Bring about what is there when a process ends between writing a file and naming it, or later."""
    others = deployment.files
    await sessions.archive()
    (file,) = set(deployment.files) - set(others)
    packed = file.read_bytes()
    (row,) = await deployment.server.rows(
        f"SELECT file_id, checksum FROM session.archived_sessions WHERE tenant_id = '{deployment.server.tenant_id}'"  # noqa: S608
    )
    await sessions.unarchive()
    await deployment.execute(
        "INSERT INTO session.unreferenced_files (tenant_id, file_id, checksum, session_id, due_time) "  # noqa: S608
        f"VALUES ($1, '{row['file_id']}', decode('{row['checksum'].hex()}', 'hex'), {session_id}, {due})"
    )
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(packed)


async def test_a_deleted_tenant_leaves_no_file_and_its_neighbour_keeps_its_own(deployment: Deployment) -> None:
    neighbour = await deployment.neighbour()
    async with deployment.sessions() as sessions, neighbour.sessions() as others:
        before = await others.hide()
        await others.archive()
        kept = deployment.files
        await sessions.hide()
        await left_behind(deployment, sessions, "'s'")
        await sessions.archive()
        assert len(deployment.files) == 3
        async with deployment.server.channel(system=True) as channel:
            with refused(grpc.StatusCode.FAILED_PRECONDITION, "TENANT_NOT_DELETED"):
                await rpc.SessionInternalServiceStub(channel).PurgeTenant(pb.PurgeTenantRequest())
        assert len(deployment.files) == 3
        async with deployment.server.channel(system=True, closed=True) as channel:
            while (await rpc.SessionInternalServiceStub(channel).PurgeTenant(pb.PurgeTenantRequest())).more:
                pass

        assert deployment.files == kept
        assert await others.listed(show_archived=True) == before


@pytest.mark.timeout(240)
async def test_a_process_that_is_killed_at_any_moment_loses_nothing(deployment: Deployment) -> None:
    names = [f"s{number}" for number in range(4)]
    url, tenant_id = deployment.server.database.url, str(deployment.server.tenant_id)
    async with deployment.sessions() as sessions:
        turns = [{"role": 1, "content": f"turn {number}"} for number in range(20)]
        before = {name: await sessions.hide(name, *turns) for name in names}
        for milliseconds in (0, 7, 16, 31, 54, 83, 120, 161):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "fix_storing", url, str(deployment.folder), tenant_id, *names,
                cwd=Path(__file__).parents[1],
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdout is not None
            assert await process.stdout.readline() == b"begun\n"
            # However long it runs, nothing is waited for.
            await asyncio.sleep(milliseconds / 1000)
            process.kill()
            await process.wait()
            shown = {name: await sessions.listed(name, show_archived=True) for name in names}
            assert shown == before
        for name in names:
            await sessions.unarchive(name)
        await deployment.execute(LATER)
        await deployment.work()
        after = {name: await sessions.listed(name) for name in names}

    assert after == before
    assert [path for path in deployment.folder.rglob("*") if path.is_file()] == []
    assert await deployment.usage() == 80
