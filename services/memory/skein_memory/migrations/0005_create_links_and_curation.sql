-- Links, aliases, conflict resolutions and the trust of sources.

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
    -- NULL in update_time and updated_by: the link was never changed.
    revision bigint NOT NULL DEFAULT 1,
    update_time timestamptz,
    updated_by text,
    -- The source keys of both principals, by which they are rated.
    author_keys text[] NOT NULL,
    record_time timestamptz,
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

-- A traversal reads the strongest links of a memory first, the newest of equal ones, and no more than it needs: over
-- all relations, or by relation.
CREATE INDEX links_from_strength ON memory.links (tenant_id, from_memory_id, weight DESC, link_id DESC);
CREATE INDEX links_to_strength ON memory.links (tenant_id, to_memory_id, weight DESC, link_id DESC);
CREATE INDEX links_from_relation ON memory.links (tenant_id, from_memory_id, relation, weight DESC, link_id DESC);
CREATE INDEX links_to_relation ON memory.links (tenant_id, to_memory_id, relation, weight DESC, link_id DESC);

-- The newest links of one relation.
CREATE INDEX links_relation ON memory.links (tenant_id, relation, link_id);
ALTER TABLE memory.links ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.links FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.links
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Recall leaves superseded memories out, unless the caller wants them.
GRANT SELECT ON memory.links TO skein_recall;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    memory.memories, memory.tags, memory.external_ids, memory.fact_keys, memory.links, memory.requests TO skein_memory;

