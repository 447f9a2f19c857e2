"""A tenant with at least a row in each table, to delete it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import asyncpg
from fix_receipts import get_receipt, recall_with_receipt, set_policy
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct, Value

from skein.auth.v1 import accounts_pb2
from skein.memory.v1 import blocks_pb2, memory_pb2, snapshots_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_kit.ids import new_id

if TYPE_CHECKING:
    from fix_cluster import Tenant

    Connection = asyncpg.Connection[asyncpg.Record]

MEMORIES = 30
# What no service can be asked for here, or asks for only now and then: people, counters, OAuth. Without the checks of
# foreign keys, as the accounts and clients do not exist.
REST = """
    INSERT INTO memory.access_keys (tenant_id, secret) VALUES ($1, sha256('x')) ON CONFLICT DO NOTHING;
    INSERT INTO tenancy.memberships (tenant_id, account_id, role, create_time, update_time, created_by)
    VALUES ($1, $2, 'owner', now(), now(), 'test'), ($1, gen_random_uuid(), 'viewer', now(), now(), 'test');
    INSERT INTO tenancy.spaces
        (tenant_id, space_id, display_name, create_time, update_time, created_by, updated_by)
    VALUES ($1, $2, 'x', now(), now(), 'test', 'test');
    INSERT INTO tenancy.space_grants (tenant_id, space_id, principal, role, create_time, created_by)
    VALUES ($1, $2, 'agent:x', 'reader', now(), 'test');
    INSERT INTO tenancy.space_bindings (tenant_id, principal, create_time, created_by)
    VALUES ($1, 'agent:x', now(), 'test');
    INSERT INTO tenancy.invitations
        (tenant_id, invitation_id, email, role, secret_hash, create_time, expire_time, created_by)
    VALUES ($1, $2, 'a@example.com', 'viewer', sha256('x'), now(), now(), 'test');
    INSERT INTO tenancy.quotas (tenant_id, kind, max_amount, revision, update_time) VALUES ($1, 'test', 5, 1, now());
    INSERT INTO tenancy.usage (tenant_id, kind, slot, amount) VALUES ($1, 'test', 0, 5), ($1, 'test', 1, 5);
    INSERT INTO session.usage (tenant_id, kind, slot, amount) VALUES ($1, 'test', 0, 5);
    INSERT INTO session.archived_sessions
        (tenant_id, session_id, file_id, checksum, byte_count, message_count, archive_time, archived_by)
    VALUES ($1, 'stored', $2, '', 1, 1, now(), 'test');
    INSERT INTO session.archived_messages (tenant_id, message_id, session_id) VALUES ($1, $2, 'stored');
    INSERT INTO session.unreferenced_files (tenant_id, file_id, checksum, due_time) VALUES ($1, $2, '', now());
    INSERT INTO memory.usage (tenant_id, kind, slot, amount) VALUES ($1, 'test', 0, 5);
    INSERT INTO auth.usage (tenant_id, kind, slot, amount) VALUES ($1, 'test', 0, 5);
    INSERT INTO tenancy.collected_usage (tenant_id, kind, amount, collect_time) VALUES ($1, 'test', 5, now());
    INSERT INTO tenancy.jobs (tenant_id, kind, refill_time, day_time) VALUES ($1, 'decay', now(), now());
    INSERT INTO tenancy.rate_limit_buckets
        (tenant_id, caller, tokens, leased, refill_time, hour_time, hour_count, day_time, day_count)
    VALUES ($1, 'test', 5, 0, now(), now(), 0, now(), 0);
    INSERT INTO auth.auth_sessions
        (tenant_id, auth_session_id, account_id, client_id, scopes, resources, auth_time, create_time, use_time,
         expire_time)
    VALUES ($1, $2, $2, 'client', '{}', '{}', now(), now(), now(), now() + interval '1 day');
    INSERT INTO auth.authorization_codes
        (tenant_id, code_id, auth_session_id, secret_hash, redirect_uri, code_challenge, create_time, expire_time)
    VALUES ($1, $2, $2, sha256('x'), '', '', now(), now() + interval '1 day');
    INSERT INTO auth.refresh_tokens
        (tenant_id, refresh_token_id, auth_session_id, secret_hash, create_time, expire_time)
    VALUES ($1, $2, $2, sha256('x'), now(), now() + interval '1 day');
    INSERT INTO auth.audit_events (tenant_id, audit_event_id, event, outcome, create_time)
    VALUES ($1, $2, 'test', 'success', now());
    INSERT INTO auth.audit_checkpoints
        (tenant_id, number, day, covered_id, statement, key_id, signature, event_digests, create_time)
    VALUES ($1, 1, now(), $2, '', '', decode(repeat('00', 64), 'hex'), '', now());
    INSERT INTO memory.versions
        (tenant_id, memory_id, revision, type, content, tags, scope, level, confidence, importance, create_time,
         update_time, until_time, created_by, updated_by)
    VALUES ($1, $2, 1, 'note', 'x', '{}', 'global', 'operational', 0, 0, now(), now(), now(), 'test', 'test');
    INSERT INTO memory.revisions (tenant_id, kind, item_id, revision, state, from_time, until_time, changed_by)
    VALUES ($1, 'link', 'x', 1, '{}', now(), now(), 'test');
    INSERT INTO memory.archives
        (tenant_id, archive_id, label, memory_count, byte_count, checksum, from_time, to_time, create_time, created_by)
    VALUES ($1, $2, 'x', 1, 1, '', now(), now(), now(), 'test');
    INSERT INTO memory.archived_memories (tenant_id, memory_id, archive_id, record_time) VALUES ($1, $2, $2, now());
    INSERT INTO memory.archived_sources (tenant_id, memory_id, source_id) VALUES ($1, $2, $2);
    INSERT INTO memory.lineage_purges (tenant_id, memory_id) VALUES ($1, $2);
    INSERT INTO memory.pending_rows (tenant_id, pending_row_id, memory_id, other_memory_id, row_table, row_data)
    VALUES ($1, $2, $2, $2, 'links', '{}');
    INSERT INTO memory.pending_memories
        (tenant_id, pending_id, memory_id, revision, content, source_ids, created_by, create_time, expire_time)
    VALUES ($1, $2, $2, 0, '', '{}', 'test', now(), now());
    INSERT INTO memory.pages
        (tenant_id, page_id, subject_id, is_pinned, question, create_time, update_time, created_by, updated_by)
    VALUES ($1, $2, 'x', false, '{}', now(), now(), 'test', 'test');
    INSERT INTO memory.webhooks
        (tenant_id, webhook_id, display_name, event_types, webhook_url, master_key, nonce, ciphertext, transaction,
         change_id, create_time, update_time, created_by, updated_by)
    VALUES ($1, $2, 'x', '{*}', 'x', 'x', '', '', 1, $2, now(), now(), 'test', 'test');
    INSERT INTO memory.deliveries (tenant_id, delivery_id, webhook_id, change_id, state, next_time, create_time)
    VALUES ($1, $2, $2, $2, 'pending', now(), now());
    INSERT INTO memory.access_log
        (tenant_id, access_event_id, operation, method, principal, item_count, request_id, create_time)
    SELECT $1, skein.first_id(now()), 'read', 'GetMemory', 'test', 0, 'test', now();
    INSERT INTO memory.access_counts (tenant_id, memory_id, access_count, last_access_time) VALUES ($1, $2, 1, now());
    INSERT INTO memory.properties (tenant_id, memory_id, name, value) VALUES ($1, $2, 'metadata.x', 'x');
    INSERT INTO memory.tombstone_salts (tenant_id, salt) VALUES ($1, 'x');
    INSERT INTO memory.tombstones (tenant_id, digest, create_time) VALUES ($1, 'x', now());
    INSERT INTO memory.sources (tenant_id, memory_id, position, kind, role, name, name_key)
    VALUES ($1, $2, 0, 'agent', 'part', 'x', 'x');
    INSERT INTO memory.trust (tenant_id, memory_id, trust) VALUES ($1, $2, 0.4);
    INSERT INTO memory.trust_history (tenant_id, memory_id, trust, record_time, until_time)
    VALUES ($1, $2, 0.3, now() - interval '1 hour', now());
    INSERT INTO memory.source_trust
        (tenant_id, source_key, trust, revision, create_time, update_time, created_by, updated_by)
    VALUES ($1, 'x', 0.5, 1, now(), now(), 'test', 'test');
    INSERT INTO memory.source_trust_history
        (tenant_id, source_key, trust, revision, create_time, update_time, created_by, updated_by, record_time,
         until_time)
    VALUES ($1, 'x', 0.4, 1, now(), now(), 'test', 'test', now() - interval '1 hour', now());
    INSERT INTO memory.sources_history
        (tenant_id, memory_id, position, kind, role, name, name_key, record_time, until_time)
    VALUES ($1, $2, 0, 'agent', 'part', 'x', 'x', now() - interval '1 hour', now());
    INSERT INTO memory.block_agents_history
        (tenant_id, agent_id, block_id, label, subject_id, attach_time, attached_by, record_time, until_time)
    VALUES ($1, 'x', 'x', 'x', '', now(), 'test', now() - interval '1 hour', now());
    INSERT INTO session.sessions_history (tenant_id, session_id, is_active, record_time, until_time)
    VALUES ($1, 'x', true, now() - interval '1 hour', now());
    INSERT INTO session.messages_history
        (tenant_id, message_id, session_id, sequence, role, content, create_time, created_by, is_active,
         pending_approval, revision, record_time, until_time)
    VALUES ($1, $2, 'x', 1, 'user', 'x', now(), 'test', true, false, 1, now() - interval '1 hour', now());
    INSERT INTO session.extractions (tenant_id, session_id, waiting_count, due_time)
    VALUES ($1, 'x', 1, now() + interval '1 day');
    INSERT INTO session.extraction_messages (tenant_id, message_id, session_id, kind, change_time)
    VALUES ($1, $2, 'x', 'new', now());
    INSERT INTO session.extracted_messages (tenant_id, message_id, extractor, revision) VALUES ($1, $2, 'x', 1);
    INSERT INTO session.extraction_failures
        (tenant_id, message_id, session_id, reason, attempt_count, attempt_time)
    VALUES ($1, $2, 'x', 'time', 1, now());
    INSERT INTO session.extraction_backfills
        (tenant_id, first_id, before_id, remaining_count, leased_ids, due_time, create_time)
    VALUES ($1, $2, $2, 1, '{}', now() + interval '1 day', now());
    INSERT INTO session.title_terms_history (tenant_id, term, session_id, record_time, until_time)
    VALUES ($1, 'x', 'x', now() - interval '1 hour', now());
    INSERT INTO tenancy.policies_history (tenant_id, revision, update_time, record_time, until_time)
    VALUES ($1, 1, now(), now() - interval '1 hour', now());
    INSERT INTO recall.purged_items (tenant_id, purge_time, purge_id, known_time, item_count)
    VALUES ($1, now(), $2, now() - interval '1 hour', 1);
    INSERT INTO tenancy.subjects_history
        (tenant_id, subject_id, display_name, status, timezone, revision, create_time, update_time, created_by,
         updated_by, writers, former_names, record_time, until_time)
    VALUES ($1, 'x', 'x', 'active', 'UTC', 1, now(), now(), 'test', 'test', '{}', '{}', now() - interval '1 hour',
            now());
    INSERT INTO memory.aliases
        (tenant_id, alias_memory_id, canonical_memory_id, confidence, revision, create_time, update_time, created_by,
         updated_by)
    VALUES ($1, $2, gen_random_uuid(), 0.9, 1, now(), now(), 'test', 'test');
    INSERT INTO memory.aliases_history
        (tenant_id, alias_memory_id, canonical_memory_id, confidence, revision, create_time, update_time, created_by,
         updated_by, record_time, until_time)
    VALUES ($1, $2, gen_random_uuid(), 0.9, 1, now(), now(), 'test', 'test', now() - interval '1 hour', now());
    INSERT INTO memory.conflict_resolutions
        (tenant_id, a_memory_id, b_memory_id, resolution_id, status, revision, create_time, update_time, created_by,
         updated_by)
    VALUES ($1, '00000000-0000-0000-0000-000000000000', $2, $2, 'dismissed', 1, now(), now(), 'test', 'test');
    INSERT INTO memory.conflict_resolutions_history
        (tenant_id, a_memory_id, b_memory_id, resolution_id, status, revision, create_time, update_time, created_by,
         updated_by, record_time, until_time)
    VALUES ($1, '00000000-0000-0000-0000-000000000000', $2, $2, 'dismissed', 1, now(), now(), 'test', 'test',
            now() - interval '1 hour', now());
    INSERT INTO recall.model_choices (tenant_id, from_time, model) VALUES ($1, now(), 'all-minilm-l6-v2');
    INSERT INTO recall.reindex_progress
        (tenant_id, reindex_id, scan_time, after_id, documents, seen, scan_embedded, missing, is_finished,
         is_stale, embedded)
    VALUES ($1, $2, now(), $2, 1, 1, 1, 0, true, false, 1);
    INSERT INTO recall.search_counts (tenant_id, day, max_milliseconds, search_count, unanswered_count)
    VALUES ($1, current_date - 1, 5, 1, 0);
    INSERT INTO session.context_ledgers
        (tenant_id, principal, agent_id, ledger_id, revision, session_id, subject_id, content, create_time, expire_time)
    VALUES ($1, 'test', '', 'x', 1, '', '', '', now(), now() + interval '1 day');
    INSERT INTO recall.requests (tenant_id, principal, method, request_id, fingerprint, response, create_time)
    VALUES ($1, 'test', 'test', 'test', '', '', now())
