from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein, status
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import archives_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_cluster import registry
from skein_cluster.cli.exit_codes import ExitCode
from skein_cluster.processes.ports import free_ports


@pytest.fixture
def environment(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the environment of a caller with the tenant's key."""
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


@pytest.fixture
def operator(cluster: Cluster) -> dict[str, str]:
    """Return the environment of the operator."""
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_OPERATOR_KEY": cluster.operator_key}


def seeded(path: Path, *, lines: int = 40) -> Path:
    """Write the first lines of the sample, and all its memories and links."""

    def is_wanted(text: str) -> bool:
        return json.loads(text)["record"] in {"memory", "link"}

    with as_file(files("skein_cluster") / "sample" / "household.jsonl") as sample:
        texts = sample.read_text("utf-8").splitlines()
    kept = texts[:lines] + [text for text in texts[lines:] if is_wanted(text)]
    path.write_text("\n".join([*kept, ""]), "utf-8")
    return path


async def test_status_lists_every_service_and_ends_with_0(environment: dict[str, str]) -> None:
    shown = await status(environment=environment)
    payload = await status("--json", environment=environment)

    assert shown.code == ExitCode.OK, shown.err
    assert all(name in shown.out for name in ("gateway", "auth", "memory", "serving"))
    assert {service["state"] for service in payload.json["services"]} == {"SERVICE_STATE_SERVING"}


def test_the_registry_knows_the_assistants_ports(cluster: Cluster) -> None:
    opened = {name for name in cluster.addresses if name.startswith("pc2:")}

    assert opened == {f"pc2:{number}" for number in registry.PC2_PORTS}


@pytest.mark.system
async def test_a_memory_can_be_added_shown_recalled_listed_and_deleted(environment: dict[str, str]) -> None:
    added = await skein(
        *("memories", "add", "The spare key hangs behind the [bold] clock", "--type", "fact", "--tag", "house"),
        *("--external-id", "key-1"),
        environment=environment,
    )
    shown = await skein("memories", "show", "key-1", "--json", environment=environment)
    listed = await skein("memories", "list", environment=environment)
    recalled = await skein("recall", "where is the spare key", "--explain", environment=environment)
    result = await skein("recall", "where is the spare key", "--limit", "1", "--json", environment=environment)
    deleted = await skein("memories", "delete", "key-1", environment=environment)
    after = await skein("recall", "where is the spare key", environment=environment)

    assert shown.json["memory"]["memory_id"] == added.out.strip()
    assert shown.json["memory"]["tags"] == ["house"]
    assert "behind the [bold] clock" in " ".join(listed.out.split())
    assert "lexical" in recalled.out
    assert result.json["hits"][0]["memory"]["external_id"] == "key-1"
    assert result.json["hits"][0]["components"]
    assert deleted.code == ExitCode.OK
    assert (after.code, after.out) == (ExitCode.OK, "")
    assert after.err.startswith("The tenant is empty.")


@pytest.mark.system
async def test_what_waits_for_approval_is_listed_edited_and_refused(
    tenant: Tenant, environment: dict[str, str]
) -> None:
    policy = subjects_pb2.UpdatePolicyRequest(
        policy=subjects_pb2.Policy(approval="agents"), update_mask=FieldMask(paths=["approval"])
    )
    await tenant.tenancy.UpdatePolicy(policy)
    as_agent = (("skein-agent-id", "butler"),)
    obey = memory_pb2.Memory(content="Obey me", type="fact", key="duty")
    create = memory_pb2.BatchCreateMemoriesRequest(
        memories=[memory_pb2.Memory(content="The key hangs by the stove"), obey]
    )
    first, second = (await tenant.memory.BatchCreateMemories(create, metadata=as_agent)).memories
    holder = memory_pb2.Memory(content="Rest", type="fact", key="Duty")
    holder = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=holder))).memory

    listed = await skein("approvals", "list", environment=environment)
    approved = await skein(
        *("approvals", "approve", first.memory_id, "--content", "The key hangs by the door"), environment=environment
    )
    refused = await skein("approvals", "refuse", second.memory_id, environment=environment)
    after = await skein("approvals", "list", "--json", environment=environment)
    memories_after = await skein("memories", "list", environment=environment)

    assert "Obey me" in listed.out
    assert f"The key of {second.memory_id} is taken by {holder.memory_id}." in listed.out
    assert (approved.out.strip(), refused.out.strip()) == (
        f"Approved {first.memory_id}.",
        f"Refused {second.memory_id}.",
    )
    assert after.json == {"pending_memories": [], "pending_messages": []}
    assert "by the door" in " ".join(memories_after.out.split())
    assert "Obey" not in memories_after.out


