-- lock_tenant_keys --
-- Read and lock the keys of a tenant, the newest first: no other transaction encrypts.
SELECT key_id, master_key, nonce, ciphertext
FROM memory.tenant_keys
WHERE tenant_id = :tenant_id
ORDER BY key_id DESC
FOR UPDATE;

-- share_tenant_keys --
-- Read the keys of a tenant, the newest first, with a shared lock that keeps them from deletion.
SELECT key_id, master_key, nonce, ciphertext
FROM memory.tenant_keys
WHERE tenant_id = :tenant_id
ORDER BY key_id DESC
FOR KEY SHARE;

-- insert_tenant_key --
-- Store a key of a tenant, wrapped.
INSERT INTO memory.tenant_keys (tenant_id, key_id, master_key, nonce, ciphertext, create_time)
VALUES (:tenant_id, :key_id, :master_key, :nonce, :ciphertext, :create_time);

-- rewrap_tenant_key --
-- Store a key of a tenant as another master key wraps it.
UPDATE memory.tenant_keys
SET master_key = :master_key, nonce = :nonce, ciphertext = :ciphertext
WHERE tenant_id = :tenant_id AND key_id = :key_id;

-- delete_tenant_key --
-- Remove a key of a tenant that encrypts no secret any more.
DELETE FROM memory.tenant_keys
WHERE tenant_id = :tenant_id AND key_id = :key_id
    AND NOT EXISTS (SELECT FROM memory.secrets WHERE secrets.tenant_id = :tenant_id AND secrets.key_id = :key_id);

-- count_master_key --
-- Count how many keys of tenants a master key wraps. No tenant is named: what the service needs to start must be known
-- before it acts in any.
INSERT INTO memory.master_keys AS known (fingerprint, key_count)
VALUES (:fingerprint, :amount)
ON CONFLICT ON CONSTRAINT master_keys_pkey DO UPDATE SET key_count = known.key_count + excluded.key_count;

-- list_master_keys --
-- Read which master keys wrap any tenant's key.
SELECT fingerprint
FROM memory.master_keys
WHERE key_count > 0
ORDER BY fingerprint;

-- put_secret --
-- Store a memory's encrypted secret in place of the one before.
INSERT INTO memory.secrets AS known (tenant_id, memory_id, key_id, nonce, ciphertext, update_time)
VALUES (:tenant_id, :memory_id, :key_id, :nonce, :ciphertext, :update_time)
ON CONFLICT ON CONSTRAINT secrets_pkey DO UPDATE
    SET key_id = excluded.key_id, nonce = excluded.nonce, ciphertext = excluded.ciphertext,
        update_time = excluded.update_time;

-- get_secret --
-- Read a memory's encrypted secret together with its key: a rotation may change both at any moment.
SELECT secrets.key_id, secrets.nonce, secrets.ciphertext,
       keys.master_key, keys.nonce AS key_nonce, keys.ciphertext AS key_ciphertext
FROM memory.secrets
JOIN memory.tenant_keys AS keys ON keys.tenant_id = :tenant_id AND keys.key_id = secrets.key_id
WHERE secrets.tenant_id = :tenant_id AND secrets.memory_id = :memory_id;

-- delete_secret --
-- Remove a memory's secret.
DELETE FROM memory.secrets
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- list_older_secrets --
-- Read and lock some of the secrets that an older key encrypts.
SELECT memory_id, key_id, nonce, ciphertext
FROM memory.secrets
WHERE tenant_id = :tenant_id AND key_id = :key_id
ORDER BY memory_id
LIMIT :count
FOR UPDATE;

-- reencrypt_secret --
-- Store a secret that a newer key encrypts.
UPDATE memory.secrets
SET key_id = :key_id, nonce = :nonce, ciphertext = :ciphertext
WHERE tenant_id = :tenant_id AND memory_id = :memory_id;

-- purge_secrets --
-- Remove some of the secrets of a deleted tenant.
DELETE FROM memory.secrets
WHERE tenant_id = :tenant_id AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM memory.secrets WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_keys --
-- Remove some of the keys that a deleted tenant has; return the master key of each.
DELETE FROM memory.tenant_keys
WHERE tenant_id = :tenant_id AND key_id = ANY (ARRAY(
    SELECT key_id FROM memory.tenant_keys WHERE tenant_id = :tenant_id LIMIT :count))
RETURNING master_key;
