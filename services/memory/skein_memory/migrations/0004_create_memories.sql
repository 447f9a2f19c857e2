-- Memories with versions, tags, properties, external ids, fact keys, tasks and access counts.

CREATE SCHEMA memory;
GRANT USAGE ON SCHEMA memory TO skein_memory;

-- Recall reads the items that it found.
GRANT USAGE ON SCHEMA memory, session TO skein_recall;
GRANT USAGE ON SCHEMA memory TO skein_tenancy;

-- The session service records its searches in the access log.
GRANT USAGE ON SCHEMA memory TO skein_session;

-- Partitioned by month of the UUIDv7 memory_id, so that an id determines its partition.
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
    -- The searched text of the memory's data, by the rules of its type; NULL for none.
    words text,
    -- Equal for memories with equal content (see skein_memory.curation).
    fingerprint uuid,
    -- Start of the idle time before the next decay; NULL after the last decay. The decay job alone moves it when the
    -- memory was changed or read meanwhile, so that other writes need not.
    decay_time timestamptz DEFAULT now(),
    decay_periods smallint NOT NULL DEFAULT 0,
    -- The revision whose text words and content_hash were computed from. The worker computes them again where it is
    -- older than the row.
    text_revision bigint,
    -- When the row was written, by the server's clock; imports keep their own update_time. NULL: at update_time.
    record_time timestamptz,
    -- The default space has the nil UUID.
    space_id uuid NOT NULL DEFAULT skein.space_id(),
    CONSTRAINT memories_deleted_when CHECK (is_active = (delete_time IS NULL)),
    CONSTRAINT memories_validity_ordered CHECK (valid_from_time <= valid_to_time)
) PARTITION BY RANGE (memory_id);

-- Rows older than the first month with a partition of its own.
CREATE TABLE memory.memories_before_2015 PARTITION OF memory.memories
    FOR VALUES FROM (MINVALUE) TO ('014aa2ca-b000-0000-0000-000000000000');
CREATE INDEX memories_type ON memory.memories (tenant_id, type, memory_id);
CREATE INDEX memories_session ON memory.memories (tenant_id, session_id, memory_id) WHERE session_id IS NOT NULL;
CREATE INDEX memories_agent ON memory.memories (tenant_id, agent_id, memory_id) WHERE agent_id IS NOT NULL;
CREATE INDEX memories_subject ON memory.memories (tenant_id, subject_id, memory_id) WHERE subject_id IS NOT NULL;
CREATE INDEX memories_source ON memory.memories (tenant_id, source, memory_id) WHERE source IS NOT NULL;
CREATE INDEX memories_key ON memory.memories (tenant_id, key, memory_id) WHERE key IS NOT NULL;
CREATE INDEX memories_expire_time ON memory.memories (tenant_id, expire_time) WHERE expire_time IS NOT NULL;

-- For full levels: the least important memories come first.
CREATE INDEX memories_level_importance ON memory.memories (tenant_id, level, importance, memory_id)
    WHERE is_active AND archive_time IS NULL;
CREATE INDEX memories_archived_importance ON memory.memories (tenant_id, importance, memory_id)
    WHERE is_active AND archive_time IS NOT NULL;
-- When a principal is rated.
CREATE INDEX memories_created_by ON memory.memories (tenant_id, created_by, memory_id);
CREATE INDEX memories_source_agent ON memory.memories (tenant_id, source_agent, memory_id)
    WHERE source_agent IS NOT NULL;
CREATE INDEX memories_content_hash ON memory.memories (tenant_id, content_hash, memory_id);
CREATE INDEX memories_fingerprint ON memory.memories (tenant_id, fingerprint, memory_id)
    WHERE is_active AND archive_time IS NULL;
CREATE INDEX memories_decay_time ON memory.memories (tenant_id, decay_time)
    WHERE is_active AND archive_time IS NULL;
