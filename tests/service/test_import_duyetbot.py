"""Moving in from Duyetbot, and what every import of an SQLite file promises."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant
from fix_command import skein, start
from fix_moving import move_in, refusal_of
from fix_stores import DUYETBOT, DUYETBOT_BARE, DUYETBOT_ITEMS, SECONDS, database, duyetbot, holder
from google.protobuf import json_format
from grpc import aio

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2

AT = "2026-03-02T07:12:00Z"


def coerced(report: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Return table, column and the first place of what changed on the way."""
    return {(entry["table"], entry["column"], entry["samples"][0].split(" ", 1)[1]) for entry in report["coerced"]}


async def messages(tenant: Tenant, session_id: str) -> list[session_pb2.Message]:
    request = session_pb2.ListMessagesRequest(session_id=session_id, page_size=1000)
    return list((await tenant.sessions.ListMessages(request)).messages)


@pytest.mark.system
async def test_everything_of_duyetbot_is_imported_and_changes_are_reported(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = duyetbot(tmp_path / "duyetbot.sqlite")

    done = await move_in(cluster, tenant, "duyetbot-d1", str(source))

    assert done.code == 1, done.err
    assert {kind: count for kind, count in done.json["written"].items() if count} == {
        "subject": 2, "session": 5, "message": 7, "item": 2, "memory": 3,
    }  # fmt: skip
    assert {(entry["where"], entry["reason"]) for entry in done.json["refused"]} == {
        ("memory_messages 6", "session_id names no row of memory_sessions"),
        ("memory_messages 7", "content is empty"),
        ("memory_long_term_items l4", "value is empty"),
    }
    assert {(entry["table"], entry["count"]) for entry in done.json["left"]} == {
        ("memory_session_tokens", 2),
        ("memory_short_term_items", 1),
    }
    assert coerced(done.json) >= {
        ("memory_users", "created_at", "u2"),
        ("memory_sessions", "metadata", "s2"),
        ("memory_sessions", "user_id", "s3"),
        ("memory_sessions", "state", "s3"),
        ("memory_messages", "timestamp", "3"),
        ("memory_messages", "role", "4"),
        ("memory_messages", "content", "8"),
        ("memory_long_term_items", "tags", "l1"),
    }


@pytest.mark.system
async def test_duyetbot_s_rows_keep_their_ids_times_and_order(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = duyetbot(tmp_path / "duyetbot.sqlite")

    await move_in(cluster, tenant, "duyetbot-d1", str(source))

    subject = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="u2"))).subject
    assert (subject.display_name, json_format.MessageToDict(subject.profile)) == (
        "ann",
        {"github_id": "1002", "github_login": "ann", "created_at": AT},
    )
    listed = await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest())
    sessions = {session.session_id: session for session in listed.sessions}
    assert {name: (one.subject_id, one.state) for name, one in sessions.items()} == {
        "s1": ("u1", session_pb2.SESSION_STATE_ACTIVE),
        "s2": ("u2", session_pb2.SESSION_STATE_COMPLETED),
        "s3": ("", session_pb2.SESSION_STATE_ACTIVE),
        "s4": ("u2", session_pb2.SESSION_STATE_ACTIVE),
    }
    assert {sessions[name].create_time.ToJsonString() for name in ("s1", "s2")} == {AT}
    assert json_format.MessageToDict(sessions["s2"].metadata) == {"metadata_text": "{bad json"}
    assert json_format.MessageToDict(sessions["s3"].metadata) == {
        "metadata": ["a", "list"],
        "user_id": "gone",
        "state": "melted",
    }
    archived = await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s5"))
    assert archived.session.state == session_pb2.SESSION_STATE_HIDDEN
    first = await messages(tenant, "s1")
    # By time, whichever unit it is in: 3 is two seconds later, in milliseconds.
    assert [message.external_id.rpartition("/")[2] for message in first] == ["1", "2", "3"]
    assert [message.create_time.seconds - SECONDS for message in first] == [0, 1, 2]
    assert first[1].content == "A NUL  in here"
    assert json_format.MessageToDict(first[1].metadata) == {"nul": "ab"}
    assert json.loads(first[2].metadata_json) == {"tokens": 3, "large": 9007199254740993}
    second = await messages(tenant, "s2")
    assert {message.content for message in second} == {"Who said this?", "half ??? a pair", "bytes é"}


