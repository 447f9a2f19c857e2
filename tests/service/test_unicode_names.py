"""A name written in another form of Unicode is the same name: at every door, and for `Forget`."""

from __future__ import annotations

import unicodedata

import pytest
from fix_cluster import Tenant

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2, snapshots_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2

PERSON = "jürgen"
# Decomposed, full width, with a zero-width space.
OTHERS = (unicodedata.normalize("NFD", PERSON), "\uff4a\u00fcrgen", "jür\u200bgen")


async def _create(tenant: Tenant, **values: object) -> memory_pb2.Memory:
    memory = memory_pb2.Memory(**values)  # type: ignore[arg-type] # fields of the message.
    return (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory


async def _contents(tenant: Tenant, where: str = "", **filter_: object) -> set[str]:
    request = memory_pb2.ListMemoriesRequest(filter=memory_pb2.MemoryFilter(where=where, **filter_))  # type: ignore[arg-type] # see above.
    return {memory.content for memory in (await tenant.memory.ListMemories(request)).memories}


@pytest.mark.system
async def test_ids_tags_and_sources_are_found_in_every_form(tenant: Tenant) -> None:
    for number, name in enumerate((PERSON, *OTHERS)):
        await _create(tenant, content=f"note {number}", subject_id=name, tags=[name], source=name)

    notes = {f"note {number}" for number in range(4)}
    for name in (PERSON, *OTHERS):
        assert await _contents(tenant, subject_id=name) == notes
        assert await _contents(tenant, tags_any=[name]) == notes
        assert await _contents(tenant, source=name) == notes
        assert await _contents(tenant, where=f'subject_id = "{name}" AND tags:"{name}"') == notes


async def test_a_key_in_another_form_is_the_same_key(tenant: Tenant) -> None:
    key, other = "büro", unicodedata.normalize("NFD", "büro")
    first = await _create(tenant, content="The office is in room 3.", type="fact", key=other)

    assert first.key == key
    assert await _contents(tenant, key=other) == await _contents(tenant, key=key) == {"The office is in room 3."}
    assert await _contents(tenant, where=f'key = "{other}"') == {"The office is in room 3."}


async def test_content_stays_as_it_was_written_and_is_found_literally_in_every_form(tenant: Tenant) -> None:
    written = unicodedata.normalize("NFD", "Die Bäckerei öff\u00adnet um acht.")
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=written)
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", create_session=True, messages=[message])
    )
    await _create(tenant, content=written)

    assert await _contents(tenant, where='content:"bäckerei öffnet"') == {written}
    for literal in ("bäckerei öffnet", "\uff22äckerei", "öff\u00adnet um"):
        response = await tenant.sessions.SearchMessages(
            session_pb2.SearchMessagesRequest(query=literal, mode=session_pb2.SEARCH_MODE_LITERAL)
        )
        assert [hit.message.content for hit in response.hits] == [written]


async def test_marks_without_end_on_one_letter_delay_no_write_and_no_literal_search(tenant: Tenant) -> None:
    written = "Bäckerei a" + "\u0300" * 45_000 + "\u0316" * 45_000
    await _create(tenant, content=written)

    assert await _contents(tenant, where='content:"bäckerei"') == {written}
    assert await _contents(tenant, where='content:"conditorei"') == set()


@pytest.mark.system
async def test_forget_purges_a_person_in_every_form(tenant: Tenant) -> None:
    await tenant.tenancy.CreateSubject(
        subjects_pb2.CreateSubjectRequest(subject=subjects_pb2.Subject(subject_id=OTHERS[0], display_name="J"))
    )
    for name in (PERSON, *OTHERS):
        await _create(tenant, content=f"about {name!a}", subject_id=name)

    await tenant.gateway.Forget(pb.ForgetRequest(subject_id=OTHERS[1]))

    assert await _contents(tenant) == set()


async def test_imported_names_are_plain(tenant: Tenant) -> None:
    line = '{"memory": {"content": "imported", "subject_id": "%s", "tags": ["%s"]}}'
    request = snapshots_pb2.ImportDataRequest(lines=line % (OTHERS[2], OTHERS[0]))
    await tenant.snapshots.ImportData(request)

    assert await _contents(tenant, subject_id=PERSON, tags_any=[PERSON]) == {"imported"}
