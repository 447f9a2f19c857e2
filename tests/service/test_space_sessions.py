"""Sessions, blocks, states and ledgers of spaces: whose they are, and where what is made of them lies."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import asyncpg
import grpc
import pytest
from fix_calls import stamp
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_context_ledgers import Prompt
from fix_extraction import extraction_job, facts, learning_tenant
from fix_spaces import SPACE_KEY, first_spaces, grant, new_key, new_space
from google.protobuf.field_mask_pb2 import FieldMask

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2
from skein.session.v1 import archives_pb2, ledgers_pb2, session_pb2, states_pb2
from skein.tenancy.v1 import spaces_pb2, subjects_pb2
from skein_kit.identity.permissions import TENANT_PERMISSIONS

NOT_FOUND = (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
USER = session_pb2.MESSAGE_ROLE_USER
DEFAULT = str(uuid.UUID(int=0))


@dataclass(frozen=True)
class House:
    """A tenant with the space of a doctor, whose key sees it too, and a kitchen's key that does not."""

    cluster: Cluster
    tenant: Tenant
    space_id: str
    secret: str
    principal: str
    kitchen: Stubs

    @property
    def doctor(self) -> Stubs:
        """Reads both spaces, and writes in the default one."""
        return self.cluster.with_key(self.secret)

    @property
    def practice(self) -> Stubs:
        """Reads and writes in the doctor's space."""
        return self.cluster.with_key(self.secret, **{SPACE_KEY: self.space_id})


async def new_house(cluster: Cluster, tenant: Tenant) -> House:
    [space_id] = await first_spaces(cluster, tenant, "doctor")
    principal, secret = await new_key(cluster, tenant, [space_id], permissions=TENANT_PERMISSIONS)
    _, kitchen = await new_key(cluster, tenant, [], permissions=TENANT_PERMISSIONS)
    return House(
        cluster=cluster,
        tenant=tenant,
        space_id=space_id,
        secret=secret,
        principal=principal,
        kitchen=cluster.with_key(kitchen),
    )


@pytest.fixture
async def house(cluster: Cluster, tenant: Tenant) -> House:
    return await new_house(cluster, tenant)


@pytest.fixture
async def catalog(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    async with cluster.superuser() as connection:
        yield connection


async def texts(stubs: Stubs, session_id: str) -> list[str]:
    request = session_pb2.ListMessagesRequest(session_id=session_id)
    return [message.content for message in (await stubs.sessions.ListMessages(request)).messages]


@pytest.mark.system
async def test_a_session_and_its_messages_are_seen_in_their_space_alone(house: House) -> None:
    (message,) = await house.practice.append("visit", "the knee hurts")

    assert await texts(house.doctor, "visit") == ["the knee hurts"]
    with refused(*NOT_FOUND):
        await texts(house.kitchen, "visit")
    with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
        await house.kitchen.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=message.message_id))
    hits = (await house.doctor.search("knee", min_relevance=0)).hits
    assert [hit.item_id for hit in hits] == [message.message_id]
    assert not (await house.kitchen.search("knee", min_relevance=0)).hits
    found = await house.kitchen.sessions.SearchMessages(session_pb2.SearchMessagesRequest(query="knee"))
    assert not found.hits


@pytest.mark.system
async def test_hidden_messages_take_no_place_among_the_hits(house: House) -> None:
    await house.kitchen.append("soup", "a kettle of soup, and much else that is not about it")
    for _ in range(3):
        await house.practice.append("visit", "kettle")

    found = await house.kitchen.sessions.SearchMessages(session_pb2.SearchMessagesRequest(query="kettle", limit=1))

    assert [hit.message.session_id for hit in found.hits] == ["soup"]


@pytest.mark.system
async def test_an_id_that_is_taken_in_another_space_is_free(house: House) -> None:
    await house.practice.append("talk", "of the practice", session_pb2.Message(role=USER, content="x", external_id="m"))

    (message,) = await house.kitchen.append("talk", session_pb2.Message(role=USER, content="y", external_id="m"))

    assert message.sequence == 1
    assert await texts(house.kitchen, "talk") == ["y"]
    # Who sees both and names neither gets the first one.
    assert await texts(house.doctor, "talk") == ["y"]
    assert await texts(house.practice, "talk") == ["of the practice", "x"]