"""
# What counting takes away or keeps only of tenants with more.
COUNTS = """
    INSERT INTO recall.frequencies (tenant_id, term, kind, documents) VALUES ($1, 'test', 'memory', 5);
    INSERT INTO recall.removals (tenant_id, removal_id, kind, documents, length)
    VALUES ($1, gen_random_uuid(), 'memory', 1, 5);
    INSERT INTO memory.trust_work (tenant_id, memory_id, after_id)
    VALUES ($1, gen_random_uuid(), '00000000-0000-0000-0000-000000000000')
"""


def facts(**values: object) -> Struct:
    return json_format.ParseDict(values, Struct())


async def fill(tenant: Tenant, connection: Connection) -> None:
    """Give a tenant at least a row of everything."""
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"Message {n}", external_id=f"m{n}")
        for n in range(10)
    ]
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True, request_id="r")
    )
    response = session_pb2.Session(session_id="found", title="Kitchen", metadata=facts(room="kitchen"))
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=response))
    brought = memory_pb2.Memory(content="With a vector", embedding=[1.0] + [0.0] * 383)
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=brought))
    await tenant.sessions.PutAgentState(
        states_pb2.PutAgentStateRequest(state=states_pb2.AgentState(agent_id="a", state_data=facts(mood="calm")))
    )
    await tenant.sessions.PutSessionItem(
        states_pb2.PutSessionItemRequest(session_id="s", key="k", value=Value(string_value="x"), request_id="r")
    )
    # What is purged leaves tombstones.
    await tenant.sessions.CreateSession(
        session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id="purged"))
    )
    await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="purged"))
    made = await tenant.memory.BatchCreateMemories(
        memory_pb2.BatchCreateMemoriesRequest(
            memories=[
                memory_pb2.Memory(
                    content=f"Note {n} of the garden", type="fact", key=f"k{n}", external_id=f"e{n}", tags=["a", "b"]
                )
                for n in range(MEMORIES)
            ],
            request_id="r",
        )
    )
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=made.memories[9].memory_id))
    for typed in (
        memory_pb2.Memory(type="knowledge_vault", title="v", secret_value="s"),
        memory_pb2.Memory(type="task", content="t"),
    ):
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=typed))
    first, second = (memory.memory_id for memory in made.memories[:2])
    await tenant.links.CreateLink(
        memory_pb2.CreateLinkRequest(
            link=memory_pb2.Link(from_memory_id=first, to_memory_id=second, relation="related")
        )
    )
    block = blocks_pb2.Block(label="human", value="x")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="agent"))
    await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="all"))
    tenancy = tenant.tenancy
    for name in ("agent", "deleted"):
        agent = tenancy_pb2.Agent(agent_id=name)
        await tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent, request_id=name))
    await tenancy.DeleteAgent(tenancy_pb2.DeleteAgentRequest(agent_id="deleted"))
    await tenancy.CreateTool(subjects_pb2.CreateToolRequest(tool=subjects_pb2.Tool(tool_id="tool", name="tool")))
    await tenancy.AttachTool(subjects_pb2.AttachToolRequest(agent_id="agent", tool_id="tool"))
    await tenancy.CreateSubject(
        subjects_pb2.CreateSubjectRequest(subject=subjects_pb2.Subject(subject_id="x", profile=facts(city="Graz", a=1)))
    )
    policy = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy(decay_days=3))
    policy.update_mask.paths.append("decay_days")
    await tenancy.UpdatePolicy(policy)
    await tenant.auth.CreateServiceAccount(
        accounts_pb2.CreateServiceAccountRequest(
            service_account=accounts_pb2.ServiceAccount(display_name="robot", permissions=["memory.read"]),
            request_id="r",
        )
    )
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        for statement in REST.split(";\n"):
            arguments: list[Any] = [tenant.tenant_id, new_id(datetime.now(UTC))]
            await connection.execute(statement.replace("$1", f"'{arguments[0]}'").replace("$2", f"'{arguments[1]}'"))
    # Last: further answers would have receipts as well.
    await set_policy(tenant, recall_receipts="all")
    answer = await recall_with_receipt(tenant, "the kitchen")
    await get_receipt(tenant, answer.receipt_id)


async def add_counts(tenant: Tenant, connection: Connection) -> None:
    for statement in COUNTS.split(";"):
        await connection.execute(statement.replace("$1", f"'{tenant.tenant_id}'"))