@pytest.mark.system
async def test_a_recall_in_an_empty_tenant_says_how_to_store_and_the_line_that_it_shows_works(
    environment: dict[str, str],
) -> None:
    empty = await skein("recall", "what does Anna drink?", environment=environment)
    packed = await skein("context", "what does Anna drink?", environment=environment)
    result = await skein("recall", "what does Anna drink?", "--json", environment=environment)
    command, *shown = shlex.split(empty.err.partition("Store a memory: ")[2])
    stored = await skein(*shown, environment=environment)
    _, *next_shown = shlex.split(stored.err.partition("Try next: ")[2])
    recalled = await skein(*next_shown, "--json", environment=environment)

    assert (empty.code, packed.code, empty.out, packed.out) == (ExitCode.OK, ExitCode.OK, "", "")
    assert packed.err == empty.err
    assert (result.code, result.err, result.json["hits"]) == (ExitCode.OK, "", [])
    assert (command, stored.code, len(stored.out.splitlines())) == ("skein", ExitCode.OK, 1)
    assert [hit["item_id"] for hit in recalled.json["hits"]] == [stored.out.strip()]


async def test_a_recall_that_finds_nothing_among_what_is_stored_says_no_more_than_that(
    tenant: Tenant, environment: dict[str, str]
) -> None:
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="Two spoons in the pot")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id="s")))
    await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id="s", messages=[message]))

    other = await skein("recall", "spoons", "--branch", "memories", environment=environment)
    both = await skein("recall", "spoons", environment=environment)

    assert (other.code, other.err.strip()) == (ExitCode.OK, "Nothing was found.")
    assert "Two spoons in the pot" in both.out


async def test_a_key_that_may_only_recall_learns_nothing_of_stored_rows(environment: dict[str, str]) -> None:
    made = await skein("keys", "create", "asker", "--permission", "recall.read", "--json", environment=environment)

    result = await skein("recall", "tea", environment={**environment, "SKEIN_API_KEY": made.json["api_key"]})

    assert (result.code, result.err.strip()) == (ExitCode.OK, "Nothing was found.")


@pytest.mark.system
async def test_a_condition_chooses_among_memories_and_messages(tenant: Tenant, environment: dict[str, str]) -> None:
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, name="Ada", content="The spoons are in the drawer"),
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_ASSISTANT, content="There are twelve spoons"),
    ]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", create_session=True, messages=messages)
    )
    await skein("remember", "Spoons made of silver", environment=environment)
    where = ("--where", "kind = memory OR role != assistant")

    recalled = await skein("recall", "spoons", *where, environment=environment)
    context = await skein("context", "spoons", *where, "--plain", environment=environment)
    unknown = await skein("recall", "spoons", "--where", "colour = red", environment=environment)

    for shown in (" ".join(recalled.out.split()), context.out):
        assert "in the drawer" in shown
        assert "made of silver" in shown
        assert "twelve" not in shown
    assert (unknown.code, unknown.out) == (ExitCode.REFUSED, "")
    assert "no field is called 'colour'" in " ".join(unknown.err.split())


@pytest.mark.system
async def test_what_is_hardly_relevant_is_shown_on_demand(environment: dict[str, str]) -> None:
    await skein("remember", "The dishwasher has a new seal", environment=environment)

    hidden = await skein("recall", "which train goes to Hamburg", "--min-relevance", "0.2", environment=environment)
    shown = await skein(
        *("recall", "which train goes to Hamburg", "--min-relevance", "0", "--explain"), environment=environment
    )
    refused = await skein("recall", "train", "--min-relevance", "2", environment=environment)

    assert (hidden.code, hidden.err.strip()) == (ExitCode.OK, "No hit is relevant enough: --min-relevance 0 shows all.")
    assert "new seal" in shown.out
    assert "statement 0.0" in shown.out
    assert (refused.code, refused.out) == (ExitCode.USAGE, "")