CREATE INDEX memories_confidence ON memory.memories (tenant_id, confidence, memory_id)
    WHERE is_active AND archive_time IS NULL;

-- Orders of lists.
CREATE INDEX memories_update_time ON memory.memories (tenant_id, update_time, memory_id);
CREATE INDEX memories_importance ON memory.memories (tenant_id, importance, memory_id);
CREATE INDEX memories_outdated ON memory.memories (tenant_id, memory_id)
    WHERE data IS NOT NULL AND text_revision IS DISTINCT FROM revision;

-- Orders of lists, archived and deleted memories included.
CREATE INDEX memories_by_confidence ON memory.memories (tenant_id, confidence, memory_id);

-- Whether anything lies in a space.
CREATE INDEX memories_space ON memory.memories (tenant_id, space_id, memory_id)
    WHERE space_id <> '00000000-0000-0000-0000-000000000000';

-- Made last: of indexes that cost the same in a table without statistics, the planner takes the youngest.
ALTER TABLE memory.memories ADD CONSTRAINT memories_pkey PRIMARY KEY (tenant_id, memory_id);
ALTER TABLE memory.memories_before_2015 ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.memories_before_2015 FORCE ROW LEVEL SECURITY;
ALTER TABLE memory.memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.memories FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.memories
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.memories AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- Former versions of memories. A version was valid from update_time to until_time.
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
    -- NULL: the hash of type and content.
    content_hash bytea,
    record_time timestamptz,
    -- As in memory.memories.
    words text,
    fingerprint uuid,
    -- The transaction that ended the version.
    until_transaction bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint + skein.transaction_base()),
    -- That of the memory, today.
    space_id uuid NOT NULL DEFAULT skein.space_id(),
    CONSTRAINT versions_pkey PRIMARY KEY (tenant_id, memory_id, revision),
    CONSTRAINT versions_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
-- Former versions about a person, whom the memory may no longer be about.
CREATE INDEX versions_subject ON memory.versions (tenant_id, subject_id, memory_id) WHERE subject_id IS NOT NULL;
-- Former versions with keys, whose fingerprints have the highest bit unset: for conflicts as of a time.
CREATE INDEX versions_fingerprint ON memory.versions (tenant_id, fingerprint, memory_id)
    WHERE fingerprint < '80000000-0000-0000-0000-000000000000';
ALTER TABLE memory.versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.versions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.versions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.versions AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

