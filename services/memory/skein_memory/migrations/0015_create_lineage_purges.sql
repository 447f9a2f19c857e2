-- What a Forget must still follow: memories that were made of a person's memories and messages.
SET LOCAL lock_timeout = '5s';

-- Memories that were made of what a purge of a person removed, until that purge removes or names them too.
CREATE TABLE memory.lineage_purges (
    tenant_id uuid NOT NULL
        CONSTRAINT lineage_purges_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    memory_id uuid NOT NULL,
    CONSTRAINT lineage_purges_pkey PRIMARY KEY (tenant_id, memory_id)
);
ALTER TABLE memory.lineage_purges ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.lineage_purges FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.lineage_purges
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, DELETE ON memory.lineage_purges TO skein_memory;
GRANT SELECT, INSERT ON memory.lineage_purges TO skein_session;

-- What memories in cold storage were made of, now or formerly.
CREATE TABLE memory.archived_sources (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    source_id uuid NOT NULL,
    CONSTRAINT archived_sources_pkey PRIMARY KEY (tenant_id, memory_id, source_id),
    CONSTRAINT archived_sources_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.archived_memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX archived_sources_source ON memory.archived_sources (tenant_id, source_id);
ALTER TABLE memory.archived_sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.archived_sources FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.archived_sources
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, DELETE ON memory.archived_sources TO skein_memory;
GRANT SELECT ON memory.archived_sources TO skein_session;
