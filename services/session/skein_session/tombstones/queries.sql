-- ensure_salt --
-- Insert the salt of a tenant, unless it has one.
INSERT INTO session.tombstone_salts (tenant_id, salt)
VALUES (:tenant_id, :salt)
ON CONFLICT ON CONSTRAINT tombstone_salts_pkey DO NOTHING;

-- read_salt --
-- Read the salt of a tenant.
SELECT salt FROM session.tombstone_salts WHERE tenant_id = :tenant_id;

-- insert_tombstones --
-- Insert digests of purged names; existing ones stay.
INSERT INTO session.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO NOTHING;

-- renew_tombstones --
-- Insert digests of purged names, or set their create_time to that of the latest purge.
INSERT INTO session.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO UPDATE SET create_time = excluded.create_time;

-- find_purged_names --
-- Return those of some names that have a tombstone.
SELECT name
FROM session.tombstone_salts AS own, unnest(:names::text[]) AS name
WHERE own.tenant_id = :tenant_id
    AND EXISTS (
        SELECT FROM session.tombstones AS tombstone
        WHERE tombstone.tenant_id = :tenant_id AND tombstone.digest = sha256(own.salt || convert_to(name, 'UTF8')));

-- list_tombstones --
-- Return the digests that a purge at a time wrote, or renewed.
SELECT digest FROM session.tombstones
WHERE tenant_id = :tenant_id AND create_time = :create_time
ORDER BY digest;
