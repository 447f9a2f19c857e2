"""Where the database may hold something of a person, table by table: what Forget removes, and what stays and why."""

from __future__ import annotations

# Tables whose rows about a person go with the person, whatever columns they have.
ERASED = frozenset(
    {
        "memory.aliases", "memory.aliases_history", "memory.archived_memories", "memory.block_agents",
        "memory.block_agents_history",
        "memory.blocks",
        "memory.conflict_resolutions", "memory.conflict_resolutions_history", "memory.memories", "memory.external_ids",
        "memory.fact_keys", "memory.links", "memory.properties",
        "memory.revisions", "memory.secrets", "memory.snapshot_items", "memory.sources", "memory.sources_history",
        "memory.tags", "memory.tasks",
        "memory.versions", "memory.pages", "memory.pending_memories", "memory.pending_rows", "recall.documents",
        "recall.embeddings_all_minilm_l6_v2",
        "recall.documents_history", "recall.embeddings_all_minilm_l6_v2_history", "recall.postings",
        "recall.postings_history", "recall.vector_origins", "session.items", "session.message_external_ids",
        "session.message_order", "session.messages", "session.messages_history", "session.session_properties",
        "session.sessions", "session.sessions_history", "session.archived_messages", "session.archived_sessions",
        "session.title_terms",
        "session.title_terms_history", "tenancy.subject_properties", "tenancy.subjects", "tenancy.subjects_history",
    }
)  # fmt: skip
# Tables whose rows stay: why they hold nothing of a person, and their columns of texts, bytes, documents and vectors.
KEPT: dict[str, tuple[str, str]] = {
    "auth.accounts": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "email new_email password_hash display_name status encrypted_totp_secret",
    ),
    "auth.api_keys": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "display_name permissions agent_id secret_hash created_by grant_ids",
    ),
    "auth.attempts": ("Credentials of people who sign in, not of those who are spoken of.", "kind subject_hash"),
    "auth.audit_checkpoints": ("Ids, digests and signatures.", "day statement key_id signature event_digests"),
    "auth.audit_events": (
        "Credentials of people who sign in, and digests under salts that go with the names of purged people.",
        (
            "event outcome reason principal target client_id address user_agent request_id subject_target subject_salt"
            " subject_digest"
        ),
    ),
    "auth.check_keys": ("Random.", "secret"),
    "auth.clients": (
        "Credentials of people who sign in, not of those who are spoken of.",
        (
            "client_id source client_name redirect_uris grant_types response_types token_endpoint_auth_method scope "
            "client_uri logo_uri tos_uri policy_uri contacts software_id software_version secret_hash "
            "registration_hash source_hash jwks jwks_uri"
        ),
    ),
    "auth.erasure_certificates": (
        "Counts, times, positions, and digests under secret salts.",
        "erasure_key statement key_id signature memory_tombstones session_tombstones",
    ),
    "auth.authorization_codes": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "secret_hash redirect_uri code_challenge",
    ),
    "auth.device_codes": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "secret_hash user_code client_id scopes resources state",
    ),
    "auth.identities": ("Credentials of people who sign in, not of those who are spoken of.", "provider subject login"),
    "auth.legacy_tokens": ("Credentials of people who sign in, not of those who are spoken of.", "secret_hash"),
    "auth.one_time_tokens": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "purpose secret_hash email",
    ),
    "auth.operator_keys": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "display_name secret_hash",
    ),
    "auth.recovery_codes": ("Credentials of people who sign in, not of those who are spoken of.", "code_hash"),
    "auth.refresh_tokens": ("Credentials of people who sign in, not of those who are spoken of.", "secret_hash"),
    "auth.requests": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "principal method request_id fingerprint response",
    ),
    "auth.service_accounts": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "display_name permissions agent_id created_by grant_ids",
    ),
    "auth.auth_sessions": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "client_id scopes resources nonce address user_agent revoke_reason",
    ),
    "auth.signing_keys": (
        "Credentials of people who sign in, not of those who are spoken of.",
        "key_id public_jwk encrypted_private_jwk purpose",
    ),
    "auth.usage": ("Counts.", "kind"),
    "memory.access_keys": ("The key is destroyed.", "secret"),
    "memory.access_log": (
        "Rows stay without the person: the columns that name a person or hold a query are emptied.",
        (
            "operation method principal session_id agent_id subject_id request_data error_code error_reason "
            "client_address request_id claimed_agent_id claimed_session_id space_ids space_grant_ids"
        ),
    ),
    "memory.archives": ("What the operator calls an archive; its file loses the person.", "label checksum created_by"),
    "memory.changes": (
        "Ids, counts and names of fields, never what they hold.",
        "event_type entity_type entity_id summary payload principal",
    ),
    "memory.deliveries": ("Words of the service.", "state last_error"),
    "memory.erasures": ("Digests under a random secret, until the longest call is recorded.", "secret digest"),
    "memory.master_keys": ("Of the cluster.", "fingerprint"),
    "memory.requests": (
        "Answers that show the person are emptied with their fingerprints; the others go after a day.",
        "principal method request_id fingerprint response",
    ),
    "memory.snapshots": (
        "The label and rules of a snapshot; its items are erased.",
        "label summary state last_kind last_item_id counts policy created_by",
    ),
    "memory.source_trust": ("About sources of the tenant.", "source_key notes created_by updated_by"),
    "memory.source_trust_history": ("About sources of the tenant.", "source_key notes created_by updated_by"),
    "memory.tenant_keys": ("Wrapped keys.", "master_key nonce ciphertext"),
    "memory.tombstone_salts": ("Random.", "salt"),
    "memory.tombstones": (
        "Digests under the tenant's salt: what an import must not bring back, and a restore must erase again.",
        "digest",
    ),
    "memory.trust_work": ("Of a rated source, until the worker is done.", "source_key"),
    "memory.usage": ("Counts.", "kind"),
    "memory.webhooks": (
        "Rules of the tenant; what is delivered is an event.",
        (
            "display_name event_types condition webhook_url destination master_key nonce ciphertext last_error "
            "grant_ids makers created_by updated_by"
        ),
    ),
    "recall.corpora": ("The term at which a recount stands is emptied.", "kind recounted_to"),
    "recall.removals": ("Counts.", "kind"),
    "recall.receipts": (
        "The signed content has ids, numbers and keyed digests; the request and the query that may name a person go.",
        "principal request_id content key_id signature request query subject_ids",
    ),
    "recall.search_counts": ("Counts of a tenant by the day.", "day"),
    "recall.embedding_models": (
        "Of the cluster.",
        "model provider table_name endpoint remote_model query_prefix passage_prefix",
    ),
    "recall.model_activations": ("Of the cluster.", "model"),
    "recall.model_choices": ("The tenant's choice of the operator's models.", "model"),
    "recall.frequencies": ("Terms that no item has any more go.", "term kind"),
    "recall.reindexes": ("Of the cluster.", "model created_by"),
    "recall.requests": ("Requests of the operator.", "principal method request_id fingerprint response"),
    "session.agent_states": (
        "States of the person's sessions go; an agent's own have no subject.",
        "agent_id session_id state_data created_by updated_by",
    ),
    "session.extractions": ("Names sessions for seconds, until their messages are read.", "session_id"),
    "session.extraction_messages": ("As session.extractions; a purged message without its session.", "session_id kind"),
    "session.extraction_backfills": ("Ids of messages, until they are read.", "leased_ids"),
    "session.extracted_messages": ("Ids of messages, which go with them.", "extractor"),
    "session.extraction_failures": ("As session.extracted_messages.", "session_id reason"),
    "session.context_ledgers": (
        "Those for the person go; others name what is purged by ids and keyed digests, for a day at most.",
        "principal agent_id ledger_id session_id subject_id space_ids content",
    ),
    "session.unreferenced_files": (
        "Names a file until it is removed; a purge empties the session.",
        "checksum session_id",
    ),
    "session.requests": ("As memory.requests.", "principal method request_id fingerprint response session_id"),
    "session.tombstone_salts": ("Random.", "salt"),
    "session.tombstones": ("As memory.tombstones.", "digest"),
    "session.usage": ("Counts.", "kind"),
    "skein.page_token_keys": ("Random.", "secret"),
    "skein.migrations": ("Of the schema.", "name checksum skein_version"),
    "tenancy.agent_tools": ("Agents.", "agent_id tool_id created_by"),
    "tenancy.agents": (
        "Agents.",
        (
            "agent_id display_name agent_type description system_prompt topic metadata llm_config embedding_config "
            "tool_rules mcp_servers created_by updated_by deleted_agent_id message_ids"
        ),
    ),
    "tenancy.jobs": ("Counts and limits, and the principal that paused.", "kind paused_by"),
    "tenancy.rate_limit_buckets": ("Who calls, not who is spoken of.", "caller"),
    "tenancy.collected_usage": ("Counts.", "kind"),
    "tenancy.deletions": ("About tenants.", "state stage deleted_counts created_by"),
    "tenancy.invitations": (
        "People who sign in: they delete their accounts.",
        "email role secret_hash created_by grant_ids",
    ),
    "tenancy.quotas": ("Of the tenant.", "kind"),
    "tenancy.memberships": ("People who sign in: they delete their accounts.", "role email display_name created_by"),
    "tenancy.organization_quotas": ("Of the organization.", "kind"),
    "tenancy.organizations": ("Organizations.", "display_name slug metadata"),
    "tenancy.policies": (
        "Rules of the tenant.",
        (
            "importance_formula memory_types search_language time_zone recall_fusion recall_weights guard_secrets "
            "guard_personal_data guard_ignored_kinds approval recall_receipts embedding_model extraction "
            "extraction_roles extraction_instructions extraction_types extraction_url extraction_model "
            "extraction_key_id"
        ),
    ),
    "tenancy.policies_history": (
        "Former rules of the tenant.",
        (
            "importance_formula memory_types search_language time_zone recall_fusion recall_weights guard_secrets "
            "guard_personal_data guard_ignored_kinds approval recall_receipts embedding_model extraction "
            "extraction_roles extraction_instructions extraction_types extraction_url extraction_model "
            "extraction_key_id"
        ),
    ),
    "tenancy.requests": ("As memory.requests.", "principal method request_id fingerprint response"),
    "tenancy.space_bindings": ("Who calls, not who is spoken of.", "principal created_by"),
    "tenancy.space_grants": ("Who calls, not who is spoken of.", "principal role created_by"),
    "tenancy.spaces": ("Spaces.", "display_name description created_by updated_by"),
    "tenancy.tenants": ("Tenants.", "display_name slug metadata"),
    "tenancy.tools": (
        "Tools.",
        "tool_id name description json_schema source_type source_code tags metadata created_by updated_by",
    ),
    "tenancy.usage": ("Counts.", "kind"),
    "worker.pgqueuer": ("Ids of tenants.", "status entrypoint dedupe_key payload headers"),
    "worker.pgqueuer_log": ("Errors of the worker, which hold no content.", "status entrypoint traceback"),
    "worker.pgqueuer_schedules": ("Of the worker.", "expression entrypoint status"),
    "worker.pgqueuer_statistics": ("Counts.", "status entrypoint"),
}
