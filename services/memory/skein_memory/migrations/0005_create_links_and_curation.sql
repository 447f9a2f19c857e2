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
    CONSTRAINT source_trust_pkey PRIMARY KEY (tenant_id, source_key)
);
ALTER TABLE memory.source_trust ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.source_trust FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.source_trust
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.source_trust, memory.conflict_resolutions, memory.aliases
    TO skein_memory;
GRANT SELECT ON memory.aliases TO skein_recall;