@pytest.mark.system
async def test_lists_show_sessions_of_several_spaces_and_each_once(house: House) -> None:
    for place, stubs in (("practice", house.practice), ("kitchen", house.kitchen)):
        for number in range(3):
            await stubs.create_session(f"s{number}", title=f"{place} {number}")
    listed = []
    request = session_pb2.ListSessionsRequest(page_size=2)
    while True:
        page = await house.doctor.sessions.ListSessions(request)
        listed += [session.title for session in page.sessions]
        request.page_token = page.next_page_token
        if not request.page_token:
            break

    assert sorted(listed) == [f"{place} {number}" for place in ("kitchen", "practice") for number in range(3)]
    kitchen = await house.kitchen.sessions.ListSessions(session_pb2.ListSessionsRequest())
    assert {session.title for session in kitchen.sessions} == {f"kitchen {number}" for number in range(3)}


@pytest.mark.system
async def test_a_stream_shows_the_messages_of_its_space(house: House) -> None:
    await house.kitchen.append("talk", "in the kitchen")
    await house.practice.append("talk", "in the practice")
    stream: Any = house.practice.sessions.StreamMessages(
        session_pb2.StreamMessagesRequest(session_id="talk", after_sequence=0)
    )

    async with asyncio.timeout(30):
        contents = [(await stream.read()).message.content for _ in range(2)]
        await house.kitchen.append("talk", "again in the kitchen")
        await house.practice.append("talk", "again in the practice")
        contents.append((await stream.read()).message.content)
    stream.cancel()

    assert contents == ["", "in the practice", "again in the practice"]


async def test_a_message_cannot_lie_elsewhere_than_its_session(
    house: House, catalog: asyncpg.Connection[asyncpg.Record]
) -> None:
    (message,) = await house.practice.append("visit", "the knee hurts")
    key = (house.tenant.tenant_id, uuid.UUID(message.message_id))

    for table in ("messages", "message_order"):
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await catalog.execute(
                f"UPDATE session.{table} SET space_id = $3 "  # noqa: S608 - names of this test.
                "WHERE tenant_id = $1 AND message_id = $2",
                *key,
                uuid.UUID(DEFAULT),
            )


async def test_a_session_does_not_leave_its_messages_behind(
    house: House, catalog: asyncpg.Connection[asyncpg.Record]
) -> None:
    await house.practice.append("visit", "the knee hurts")

    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await catalog.execute(
            "UPDATE session.sessions SET space_id = $3 WHERE tenant_id = $1 AND session_id = $2",
            house.tenant.tenant_id,
            "visit",
            uuid.UUID(DEFAULT),
        )


@pytest.mark.system
async def test_a_session_goes_to_cold_storage_and_comes_back_in_its_space(house: House) -> None:
    await house.practice.append("visit", "the knee hurts")
    await house.kitchen.append("visit", "the soup is hot")
    await house.practice.sessions.HideSession(session_pb2.HideSessionRequest(session_id="visit"))
    await house.practice.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id="visit"))

    request = archives_pb2.ListArchivedSessionsRequest()
    assert len((await house.doctor.sessions.ListArchivedSessions(request)).sessions) == 1
    assert not (await house.kitchen.sessions.ListArchivedSessions(request)).sessions
    assert await texts(house.kitchen, "visit") == ["the soup is hot"]
    await house.practice.sessions.UnarchiveSession(archives_pb2.UnarchiveSessionRequest(session_id="visit"))
    assert await texts(house.practice, "visit") == ["the knee hurts"]


@pytest.mark.system
async def test_a_purged_id_is_free_in_another_space(house: House) -> None:
    await house.practice.append("visit", "the knee hurts")
    await house.practice.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="visit"))

    await house.kitchen.append("visit", "the soup is hot")

    with refused(*NOT_FOUND):
        await house.practice.append("visit", "again")
    assert await texts(house.kitchen, "visit") == ["the soup is hot"]