@pytest.mark.system
async def test_duyetbot_s_items_become_memories_and_items(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = duyetbot(tmp_path / "duyetbot.sqlite")

    await move_in(cluster, tenant, "duyetbot-d1", str(source))

    names = [f"l{number}" for number in (1, 2, 3)]
    answer = await tenant.memory.BatchGetMemories(memory_pb2.BatchGetMemoriesRequest(memory_ids=names))
    older, newer, third = (next(one for one in answer.memories if one.external_id == name) for name in names)
    assert (newer.key, newer.type, newer.importance, sorted(newer.tags)) == (
        "drink",
        "preference",
        0,
        ["oolong", "tea"],
    )
    assert (older.key, older.importance, sorted(older.tags)) == ("drink", 1, ["hot", "tea"])
    assert (third.importance, third.type, third.subject_id) == (1, "note", "u1")
    assert third.create_time.ToJsonString() == AT
    items = await tenant.sessions.ListSessionItems(states_pb2.ListSessionItemsRequest(session_id="s1"))
    assert {item.key: json_format.MessageToDict(item.value) for item in items.items} == {
        "mood": {"is": "curious"},
        "plain": "no json",
    }


@pytest.mark.system
async def test_an_import_that_is_repeated_writes_nothing(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = duyetbot(tmp_path / "duyetbot.sqlite")

    first = await move_in(cluster, tenant, "duyetbot-d1", str(source))
    again = await move_in(cluster, tenant, "duyetbot-d1", str(source))

    assert sum(again.json["written"].values()) == 0
    assert again.json["skipped"] == first.json["written"]


@pytest.mark.system
async def test_a_comparison_passes_after_an_import_and_finds_what_was_changed(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source, environment = str(duyetbot(tmp_path / "duyetbot.sqlite")), holder(cluster, tenant)
    compare = (cluster, tenant, "duyetbot-d1", source, "--compare")

    before = await move_in(*compare)
    await move_in(cluster, tenant, "duyetbot-d1", source)
    same = await move_in(*compare)
    changed = session_pb2.Message(message_id="s1/1", content="I sold it.")
    request = session_pb2.UpdateMessageRequest(message=changed)
    request.update_mask.paths.append("content")
    await tenant.sessions.UpdateMessage(request)
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id="l2"))
    other = await move_in(*compare)
    shown = await skein("import", "duyetbot-d1", source, "--compare", environment=environment)
    tolerant = await move_in(*compare, "--threshold", "0.2")

    assert (before.code, before.json["inconsistency"]) == (1, 1.0)
    assert (same.code, same.json["missing"], same.json["different"]) == (0, {}, []), same.out
    assert same.json["in_skein"] == {"subject": 2, "session": 5, "message": 7, "item": 2, "memory": 3}
    assert other.code == shown.code == 1
    assert other.json["missing"] == {"memory": {"count": 1, "samples": ["l2"]}}
    assert other.json["different"] == [{"kind": "message", "fields": ["content"], "count": 1, "samples": ["s1/1"]}]
    assert other.json["inconsistency"] == pytest.approx(2 / 19)
    assert "1 messages different in content, such as s1/1" in shown.out
    assert "Bosun" not in shown.out + shown.err
    assert tolerant.code == 0


async def test_a_dry_run_reads_everything_and_calls_no_service(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = duyetbot(tmp_path / "duyetbot.sqlite")

    unreachable = replace(cluster, endpoint="127.0.0.1:1")
    tried = await move_in(unreachable, tenant, "duyetbot-d1", str(source), "--dry-run")

    assert tried.code == 1
    assert tried.json["read"]["message"] == 7
    assert sum(tried.json["written"].values()) == 0
    assert tried.json["refused_count"] == 3


async def test_an_export_in_sql_is_read_like_the_file_it_was_made_of(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = duyetbot(tmp_path / "duyetbot.sqlite")
    with closing(sqlite3.connect(source)) as connection:
        connection.text_factory = lambda given: given.decode("utf-8", "replace")
        connection.execute("UPDATE memory_messages SET content = 'half' WHERE id = 5")
        lines = [*connection.iterdump(), "ATTACH DATABASE 'evil.sqlite' AS evil;", "INSERT INTO nowhere VALUES (1);"]
        connection.commit()
    script, broken = tmp_path / "export.sql", tmp_path / "broken.sql"
    script.write_text("\n".join(line for line in lines[:-1]), "utf-8")
    broken.write_text("\n".join(lines), "utf-8")

    of_file = await move_in(cluster, tenant, "duyetbot-d1", str(source), "--dry-run")
    of_script = await move_in(cluster, tenant, "duyetbot-d1", str(script), "--dry-run")
    of_broken = await move_in(cluster, tenant, "duyetbot-d1", str(broken), "--dry-run")

    assert of_script.json["read"] == of_file.json["read"]
    assert of_script.json["refused"] == of_file.json["refused"]
    assert not (tmp_path / "evil.sqlite").exists()
    assert of_broken.code == 1
    assert "no such table: nowhere" in of_broken.err


async def test_tables_that_are_empty_and_columns_that_are_missing_are_no_obstacle(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    bare = database(
        tmp_path / "bare.sqlite",
        DUYETBOT_BARE,
        {
            "memory_users": [("u1", "1", "duyet", SECONDS)],
            "memory_sessions": [("s1", "u1", None, None)],
            "memory_messages": [(1, "s1", "user", "hello"), (2, "s1", "assistant", "hi")],
        },
    )
    empty = database(tmp_path / "empty.sqlite", DUYETBOT, {})

    nothing = await move_in(cluster, tenant, "duyetbot-d1", str(empty))
    some = await move_in(cluster, tenant, "duyetbot-d1", str(bare))

    assert (nothing.code, some.code) == (0, 0), nothing.err + some.err
    assert nothing.json["records"] == []
    assert [message.content for message in await messages(tenant, "s1")] == ["hello", "hi"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("note.txt", b"just a note", "neither an SQLite database nor an SQL export"),
        ("empty.sqlite", b"", "neither an SQLite database nor an SQL export"),
        ("cut.sqlite", b"SQLite format 3\0" + b"\xff" * 300, "cannot be read as SQLite"),
        (".", None, "cannot be read (Is a directory)"),
    ],
)
async def test_a_source_of_another_kind_is_a_clear_error(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    ended = await move_in(cluster, tenant, "duyetbot-d1", str(path), "--dry-run")

    assert (ended.code, ended.out) == (1, "")
    assert message in ended.err


async def test_a_database_of_another_system_is_named_by_what_it_lacks(tmp_path: Path) -> None:
    other = database(tmp_path / "other.sqlite", "CREATE TABLE memory_users (id TEXT);", {})
    half = database(
        tmp_path / "half.sqlite",
        DUYETBOT_BARE.replace("content TEXT NOT NULL", "contents TEXT"),
        {},
    )

    without_table = await refusal_of("duyetbot-d1", str(other))
    without_column = await refusal_of("duyetbot-d1", str(half))

    assert "is no database of Duyetbot: it has no table memory_sessions" in without_table
    assert "its table memory_messages has no column content" in without_column


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
async def test_the_file_is_neither_changed_nor_locked(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, journal: str
) -> None:
    source = duyetbot(tmp_path / "duyetbot.sqlite")
    with closing(sqlite3.connect(source)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
    before = (source.read_bytes(), sorted(tmp_path.iterdir()))

    unused = await move_in(cluster, tenant, "duyetbot-d1", str(source), "--dry-run")
    after = (source.read_bytes(), sorted(tmp_path.iterdir()))
    with closing(sqlite3.connect(source, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM memory_messages")
        used = await move_in(cluster, tenant, "duyetbot-d1", str(source), "--dry-run")
        writer.execute("COMMIT")

    assert after == before
    assert unused.json["read"] == used.json["read"]


@pytest.mark.system
async def test_a_prefix_keeps_the_ids_of_two_sources_apart(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = str(duyetbot(tmp_path / "duyetbot.sqlite"))
    plain = await move_in(cluster, tenant, "duyetbot-d1", source)

    second = await move_in(cluster, tenant, "duyetbot-d1", source, "--prefix", "bot2:")
    again = await move_in(cluster, tenant, "duyetbot-d1", source, "--prefix", "bot2:")
    same = await move_in(cluster, tenant, "duyetbot-d1", source, "--prefix", "bot2:", "--compare")

    kinds = ("session", "message", "item")
    assert [second.json["written"][kind] for kind in kinds] == [plain.json["written"][kind] for kind in kinds]
    assert sum(again.json["written"].values()) == 0
    assert "session" not in same.json["missing"]
    assert [message.external_id for message in await messages(tenant, "bot2:s1")] == [
        f"bot2:{message.external_id}" for message in await messages(tenant, "s1")
    ]


@pytest.mark.system
async def test_a_record_with_an_id_that_no_call_takes_is_refused_alone(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    long = "s" * 400
    source = database(
        tmp_path / "long.sqlite",
        DUYETBOT + DUYETBOT_ITEMS,
        {
            "memory_users": [("u1", "1", "duyet", SECONDS)],
            "memory_sessions": [(name, "u1", None, "active", SECONDS, None, None) for name in (long, "s1")],
            "memory_messages": [
                (number, name, "user", f"turn {number}", SECONDS, None)
                for number, name in enumerate((long, "s1", long, "s1"))
            ],
            "memory_short_term_items": [(name, "mood", "1", None) for name in (long, "s1")],
            "memory_long_term_items": [
                (name, "u1", "note", None, "tea", 5, None, None, SECONDS, None) for name in ("m1", "m" * 300, "m3")
            ],
        },
    )

    done = await move_in(cluster, tenant, "duyetbot-d1", str(source))
    again = await move_in(cluster, tenant, "duyetbot-d1", str(source))
    compared = await move_in(cluster, tenant, "duyetbot-d1", str(source), "--compare")

    assert (done.code, again.code, compared.code) == (1, 1, 1), done.err
    kinds = ("session", "message", "item", "memory")
    assert [done.json["written"][kind] for kind in kinds] == [1, 2, 1, 2]
    assert [again.json["skipped"][kind] for kind in kinds] == [1, 2, 1, 2]
    assert [done.json["refused_count"], again.json["refused_count"]] == [5, 5]
    assert {kind: tally["count"] for kind, tally in compared.json["missing"].items()} == {
        "session": 1, "message": 2, "item": 1, "memory": 1,
    }  # fmt: skip


@pytest.mark.system
async def test_an_import_that_was_killed_goes_on_where_it_was(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    count, environment = 1500, holder(cluster, tenant)
    source = database(
        tmp_path / "large.sqlite",
        DUYETBOT,
        {
            "memory_users": [("u1", "1", "duyet", SECONDS)],
            "memory_sessions": [
                (f"s{number:02}", "u1", None, "archived", SECONDS, None, None) for number in range(count // 50)
            ],
            "memory_messages": [
                (number, f"s{number // 50:02}", "user", f"turn {number}", SECONDS + number, None)
                for number in range(count)
            ],
        },
    )

    process = await start("import", "duyetbot-d1", str(source), environment=environment)
    try:
        while not await _has_messages(tenant, "s02"):
            assert process.returncode is None, "It was done before it could be killed."
    finally:
        process.kill()
        await process.communicate()
    resumed = await move_in(cluster, tenant, "duyetbot-d1", str(source))

    assert resumed.code == 0, resumed.err
    assert 0 < resumed.json["written"]["message"] < count
    assert resumed.json["written"]["message"] + resumed.json["skipped"]["message"] == count
    for name in ("s00", "s02", "s29"):
        actual_messages = await messages(tenant, name)
        first = int(name[1:]) * 50
        assert [message.content for message in actual_messages] == [
            f"turn {number}" for number in range(first, first + 50)
        ]
        session = await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=name))
        assert session.session.state == session_pb2.SESSION_STATE_HIDDEN


async def _has_messages(tenant: Tenant, session_id: str) -> bool:
    request = session_pb2.GetSessionRequest(session_id=session_id)
    try:
        return (await tenant.sessions.GetSession(request)).session.message_count > 0
    except aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return False


async def test_facts_of_two_people_and_items_of_two_categories_keep_their_keys(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = tmp_path / "duyetbot.sqlite"
    columns = "id, user_id, category, key, value, updated_at"
    rows = [
        ("a", "u1", "fact", "city", "Graz", 1), ("b", "u2", "fact", "City", "Wien", 2),
        ("c", "u1", "place", "city", "Linz", 3), ("d", "u1", "Fact", " CITY", "Krems", 4),
    ]  # fmt: skip
    with closing(sqlite3.connect(source)) as connection:
        connection.executescript(DUYETBOT + DUYETBOT_ITEMS)
        statement = f"INSERT INTO memory_long_term_items ({columns}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 - our names.
        connection.executemany(statement, rows)
        connection.commit()

    done = await move_in(cluster, tenant, "duyetbot-d1", str(source))

    assert done.json["refused"] == [], done.err
    keys = {name: (await tenant.get_memory(name)).key for name in "abcd"}
    assert keys == {"a": "", "b": "City", "c": "city", "d": "CITY"}


async def test_what_a_person_s_account_says_comes_into_the_profile(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = tmp_path / "duyetbot.sqlite"
    with closing(sqlite3.connect(source)) as connection:
        connection.executescript(DUYETBOT)
        connection.execute("ALTER TABLE memory_users ADD COLUMN email TEXT")
        connection.execute("ALTER TABLE memory_users ADD COLUMN avatar_url TEXT")
        connection.execute("ALTER TABLE memory_users ADD COLUMN theme TEXT")
        row = ("u", "1", "ann", SECONDS, "ann@example.org", "https://example.org/ann.png", "dark")
        connection.execute("INSERT INTO memory_users VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        connection.commit()

    done = await move_in(cluster, tenant, "duyetbot-d1", str(source))

    subject = (await tenant.tenancy.GetSubject(subjects_pb2.GetSubjectRequest(subject_id="u"))).subject
    profile = json_format.MessageToDict(subject.profile)
    assert (profile["email"], profile["avatar_url"]) == ("ann@example.org", "https://example.org/ann.png")
    left = {(entry["table"], entry["column"]): (entry["how"], entry["count"]) for entry in done.json["coerced"]}
    assert left["memory_users", "theme"] == ("left out: there is no such field here", 1)


async def test_an_archived_session_keeps_its_times(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = tmp_path / "duyetbot.sqlite"
    with closing(sqlite3.connect(source)) as connection:
        connection.executescript(DUYETBOT)
        connection.execute("INSERT INTO memory_users VALUES ('u', '1', 'ann', ?)", (SECONDS,))
        row = ("s", "u", "archived", SECONDS, SECONDS + 60)
        statement = "INSERT INTO memory_sessions (id, user_id, state, created_at, updated_at) VALUES (?, ?, ?, ?, ?)"
        connection.execute(statement, row)
        connection.commit()

    await move_in(cluster, tenant, "duyetbot-d1", str(source))

    session = (await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s"))).session
    assert session.state == session_pb2.SESSION_STATE_HIDDEN
    times = (session.create_time, session.update_time, session.end_time, session.hide_time)
    assert [time.seconds - SECONDS for time in times] == [0, 60, 60, 60]
