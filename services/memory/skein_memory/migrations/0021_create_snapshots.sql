-- Snapshots: what a tenant's memory was at one time, kept item by item.

CREATE TABLE memory.snapshots (
    tenant_id uuid NOT NULL
        CONSTRAINT snapshots_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    snapshot_id uuid NOT NULL,
    label text NOT NULL,
    summary text,
    state text NOT NULL CONSTRAINT snapshots_state_known CHECK (state IN ('creating', 'ready', 'deleting')),
    as_of_time timestamptz NOT NULL,
    -- The transactions below this number must be over before anything is read: they may have changed something earlier.
    horizon bigint NOT NULL,
    -- What was copied last; null before the first and after the last item.
    last_kind text,
    last_item_id text COLLATE "C",
    counts jsonb NOT NULL,
    policy jsonb NOT NULL,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT snapshots_pkey PRIMARY KEY (tenant_id, snapshot_id)
);
CREATE INDEX snapshots_state ON memory.snapshots (tenant_id, state, snapshot_id);

-- A copy of a memory, or of what names one, goes with the memory when that is purged.
CREATE TABLE memory.snapshot_items (
    tenant_id uuid NOT NULL,
    snapshot_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT snapshot_items_kind_known
        CHECK (kind IN ('memory', 'link', 'source_trust', 'alias', 'conflict', 'block')),
    item_id text COLLATE "C" NOT NULL,
    memory_id uuid,
    other_memory_id uuid,
    -- The item's message of the contract.
    content bytea NOT NULL,
    CONSTRAINT snapshot_items_pkey PRIMARY KEY (tenant_id, snapshot_id, kind, item_id),
    CONSTRAINT snapshot_items_snapshot_fkey FOREIGN KEY (tenant_id, snapshot_id)
        REFERENCES memory.snapshots (tenant_id, snapshot_id) ON DELETE CASCADE,
    CONSTRAINT snapshot_items_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE,
    CONSTRAINT snapshot_items_other_memory_fkey FOREIGN KEY (tenant_id, other_memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX snapshot_items_memory ON memory.snapshot_items (tenant_id, memory_id) WHERE memory_id IS NOT NULL;
CREATE INDEX snapshot_items_other_memory ON memory.snapshot_items (tenant_id, other_memory_id)
    WHERE other_memory_id IS NOT NULL;

ALTER TABLE memory.snapshots ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.snapshots FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.snapshots
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.snapshot_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.snapshot_items FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.snapshot_items
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.snapshots, memory.snapshot_items TO skein_memory;