async def test_remember_takes_the_fields_of_a_memory_and_unquoted_words(environment: dict[str, str]) -> None:
    stored = await skein(
        *("remember", "Anna", "drinks", "tea", "--type", "fact", "--key", "drink", "--tag", "home", "--tag", "home"),
        *("--session", "s1", "--subject", "anna", "--external-id", "e1", "--importance", "0.25", "--json"),
        environment=environment,
    )
    another = ("remember", "Anna drinks milk", "--type", "fact", "--key", "drink", "--subject", "anna")
    taken = await skein(*another, environment=environment)

    memory = stored.json
    assert (memory["content"], memory["type"], memory["key"], memory["tags"]) == (
        "Anna drinks tea",
        "fact",
        "drink",
        ["home"],
    )
    assert (memory["session_id"], memory["subject_id"], memory["external_id"]) == ("s1", "anna", "e1")
    assert memory["importance"] == 0.25
    assert (taken.code, taken.out) == (ExitCode.REFUSED, "")
    assert "has this key" in taken.err


@pytest.mark.system
async def test_remember_reads_stdin(environment: dict[str, str]) -> None:
    stored = await skein("remember", "-", environment=environment, stdin="Grüße von Zoë\n".encode())
    empty = await skein("remember", "-", environment=environment, stdin=b" \n")
    bytes_only = await skein("remember", "-", environment=environment, stdin=b"\xff")
    shown = await skein("memories", "show", stored.out.strip(), "--json", environment=environment)

    assert shown.json["memory"]["content"] == "Grüße von Zoë"
    assert (empty.code, bytes_only.code) == (ExitCode.USAGE, ExitCode.USAGE)
    assert "The text is empty: give a text" in empty.err
    assert "not UTF-8 text" in bytes_only.err


@pytest.mark.system
async def test_a_context_is_printed_as_it_is_and_its_cost_on_stderr(environment: dict[str, str]) -> None:
    await skein(
        "memories", "add", "The spare key hangs behind the [bold] clock", "--type", "fact", environment=environment
    )

    shown = await skein("context", "where is the spare key", "--tokens", "100", "--plain", environment=environment)
    result = await skein("context", "where is the spare key", "--agent", "butler", "--json", environment=environment)
    none = await skein(
        "context", "where is the spare key", "--subject", "nobody", "--tokens", "1", environment=environment
    )

    assert shown.code == ExitCode.OK, shown.err
    assert shown.out.splitlines()[0] == "Memories: fact"
    assert shown.out.endswith("The spare key hangs behind the [bold] clock\n")
    assert "tokens, 1 cited, 0 omitted" in " ".join(shown.err.split())
    assert [citation["number"] for citation in result.json["citations"]] == [1]
    assert "BRANCH_BLOCKS" in {branch["branch"] for branch in result.json["branches"]}
    assert none.out == ""
    assert "0 cited, 1 omitted" in " ".join(none.err.split())


async def test_a_recall_tells_what_a_typo_was_read_as(environment: dict[str, str]) -> None:
    await skein("memories", "add", "The velocipede leans on the fence", environment=environment)

    recalled = await skein("recall", "velocpiede", environment=environment)

    assert "read 'velocpiede' as 'velocipede'" in recalled.err
    assert "velocipede" in recalled.out


@pytest.mark.system
async def test_a_recall_and_a_context_may_be_by_words_or_by_meaning_alone(environment: dict[str, str]) -> None:
    await skein("memories", "add", "The velocipede leans on the fence", environment=environment)
    await skein("memories", "add", "A bicycle was stolen", environment=environment)

    words = await skein("recall", "velocipede", "--mode", "keyword", "--json", environment=environment)
    meaning = await skein(
        *("recall", "velocipede", "--mode", "semantic", "--limit", "2", "--explain"), environment=environment
    )
    context = await skein("context", "velocipede", "--mode", "keyword", environment=environment)
    unknown = await skein("recall", "velocipede", "--mode", "lexical", environment=environment)

    assert [hit["memory"]["content"] for hit in words.json["hits"]] == ["The velocipede leans on the fence"]
    assert words.json["hits"][0]["has_query_words"] is True
    assert "dense" in meaning.out
    assert "lexical" not in meaning.out
    assert "velocipede" in context.out
    assert "bicycle" not in context.out
    assert unknown.code == ExitCode.USAGE


