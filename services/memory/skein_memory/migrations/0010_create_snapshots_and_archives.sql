-- Snapshots, and cold storage of memories.

CREATE TABLE memory.snapshots (
    tenant_id uuid NOT NULL
        CONSTRAINT snapshots_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    snapshot_id uuid NOT NULL,
    label text NOT NULL,
    summary text,
    state text NOT NULL CONSTRAINT snapshots_state_known CHECK (state IN ('creating', 'ready', 'deleting')),
    as_of_time timestamptz NOT NULL,
    -- Copying waits until all transactions below this number have ended: they may hold earlier changes.
    horizon bigint NOT NULL,
    -- The last copied item; NULL before the first and after the last.
    last_kind text,
    last_item_id text COLLATE "C",
    counts jsonb NOT NULL,
    policy jsonb NOT NULL,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL
);
CREATE INDEX snapshots_state ON memory.snapshots (tenant_id, state, snapshot_id);
CREATE INDEX snapshots_unfinished ON memory.snapshots (tenant_id) WHERE state <> 'ready';

-- Made last: of indexes that cost the same in a table without statistics, the planner takes the youngest.
ALTER TABLE memory.snapshots ADD CONSTRAINT snapshots_pkey PRIMARY KEY (tenant_id, snapshot_id);
ALTER TABLE memory.snapshots ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.snapshots FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.snapshots
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.snapshots AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- The purge of a memory removes the copies that name it.
CREATE TABLE memory.snapshot_items (
    tenant_id uuid NOT NULL,
    snapshot_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT snapshot_items_kind_known
        CHECK (kind IN ('memory', 'link', 'source_trust', 'alias', 'conflict', 'block')),
    item_id text COLLATE "C" NOT NULL,
    memory_id uuid,
    other_memory_id uuid,
    -- The item as a protobuf message of the contract.
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
CREATE INDEX snapshot_items_block ON memory.snapshot_items (tenant_id, item_id) WHERE kind = 'block';
ALTER TABLE memory.snapshot_items ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.snapshot_items FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.snapshot_items
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.snapshot_items AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.snapshots, memory.snapshot_items TO skein_memory;

CREATE TABLE memory.archives (
    tenant_id uuid NOT NULL
        CONSTRAINT archives_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    archive_id uuid NOT NULL,
    label text NOT NULL,
    memory_count integer NOT NULL,
    byte_count bigint NOT NULL,
    -- SHA-256 of the file.
    checksum bytea NOT NULL,
    -- Creation times of its oldest and newest memory.
    from_time timestamptz NOT NULL,
    to_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT archives_pkey PRIMARY KEY (tenant_id, archive_id)
);
ALTER TABLE memory.archives ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.archives FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.archives
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.archives AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = '' THEN true
                ELSE '00000000-0000-0000-0000-000000000000' = ANY (current_setting('skein.spaces', true)::uuid[]) END);

-- The archive that holds a memory, so that the memory can be found by id and purged.
CREATE TABLE memory.archived_memories (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    archive_id uuid NOT NULL,
    external_id text,
    subject_id text,
    session_id text,
    -- When the memory was first recorded, by the server's clock; callers may choose its create_time, and so its id.
    record_time timestamptz NOT NULL,
    space_id uuid NOT NULL DEFAULT skein.space_id(),
    CONSTRAINT archived_memories_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT archived_memories_archive_fkey FOREIGN KEY (tenant_id, archive_id)
        REFERENCES memory.archives (tenant_id, archive_id) ON DELETE CASCADE
);
CREATE INDEX archived_memories_archive ON memory.archived_memories (tenant_id, archive_id);
CREATE INDEX archived_memories_external_id ON memory.archived_memories (tenant_id, external_id)
    WHERE external_id IS NOT NULL;
CREATE INDEX archived_memories_subject ON memory.archived_memories (tenant_id, subject_id, archive_id)
    WHERE subject_id IS NOT NULL;
ALTER TABLE memory.archived_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.archived_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.archived_memories
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
CREATE POLICY space ON memory.archived_memories AS RESTRICTIVE
    USING (CASE WHEN coalesce(current_setting('skein.spaces', true), '') = ''
                THEN space_id = '00000000-0000-0000-0000-000000000000'
                     OR current_setting('skein.all_spaces', true) = 'on'
                     OR current_setting('skein.operator', true) = 'on'
                ELSE space_id = ANY (current_setting('skein.spaces', true)::uuid[]) END);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.archives, memory.archived_memories TO skein_memory;
GRANT SELECT (tenant_id, space_id) ON memory.archived_memories TO skein_tenancy;

-- Rows of other tables that name one present and one archived memory. A row moves to its table when the archived memory
-- returns, and is removed with either memory.
CREATE TABLE memory.pending_rows (
    tenant_id uuid NOT NULL,
    pending_row_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    other_memory_id uuid NOT NULL,
    row_table text NOT NULL
        CONSTRAINT pending_rows_table_known CHECK
            (row_table IN ('links', 'revisions', 'aliases', 'aliases_history', 'conflict_resolutions',
                           'conflict_resolutions_history')),
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
