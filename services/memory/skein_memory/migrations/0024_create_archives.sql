-- Cold storage: what left the tables for a file, and where it is.

CREATE TABLE memory.archives (
    tenant_id uuid NOT NULL
        CONSTRAINT archives_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    archive_id uuid NOT NULL,
    label text NOT NULL,
    memory_count integer NOT NULL,
    byte_count bigint NOT NULL,
    -- SHA-256 of the file.
    checksum bytea NOT NULL,
    -- When the oldest and the newest memory in it were made.
    from_time timestamptz NOT NULL,
    to_time timestamptz NOT NULL,
    create_time timestamptz NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT archives_pkey PRIMARY KEY (tenant_id, archive_id)
);

-- Which archive a memory lies in, so that it can be found there by id, and erased there.
CREATE TABLE memory.archived_memories (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    archive_id uuid NOT NULL,
    external_id text,
    subject_id text,
    session_id text,
    CONSTRAINT archived_memories_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT archived_memories_archive_fkey FOREIGN KEY (tenant_id, archive_id)
        REFERENCES memory.archives (tenant_id, archive_id) ON DELETE CASCADE
);
CREATE INDEX archived_memories_archive ON memory.archived_memories (tenant_id, archive_id);
CREATE INDEX archived_memories_external_id ON memory.archived_memories (tenant_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX archived_memories_subject ON memory.archived_memories (tenant_id, subject_id, archive_id) WHERE subject_id IS NOT NULL;

ALTER TABLE memory.archives ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.archives FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.archives
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.archived_memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.archived_memories FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.archived_memories
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.archives, memory.archived_memories TO skein_memory;