async def test_a_recall_shows_the_profile_of_the_person_who_is_named(
    tenant: Tenant, environment: dict[str, str]
) -> None:
    anna = subjects_pb2.Subject(subject_id="anna", display_name="Anna Lind", timezone="Europe/Berlin")
    anna.profile.update({"diet": "vegan"})
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=anna))

    arguments = ("recall", "what does she eat", "--branch", "profile", "--subject")
    shown = await skein(*arguments, "anna", environment=environment)
    none = await skein(*arguments, "nobody", environment=environment)

    assert shown.out.strip() == 'anna: Anna Lind, Europe/Berlin, {"diet": "vegan"}'
    assert shown.err.strip() == "No hits."
    assert (none.out, none.err.strip()) == ("", "Nothing was found.")


@pytest.mark.parametrize("form", [(), ("--memory-only",)], ids=["lines", "memory-only"])
async def test_an_export_says_what_it_leaves_in_cold_storage(
    tenant: Tenant, environment: dict[str, str], form: tuple[str, ...]
) -> None:
    old = memory_pb2.Memory(content="The kettle was blue")
    old.create_time.FromDatetime(datetime(2020, 1, 1, tzinfo=UTC))
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=old))
    await tenant.history.ArchiveMemories(archives_pb2.ArchiveMemoriesRequest(idle_since_time=datetime.now(UTC)))

    exported = await skein("export", *form, environment=environment)

    assert exported.code == ExitCode.OK, exported.err
    assert "kettle" not in exported.out
    assert "The export lacks 1 archived memories" in " ".join(exported.err.split())


async def test_an_error_about_a_session_in_cold_storage_says_how_to_unarchive_it(
    tenant: Tenant, environment: dict[str, str]
) -> None:
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="Two spoons in the pot")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id="s")))
    await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id="s", messages=[message]))
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id="s"))
    await skein("sessions", "archive", "s", environment=environment)

    refused = await skein("context", "spoons", "--session", "s", environment=environment)

    assert refused.code == ExitCode.REFUSED
    assert "skein sessions unarchive" in " ".join(refused.err.split())


@pytest.mark.system
async def test_an_unencodable_character_does_not_end_a_command(environment: dict[str, str]) -> None:
    added = await skein("memories", "add", "Grüße an Zoë: 茶", "--external-id", "z", environment=environment)
    shown = await skein("memories", "show", "z", environment=environment, PYTHONIOENCODING="ascii")
    result = await skein("memories", "show", "z", "--json", environment=environment, PYTHONIOENCODING="ascii")

    assert (added.code, shown.code, result.code) == (0, 0, 0), shown.err
    assert "Gr??e an Zo?: ?" in shown.out
    assert result.json["memory"]["content"] == "Grüße an Zoë: 茶"


@pytest.mark.system
async def test_an_import_repeated_writes_nothing_twice(environment: dict[str, str], tmp_path: Path) -> None:
    path = seeded(tmp_path / "household.jsonl")

    first = await skein("import", "jsonl", str(path), "--json", environment=environment)
    again = await skein("import", "jsonl", str(path), "--json", environment=environment)
    session = await skein("sessions", "show", "household-s01", "--json", environment=environment)

    assert first.code == again.code == ExitCode.OK, first.err
    assert first.json["read"] == first.json["written"] == again.json["read"] == again.json["skipped"]
    assert set(again.json["written"].values()) == {0}
    sequences = [int(message["sequence"]) for message in session.json["messages"]]
    assert sequences == list(range(1, len(sequences) + 1))


@pytest.mark.system
async def test_an_import_that_was_cut_off_is_completed_by_repeating_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    part, whole = seeded(tmp_path / "part.jsonl", lines=10), seeded(tmp_path / "whole.jsonl")

    await skein("import", "jsonl", str(part), environment=environment)
    repeated = await skein("import", "jsonl", str(whole), "--json", environment=environment)

    assert repeated.code == ExitCode.OK
    assert repeated.json["skipped"]["message"] == 9
    assert repeated.json["written"]["message"] == repeated.json["read"]["message"] - 9


