"""Moving in from MemoryVault: brains, their people and OAuth clients, and what a brain remembers."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_moving import a_file, changed, move_all_in, move_in, outcome, refusal_of, refusals, remaining_counts
from fix_oauth import REDIRECT, App
from fix_stores import MEMORYVAULT
from google.protobuf.json_format import MessageToDict

from skein.auth.v1 import accounts_pb2, oauth_pb2
from skein.memory.v1 import curation_pb2, memory_pb2, webhooks_pb2
from skein.tenancy.v1 import members_pb2, subjects_pb2, tenancy_pb2

T0 = 1_709_281_800
AT = {"created_at": T0, "updated_at": T0}
PASSWORD = "correct horse battery"
SECRET = "mcs_deployed-long-ago"


def kept_password(password: str) -> str:
    """Return what MemoryVault keeps of a password."""
    salt = b"\xfb\xff" + b"salt of sixteen"
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1000)
    return "$".join(["pbkdf2_sha256", "1000", *(_url_safe(value) for value in (salt, digest))])


def _url_safe(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def brain(key: str, **more: Any) -> dict[str, Any]:
    return {"id": key, "name": f"Brain {key}", "slug": None, "owner_user_id": None, **AT, **more}


def memory(memory_id: str, of: str, **more: Any) -> dict[str, Any]:
    return {"id": memory_id, "brain_id": of, "type": "note", "content": f"content of {memory_id}", **AT, **more}


def one_brain(path: Path) -> str:
    """Make a database with one brain, as years and scripts leave it."""
    return a_file(
        path / "vault.sqlite",
        MEMORYVAULT,
        brains=[brain("b"), brain("legacy-default-brain")],
        memories=[
            memory("tea", "b", type="fact", key="drink", content="Tea", tags="hot, leaf,,hot", source=" API  log",
                   confidence=0.9, importance=0.8, created_at=T0 * 1000, updated_at=T0 * 1000 + 5000),
            memory("coffee", "b", type="fact", key="Drink", content="Coffee", updated_at=T0 + 60),
            memory("old", "b", archived_at=T0 + 10, title="Long ago"),
            memory("wild", "b", type="Ünknown", importance=3, confidence="sure"),
            memory("empty", "b", content="  "),
            memory("bytes", "b", content=b"half \xe9 character", created_at="2024-03-01T08:30:00Z"),
        ],
        memory_links=[
            {"id": "l1", "brain_id": "b", "from_id": "tea", "to_id": "coffee", "relation_type": "contradicts",
             "label": "which?", "created_at": T0},
            {"id": "l2", "brain_id": "b", "from_id": "tea", "to_id": "nowhere", "created_at": T0},
        ],
        brain_source_trust=[
            {"id": "t1", "brain_id": "b", "source_key": "api log", "trust": 0.9, "notes": "measured", **AT},
            {"id": "t2", "brain_id": "b", "source_key": "gossip", "trust": -2, **AT},
        ],
        memory_entity_aliases=[
            {"id": "a1", "brain_id": "b", "canonical_memory_id": "tea", "alias_memory_id": "old",
             "confidence": 0.6, **AT},
        ],
        memory_conflict_resolutions=[
            {"id": "c1", "brain_id": "b", "pair_key": "coffee|tea", "a_id": "coffee", "b_id": "tea",
             "status": "superseded", "canonical_id": "coffee", "note": "newer", **AT},
            {"id": "c2", "brain_id": "b", "pair_key": "old|tea", "a_id": "old", "b_id": "tea", "status": "lost", **AT},
        ],
        brain_policies=[
            {"brain_id": "b", **AT, "policy_json": json.dumps(
                {"decay_days": 60, "path_max_hops": 99, "retention_days": 1, "min_link_suggestion_score": 0.4,
                 "private_mode": True, "colour": "blue"})},
        ],
        memory_watches=[
            {"id": "w1", "brain_id": "b", "name": "tell me", "query": 'say "tea"', "secret": "in the clear",
             "webhook_url": "https://hooks.example.com/tea",
             "event_types": '["memory_saved", "link_created", "brain_policy_set"]', **AT},
            {"id": "w2", "brain_id": "b", "name": "nobody", "event_types": "*", **AT},
        ],
        memory_changelog=[
            {"id": f"h{n}", "brain_id": "b", "event_type": "memory_saved", "entity_type": "memory", "entity_id": "tea",
             "summary": "saved", "created_at": T0} for n in range(4)
        ],
        brain_snapshots=[{"id": "s1", "brain_id": "b", "payload_json": "{}", "created_at": T0}],
    )  # fmt: skip


@pytest.mark.system
async def test_memories_of_a_brain_are_read_through_typed_calls_with_their_ids_and_times(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    done = await move_in(cluster, tenant, "memoryvault-d1", one_brain(tmp_path))

    assert done.code == 1, done.err
    tea, coffee, wild = [await tenant.get_memory(name) for name in ("tea", "coffee", "wild")]
    assert (coffee.key, tea.key) == ("Drink", "")
    assert MessageToDict(tea.metadata)["memoryvault"] == {"key": "drink", "updated_at": "2024-03-01T08:30:05Z"}
    assert tea.create_time.ToDatetime(tzinfo=UTC) == datetime.fromtimestamp(T0, UTC)
    assert (sorted(tea.tags), tea.confidence, tea.importance) == (["hot", "leaf"], 0.9, 0.8)
    assert (await tenant.get_memory("old")).archive_time.seconds == T0 + 10
    assert (wild.importance, wild.confidence) == (1.0, 0.7)
    assert (await tenant.get_memory("bytes")).content == "half ? character"
    links = await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id="tea"))
    assert {(link.relation, link.label) for link in links.links} >= {("contradicts", "which?")}


@pytest.mark.system
async def test_trust_aliases_conflicts_policy_and_webhooks_come_along(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    await move_in(cluster, tenant, "memoryvault-d1", one_brain(tmp_path))

    trusted = await tenant.curation.ListSourceTrust(curation_pb2.ListSourceTrustRequest())
    assert {(trust.source_key, trust.trust, trust.notes) for trust in trusted.source_trust} == {
        ("api log", 0.9, "measured"),
        ("gossip", 0.0, ""),
    }
    (alias,) = (await tenant.curation.ListAliases(curation_pb2.ListAliasesRequest())).aliases
    assert (alias.canonical_memory_id, alias.confidence) == ((await tenant.get_memory("tea")).memory_id, 0.6)
    response = await tenant.curation.ListConflictResolutions(curation_pb2.ListConflictResolutionsRequest())
    (resolution,) = response.resolutions
    assert (resolution.status, resolution.note) == (curation_pb2.CONFLICT_STATUS_SUPERSEDED, "newer")
    assert resolution.canonical_memory_id == (await tenant.get_memory("coffee")).memory_id
    policy = (await tenant.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())).policy
    assert (policy.decay_days, policy.path_max_hops, policy.min_link_suggestion_score) == (60, 8, 0.4)
    assert policy.retention_days == 3650
    (webhook,) = (await tenant.history.ListWebhooks(webhooks_pb2.ListWebhooksRequest())).webhooks
    assert (webhook.display_name, webhook.active) == ("tell me", False)
    assert sorted(webhook.event_types) == ["memory_created", "memory_link_created"]
    assert webhook.where == 'title:"say \\"tea\\"" OR content:"say \\"tea\\""'


@pytest.mark.system
async def test_the_report_says_what_was_changed_left_and_refused_and_a_repeat_writes_nothing(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = one_brain(tmp_path)

    dry = await move_in(cluster, tenant, "memoryvault-d1", source, "--dry-run")
    first = await move_in(cluster, tenant, "memoryvault-d1", source)
    again = await move_in(cluster, tenant, "memoryvault-d1", source)

    report = first.json
    written = {kind: count for kind, count in report["written"].items() if count}
    assert written == {"memory": 5, "link": 1, "trust": 2, "alias": 1, "conflict": 1, "policy": 1, "webhook": 1}
    assert changed(report, "memories", "created_at") == {"milliseconds": 1}
    assert changed(report, "memories", "key") == {"a newer fact has the key: kept as metadata.memoryvault.key": 1}
    assert sum(changed(report, "brain_policies", "policy_json").values()) == 3
    assert remaining_counts(report) == {"memory_changelog": 4, "brain_snapshots": 1}
    assert set(refusals(report)) == {
        "memories empty",
        "memory_links l2",
        "memory_conflict_resolutions c2",
        "memory_watches w2",
    }
    assert (dry.json["read"], dry.json["left"]) == (report["read"], report["left"])
    assert not any(dry.json["written"].values())
    assert not any(again.json["written"].values()), again.json["written"]
    assert sum(again.json["skipped"].values()) == sum(written.values())
    assert "in the clear" not in first.out + first.err


@pytest.mark.system
async def test_a_comparison_finds_what_was_changed_here(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = one_brain(tmp_path)
    await move_in(cluster, tenant, "memoryvault-d1", source)
    same = await move_in(cluster, tenant, "memoryvault-d1", source, "--compare")
    await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source="gossip", trust=0.3))

    after = await move_in(cluster, tenant, "memoryvault-d1", source, "--compare")

    assert (same.code, same.json["missing"], same.json["different"]) == (0, {}, []), same.out
    assert after.code == 1
    assert [(entry["kind"], entry["fields"]) for entry in after.json["different"]] == [
        ("trust", ["trust", "update_time"])
    ]


def many_brains(path: Path, mark: str) -> str:
    """Make a database of two brains, with people and applications; `mark` makes their names this test's own."""
    person = {"password_hash": kept_password(PASSWORD), **AT}
    client = {"grant_types": '["authorization_code", "refresh_token"]', "response_types": '["code"]', **AT}
    return a_file(
        path / "vaults.sqlite",
        MEMORYVAULT,
        users=[
            {"id": "ada", "email": f"Ada.{mark}@Example.org", "display_name": "Ada", **person},
            {"id": "bob", "email": f"bob.{mark}@example.org", **person, "password_hash": "bcrypt?"},
            {"id": "legacy-token-user", "email": "legacy-token@memoryvault.local", **person},
        ],
        brains=[
            brain("b1", slug=f"work-{mark}", owner_user_id="ada"),
            brain("b2", name=f"Home {mark}", owner_user_id="bob"),
        ],
        brain_memberships=[
            {"brain_id": "b1", "user_id": "ada", "role": "owner", "created_at": T0},
            {"brain_id": "b1", "user_id": "bob", "role": "guest", "created_at": T0},
            {"brain_id": "b1", "user_id": "nobody", "role": "member", "created_at": T0},
        ],
        memories=[
            memory("same", "b1", content="of work"),
            memory("other", "b2", content="of home"),
        ],
        memory_links=[{"id": "l", "brain_id": "b1", "from_id": "same", "to_id": "other", "created_at": T0}],
        oauth_clients=[
            {"id": "1", "client_id": f"mcp_{mark}", "client_name": "Claude", **client,
             "redirect_uris": json.dumps([REDIRECT])},
            {"id": "2", "client_id": f"mcs_{mark}", "redirect_uris": json.dumps([REDIRECT]), **client,
             "token_endpoint_auth_method": "client_secret_post",
             "client_secret_hash": _url_safe(hashlib.sha256(SECRET.encode()).digest())},
            {"id": "3", "client_id": f"bad_{mark}", "redirect_uris": "not json", **client},
            {"id": "4", "client_id": f"lost_{mark}", "redirect_uris": json.dumps([REDIRECT]), **client,
             "token_endpoint_auth_method": "client_secret_post"},
        ],
        auth_sessions=[
            {"id": "s", "user_id": "ada", "brain_id": "b1", "refresh_hash": "x", "expires_at": T0,
             "created_at": T0, "used_at": T0}
        ],
        rate_limits=[{"ip": "192.0.2.1", "window": 1, "count": 2}],
    )  # fmt: skip


