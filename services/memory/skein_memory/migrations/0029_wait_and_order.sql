-- What hangs on a memory in cold storage waits for it; lists have orders of their own; more is counted for quotas.

-- A row of another table that names a memory which is there and one that still lies in an archive. It goes to its table
-- when the second is back, and away with whichever is removed.
CREATE TABLE memory.pending_rows (
    tenant_id uuid NOT NULL,
    pending_row_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    other_memory_id uuid NOT NULL,
    row_table text NOT NULL
        CONSTRAINT pending_rows_table_known CHECK (row_table IN ('links', 'revisions', 'aliases', 'conflict_resolutions')),
    row_data jsonb NOT NULL,
    CONSTRAINT pending_rows_pkey PRIMARY KEY (tenant_id, pending_row_id),
    CONSTRAINT pending_rows_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE,
    CONSTRAINT pending_rows_archived_fkey FOREIGN KEY (tenant_id, other_memory_id)
        REFERENCES memory.archived_memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX pending_rows_memory ON memory.pending_rows (tenant_id, memory_id);
CREATE INDEX pending_rows_other ON memory.pending_rows (tenant_id, other_memory_id);
ALTER TABLE memory.pending_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.pending_rows FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.pending_rows
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.pending_rows TO skein_memory;

-- The orders of a list that ids do not have.
CREATE INDEX memories_update_time ON memory.memories (tenant_id, update_time, memory_id);
CREATE INDEX memories_importance ON memory.memories (tenant_id, importance, memory_id);

-- Count what is there already: tenant by tenant, as row-level security binds the owner too.
DO $$
DECLARE
    tenant uuid;
    found bigint;
BEGIN
    PERFORM set_config('skein.operator', 'on', true);
    FOR tenant IN SELECT tenant_id FROM tenancy.tenants LOOP
        PERFORM set_config('skein.tenant_id', tenant::text, true);
        SELECT count(*) INTO found FROM memory.blocks WHERE tenant_id = tenant AND delete_time IS NULL;
        IF found > 0 THEN
            INSERT INTO memory.usage (tenant_id, kind, slot, amount) VALUES (tenant, 'blocks', 0, found);
        END IF;
        SELECT count(*) INTO found FROM memory.snapshots WHERE tenant_id = tenant AND state IN ('creating', 'ready');
        IF found > 0 THEN
            INSERT INTO memory.usage (tenant_id, kind, slot, amount) VALUES (tenant, 'snapshots', 0, found);
        END IF;
        SELECT count(*) INTO found FROM session.agent_states WHERE tenant_id = tenant;
        IF found > 0 THEN
            INSERT INTO session.usage (tenant_id, kind, slot, amount) VALUES (tenant, 'agent_states', 0, found);
        END IF;
        SELECT count(*) INTO found FROM session.items WHERE tenant_id = tenant;
        IF found > 0 THEN
            INSERT INTO session.usage (tenant_id, kind, slot, amount) VALUES (tenant, 'session_items', 0, found);
        END IF;
    END LOOP;
    PERFORM set_config('skein.tenant_id', '', true), set_config('skein.operator', '', true);
END $$;
