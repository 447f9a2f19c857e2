"""The rules of types, tasks, levels, scopes and sealing by themselves."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from fix_catalogue import over
from hypothesis import given
from hypothesis import strategies as st

from skein.memory.v1 import memory_pb2 as pb
from skein_cluster.api.credentials import master_key
from skein_kit.filters.evaluator import matches
from skein_kit.filters.visibility import visible_to
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.identity.identity_token import Caller
from skein_kit.policies.store import Policy
from skein_kit.settings import SettingInvalid
from skein_memory.errors import (
    LevelOutOfRange,
    MasterKeyMissing,
    MemoryDataInvalid,
    MemoryTypeNotAllowed,
    SecretUndecryptable,
)
from skein_memory.memories import convert as memories_convert
from skein_memory.memories import memory_type
from skein_memory.memories import model as levels
from skein_memory.memories.model import Memory, create_memories
from skein_memory.settings import SecretSettings
from skein_memory.tasks import model as tasks
from skein_memory.vault.encryption import Ciphertext, MasterKey, MasterKeys, TenantKey, WrappedKey

NOW = datetime(2026, 5, 17, 12, 0, tzinfo=UTC)
OLD, NEW = "1a" * 32, "2b" * 32
TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - zone below.
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


def memory_of(**fields: object) -> Memory:
    message = pb.Memory(**{"content": "c", **fields})  # type: ignore[arg-type]  # As the test says.
    (memory,) = create_memories([memories_convert.draft(message, at=NOW, max_content=100)], at=NOW, by="api_key:1")
    return memory


def task_of(importance: float, update_time: datetime, due_time: datetime | None) -> tasks.Task:
    return tasks.Task(
        memory_id=uuid4(),
        kind="task",
        status="open",
        due_time=due_time,
        objective_id=None,
        importance=importance,
        update_time=update_time,
    )


@pytest.mark.system
@given(st.sampled_from(sorted(memory_type.BUILT_IN)), st.dictionaries(st.text(max_size=20), JSON, max_size=5))
def test_any_data_is_taken_or_refused_by_field_and_never_quoted(type_name: str, values: dict[str, object]) -> None:
    data = json.dumps(values)

    violations: tuple[tuple[str, str], ...] | None = None
    try:
        memory_type.validate_data(type_name, data, draft_fields={})
    except MemoryDataInvalid as refusal:
        violations = refusal.violations

    known = set(memory_type.BUILT_IN[type_name].fields)
    fields = known | {name[:100] for name in values}
    if violations is None:
        assert not known or set(values) <= known
    else:
        assert violations
        assert all(any(path.startswith(f"data.{name}") for name in fields) for path, _ in violations)
    memory_type.search_text(type_name, data)


def test_every_searched_or_required_field_exists() -> None:
    for type_ in memory_type.BUILT_IN.values():
        assert set(type_.required) <= set(type_.fields)
        if type_.fields:
            assert set(type_.searched_fields) <= set(type_.fields)
        else:
            assert type_.searched_fields == (() if type_.name == "langgraph" else (memory_type.ALL_TEXTS,))


def test_only_the_kind_of_a_vault_entry_is_searched() -> None:
    assert memory_type.BUILT_IN[memory_type.VAULT].searched_fields == ("entry_type",)


def test_a_policy_without_types_accepts_every_type() -> None:
    memory_type.check_type_allowed(Policy(), ["anything"])
    with pytest.raises(MemoryTypeNotAllowed) as caught:
        memory_type.check_type_allowed(Policy(memory_types=("note",)), ["note", "fact"])
    assert caught.value.metadata == {"type": "fact", "index": "1"}


@given(st.text(min_size=1, max_size=200))
def test_only_the_length_of_a_secret_is_shown(secret: str) -> None:
    data = json.loads(memory_type.vault_data(None, secret=secret, length=""))

    assert data == {"secret_length": "short" if len(secret) <= 16 else "medium" if len(secret) <= 64 else "long"}


@given(st.floats(0, 1), st.floats(0, 1), TIMES, TIMES, st.none() | TIMES, TIMES)
def test_a_score_is_bounded_and_grows_with_importance_freshness_and_urgency(
    low: float, high: float, earlier: datetime, later: datetime, due_time: datetime | None, at: datetime
) -> None:
    low, high = sorted((low, high))
    earlier, later = sorted((earlier, later))

    score = tasks.score(task_of(low, earlier, due_time), at)

    assert 0 <= score <= 1
    assert tasks.score(task_of(high, earlier, due_time), at) >= score
    assert tasks.score(task_of(low, later, due_time), at) >= score
    if due_time is not None:
        assert tasks.score(task_of(low, earlier, due_time - timedelta(days=2)), at) >= score
        assert tasks.score(task_of(low, earlier, None), at) <= score


def test_levels_are_moved_through_one_by_one_and_end() -> None:
    memory, seen = memory_of(level=pb.LEVEL_STRATEGIC), []
    for _ in range(3):
        memory, event = levels.demote_or_hide(memory, at=NOW, by="x")
        seen.append((memory.draft.level, event))
    last, event = levels.demote_or_hide(memory, at=NOW, by="x")

    assert seen == [(level, "memory_demoted") for level in levels.LEVELS[1:]]
    assert (last.draft.archive_time, last.occupied_level, event) == (NOW, None, "memory_archived")
    with pytest.raises(LevelOutOfRange):
        levels.demote(memory, at=NOW, by="x")
    with pytest.raises(LevelOutOfRange):
        levels.promote(memory_of(level=pb.LEVEL_STRATEGIC), at=NOW, by="x")


def test_the_capacities_are_those_of_the_policy() -> None:
    assert [levels.capacity(Policy(), level) for level in levels.LEVELS] == [100, 500, 2000, 5000]


@over(
    "text", [OLD, OLD.upper(), f" {OLD}\n", base64.b64encode(bytes.fromhex(OLD)).decode(),
             base64.urlsafe_b64encode(bytes.fromhex(OLD)).decode().rstrip("=")],
)  # fmt: skip
def test_a_master_key_is_read_as_hex_and_as_base64(text: str) -> None:
    assert MasterKey.of(text, variable="X") == MasterKey.of(OLD, variable="X")


def test_keys_are_not_shown_by_accident() -> None:
    keys = MasterKeys.of(OLD)
    shown = repr((MasterKey.of(OLD, variable="X"), TenantKey.new(NOW), SecretSettings(master_key=OLD)))

    assert OLD not in shown
    assert "secret" not in shown.replace("SecretSettings", "")
    assert OLD not in keys.current


def test_a_tenant_key_opens_with_its_own_master_key_and_for_its_tenant_alone() -> None:
    tenant_id, key = uuid4(), TenantKey.new(NOW)
    wrapped = MasterKeys.of(OLD).wrap(key, tenant_id=tenant_id)

    assert MasterKeys.of(OLD).unwrap(wrapped, tenant_id=tenant_id) == key
    assert MasterKeys.of(NEW, OLD).unwrap(wrapped, tenant_id=tenant_id) == key
    with pytest.raises(SecretUndecryptable):
        MasterKeys.of(NEW).unwrap(wrapped, tenant_id=tenant_id)
    with pytest.raises(SecretUndecryptable):
        MasterKeys.of(OLD).unwrap(wrapped, tenant_id=uuid4())
    renamed = WrappedKey(key_id=uuid4(), master_key=wrapped.master_key, encrypted_key=wrapped.encrypted_key)
    with pytest.raises(SecretUndecryptable):
        MasterKeys.of(OLD).unwrap(renamed, tenant_id=tenant_id)
    with pytest.raises(MasterKeyMissing):
        MasterKeys.of("").wrap(key, tenant_id=tenant_id)


@given(st.text(max_size=300), st.uuids(), st.uuids(), st.integers(0, 10_000))
def test_a_sealed_secret_opens_for_its_memory_alone_and_undamaged(
    secret: str, tenant_id: UUID, memory_id: UUID, place: int
) -> None:
    key = TenantKey.new(NOW)
    sealed = key.encrypt(secret, tenant_id=tenant_id, memory_id=memory_id)
    damaged = bytearray(sealed.ciphertext)
    damaged[place % len(damaged)] ^= 1

    assert key.decrypt(sealed, tenant_id=tenant_id, memory_id=memory_id) == secret
    assert key.encrypt(secret, tenant_id=tenant_id, memory_id=memory_id) != sealed
    for other in ({"tenant_id": uuid4(), "memory_id": memory_id}, {"tenant_id": tenant_id, "memory_id": uuid4()}):
        with pytest.raises(SecretUndecryptable):
            key.decrypt(sealed, **other)
    with pytest.raises(SecretUndecryptable):
        key.decrypt(Ciphertext(nonce=sealed.nonce, ciphertext=bytes(damaged)), tenant_id=tenant_id, memory_id=memory_id)


def test_the_embedded_cluster_makes_its_master_key_once_for_its_owner_alone(tmp_path: Path) -> None:
    first = master_key(tmp_path)

    assert master_key(tmp_path) == first
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600
    assert MasterKeys.of(first).current


def test_a_start_without_a_key_that_is_in_use_says_which() -> None:
    used = {MasterKeys.of(OLD).current}

    MasterKeys.of(OLD).check_has(used)
    MasterKeys.of(NEW, OLD).check_has(used)
    MasterKeys.of("").check_has(set())
    for keys in (MasterKeys.of(""), MasterKeys.of(NEW)):
        with pytest.raises(SettingInvalid, match=next(iter(used))):
            keys.check_has(used)


def test_a_request_is_recognised_without_the_secrets_inside_of_it() -> None:
    caller = Caller(principal="api_key:1", tenant_id=uuid4(), permissions=frozenset())

    def fingerprint(*secrets: str, title: str = "t") -> bytes:
        memories = [pb.Memory(title=title, secret_value=secret) for secret in secrets]
        batch = pb.BatchCreateMemoriesRequest(memories=memories, request_id="r")
        return IdempotencyKey.of(caller, batch).fingerprint

    assert fingerprint("one", "two") == fingerprint("three", "four")
    assert fingerprint("one") != fingerprint("one", "two")
    assert fingerprint("one") != fingerprint("one", title="u")


IDS = st.sampled_from(["", "a", "b"])


@given(st.sampled_from(["global", "agent", "user", "session"]), IDS, IDS, IDS, IDS, IDS, IDS)
def test_an_agent_does_not_see_a_memory_of_another_owner(
    scope: str, agent: str, subject: str, session: str, agent_id: str, subject_id: str, session_id: str
) -> None:
    row = {"scope": scope, "agent_id": agent or None, "subject_id": subject or None, "session_id": session or None}

    seen = matches(visible_to(agent_id, subject_id, session_id), row)

    own = {"global": "own", "agent": agent_id, "user": subject_id, "session": session_id}[scope]
    draft_fields = {"global": "own", "agent": agent, "user": subject, "session": session}[scope]
    if seen:
        assert own == draft_fields != ""
    if scope in {"user", "session"} and agent and agent_id and agent != agent_id:
        assert not seen
    if subject and subject_id and subject != subject_id:
        assert not seen