@pytest.mark.system
async def test_all_brains_become_tenants_and_people_sign_in_with_the_password_that_they_had(
    cluster: Cluster, tmp_path: Path
) -> None:
    mark = uuid.uuid4().hex[:12]
    source = many_brains(tmp_path, mark)

    done = await move_all_in(cluster, "memoryvault-d1", source)
    again = await move_all_in(cluster, "memoryvault-d1", source)

    report = done.json
    assert done.code == 1, done.err
    assert set(report["tenants"]) == {"b1", "b2"}
    assert (outcome(report, "account"), outcome(report, "oauth_client"), outcome(report, "membership")) == (
        (2, 2, 0),
        (2, 2, 0),
        (3, 3, 0),
    )
    assert set(refusals(report)) == {
        "memory_links l",
        f"oauth_clients bad_{mark}",
        f"oauth_clients lost_{mark}",
        "brain_memberships b1 nobody",
    }
    assert again.json["tenants"] == report["tenants"]
    assert not any(again.json["written"].values()), again.json["written"]
    signed_in = await cluster.anonymous.auth.SignIn(
        accounts_pb2.SignInRequest(email=f"ada.{mark}@example.org", password=PASSWORD)
    )
    ada = cluster.with_key(signed_in.tokens.access_token, **{"skein-tenant-id": report["tenants"]["b1"]})
    members = (await ada.tenancy.ListMembers(members_pb2.ListMembersRequest())).members
    assert {(member.email, member.role) for member in members} == {
        (f"ada.{mark}@example.org", members_pb2.ROLE_OWNER),
        (f"bob.{mark}@example.org", members_pb2.ROLE_VIEWER),
    }
    listed = await ada.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert [memory.content for memory in listed.memories] == ["of work"]
    stranger = cluster.with_key(signed_in.tokens.access_token, **{"skein-tenant-id": report["tenants"]["b2"]})
    with refused(grpc.StatusCode.NOT_FOUND, "TENANT_NOT_FOUND"):
        await stranger.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    tenants = await cluster.operator.tenancy.GetTenant(tenancy_pb2.GetTenantRequest(tenant_id=report["tenants"]["b1"]))
    assert tenants.tenant.slug == f"work-{mark}"


