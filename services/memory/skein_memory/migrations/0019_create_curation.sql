-- Trust in sources, resolved conflicts, names for the same thing; what finds duplicates, idle memories and candidates for
-- a second look.

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
    -- What the resolution itself did, so that another one can take it back: the link that it made, and the time that it
    -- set as the end of the other memory's validity.
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

-- Every alias names what it stands for directly: nothing here is an alias of an alias.
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

ALTER TABLE memory.source_trust ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.source_trust FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.source_trust
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.conflict_resolutions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.conflict_resolutions FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.conflict_resolutions
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.aliases ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.aliases FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.aliases
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.source_trust, memory.conflict_resolutions, memory.aliases
    TO skein_memory;

-- What a memory says, as one number: the same for memories that say the same (see skein_memory.curation). Null in rows
-- that are older than this, until they change.
ALTER TABLE memory.memories ADD COLUMN fingerprint uuid;
-- When idleness begins to count for the next decay; null when a memory decayed as often as it may. The one place that
-- looks moves it on where the memory was changed or read meanwhile, so that an ordinary change need not.
ALTER TABLE memory.memories ADD COLUMN decay_time timestamptz DEFAULT now();
ALTER TABLE memory.memories ADD COLUMN decay_periods smallint NOT NULL DEFAULT 0;
CREATE INDEX memories_fingerprint ON memory.memories (tenant_id, fingerprint, memory_id)
    WHERE is_active AND archive_time IS NULL;
CREATE INDEX memories_decay_time ON memory.memories (tenant_id, decay_time)
    WHERE is_active AND archive_time IS NULL;
CREATE INDEX memories_confidence ON memory.memories (tenant_id, confidence, memory_id)
    WHERE is_active AND archive_time IS NULL;

-- The newest links of one relation.
CREATE INDEX links_relation ON memory.links (tenant_id, relation, link_id);