async def test_reads_of_the_past_keep_to_the_space(house: House) -> None:
    (message,) = await house.practice.append("visit", "the knee hurts")
    at = stamp(datetime.now(UTC))
    await house.practice.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message.message_id))
    request = session_pb2.GetMessageRequest(message_id=message.message_id, as_of_time=at)

    assert (await house.doctor.sessions.GetMessage(request)).message.content == "the knee hurts"
    with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND"):
        await house.kitchen.sessions.GetMessage(request)


async def test_an_agent_has_a_state_in_each_space(house: House) -> None:
    for stubs, thought in ((house.practice, "knee"), (house.kitchen, "soup")):
        state = states_pb2.AgentState(agent_id="helper")
        state.state_data.update({"thought": thought})
        await stubs.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state))
    request = states_pb2.GetAgentStateRequest(agent_id="helper")

    assert dict((await house.practice.sessions.GetAgentState(request)).state.state_data) == {"thought": "knee"}
    assert dict((await house.kitchen.sessions.GetAgentState(request)).state.state_data) == {"thought": "soup"}
    listed = states_pb2.ListAgentStatesRequest(page_size=1)
    first = await house.doctor.sessions.ListAgentStates(listed)
    listed.page_token = first.next_page_token
    second = await house.doctor.sessions.ListAgentStates(listed)
    assert [dict(one.state_data)["thought"] for one in (*first.states, *second.states)] == ["soup", "knee"]


@pytest.mark.system
async def test_blocks_lie_in_spaces_with_their_revisions_and_agents(house: House) -> None:
    for stubs, value in ((house.practice, "knee"), (house.kitchen, "soup")):
        await stubs.create_block("persona", value, block_id="shared", request_id=value)
        await stubs.update_block("shared", value=f"{value} again")
        attach = blocks_pb2.AttachBlockRequest(block_id="shared", agent_id="helper")
        await stubs.blocks.AttachBlock(attach)
    compile_request = blocks_pb2.CompileBlocksRequest(agent_id="helper")
    revisions = blocks_pb2.ListBlockRevisionsRequest(block_id="shared")

    assert (await house.practice.get_block("shared")).value == "knee again"
    assert (await house.doctor.get_block("shared")).value == "soup again"
    kitchen = await house.kitchen.blocks.CompileBlocks(compile_request)
    both = await house.doctor.blocks.CompileBlocks(compile_request)
    assert "soup again" in str(kitchen)
    assert "knee" not in str(kitchen)
    assert "soup again" in str(both)
    assert "knee again" in str(both)
    listed = [one.block.value for one in (await house.practice.blocks.ListBlockRevisions(revisions)).revisions]
    assert listed == ["knee"]
    pages = blocks_pb2.ListBlocksRequest(page_size=1)
    first = await house.doctor.blocks.ListBlocks(pages)
    pages.page_token = first.next_page_token
    second = await house.doctor.blocks.ListBlocks(pages)
    assert [one.value for one in (*first.blocks, *second.blocks)] == ["soup again", "knee again"]
    assert not second.next_page_token


async def test_a_person_has_a_profile_in_each_space(house: House) -> None:
    for stubs, name in ((house.practice, "Patient"), (house.kitchen, "Guest")):
        subject = subjects_pb2.Subject(subject_id="mira", display_name=name)
        subject.profile.update({"place": name})
        await stubs.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
        subject.display_name = f"{name} again"
        update = subjects_pb2.UpdateSubjectRequest(subject=subject, update_mask=FieldMask(paths=["display_name"]))
        await stubs.tenancy.UpdateSubject(update)
    request = subjects_pb2.GetSubjectRequest(subject_id="mira")

    assert (await house.practice.tenancy.GetSubject(request)).subject.display_name == "Patient again"
    assert (await house.kitchen.tenancy.GetSubject(request)).subject.display_name == "Guest again"
    assert (await house.doctor.tenancy.GetSubject(request)).subject.display_name == "Guest again"
    former = subjects_pb2.GetSubjectRequest(subject_id="mira", revision=1)
    assert (await house.practice.tenancy.GetSubject(former)).subject.display_name == "Patient"
    where = subjects_pb2.ListSubjectsRequest(page_size=1)
    first = await house.doctor.tenancy.ListSubjects(where)
    where.page_token = first.next_page_token
    second = await house.doctor.tenancy.ListSubjects(where)
    names = [one.display_name for one in (*first.subjects, *second.subjects)]
    assert (names, second.next_page_token) == (["Guest again", "Patient again"], "")


