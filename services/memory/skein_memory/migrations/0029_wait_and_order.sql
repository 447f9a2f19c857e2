-- What hangs on a memory in cold storage waits for it; lists have orders of their own; more is counted for quotas.

-- A row of another table that names a memory which is there and one that still lies in an archive. It goes to its table
-- when the second is back, and away with whichever is removed.
CREATE TABLE memory.waiting (
    tenant_id uuid NOT NULL,
    waiting_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    other_memory_id uuid NOT NULL,
    row_table text NOT NULL
        CONSTRAINT waiting_table_known CHECK (row_table IN ('links', 'revisions', 'aliases', 'conflict_resolutions')),
    held jsonb NOT NULL,
    CONSTRAINT waiting_pkey PRIMARY KEY (tenant_id, waiting_id),
    CONSTRAINT waiting_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.entries (tenant_id, memory_id) ON DELETE CASCADE,
    CONSTRAINT waiting_archived_fkey FOREIGN KEY (tenant_id, other_memory_id)
        REFERENCES memory.archived (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX waiting_memory ON memory.waiting (tenant_id, memory_id);
CREATE INDEX waiting_other ON memory.waiting (tenant_id, other_memory_id);
ALTER TABLE memory.waiting ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.waiting FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.waiting
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.waiting TO skein_memory;

-- The orders of a list that ids do not have.
CREATE INDEX entries_update_time ON memory.entries (tenant_id, update_time, memory_id);
CREATE INDEX entries_importance ON memory.entries (tenant_id, importance, memory_id);

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