CREATE TABLE memory.tags (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    tag text NOT NULL CONSTRAINT tags_tag_length CHECK (char_length(tag) BETWEEN 1 AND 255),
    -- Position in the list of tags, from 0. NULL: last, in the order of the texts.
    position smallint,
    CONSTRAINT tags_pkey PRIMARY KEY (tenant_id, memory_id, tag),
    CONSTRAINT tags_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX tags_tag ON memory.tags (tenant_id, tag, memory_id);
ALTER TABLE memory.tags ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tags FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tags
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
-- A space is deleted when nothing lies in it.
GRANT SELECT (tenant_id, space_id) ON memory.memories TO skein_tenancy;
GRANT SELECT ON memory.memories, memory.tags, session.messages, session.title_terms TO skein_recall;

-- The memories of a time, from the rows and their versions, with their tags. As for the other views of as_of, the times
-- are compared outside of the union, so that a join by id looks up each part in its index.
CREATE VIEW as_of.memories WITH (security_invoker = true) AS
SELECT known.tenant_id, known.memory_id, known.external_id, known.type, known.title, known.key, known.content,
       known.data, known.source, known.source_agent, known.agent_id, known.subject_id, known.session_id, known.scope,
       known.level, known.confidence, known.importance, known.expire_time, known.archive_time, known.valid_from_time,
       known.valid_to_time, known.metadata, known.content_hash, known.is_active, known.delete_time, known.revision,
       known.create_time, known.update_time, known.created_by, known.updated_by, known.record_time, known.tags,
       known.words, known.fingerprint
FROM (
    SELECT memories.tenant_id, memories.memory_id, external_id, type, title, key, content, data, source, source_agent,
           agent_id, subject_id, session_id, scope, level, confidence, importance, expire_time, archive_time,
           valid_from_time, valid_to_time, metadata, content_hash, is_active, delete_time, revision, create_time,
           update_time, created_by, updated_by, greatest(record_time, update_time) AS record_time,
           'infinity'::timestamptz AS until_time,
           ARRAY(SELECT tags.tag FROM memory.tags
                 WHERE tags.tenant_id = memories.tenant_id AND tags.memory_id = memories.memory_id
                 ORDER BY tags.position, tags.tag COLLATE "C") AS tags,
           words, fingerprint
    FROM memory.memories
    UNION ALL
    SELECT tenant_id, memory_id, external_id, type, title, key, content, data, source, source_agent, agent_id,
           subject_id, session_id, scope, level, confidence, importance, expire_time, archive_time, valid_from_time,
           valid_to_time, metadata, coalesce(content_hash, sha256(convert_to(type || E'\n' || content, 'UTF8'))),
           delete_time IS NULL, delete_time, revision, create_time, update_time, created_by, updated_by,
           greatest(record_time, update_time), until_time, tags, words, fingerprint
    FROM memory.versions
) AS known
WHERE known.record_time <= (SELECT skein.as_of_time()) AND known.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND known.until_time > (SELECT skein.first_unseen_time())
    AND (known.until_time > (SELECT skein.as_of_time()) OR known.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));

CREATE VIEW as_of.tags WITH (security_invoker = true) AS
SELECT memories.tenant_id, memories.memory_id, carried.tag, (carried.place - 1)::smallint AS position
FROM as_of.memories
CROSS JOIN LATERAL unnest(memories.tags) WITH ORDINALITY AS carried (tag, place);
GRANT SELECT ON memory.versions TO skein_recall;
GRANT SELECT ON as_of.memories, as_of.tags TO skein_memory, skein_recall;