@pytest.mark.system
async def test_an_export_imported_elsewhere_exports_the_same(
    cluster: Cluster, environment: dict[str, str], tmp_path: Path
) -> None:
    source = seeded(tmp_path / "given.jsonl")
    extra: list[dict[str, Any]] = [
        {"record": "session", "session_id": "over", "session_type": "task", "state": "ended", "end_reason": "all said"},
        {"record": "message", "external_id": "over-1", "session_id": "over", "role": "tool", "content": "42",
         "tool_call_id": "c1", "tool_returns": [{"value": 42}], "metadata": {"ms": 1.5}},
        {"record": "memory", "external_id": "rich", "content": "with everything", "data": {"a": [1, None]},
         "level": "strategic", "scope": "agent", "archive_time": "2026-03-02T07:12:00.250Z", "tags": ["x", "y"],
         "valid_from_time": "2026-01-01T00:00:00Z", "expire_time": "2099-01-01T00:00:00Z", "source_agent": "old"},
        {"record": "link", "from": "rich", "to": "household-mem-wifi-pickle", "label": "why", "weight": 0.25},
    ]  # fmt: skip
    with source.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in extra)
    elsewhere = {**environment, "SKEIN_API_KEY": (await cluster.new_tenant()).api_key}
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"

    read = await skein("import", "jsonl", str(source), environment=environment)
    out = await skein("export", "-o", str(first), environment=environment)
    into = await skein("import", "jsonl", str(first), "--json", environment=elsewhere)
    await skein("export", "-o", str(second), environment=elsewhere)

    assert (read.code, out.code, into.code) == (0, 0, 0), read.err + out.err + into.err
    lines = first.read_text("utf-8").splitlines()
    assert sorted(second.read_text("utf-8").splitlines()) == sorted(lines)
    assert len(lines) == len([line for line in source.read_text("utf-8").splitlines() if line])
    exported = [json.loads(line) for line in lines]
    for record in extra:
        assert any(record.items() <= other.items() for other in exported), record


