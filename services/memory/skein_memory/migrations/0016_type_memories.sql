-- Typed memories: the words of their data, secrets sealed apart from them, tasks by state, levels by importance.

-- What is searched of a memory's data, as the service reads it from data of the memory's type; null for nothing.
ALTER TABLE memory.memories ADD COLUMN words text;

-- For levels and plans that are full: the least important memories come first.
CREATE INDEX memories_level_importance ON memory.memories (tenant_id, level, importance, memory_id)
    WHERE is_active AND archive_time IS NULL;
CREATE INDEX memories_archived_importance ON memory.memories (tenant_id, importance, memory_id)
    WHERE is_active AND archive_time IS NOT NULL;

-- Which master keys wrap any tenant's key: the service does not start without each of them. Of the cluster, not of a tenant.
CREATE TABLE memory.master_keys (
    fingerprint text NOT NULL CONSTRAINT master_keys_pkey PRIMARY KEY,
    key_count bigint NOT NULL
);

-- The keys that a tenant's secrets are sealed with, each wrapped by a master key. The newest seals.
CREATE TABLE memory.tenant_keys (
    tenant_id uuid NOT NULL
        CONSTRAINT tenant_keys_tenant_fkey REFERENCES tenancy.tenants (tenant_id) ON DELETE CASCADE,
    key_id uuid NOT NULL,
    master_key text NOT NULL,
    nonce bytea NOT NULL,
    ciphertext bytea NOT NULL,
    create_time timestamptz NOT NULL,
    CONSTRAINT tenant_keys_pkey PRIMARY KEY (tenant_id, key_id)
);

-- The secret of a memory of the knowledge vault. There is one: what it was before is not kept.
CREATE TABLE memory.secrets (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    key_id uuid NOT NULL,
    nonce bytea NOT NULL,
    ciphertext bytea NOT NULL,
    update_time timestamptz NOT NULL,
    CONSTRAINT secrets_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT secrets_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE,
    CONSTRAINT secrets_key_fkey FOREIGN KEY (tenant_id, key_id) REFERENCES memory.tenant_keys (tenant_id, key_id)
);
CREATE INDEX secrets_key ON memory.secrets (tenant_id, key_id, memory_id);

-- Tasks and objectives that are neither deleted nor archived, as they are asked for.
CREATE TABLE memory.tasks (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT tasks_kind_known CHECK (kind IN ('task', 'objective')),
    status text NOT NULL
        CONSTRAINT tasks_status_known CHECK (status IN ('open', 'in_progress', 'done', 'cancelled')),
    due_time timestamptz,
    objective_id uuid,
    importance double precision NOT NULL,
    update_time timestamptz NOT NULL,
    CONSTRAINT tasks_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT tasks_memory_fkey FOREIGN KEY (tenant_id, memory_id)
        REFERENCES memory.memories (tenant_id, memory_id) ON DELETE CASCADE
);
CREATE INDEX tasks_status ON memory.tasks (tenant_id, kind, status, memory_id);
CREATE INDEX tasks_objective ON memory.tasks (tenant_id, objective_id, memory_id) WHERE objective_id IS NOT NULL;
CREATE INDEX tasks_due_time ON memory.tasks (tenant_id, status, due_time, memory_id);
CREATE INDEX tasks_importance ON memory.tasks (tenant_id, status, importance, memory_id);
CREATE INDEX tasks_update_time ON memory.tasks (tenant_id, status, update_time, memory_id);

ALTER TABLE memory.tenant_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tenant_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tenant_keys
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.secrets ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.secrets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.secrets
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
ALTER TABLE memory.tasks ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tasks FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tasks
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.tenant_keys, memory.secrets, memory.tasks TO skein_memory;
GRANT SELECT, INSERT, UPDATE ON memory.master_keys TO skein_memory;