-- The scalar values of metadata and data by name ("metadata.customer.id"), long ones as digests. A memory with too many
-- values has one row with an empty name. The table narrows a list; the memory itself decides whether it passes.
CREATE TABLE memory.properties (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    name text NOT NULL,
    value text NOT NULL,
    CONSTRAINT properties_pkey PRIMARY KEY (tenant_id, memory_id, name, value),
    CONSTRAINT properties_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX properties_value ON memory.properties (tenant_id, name, value, memory_id);
ALTER TABLE memory.properties ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.properties FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.properties
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT ON memory.properties TO skein_recall;

-- External ids are unique over all months, which a partitioned table cannot promise.
CREATE TABLE memory.external_ids (
    tenant_id uuid NOT NULL,
    external_id text NOT NULL,
    memory_id uuid NOT NULL,
    -- A taken id of another space is no obstacle, which would tell of it.
    space_id uuid NOT NULL DEFAULT skein.space_id(),
    CONSTRAINT external_ids_pkey PRIMARY KEY (tenant_id, external_id, space_id),
    CONSTRAINT external_ids_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX external_ids_memory ON memory.external_ids (tenant_id, memory_id);
ALTER TABLE memory.external_ids ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.external_ids FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.external_ids
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.external_ids AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- A caller may name an item by its external id when it brings a vector.
GRANT SELECT ON memory.external_ids, session.message_external_ids TO skein_recall;

-- The keys of facts that are not deleted.
CREATE TABLE memory.fact_keys (
    tenant_id uuid NOT NULL,
    key text NOT NULL,
    memory_id uuid NOT NULL,
    -- NULL: the fact is about no subject.
    subject_id text,
    -- The key in lower case. NULL: the key itself is compared.
    folded_key text,
    -- As for external ids.
    space_id uuid NOT NULL DEFAULT skein.space_id(),
    CONSTRAINT fact_keys_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE,
    -- Under row-level security an index serves CASE, but not coalesce, which Postgres does not treat as leakproof.
    CONSTRAINT fact_keys_pkey EXCLUDE USING btree
            (tenant_id WITH =,
             (CASE WHEN subject_id IS NULL THEN '' ELSE subject_id END) WITH =,
             (CASE WHEN folded_key IS NULL THEN key ELSE folded_key END) WITH =,
             space_id WITH =),
    CONSTRAINT fact_keys_memory_key PRIMARY KEY (tenant_id, memory_id)
);
ALTER TABLE memory.fact_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.fact_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.fact_keys
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.fact_keys AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- Tasks and objectives that are neither deleted nor archived, in the columns that lists use.
CREATE TABLE memory.tasks (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT tasks_kind_known CHECK (kind IN ('task', 'objective')),
    status text NOT NULL
        CONSTRAINT tasks_status_known CHECK (status IN ('open', 'in_progress', 'done', 'cancelled')),
    due_time timestamptz,
    objective_id uuid,
    importance double precision NOT NULL,
    update_time timestamptz NOT NULL,
    space_id uuid NOT NULL DEFAULT skein.space_id(),
    CONSTRAINT tasks_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT tasks_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX tasks_status ON memory.tasks (tenant_id, kind, status, memory_id);
CREATE INDEX tasks_objective ON memory.tasks (tenant_id, objective_id, memory_id) WHERE objective_id IS NOT NULL;
CREATE INDEX tasks_due_time ON memory.tasks (tenant_id, status, due_time, memory_id);
CREATE INDEX tasks_importance ON memory.tasks (tenant_id, status, importance, memory_id);
CREATE INDEX tasks_update_time ON memory.tasks (tenant_id, status, update_time, memory_id);
ALTER TABLE memory.tasks ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tasks FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tasks
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.tasks AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- How often a memory was read or recalled. It is a table of its own, because counts are written in batches.
CREATE TABLE memory.access_counts (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    access_count bigint NOT NULL,
    last_access_time timestamptz NOT NULL,
    CONSTRAINT access_counts_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT access_counts_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX access_counts_access_count ON memory.access_counts (tenant_id, access_count, memory_id);
ALTER TABLE memory.access_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.access_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.access_counts
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE ON memory.access_counts TO skein_recall;

-- A bound of the ids of a tenant's memories, archived and purged ones included. It only falls.
CREATE TABLE memory.oldest_memories (
    tenant_id uuid NOT NULL
        CONSTRAINT oldest_memories_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    memory_id uuid NOT NULL,
    CONSTRAINT oldest_memories_pkey PRIMARY KEY (tenant_id)
);
ALTER TABLE memory.oldest_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.oldest_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.oldest_memories
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.oldest_memories TO skein_memory;

-- Usage of a tenant's quota: the sum over a few slots, so that writers do not wait for each other.
CREATE TABLE memory.usage (
    tenant_id uuid NOT NULL
        CONSTRAINT usage_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    kind text NOT NULL,
    slot smallint NOT NULL,
    amount bigint NOT NULL,
    -- tenancy.collected_usage includes the amount.
    is_collected boolean NOT NULL DEFAULT false,
    CONSTRAINT usage_pkey PRIMARY KEY (tenant_id, kind, slot)
);
CREATE INDEX usage_uncollected ON memory.usage (tenant_id) WHERE NOT is_collected;
ALTER TABLE memory.usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.usage FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.usage
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.usage TO skein_memory;
GRANT SELECT, UPDATE (is_collected) ON memory.usage TO skein_tenancy;
CREATE POLICY due ON memory.usage FOR SELECT TO skein_owner
    USING (current_setting('skein.operator', true) = 'on');

-- Responses by request_id, so that a repeated request has one effect.
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
ALTER TABLE memory.requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.requests FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.requests
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