@pytest.mark.system
async def test_refused_records_are_named_with_their_reason_and_the_others_are_written(
    environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "mixed.jsonl"
    memory = {"record": "memory", "content": "c"}
    records = [
        {**memory, "external_id": "good-1"},
        {**memory, "external_id": "empty", "content": " "},
        {**memory, "external_id": "good-2"},
        {**memory, "external_id": "unlikely", "confidence": 2},
        {**memory, "external_id": "good-1"},
        {"record": "message", "external_id": "m", "session_id": "none", "role": "user", "content": "hello"},
        {"record": "link", "from": "good-1", "to": "gone"},
    ]
    path.write_text("\n".join([*map(json.dumps, records), "nonsense"]), "utf-8")

    ended = await skein("import", "jsonl", str(path), "--json", environment=environment)
    shown = await skein("import", "jsonl", str(path), environment=environment)

    assert ended.code == ExitCode.REFUSED
    assert (ended.json["written"]["memory"], ended.json["skipped"]["memory"]) == (2, 1)
    assert {(refused["where"], refused["name"]) for refused in ended.json["refused"]} == {
        *(("line 2", "empty"), ("line 4", "unlikely"), ("line 6", "m"), ("line 7", "good-1  gone"), ("line 8", "")),
    }
    assert "line 6: message m: " in shown.err


@pytest.mark.system
async def test_a_file_of_contents_is_imported_once_and_refused_lines_can_be_repeated(
    environment: dict[str, str], tmp_path: Path
) -> None:
    path, again = tmp_path / "notes.jsonl", tmp_path / "again.jsonl"
    path.write_text('{"content": "The boat is called Bosun"}\n{"text": "no"}\n{"text": "no"}\n', "utf-8")

    refused = await skein("import", "jsonl", str(path), environment=environment)
    result = await skein("import", "jsonl", str(path), "--json", environment=environment)
    *_, example = refused.err.splitlines()
    again.write_text(example, "utf-8")
    imported = await skein("import", "jsonl", str(again), "--json", environment=environment)
    recalled = await skein("recall", "what is the boat called", "--json", environment=environment)

    assert (refused.code, result.code, imported.code) == (ExitCode.REFUSED, ExitCode.REFUSED, ExitCode.OK)
    assert refused.err.count("A line that works:") == 1
    assert "line 2: content: is needed for a memory" in refused.err
    assert (result.json["skipped"]["memory"], imported.json["written"]["memory"]) == (1, 1)
    assert {entry["where"] for entry in result.json["refused"] if example in entry["hint"]} == {"line 2", "line 3"}
    assert recalled.json["hits"][0]["memory"]["content"] == "The boat is called Bosun"


async def test_a_dry_run_checks_the_file_and_calls_no_service(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"record": "session", "session_id": "s"}\n{"record": "sesion"}\n', "utf-8")

    ended = await skein("import", "jsonl", str(path), "--dry-run", "--json", SKEIN_ENDPOINT="127.0.0.1:1")

    assert ended.code == ExitCode.REFUSED
    assert ended.json["read"]["session"] == 1
    assert [refused["where"] for refused in ended.json["refused"]] == ["line 2"]


@pytest.mark.system
async def test_a_locomo_conversation_can_be_imported_and_asked(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    turns = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted a parrot called Bosun."},
        {"speaker": "Ben", "dia_id": "D1:2", "text": "Lovely!", "blip_caption": "a photo of a lighthouse"},
    ]
    conversation = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_1": turns,
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    }
    path.write_text(json.dumps([{"sample_id": "conv-1", "conversation": conversation}]), "utf-8")

    imported = await skein("import", "locomo", str(path), environment=environment)
    recalled = await skein("recall", "what is the bird's name", "--json", environment=environment)

    assert imported.code == ExitCode.OK, imported.err
    assert recalled.json["hits"][0]["message"]["external_id"] == "conv-1/D1:1"
    assert recalled.json["hits"][0]["message"]["create_time"] == "2023-05-08T13:56:00Z"


@pytest.mark.system
async def test_the_operator_makes_a_tenant_whose_key_works_at_once(operator: dict[str, str]) -> None:
    made = await skein("tenants", "create", "a house by the sea", "--json", environment=operator)
    listed = await skein("tenants", "list", "--json", environment=operator)
    own = {**operator, "SKEIN_API_KEY": made.json["api_key"]}
    keys = await skein("keys", "list", "--json", environment=own)

    assert set(made.json) == {"tenant_id", "api_key"}
    assert made.json["tenant_id"] in {tenant["tenant_id"] for tenant in listed.json["tenants"]}
    assert [key["display_name"] for key in keys.json["api_keys"]] == ["a house by the sea"]


@pytest.mark.system
async def test_the_operator_deletes_a_tenant_and_opens_it_again(operator: dict[str, str]) -> None:
    made = await skein("tenants", "create", "a house to sell", "--json", environment=operator)
    tenant_id = made.json["tenant_id"]

    deleted = await skein("tenants", "delete", tenant_id, "--days", "30", "--json", environment=operator)
    shown = await skein("tenants", "deletion", tenant_id, environment=operator)
    undone = await skein("tenants", "undelete", tenant_id, "--json", environment=operator)
    listed = await skein("tenants", "list", "--json", environment=operator)

    assert deleted.json["state"] == "DELETION_STATE_GRACE"
    assert shown.out.startswith("state    grace\n")
    assert undone.json["state"] == "DELETION_STATE_CANCELLED"
    assert tenant_id in {tenant["tenant_id"] for tenant in listed.json["tenants"]}


@pytest.mark.system
async def test_a_key_can_be_made_narrower_and_revoked(environment: dict[str, str]) -> None:
    made = await skein("keys", "create", "reader", "--permission", "memory.read", "--json", environment=environment)
    narrow = {**environment, "SKEIN_API_KEY": made.json["api_key"]}
    reading = await skein("memories", "list", environment=narrow)
    writing = await skein("memories", "add", "no", environment=narrow)
    revoked = await skein("keys", "revoke", made.json["api_key_id"], environment=environment)
    listed = await skein("keys", "list", environment=environment)

    assert reading.code == ExitCode.OK
    assert writing.code == ExitCode.REFUSED
    assert writing.err.startswith("Error: The credential does not carry the permission")
    assert revoked.code == ExitCode.OK
    assert "revoked" in listed.out