@pytest.mark.system
async def test_a_fact_lies_where_its_message_lies(cluster: Cluster) -> None:
    tenant = await learning_tenant(cluster)
    house = await new_house(cluster, tenant)
    message = session_pb2.Message(role=USER, content="I live in Porto", subject_id="mira")
    await house.practice.append("visit", message)
    job = extraction_job(cluster)

    async with asyncio.timeout(30):
        # The cluster's own worker may have it.
        while not (listed := await house.practice.list_memories()):
            await job.extract_session(str(tenant.tenant_id))
            await job.extract_session(str(tenant.tenant_id), house.space_id)

    # The key of the tenant's maker sees the default space alone, as the kitchen's does.
    assert await facts(tenant) == []
    assert [(memory.content, memory.created_by) for memory in listed] == [("I live in Porto", "extractor:rules@4")]


@pytest.mark.system
async def test_a_space_with_a_session_or_a_block_is_not_deleted(house: House) -> None:
    spaces = [await new_space(house.tenant, name) for name in ("with a session", "with a block", "empty")]
    secrets = [(await new_key(house.cluster, house.tenant, [space_id]))[1] for space_id in spaces]
    first, second = (
        house.cluster.with_key(secret, **{SPACE_KEY: space_id})
        for secret, space_id in zip(secrets[:2], spaces[:2], strict=True)
    )
    await first.create_session("s")
    await second.create_block("b")
    async with house.cluster.superuser() as connection:
        await connection.execute("DELETE FROM tenancy.space_grants WHERE space_id = ANY ($1::uuid[])", spaces)

    for space_id in spaces[:2]:
        with refused(grpc.StatusCode.FAILED_PRECONDITION, "SPACE_NOT_EMPTY"):
            await house.tenant.tenancy.DeleteSpace(spaces_pb2.DeleteSpaceRequest(space_id=space_id))
    await house.tenant.tenancy.DeleteSpace(spaces_pb2.DeleteSpaceRequest(space_id=spaces[2]))


@pytest.mark.system
async def test_a_ledger_goes_on_in_a_tenant_with_spaces_until_a_space_is_lost(house: House) -> None:
    principal, secret = await new_key(house.cluster, house.tenant, [house.space_id])
    await house.practice.remember("Anna drinks green tea.")
    await house.kitchen.remember("Anna drinks no coffee.")
    prompt = Prompt(stubs=house.cluster.with_key(secret))

    first = await prompt.turn()
    await house.kitchen.remember("Anna drinks apple juice.")
    second = await prompt.turn()
    await house.tenant.tenancy.RevokeSpaceGrant(
        spaces_pb2.RevokeSpaceGrantRequest(space_id=house.space_id, principal=principal)
    )
    async with asyncio.timeout(60):
        # The gateway keeps an exchange for some seconds.
        while not (third := await prompt.turn()).rebase:
            await asyncio.sleep(0.1)

    assert first.rebase == gateway_pb2.REBASE_REASON_REQUESTED
    assert "green tea" in first.text
    assert not second.rebase
    assert "apple juice" in second.text
    assert third.rebase == gateway_pb2.REBASE_REASON_SPACE_LOST
    assert "green tea" not in third.text
    assert "no coffee" in third.text


async def test_a_ledger_begins_anew_when_the_request_names_a_space(house: House) -> None:
    await house.practice.remember("Anna drinks green tea.")
    await house.kitchen.remember("Anna drinks no coffee.")
    prompt = Prompt(stubs=house.doctor)
    await prompt.turn()

    prompt.stubs = house.practice
    named = await prompt.turn()

    assert named.rebase == gateway_pb2.REBASE_REASON_REQUEST_CHANGED
    assert "no coffee" not in named.text


async def test_a_reader_of_a_space_has_a_ledger_too(house: House) -> None:
    principal, secret = await new_key(house.cluster, house.tenant, [house.space_id], "reader", bind=True)
    await grant(house.tenant, house.space_id, principal, "reader")
    await house.practice.remember("Anna drinks green tea.")

    turn = await Prompt(stubs=house.cluster.with_key(secret)).turn()

    assert "green tea" in turn.text


