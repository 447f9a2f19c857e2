-- Secrets of memories and the keys that encrypt them.

-- The master keys that wrap a tenant's key. The service does not start without each of them. They belong to the
-- cluster.
CREATE TABLE memory.master_keys (
    fingerprint text NOT NULL CONSTRAINT master_keys_pkey PRIMARY KEY,
    key_count bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON memory.master_keys TO skein_memory;

-- The keys that encrypt a tenant's secrets, each wrapped by a master key. The newest key encrypts.
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
ALTER TABLE memory.tenant_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.tenant_keys FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.tenant_keys
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);

-- The secret of a memory. Former secrets are not kept.
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
ALTER TABLE memory.secrets ENABLE ROW LEVEL SECURITY;
ALTER TABLE memory.secrets FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON memory.secrets
    USING (tenant_id = nullif(current_setting('skein.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory.tenant_keys, memory.secrets, memory.tasks TO skein_memory;