-- An alias names its canonical memory directly; no alias refers to another alias.
CREATE TABLE memory.aliases (
    tenant_id uuid NOT NULL,
    alias_memory_id uuid NOT NULL,
    canonical_memory_id uuid NOT NULL,
    confidence double precision NOT NULL CONSTRAINT aliases_confidence_range CHECK (confidence BETWEEN 0 AND 1),
    note text,
    revision bigint NOT NULL,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT aliases_pkey PRIMARY KEY (tenant_id, alias_memory_id),
    CONSTRAINT aliases_not_of_itself CHECK (alias_memory_id <> canonical_memory_id),
    CONSTRAINT aliases_alias_fkey FOREIGN KEY (tenant_id, alias_memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE,
    CONSTRAINT aliases_canonical_fkey FOREIGN KEY (tenant_id, canonical_memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX aliases_canonical ON memory.aliases (tenant_id, canonical_memory_id, alias_memory_id);
ALTER TABLE memory.aliases ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.aliases FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.aliases
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Former aliases.
CREATE TABLE memory.aliases_history (
    tenant_id uuid NOT NULL,
    alias_memory_id uuid NOT NULL,
    canonical_memory_id uuid NOT NULL,
    confidence double precision NOT NULL,
    note text,
    revision bigint NOT NULL,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    record_time timestamptz NOT NULL,
    until_time timestamptz NOT NULL,
    CONSTRAINT aliases_history_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX aliases_history_alias ON memory.aliases_history (tenant_id, alias_memory_id, until_time);
CREATE INDEX aliases_history_canonical ON memory.aliases_history (tenant_id, canonical_memory_id, alias_memory_id);
ALTER TABLE memory.aliases_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.aliases_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.aliases_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE TRIGGER keep_deleted AFTER DELETE ON memory.aliases
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('memory.aliases_history');
CREATE TRIGGER keep_updated BEFORE UPDATE ON memory.aliases
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION skein.keep_updated('memory.aliases_history');
CREATE VIEW as_of.aliases WITH (security_invoker = true) AS
SELECT known.tenant_id, known.alias_memory_id, known.canonical_memory_id, known.confidence, known.note, known.revision,
       known.create_time, known.update_time, known.created_by, known.updated_by, known.record_time
FROM (
    SELECT tenant_id, alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time,
           created_by, updated_by, record_time, 'infinity'::timestamptz AS until_time
    FROM memory.aliases
    UNION ALL
    SELECT tenant_id, alias_memory_id, canonical_memory_id, confidence, note, revision, create_time, update_time,
           created_by, updated_by, record_time, until_time
    FROM memory.aliases_history
) AS known
WHERE known.record_time <= (SELECT skein.as_of_time()) AND known.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND known.until_time > (SELECT skein.first_unseen_time())
    AND (known.until_time > (SELECT skein.as_of_time()) OR known.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));
GRANT SELECT, INSERT, DELETE ON memory.aliases_history TO skein_memory;
GRANT SELECT ON memory.aliases_history TO skein_recall;
GRANT SELECT ON as_of.aliases TO skein_memory, skein_recall;

-- One row for each pair, the lower id first.
CREATE TABLE memory.conflict_resolutions (
    tenant_id uuid NOT NULL,
    a_memory_id uuid NOT NULL,
    b_memory_id uuid NOT NULL,
    resolution_id uuid NOT NULL,
    status text NOT NULL CONSTRAINT conflict_resolutions_status_known
        CHECK (status IN ('needs_review', 'resolved', 'superseded', 'dismissed')),
    canonical_memory_id uuid,
    note text,
    -- The effects of the resolution, so that a later one can undo them: the link that it created, and the end of
    -- validity that it set on the other memory.
    link_id uuid,
    closed_time timestamptz,
    revision bigint NOT NULL,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT conflict_resolutions_pkey PRIMARY KEY (tenant_id, a_memory_id, b_memory_id),
    CONSTRAINT conflict_resolutions_pair_sorted CHECK (a_memory_id < b_memory_id),
    CONSTRAINT conflict_resolutions_canonical_in_pair CHECK (canonical_memory_id IN (a_memory_id, b_memory_id)),
    CONSTRAINT conflict_resolutions_a_fkey FOREIGN KEY (tenant_id, a_memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE,
    CONSTRAINT conflict_resolutions_b_fkey FOREIGN KEY (tenant_id, b_memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX conflict_resolutions_b ON memory.conflict_resolutions (tenant_id, b_memory_id);
CREATE INDEX conflict_resolutions_order ON memory.conflict_resolutions (tenant_id, resolution_id);
CREATE INDEX conflict_resolutions_status ON memory.conflict_resolutions (tenant_id, status, resolution_id);
ALTER TABLE memory.conflict_resolutions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.conflict_resolutions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.conflict_resolutions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Former resolutions.
CREATE TABLE memory.conflict_resolutions_history (
    LIKE memory.conflict_resolutions,
    until_time timestamptz NOT NULL,
    CONSTRAINT conflict_resolutions_history_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX conflict_resolutions_history_a
    ON memory.conflict_resolutions_history (tenant_id, a_memory_id, b_memory_id, until_time);
CREATE INDEX conflict_resolutions_history_b ON memory.conflict_resolutions_history (tenant_id, b_memory_id);
CREATE INDEX conflict_resolutions_history_status
    ON memory.conflict_resolutions_history (tenant_id, status, resolution_id);
ALTER TABLE memory.conflict_resolutions_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.conflict_resolutions_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.conflict_resolutions_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE TRIGGER keep_deleted AFTER DELETE ON memory.conflict_resolutions
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('memory.conflict_resolutions_history');
CREATE TRIGGER keep_updated BEFORE UPDATE ON memory.conflict_resolutions
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION skein.keep_updated('memory.conflict_resolutions_history');
CREATE VIEW as_of.conflict_resolutions WITH (security_invoker = true) AS
SELECT tenant_id, a_memory_id, b_memory_id, resolution_id, status, canonical_memory_id, note, link_id, closed_time,
       revision, create_time, update_time, created_by, updated_by, record_time
FROM memory.conflict_resolutions
WHERE record_time <= (SELECT skein.as_of_time())
UNION ALL
SELECT tenant_id, a_memory_id, b_memory_id, resolution_id, status, canonical_memory_id, note, link_id, closed_time,
       revision, create_time, update_time, created_by, updated_by, record_time
FROM memory.conflict_resolutions_history
WHERE record_time <= (SELECT skein.as_of_time()) AND until_time > (SELECT skein.as_of_time());
GRANT SELECT, INSERT, DELETE ON memory.conflict_resolutions_history TO skein_memory;
GRANT SELECT ON as_of.conflict_resolutions TO skein_memory;

-- Writes of sources that the policy does not trust, and facts that the checker of an extractor refused. They are no
-- memories: no search, list or export reads this table.
CREATE TABLE memory.pending_memories (
    tenant_id uuid NOT NULL
        CONSTRAINT pending_memories_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    pending_id uuid NOT NULL,
    -- The memory that it becomes (then the same id) or changes.
    memory_id uuid NOT NULL,
    -- The fields that a change sets; NULL for a new memory.
    update_mask text[],
    -- Of a new fact: the fields that it sets of a fact that has its key by the time of the approval; none: that one stays
    -- as it is. NULL: the approval is refused then.
    conflict_mask text[],
    revision bigint NOT NULL,
    -- A serialized Memory of the contract.
    content bytea NOT NULL,
    -- Those of the memory, by which purges select it.
    external_id text,
    subject_id text,
    session_id text,
    memory_agent_id text,
    -- The agent that wrote it.
    agent_id text,
    -- The memories and messages in its derived_from: it goes when one of them is purged.
    source_ids uuid[] NOT NULL,
    created_by text NOT NULL,
    create_time timestamptz NOT NULL,
    expire_time timestamptz NOT NULL,
    space_id uuid NOT NULL DEFAULT skein.space_id(),
    -- Why the checker refused the fact. NULL: the write waits for approval.
    refusal_reason text,
    CONSTRAINT pending_memories_pkey PRIMARY KEY (tenant_id, pending_id),
    CONSTRAINT pending_memories_new_or_change CHECK ((update_mask IS NULL) = (pending_id = memory_id))
);
CREATE INDEX pending_memories_memory ON memory.pending_memories (tenant_id, memory_id);
CREATE INDEX pending_memories_expire_time ON memory.pending_memories (tenant_id, expire_time);
ALTER TABLE memory.pending_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.pending_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.pending_memories
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.pending_memories AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);
GRANT SELECT, INSERT, DELETE ON memory.pending_memories TO skein_memory;
GRANT SELECT (tenant_id, space_id) ON memory.pending_memories TO skein_tenancy;
-- A purge of messages removes the writes that wait and name them.
GRANT SELECT (tenant_id, source_ids), DELETE ON memory.pending_memories TO skein_session;

CREATE TABLE memory.source_trust (
    tenant_id uuid NOT NULL
        CONSTRAINT source_trust_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    source_key text NOT NULL CONSTRAINT source_trust_key_length CHECK (char_length(source_key) BETWEEN 1 AND 160),
    trust double precision NOT NULL CONSTRAINT source_trust_range CHECK (trust BETWEEN 0 AND 1),
    notes text,
    revision bigint NOT NULL,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL,
    created_by text NOT NULL,
    updated_by text NOT NULL,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT source_trust_pkey PRIMARY KEY (tenant_id, source_key)
);
ALTER TABLE memory.source_trust ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.source_trust FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.source_trust
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- Former ratings.
CREATE TABLE memory.source_trust_history (
    LIKE memory.source_trust,
    until_time timestamptz NOT NULL,
    CONSTRAINT source_trust_history_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX source_trust_history_key ON memory.source_trust_history (tenant_id, source_key, until_time);
CREATE INDEX source_trust_history_until ON memory.source_trust_history (tenant_id, until_time);
ALTER TABLE memory.source_trust_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.source_trust_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.source_trust_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE TRIGGER keep_deleted AFTER DELETE ON memory.source_trust
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('memory.source_trust_history');
CREATE TRIGGER keep_updated BEFORE UPDATE ON memory.source_trust
    FOR EACH ROW WHEN (OLD.trust IS DISTINCT FROM NEW.trust)
    EXECUTE FUNCTION skein.keep_updated('memory.source_trust_history');
CREATE VIEW as_of.source_trust WITH (security_invoker = true) AS
SELECT known.tenant_id, known.source_key, known.trust, known.record_time
FROM (
    SELECT tenant_id, source_key, trust, record_time, 'infinity'::timestamptz AS until_time FROM memory.source_trust
    UNION ALL
    SELECT tenant_id, source_key, trust, record_time, until_time FROM memory.source_trust_history
) AS known
WHERE known.record_time <= (SELECT skein.as_of_time()) AND known.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND known.until_time > (SELECT skein.first_unseen_time())
    AND (known.until_time > (SELECT skein.as_of_time()) OR known.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));
GRANT SELECT, INSERT, DELETE ON memory.source_trust_history TO skein_memory;
GRANT SELECT ON as_of.source_trust TO skein_memory, skein_recall, skein_tenancy;

-- The links that count: those without a distrusted author.
CREATE VIEW memory.trusted_links WITH (security_invoker = true) AS
SELECT links.tenant_id, links.link_id, links.from_memory_id, links.to_memory_id, links.relation, links.weight
FROM memory.links
WHERE NOT EXISTS (
    SELECT FROM memory.source_trust AS rating
    WHERE rating.tenant_id = links.tenant_id AND rating.source_key = ANY (links.author_keys) AND rating.trust < 0.5);
GRANT SELECT ON memory.trusted_links TO skein_memory, skein_recall;
-- The trust in profiles is that in their writers.
GRANT SELECT ON memory.source_trust, memory.source_trust_history TO skein_recall, skein_tenancy;
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.source_trust, memory.conflict_resolutions, memory.aliases
    TO skein_memory;
GRANT SELECT ON memory.aliases TO skein_recall;

-- What memories were made of. The sources of a memory go with it; a source that was erased keeps its number alone.
CREATE TABLE memory.sources (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    -- From 0 what callers declared, in their order; from 100 what Skein added. -1 is the principal that wrote the text,
    -- where it did not create the memory, -3 that which changed the sources, -2 the last editor of an import. Below is the
    -- principal that changed each other part of it last.
    position smallint NOT NULL,
    kind text NOT NULL
        CONSTRAINT sources_kind_known
        CHECK (kind IN ('message', 'memory', 'document', 'import', 'agent', 'person', 'tool', 'writer',
                        'editor', 'declarer')),
    role text NOT NULL CONSTRAINT sources_role_known CHECK (role IN ('part', 'repeat', 'replaced')),
    -- Of a message or a memory, which may be gone.
    source_id uuid,
    -- Of any other source, as the caller wrote it, and in the form in which sources are compared.
    name text,
    name_key text,
    -- The trust of the source when it was erased; NULL: it was not.
    erased_trust double precision CONSTRAINT sources_trust_range CHECK (erased_trust BETWEEN 0 AND 1),
    -- The characters of a message that say it, from the first to the one behind the last; NULL: the whole source.
    start_character integer,
    end_character integer,
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT sources_characters CHECK (
        start_character IS NULL AND end_character IS NULL
        OR kind = 'message' AND start_character >= 0 AND start_character < end_character),
    CONSTRAINT sources_pkey PRIMARY KEY (tenant_id, memory_id, position),
    CONSTRAINT sources_id_or_name CHECK ((source_id IS NULL) <> (name IS NULL)),
    CONSTRAINT sources_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX sources_source ON memory.sources (tenant_id, source_id, memory_id) WHERE source_id IS NOT NULL;
-- When a source is rated: what names it, and the messages whose authors may be it.
CREATE INDEX sources_name ON memory.sources (tenant_id, name_key, memory_id) WHERE name_key IS NOT NULL;
CREATE INDEX sources_message ON memory.sources (tenant_id, source_id) WHERE kind = 'message';
ALTER TABLE memory.sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.sources FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.sources
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.sources TO skein_memory;

-- Former sources. That a source was erased shows at every time: an erasure is no version.
CREATE TABLE memory.sources_history (
    LIKE memory.sources,
    until_time timestamptz NOT NULL,
    CONSTRAINT sources_history_tenant_fkey
        FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX sources_history_memory ON memory.sources_history (tenant_id, memory_id, position, until_time);
CREATE INDEX sources_history_source ON memory.sources_history (tenant_id, source_id) WHERE source_id IS NOT NULL;
ALTER TABLE memory.sources_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.sources_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.sources_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE TRIGGER keep_deleted AFTER DELETE ON memory.sources
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('memory.sources_history');
CREATE TRIGGER keep_updated BEFORE UPDATE ON memory.sources
    FOR EACH ROW WHEN (
        (OLD.kind, OLD.role, OLD.source_id, OLD.name) IS DISTINCT FROM (NEW.kind, NEW.role, NEW.source_id, NEW.name))
    EXECUTE FUNCTION skein.keep_updated('memory.sources_history');
CREATE VIEW as_of.sources WITH (security_invoker = true) AS
SELECT known.tenant_id, known.memory_id, known.position, known.kind, known.role, known.source_id, known.name,
       known.name_key, known.erased_trust, known.start_character, known.end_character, known.record_time
FROM (
    SELECT tenant_id, memory_id, position, kind, role, source_id, name, name_key, erased_trust, start_character,
           end_character, record_time, 'infinity'::timestamptz AS until_time
    FROM memory.sources
    UNION ALL
    SELECT tenant_id, memory_id, position, kind, role, source_id, name, name_key, erased_trust, start_character,
           end_character, record_time, until_time
    FROM memory.sources_history
) AS known
WHERE known.record_time <= (SELECT skein.as_of_time()) AND known.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND known.until_time > (SELECT skein.first_unseen_time())
    AND (known.until_time > (SELECT skein.as_of_time()) OR known.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));
GRANT SELECT, INSERT, UPDATE (erased_trust, start_character, end_character), DELETE ON memory.sources_history
    TO skein_memory;
GRANT SELECT ON as_of.sources TO skein_memory;

-- The trust of memories along the chains of their sources. A memory without a row has the neutral trust, 0.5.
CREATE TABLE memory.trust (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    trust double precision NOT NULL CONSTRAINT trust_range CHECK (trust BETWEEN 0 AND 1),
    record_time timestamptz NOT NULL DEFAULT skein.write_time(),
    CONSTRAINT trust_pkey PRIMARY KEY (tenant_id, memory_id) INCLUDE (trust),
    CONSTRAINT trust_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX trust_trust ON memory.trust (tenant_id, trust, memory_id);
ALTER TABLE memory.trust ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.trust FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.trust
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.trust TO skein_memory;
GRANT SELECT ON memory.trust TO skein_recall;

-- Former trust of memories.
CREATE TABLE memory.trust_history (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    trust double precision NOT NULL,
    record_time timestamptz NOT NULL,
    until_time timestamptz NOT NULL,
    CONSTRAINT trust_history_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE
);
CREATE INDEX trust_history_memory ON memory.trust_history (tenant_id, memory_id, until_time);
ALTER TABLE memory.trust_history ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.trust_history FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.trust_history
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE TRIGGER keep_deleted AFTER DELETE ON memory.trust
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION skein.keep_deleted('memory.trust_history');
CREATE TRIGGER keep_updated BEFORE UPDATE ON memory.trust
    FOR EACH ROW WHEN (OLD.trust IS DISTINCT FROM NEW.trust)
    EXECUTE FUNCTION skein.keep_updated('memory.trust_history');
CREATE VIEW as_of.trust WITH (security_invoker = true) AS
SELECT known.tenant_id, known.memory_id, known.trust, known.record_time
FROM (
    SELECT tenant_id, memory_id, trust, record_time, 'infinity'::timestamptz AS until_time FROM memory.trust
    UNION ALL
    SELECT tenant_id, memory_id, trust, record_time, until_time FROM memory.trust_history
) AS known
WHERE known.record_time <= (SELECT skein.as_of_time()) AND known.record_time <> ALL ((SELECT skein.unseen_times())::timestamptz[])
    AND known.until_time > (SELECT skein.first_unseen_time())
    AND (known.until_time > (SELECT skein.as_of_time()) OR known.until_time = ANY ((SELECT skein.unseen_times())::timestamptz[]));
GRANT SELECT, INSERT, DELETE ON memory.trust_history TO skein_memory;
GRANT SELECT ON memory.trust_history TO skein_recall;
GRANT SELECT ON as_of.trust TO skein_memory, skein_recall;

-- Memories and messages from which memories derive whose trust is to be computed again. The id 0 stands for all of a
-- tenant's memories; with a source key for those that the rated source wrote or that name it, and 1 for its messages.
CREATE TABLE memory.trust_work (
    tenant_id uuid NOT NULL
        CONSTRAINT trust_work_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    memory_id uuid NOT NULL,
    source_key text NOT NULL DEFAULT '',
    -- The memories or messages up to this one are done.
    after_id uuid NOT NULL,
    CONSTRAINT trust_work_pkey PRIMARY KEY (tenant_id, memory_id, source_key)
);
ALTER TABLE memory.trust_work ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.trust_work FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.trust_work
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.trust_work TO skein_memory;

-- A purge of messages marks them as erased sources, with their trust.
GRANT SELECT, UPDATE (erased_trust, start_character, end_character) ON memory.sources, memory.sources_history
    TO skein_session;
GRANT SELECT ON memory.source_trust TO skein_session;
GRANT SELECT, INSERT, UPDATE ON memory.trust_work TO skein_session;

-- The author of a message is where the chain of a memory may end.
GRANT USAGE ON SCHEMA session TO skein_memory;
GRANT SELECT ON session.messages TO skein_memory;