async def ledgers(stubs: Stubs, **fields: Any) -> list[ledgers_pb2.ContextLedger]:
    return list((await stubs.sessions.ListContextLedgers(ledgers_pb2.ListContextLedgersRequest(**fields))).ledgers)


async def test_ledgers_are_listed_without_digests_and_with_the_counts_of_their_turns(house: House) -> None:
    await house.kitchen.remember("Anna drinks no coffee.")
    prompt = Prompt(stubs=house.kitchen)
    await prompt.turn()
    await house.kitchen.remember("Anna drinks apple juice.")
    await prompt.turn()

    (short,) = await ledgers(house.kitchen)
    (whole,) = await ledgers(house.kitchen, ledger_id=prompt.ledger_id)

    assert (short.append_count, dict(short.first_text_counts)) == (1, {gateway_pb2.REBASE_REASON_REQUESTED: 1})
    assert short.first_token_count > 0
    assert short.appended_token_count > 0
    assert not short.entries
    assert whole.salt + whole.reader_digest + whole.request_digest == b""
    assert len({entry.turn for entry in whole.entries}) == 2
    assert not any(entry.digest for entry in whole.entries)
    assert await ledgers(house.kitchen, ledger_id="another") == []
    assert await ledgers(house.kitchen, in_session_id="another") == []


async def test_a_ledger_is_seen_by_who_sees_all_spaces_of_its_texts(house: House) -> None:
    await house.practice.remember("Anna drinks green tea.")
    of_doctor, of_kitchen = Prompt(stubs=house.doctor), Prompt(stubs=house.kitchen)
    await of_doctor.turn()
    await of_kitchen.turn()

    assert [one.ledger_id for one in await ledgers(house.kitchen)] == [of_kitchen.ledger_id]
    assert await ledgers(house.kitchen, ledger_id=of_doctor.ledger_id) == []
    assert await ledgers(house.kitchen, principal=house.principal) == []
    names = {one.ledger_id for one in await ledgers(house.doctor)}
    assert names == {of_doctor.ledger_id, of_kitchen.ledger_id}
    # In the practice alone no text may be of the default space.
    assert await ledgers(house.practice) == []


@pytest.mark.system
async def test_ledgers_of_others_need_a_permission(house: House) -> None:
    await Prompt(stubs=house.doctor).turn()
    principal, secret = await new_key(house.cluster, house.tenant, [house.space_id])
    reader = house.cluster.with_key(secret)
    own = Prompt(stubs=reader)
    await own.turn()

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await ledgers(reader, principal=house.principal)
    assert [(one.principal, one.ledger_id) for one in await ledgers(reader)] == [(principal, own.ledger_id)]


async def test_ledgers_are_listed_page_by_page(house: House) -> None:
    prompts = [Prompt(stubs=house.kitchen) for _ in range(3)]
    for prompt in prompts:
        await prompt.turn()
    request = ledgers_pb2.ListContextLedgersRequest(page_size=2)

    first = await house.kitchen.sessions.ListContextLedgers(request)
    request.page_token = first.next_page_token
    second = await house.kitchen.sessions.ListContextLedgers(request)

    assert [one.ledger_id for one in (*first.ledgers, *second.ledgers)] == sorted(one.ledger_id for one in prompts)
    assert not second.next_page_token


