-- What was: the event log, earlier versions of memories, earlier states of everything else, and how often a memory is used.

-- Ordered by (transaction, change_id). A transaction's number is taken when it first writes, so a reader that stops below
-- the oldest transaction still at work has seen everything that will ever lie before its place: nobody waits for a lock.
CREATE TABLE memory.changes (
    tenant_id uuid NOT NULL
        CONSTRAINT changes_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    change_id uuid NOT NULL,
    transaction bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    event_type text NOT NULL,
    entity_type text NOT NULL,
    entity_id text NOT NULL,
    -- Never content: what happened, in words of the service.
    summary text NOT NULL,
    payload jsonb,
    principal text NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT changes_pkey PRIMARY KEY (tenant_id, change_id)
);
CREATE INDEX changes_position ON memory.changes (tenant_id, transaction, change_id);
CREATE INDEX changes_entity ON memory.changes (tenant_id, entity_id, transaction, change_id);

-- What a memory said before each change: `update_time` is when it began to say so, `until_time` when it ceased to.
CREATE TABLE memory.versions (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    revision bigint NOT NULL,
    external_id text,
    type text NOT NULL,
    title text,
    key text,
    content text NOT NULL,
    data jsonb,
    tags text[] NOT NULL,
    source text,
    source_agent text,
    agent_id text,
    subject_id text,
    session_id text,
    scope text NOT NULL,
    level text NOT NULL,
    confidence double precision NOT NULL,
    importance double precision NOT NULL,
    expire_time timestamptz,
    archive_time timestamptz,
    valid_from_time timestamptz,
    valid_to_time timestamptz,
    metadata jsonb,
    delete_time timestamptz,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    until_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    CONSTRAINT versions_pkey PRIMARY KEY (tenant_id, memory_id, revision),
    CONSTRAINT versions_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);

-- What links, aliases, trust, conflicts and blocks were before each change. What names a memory goes with it.
CREATE TABLE memory.revisions (
    tenant_id uuid NOT NULL
        CONSTRAINT revisions_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL
        CONSTRAINT revisions_kind_known CHECK (kind IN ('link', 'alias', 'source_trust', 'conflict', 'block')),
    item_id text NOT NULL,
    revision bigint NOT NULL,
    memory_id uuid,
    other_memory_id uuid,
    state jsonb NOT NULL,
    from_time timestamptz NOT NULL,
    until_time timestamptz NOT NULL,
    changed_by text NOT NULL,
    CONSTRAINT revisions_pkey PRIMARY KEY (tenant_id, kind, item_id, revision),
    CONSTRAINT revisions_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE,
    CONSTRAINT revisions_other_memory_fkey FOREIGN KEY (tenant_id, other_memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX revisions_memory ON memory.revisions (tenant_id, memory_id, kind) WHERE memory_id IS NOT NULL;
CREATE INDEX revisions_other_memory ON memory.revisions (tenant_id, other_memory_id, kind)
    WHERE other_memory_id IS NOT NULL;

-- How often a memory was read or recalled, apart from it, as it is counted in batches.
CREATE TABLE memory.access_counts (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    access_count bigint NOT NULL,
    last_access_time timestamptz NOT NULL,
    CONSTRAINT access_counts_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT access_counts_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);

ALTER TABLE memory.changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.changes FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.changes
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.versions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.revisions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.revisions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.revisions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.access_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.access_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.access_counts
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.changes, memory.versions, memory.revisions, memory.access_counts
    TO skein_memory;
