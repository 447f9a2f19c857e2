-- Memories with their tags and links: what is remembered.

CREATE SCHEMA memory;
GRANT USAGE ON SCHEMA memory TO skein_memory;

-- Partitioned by month of the UUIDv7 memory_id, so that the id alone finds the partition.
CREATE TABLE memory.memories (
    tenant_id uuid NOT NULL
        CONSTRAINT memories_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    memory_id uuid NOT NULL,
    external_id text,
    type text NOT NULL,
    title text,
    key text,
    content text NOT NULL,
    data jsonb,
    source text,
    source_agent text,
    agent_id text,
    subject_id text,
    session_id text,
    scope text NOT NULL CONSTRAINT memories_scope_known CHECK (scope IN ('global', 'agent', 'user', 'session')),
    level text NOT NULL
        CONSTRAINT memories_level_known CHECK (level IN ('strategic', 'tactical', 'operational', 'contextual')),
    confidence double precision NOT NULL CONSTRAINT memories_confidence_range CHECK (confidence BETWEEN 0 AND 1),
    importance double precision NOT NULL CONSTRAINT memories_importance_range CHECK (importance BETWEEN 0 AND 1),
    expire_time timestamptz,
    archive_time timestamptz,
    valid_from_time timestamptz,
    valid_to_time timestamptz,
    metadata jsonb,
    content_hash bytea NOT NULL,
    is_active boolean NOT NULL DEFAULT true,
    delete_time timestamptz,
    revision bigint NOT NULL DEFAULT 1,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    CONSTRAINT memories_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT memories_deleted_when CHECK (is_active = (delete_time IS NULL)),
    CONSTRAINT memories_validity_ordered CHECK (valid_from_time <= valid_to_time)
) PARTITION BY RANGE (memory_id);
CREATE INDEX memories_type ON memory.memories (tenant_id, type, memory_id);
CREATE INDEX memories_session ON memory.memories (tenant_id, session_id, memory_id) WHERE session_id IS NOT NULL;
CREATE INDEX memories_agent ON memory.memories (tenant_id, agent_id, memory_id) WHERE agent_id IS NOT NULL;
CREATE INDEX memories_subject ON memory.memories (tenant_id, subject_id, memory_id) WHERE subject_id IS NOT NULL;
CREATE INDEX memories_source ON memory.memories (tenant_id, source, memory_id) WHERE source IS NOT NULL;
CREATE INDEX memories_key ON memory.memories (tenant_id, key, memory_id) WHERE key IS NOT NULL;
CREATE INDEX memories_expire_time ON memory.memories (tenant_id, expire_time) WHERE expire_time IS NOT NULL;
CREATE INDEX memories_content_hash ON memory.memories (tenant_id, content_hash);

-- What is older than the first month that gets a partition of its own.
CREATE TABLE memory.memories_before_2015 PARTITION OF memory.memories
    FOR VALUES FROM (MINVALUE) TO ('014aa2ca-b000-0000-0000-000000000000');
ALTER TABLE memory.memories_before_2015 ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.memories_before_2015 FORCE ROW LEVEL SECURITY;

CREATE TABLE memory.tags (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    tag text NOT NULL CONSTRAINT tags_tag_length CHECK (char_length(tag) BETWEEN 1 AND 255),
    CONSTRAINT tags_pkey PRIMARY KEY (tenant_id, memory_id, tag),
    CONSTRAINT tags_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX tags_tag ON memory.tags (tenant_id, tag, memory_id);

-- Unique over all months, which a partitioned table cannot promise.
CREATE TABLE memory.external_ids (
    tenant_id uuid NOT NULL,
    external_id text NOT NULL,
    memory_id uuid NOT NULL,
    CONSTRAINT external_ids_pkey PRIMARY KEY (tenant_id, external_id),
    CONSTRAINT external_ids_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX external_ids_memory ON memory.external_ids (tenant_id, memory_id);

-- The key of each fact that is not deleted.
CREATE TABLE memory.fact_keys (
    tenant_id uuid NOT NULL,
    key text NOT NULL,
    memory_id uuid NOT NULL,
    CONSTRAINT fact_keys_pkey PRIMARY KEY (tenant_id, key),
    CONSTRAINT fact_keys_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX fact_keys_memory ON memory.fact_keys (tenant_id, memory_id);

CREATE TABLE memory.links (
    tenant_id uuid NOT NULL,
    link_id uuid NOT NULL,
    from_memory_id uuid NOT NULL,
    to_memory_id uuid NOT NULL,
    relation text NOT NULL,
    label text,
    weight double precision NOT NULL CONSTRAINT links_weight_range CHECK (weight BETWEEN 0 AND 1),
    metadata jsonb,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT links_pkey PRIMARY KEY (tenant_id, link_id),
    CONSTRAINT links_pair_key UNIQUE (tenant_id, from_memory_id, to_memory_id, relation),
    CONSTRAINT links_not_to_itself CHECK (from_memory_id <> to_memory_id),
    CONSTRAINT links_from_fkey FOREIGN KEY (tenant_id, from_memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE,
    CONSTRAINT links_to_fkey FOREIGN KEY (tenant_id, to_memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX links_from ON memory.links (tenant_id, from_memory_id, link_id);
CREATE INDEX links_to ON memory.links (tenant_id, to_memory_id, link_id);

-- Answers to requests that carry a request_id, so that a repeated one has one effect.
CREATE TABLE memory.requests (
    tenant_id uuid NOT NULL
        CONSTRAINT requests_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    principal text NOT NULL,
    method text NOT NULL,
    request_id text NOT NULL,
    fingerprint bytea NOT NULL,
    response bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (tenant_id, principal, method, request_id)
);
CREATE INDEX requests_create_time ON memory.requests (tenant_id, create_time);
ALTER TABLE memory.memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.memories FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.memories
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.tags ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tags FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tags
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.external_ids ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.external_ids FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.external_ids
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.fact_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.fact_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.fact_keys
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.links ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.links FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.links
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

GRANT SELECT, INSERT, UPDATE, DELETE ON
    memory.memories, memory.tags, memory.external_ids, memory.fact_keys, memory.links, memory.requests TO skein_memory;

-- Make a month's partition of memories; true when it was missing. Months before 2015 share one partition.
CREATE FUNCTION memory.ensure_month(month timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER
SET search_path = ''
RETURN CASE WHEN month < '2015-01-01T00:00:00Z' THEN false ELSE skein.make_month('memory.memories', month) END;
REVOKE ALL ON FUNCTION memory.ensure_month(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory.ensure_month(timestamptz) TO skein_memory;

SELECT memory.ensure_month(now() + make_interval(months => ahead)) FROM generate_series(0, 3) AS ahead;