async def exported(stubs: Stubs, **fields: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what is exported of a person, each with its space, and the spaces that the export covers."""
    request = session_pb2.ExportSubjectRequest(subject_id="mira", page_size=2, **fields)
    found: list[tuple[str, str]] = []
    while True:
        page = await stubs.sessions.ExportSubject(request)
        for record in page.records:
            kind = record.WhichOneof("record")
            name = {"session": record.session.title, "message": record.message.content}.get(kind or "", kind or "")
            found.append((name, record.space_id))
        request.page_token = page.next_page_token
        if not request.page_token:
            return found, list(page.space_ids)


@pytest.mark.system
async def test_a_person_is_exported_from_the_spaces_in_which_the_caller_writes(house: House) -> None:
    for place, stubs in (("practice", house.practice), ("kitchen", house.kitchen)):
        await stubs.create_session("of mira", subject_id="mira", title=place)
        await stubs.append("of mira", f"said in the {place}")
        named = session_pb2.Message(role=USER, content=f"about mira in the {place}", subject_id="mira")
        await stubs.append("of bob", named, "about the weather")
    await Prompt(stubs=house.doctor, fields={"recall": {"subject_id": "mira"}}).turn()
    _, secret = await new_key(house.cluster, house.tenant, [house.space_id], "reader", permissions=TENANT_PERMISSIONS)
    reader = house.cluster.with_key(secret)
    in_kitchen = {("kitchen", ""), ("said in the kitchen", ""), ("about mira in the kitchen", "")}
    in_practice = {
        (name, house.space_id) for name in ("practice", "said in the practice", "about mira in the practice")
    }

    records, covered = await exported(house.doctor)
    assert len(records) == 7
    assert set(records) == in_kitchen | in_practice | {("ledger", "")}
    assert covered == [DEFAULT, house.space_id]
    records, covered = await exported(house.kitchen)
    assert (set(records), covered) == (in_kitchen, [DEFAULT])
    records, covered = await exported(house.practice)
    assert (set(records), covered) == (in_practice, [house.space_id])
    # Deleted rows are among them, which a reader does not see.
    records, covered = await exported(reader)
    assert (set(records), covered) == (in_kitchen, [DEFAULT])
    # Who manages the spaces could let itself see them all.
    records, covered = await exported(house.kitchen, all_spaces=True)
    assert (set(records), covered) == (in_kitchen | in_practice | {("ledger", "")}, [])


async def test_only_who_manages_the_spaces_exports_a_person_from_all(house: House) -> None:
    permissions = TENANT_PERMISSIONS - {"spaces.write"}
    _, secret = await new_key(house.cluster, house.tenant, [house.space_id], permissions=permissions)
    _, bound = await new_key(house.cluster, house.tenant, [house.space_id], bind=True, permissions=TENANT_PERMISSIONS)
    request = session_pb2.ExportSubjectRequest(subject_id="mira", all_spaces=True)

    with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
        await house.cluster.with_key(secret).sessions.ExportSubject(request)
    for stubs in (house.cluster.with_key(bound), house.practice):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "SPACES_UNSUPPORTED"):
            await stubs.sessions.ExportSubject(request)


async def test_failed_extractions_are_listed_in_their_space(
    house: House, catalog: asyncpg.Connection[asyncpg.Record]
) -> None:
    (message,) = await house.practice.append("visit", "the knee hurts")
    await catalog.execute(
        "INSERT INTO session.extraction_failures "
        "(tenant_id, message_id, session_id, reason, attempt_count, attempt_time, space_id) "
        "VALUES ($1, $2, 'visit', 'unavailable', 3, now(), $3)",
        house.tenant.tenant_id,
        uuid.UUID(message.message_id),
        uuid.UUID(house.space_id),
    )
    request = session_pb2.ListFailedExtractionsRequest()

    assert len((await house.doctor.sessions.ListFailedExtractions(request)).failures) == 1
    assert not (await house.kitchen.sessions.ListFailedExtractions(request)).failures


@pytest.mark.system
async def test_a_purged_session_leaves_the_access_log_of_its_namesake_in_another_space(
    house: House, catalog: asyncpg.Connection[asyncpg.Record]
) -> None:
    for stubs in (house.practice, house.kitchen):
        await stubs.append("visit", "the knee hurts")
        await texts(stubs, "visit")
    query = """
        SELECT coalesce(space_ids, '{00000000-0000-0000-0000-000000000000}')::text[] AS space_ids
        FROM memory.access_log WHERE tenant_id = $1 AND session_id = 'visit' AND method = 'ListMessages'
    """

    async def logged() -> set[str]:
        rows = await catalog.fetch(query, house.tenant.tenant_id)
        return {space_id for row in rows for space_id in row["space_ids"]}

    async with asyncio.timeout(30):
        while await logged() != {DEFAULT, house.space_id}:
            await asyncio.sleep(0.1)

    await house.practice.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="visit"))

    assert await logged() == {DEFAULT}