@pytest.mark.system
async def test_a_tenant_that_has_the_slug_of_a_brain_by_chance_gets_nothing(cluster: Cluster, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex[:12]
    source = many_brains(tmp_path, mark)
    # Makes the organization.
    (tmp_path / "before").mkdir()
    await move_all_in(cluster, "memoryvault-d1", many_brains(tmp_path / "before", f"before-{mark}"))
    organizations = await cluster.operator.tenancy.ListOrganizations(
        tenancy_pb2.ListOrganizationsRequest(page_size=1000)
    )
    organization_id = next(one.organization_id for one in organizations.organizations if one.slug == "default")
    taken = tenancy_pb2.Tenant(organization_id=organization_id, slug=f"work-{mark}")
    made = await cluster.operator.tenancy.CreateTenant(tenancy_pb2.CreateTenantRequest(tenant=taken))

    done = await move_all_in(cluster, "memoryvault-d1", source)
    compared = await move_all_in(cluster, "memoryvault-d1", source, "--compare")

    assert (done.code, compared.code) == (1, 1)
    assert f"a tenant 'work-{mark}' already, which was not made for the realm 'b1'" in done.err
    other = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": made.tenant.tenant_id})
    assert not (await other.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    with refused(grpc.StatusCode.NOT_FOUND, "ACCOUNT_NOT_FOUND"):
        await cluster.operator.auth.GetAccount(accounts_pb2.GetAccountRequest(email=f"ada.{mark}@example.org"))


@pytest.mark.system
async def test_applications_keep_their_ids_and_secrets(cluster: Cluster, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex[:12]
    await move_all_in(cluster, "memoryvault-d1", many_brains(tmp_path, mark))

    async with cluster.direct("auth") as channel:
        for client_id, secret, method in ((f"mcp_{mark}", "", "none"), (f"mcs_{mark}", SECRET, "client_secret_post")):
            client = oauth_pb2.Client(client_id=client_id, redirect_uris=[REDIRECT], token_endpoint_auth_method=method)
            app = App(channel, client, secret, "")
            with refused(grpc.StatusCode.INVALID_ARGUMENT, "OAUTH_INVALID_GRANT"):
                await app.refresh("nonsense")
            response = await app.oauth.CreateAuthorization(app.asks())
            assert response.prompt.client_id == client_id


@pytest.mark.system
async def test_an_account_that_anybody_may_have_made_is_let_into_nothing(cluster: Cluster, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex[:12]
    request = accounts_pb2.SignUpRequest(email=f"ada.{mark}@example.org", password="a password of a stranger")
    await cluster.anonymous.auth.SignUp(request)

    done = await move_all_in(cluster, "memoryvault-d1", many_brains(tmp_path, mark))

    assert outcome(done.json, "account") == (2, 1, 1)
    (reason,) = [entry["reason"] for entry in done.json["refused"] if entry["kind"] == "membership"]
    assert "unverified" in reason


async def test_several_brains_never_come_into_one_tenant_unless_one_is_named(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    source = many_brains(tmp_path, uuid.uuid4().hex[:12])

    unsaid = await move_in(cluster, tenant, "memoryvault-d1", source)
    await move_in(cluster, tenant, "memoryvault-d1", source, "--realm", "b2")

    assert unsaid.code == 1
    assert "b1 (Brain b1)" in unsaid.err
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert [memory.content for memory in listed.memories] == ["of home"]


# MemoryVault's first schemas: no brains, and no column that names one.
EARLY_DDL = """
-- The tables of the first release.
CREATE TABLE IF NOT EXISTS memories (
    id TEXT PRIMARY KEY, type TEXT NOT NULL CHECK(type IN ('note', 'fact', 'journal')), title TEXT, key TEXT,
    content TEXT NOT NULL, tags TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
); -- One table,
CREATE INDEX IF NOT EXISTS idx_type ON memories(type);
/* and its links. */
CREATE TABLE IF NOT EXISTS memory_links (
    id TEXT PRIMARY KEY, from_id TEXT NOT NULL, to_id TEXT NOT NULL, label TEXT, created_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS memory_changelog (id TEXT PRIMARY KEY, summary TEXT NOT NULL, created_at INTEGER NOT NULL);
"""
EARLY_ROWS = """
INSERT INTO memories (id, type, key, content, tags, created_at, updated_at)
VALUES ('tea', 'fact', 'drink', 'Tea', 'hot,leaf', 1709281800, 1709281800);
INSERT OR IGNORE INTO memories (id, type, content, created_at, updated_at)
VALUES ('cup', 'note', 'The blue cup; the large one', 1709281800, 1709281800);
INSERT INTO memory_links (id, from_id, to_id, label, created_at) VALUES ('l1', 'tea', 'cup', 'in it', 1709281800);
INSERT INTO memory_links (id, from_id, to_id, created_at) VALUES ('l2', 'tea', 'nowhere', 1709281800);
INSERT INTO memory_changelog (id, summary, created_at) VALUES ('h1', 'saved', 1709281800);
"""


@pytest.mark.parametrize("is_dump", [False, True], ids=["database", "dump"])
async def test_a_schema_without_brains_is_one_brain(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, *, is_dump: bool
) -> None:
    dump = tmp_path / "schema.sql"
    dump.write_text(EARLY_DDL + EARLY_ROWS, "utf-8")
    source = str(dump) if is_dump else a_file(tmp_path / "early.sqlite", EARLY_DDL + EARLY_ROWS)

    done = await move_in(cluster, tenant, "memoryvault-d1", source)
    again = await move_in(cluster, tenant, "memoryvault-d1", source, "--realm", "legacy-default-brain")

    assert done.code == 1, done.err
    assert set(refusals(done.json)) == {"memory_links l2"}
    assert remaining_counts(done.json) == {"memory_changelog": 1}
    tea = await tenant.get_memory("tea")
    assert (tea.key, sorted(tea.tags), tea.create_time.seconds) == ("drink", ["hot", "leaf"], T0)
    links = (await tenant.links.ListLinks(memory_pb2.ListLinksRequest(memory_id="tea"))).links
    assert [(link.relation, link.label) for link in links] == [("related", "in it")]
    assert outcome(again.json, "memory") == (2, 0, 2)


async def test_without_the_table_brains_everything_belongs_to_the_one_brain_that_memories_name(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    ddl = MEMORYVAULT.replace(
        "CREATE TABLE brains (id TEXT PRIMARY KEY,", "CREATE TABLE unrelated (id TEXT PRIMARY KEY,"
    )
    source = a_file(
        tmp_path / "headless.sqlite",
        f"PRAGMA foreign_keys = OFF; {ddl}",
        memories=[memory("tea", "b1"), memory("cup", "b1")],
        memory_links=[{"id": "l", "brain_id": "", "from_id": "tea", "to_id": "cup", "created_at": T0}],
        brain_source_trust=[{"id": "t", "brain_id": "b1", "source_key": "log", "trust": 0.9, **AT}],
    )

    done = await move_in(cluster, tenant, "memoryvault-d1", source)

    assert done.code == 0, done.err + done.out
    written = {kind: count for kind, count in done.json["written"].items() if count}
    assert written == {"memory": 2, "link": 1, "trust": 1}


async def test_several_brains_stay_apart_without_the_table_brains(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    ddl = MEMORYVAULT.replace(
        "CREATE TABLE brains (id TEXT PRIMARY KEY,", "CREATE TABLE unrelated (id TEXT PRIMARY KEY,"
    )
    source = a_file(
        tmp_path / "headless.sqlite",
        f"PRAGMA foreign_keys = OFF; {ddl}",
        memories=[memory("tea", "b1"), memory("coffee", "b2"), memory("milk", "")],
    )

    unnamed = await move_in(cluster, tenant, "memoryvault-d1", source)
    named = await move_in(cluster, tenant, "memoryvault-d1", source, "--realm", "legacy-default-brain")

    assert unnamed.code == 1
    assert "It has b1, b2, legacy-default-brain." in unnamed.err
    assert outcome(named.json, "memory") == (1, 1, 0)
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert [found.external_id for found in listed.memories] == ["milk"]


async def test_a_realm_is_named_by_its_slug_too(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex[:12]
    source = many_brains(tmp_path, mark)

    missed = await move_in(cluster, tenant, "memoryvault-d1", source, "--realm", f"work-{mark}-not")
    named = await move_in(cluster, tenant, "memoryvault-d1", source, "--realm", f"work-{mark}")

    assert missed.code == 1
    assert f"no realm 'work-{mark}-not'. It has work-{mark} or b1 (Brain b1), b2 (Home {mark})." in missed.err
    assert outcome(named.json, "memory") == (1, 1, 0)
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert [memory.content for memory in listed.memories] == ["of work"]


async def test_a_slug_that_two_realms_have_asks_for_the_id(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    source = a_file(
        tmp_path / "twins.sqlite",
        MEMORYVAULT.replace("slug TEXT UNIQUE", "slug TEXT"),
        brains=[brain("b1", slug="home"), brain("b2", slug="home"), brain("home-id", slug="other")],
        memories=[memory("of-b1", "b1"), memory("of-b2", "b2"), memory("of-home", "home-id")],
    )

    twins = await move_in(cluster, tenant, "memoryvault-d1", source, "--realm", "home", "--dry-run")
    by_id = await move_in(cluster, tenant, "memoryvault-d1", source, "--realm", "home-id", "--dry-run")

    assert twins.code == 1
    assert (
        "2 realms of the source have the slug 'home'; name one by its id: home or b1 (Brain b1), home or b2"
        in twins.err
    )
    assert by_id.json["read"]["memory"] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "is no memoryvault_export_v1"),
        ('{"schema": "another", "memories": []}', "is no memoryvault_export_v1"),
        ('{"memories": {}}', "is no memoryvault_export_v1"),
    ],
)
async def test_a_file_that_is_no_export_is_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "export.json"
    file.write_text(text, "utf-8")

    assert words in await refusal_of("memoryvault-json", str(file))
    assert "cannot be read" in await refusal_of("memoryvault-json", str(tmp_path / "missing.json"))


@pytest.mark.system
async def test_an_export_comes_with_the_same_report_and_comparison(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    file = tmp_path / "export.json"
    document = {
        "schema": "memoryvault_export_v1",
        "links": [{"id": "l1", "from_id": "tea", "to_id": "cup"}, {"id": "l2", "from_id": "tea", "to_id": "gone"}, 7],
        "memories": [
            {"id": "tea", "type": "fact", "key": "drink", "content": "Tea", "tags": ["hot", "hot"], "created_at": T0},
            {"id": "cup", "type": "note", "content": "A cup", "tags": "clay,blue", "created_at": T0 * 1000},
        ],
        "source_trust": [{"source_key": "me", "trust": 1}],
        "policy": {"decay_days": 45},
        "changelog": [{}, {}],
    }
    file.write_text(json.dumps(document), "utf-8")

    done = await move_in(cluster, tenant, "memoryvault-json", str(file))
    again = await move_in(cluster, tenant, "memoryvault-json", str(file))
    same = await move_in(cluster, tenant, "memoryvault-json", str(file), "--compare")

    written = {kind: count for kind, count in done.json["written"].items() if count}
    assert written == {"memory": 2, "link": 1, "trust": 1, "policy": 1}
    assert refusals(done.json) == {
        "memory_links l2": "to_id names no memory of its brain",
        "memory_links 3": "is no JSON object",
    }
    assert remaining_counts(done.json) == {"changelog": 2}
    assert not any(again.json["written"].values())
    assert (same.json["missing"], same.json["different"]) == ({}, [])


@pytest.mark.parametrize("said_by", ["link", "conflict"])
async def test_a_superseded_fact_leaves_its_key_to_the_one_that_supersedes_it(
    cluster: Cluster, tenant: Tenant, tmp_path: Path, said_by: str
) -> None:
    fact = {"type": "fact", "key": "drink"}
    link = {
        "id": "l",
        "brain_id": "b",
        "from_id": "new",
        "to_id": "old",
        "relation_type": "supersedes",
        "created_at": T0,
    }
    conflict = {"id": "c", "brain_id": "b", "pair_key": "new|old", "a_id": "new", "b_id": "old", "canonical_id": "new"}
    source = a_file(
        tmp_path / "vault.sqlite",
        MEMORYVAULT,
        brains=[brain("b")],
        memories=[memory("new", "b", **fact), memory("old", "b", **{**fact, "updated_at": T0 + 60})],
        memory_links=[{**link, "created_at": T0}] if said_by == "link" else [],
        memory_conflict_resolutions=[{**conflict, "status": "superseded", **AT}] if said_by == "conflict" else [],
    )

    await move_in(cluster, tenant, "memoryvault-d1", source)

    new, old = [await tenant.get_memory(name) for name in ("new", "old")]
    assert (new.key, old.key) == ("drink", "")
    assert MessageToDict(old.metadata)["memoryvault"]["key"] == "drink"
