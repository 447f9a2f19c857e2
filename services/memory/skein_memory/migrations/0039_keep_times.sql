-- Imports keep the times of their rows, so when Skein recorded a row is a time of its own.

-- Null in rows of the version before, which recorded every row at its update_time.
ALTER TABLE memory.memories ADD COLUMN record_time timestamptz;
ALTER TABLE memory.versions ADD COLUMN record_time timestamptz;
ALTER TABLE memory.links ADD COLUMN record_time timestamptz;
ALTER TABLE memory.blocks ADD COLUMN record_time timestamptz;

-- Who made the vectors that callers brought: this cluster made the others. A row without vectors of its model says nothing.
CREATE TABLE recall.vector_origins (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    model text NOT NULL,
    provider text NOT NULL CONSTRAINT vector_origins_provider_length CHECK (char_length(provider) BETWEEN 1 AND 64),
    create_time timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT vector_origins_pkey PRIMARY KEY (tenant_id, item_id, model),
    CONSTRAINT vector_origins_document_fkey FOREIGN KEY (tenant_id, item_id)
        REFERENCES recall.documents (tenant_id, item_id) ON DELETE CASCADE
);
ALTER TABLE recall.vector_origins ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall.vector_origins FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON recall.vector_origins
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON recall.vector_origins TO skein_recall;
-- A vector given with a memory is stored with the memory.
GRANT INSERT ON recall.vector_origins TO skein_memory;