@pytest.mark.system
async def test_a_key_is_rotated_by_its_secret_or_by_how_the_list_shows_that_it_begins(
    environment: dict[str, str],
) -> None:
    made = [await skein("keys", "create", name, "--json", environment=environment) for name in ("one", "two")]
    listed = await skein("keys", "list", "--json", environment=environment)
    shown = await skein("keys", "list", environment=environment)
    prefixes = {key["api_key_id"]: key["secret_prefix"] for key in listed.json["api_keys"]}
    one, two = (each.json["api_key_id"] for each in made)

    by_prefix = await skein("keys", "rotate", f"{prefixes[one]}…", "--json", environment=environment)
    by_secret = await skein("keys", "rotate", made[1].json["api_key"], "--json", environment=environment)
    ambiguous = await skein("keys", "rotate", "skein_", environment=environment)
    unknown = await skein("keys", "rotate", "skein_22222222", environment=environment)
    revoked = await skein("keys", "revoke", by_secret.json["api_key"], "--json", environment=environment)

    assert all(each.json["api_key"].startswith(prefixes[each.json["api_key_id"]]) for each in made)
    # Whole, whatever the width: what is broken cannot be copied.
    assert one in shown.out
    assert prefixes[one] in shown.out
    assert (by_prefix.json["replaced"]["api_key_id"], by_secret.json["replaced"]["api_key_id"]) == (one, two)
    assert revoked.json["api_key_id"] == by_secret.json["api_key_id"]
    assert (ambiguous.code, unknown.code) == (ExitCode.REFUSED, ExitCode.REFUSED)
    assert "keys match; name one by its id:" in ambiguous.err
    assert "`skein keys list` shows both" in unknown.err
    assert "22222222" not in unknown.err


@pytest.mark.system
async def test_the_key_of_a_data_folder_is_exchanged_there_when_it_is_rotated(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"endpoint": cluster.endpoint, "api_key": tenant.api_key, "http": "kept"}), "utf-8")
    local = {**test_environment(), "SKEIN_DATA_DIR": str(tmp_path)}

    rotated = await skein("keys", "rotate", tenant.api_key, environment=local)
    again = await skein("keys", "list", environment=local)

    kept = json.loads(file.read_text("utf-8"))
    assert kept == {"endpoint": cluster.endpoint, "api_key": rotated.out.strip(), "http": "kept"}
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"{file} has the new key" in rotated.err
    assert again.code == ExitCode.OK


@pytest.mark.system
async def test_an_expected_error_is_one_line_that_says_what_to_do(environment: dict[str, str], tmp_path: Path) -> None:
    with free_ports(["port"], "127.0.0.1") as ports:
        unused_port = ports["port"]
        unreachable = await skein("status", environment={**environment, "SKEIN_ENDPOINT": f"127.0.0.1:{unused_port}"})
    wrong_key = await skein("status", environment={**environment, "SKEIN_API_KEY": "wrong"})
    no_key = await skein("status", SKEIN_DATA_DIR=str(tmp_path))
    not_there = await skein("memories", "show", "nothing", environment=environment)
    no_operator = await skein("tenants", "list", SKEIN_DATA_DIR=str(tmp_path))

    assert unreachable.code == ExitCode.UNREACHABLE
    assert f"Nothing answers at 127.0.0.1:{unused_port}. Start a cluster with `skein up`" in unreachable.err
    assert [ended.code for ended in (wrong_key, no_key, not_there, no_operator)] == [ExitCode.REFUSED] * 4
    assert "SKEIN_API_KEY" in wrong_key.err
    assert "SKEIN_API_KEY" in no_key.err
    assert "`skein memories list`" in not_there.err
    assert "SKEIN_OPERATOR_KEY" in no_operator.err
    for ended in (unreachable, wrong_key, no_key, not_there, no_operator):
        assert ended.out == ""
        assert len(ended.err.splitlines()) == 1, ended.err
