-- ensure_salt --
-- Give a tenant the salt of its tombstones, unless it has one.
INSERT INTO session.tombstone_salts (tenant_id, salt)
VALUES (:tenant_id, :salt)
ON CONFLICT ON CONSTRAINT tombstone_salts_pkey DO NOTHING;

-- read_salt --
-- Read the salt of a tenant's tombstones.
SELECT salt FROM session.tombstone_salts WHERE tenant_id = :tenant_id;

-- insert_tombstones --
-- Remember the digests of what was purged; those that are there stay.
INSERT INTO session.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO NOTHING;

-- renew_tombstones --
-- Remember the digests of what was purged, and that of what is there already it was done again.
INSERT INTO session.tombstones (tenant_id, digest, create_time)
VALUES (:tenant_id, :digest, :create_time)
ON CONFLICT ON CONSTRAINT tombstones_pkey DO UPDATE SET create_time = excluded.create_time;

-- find_purged_names --
-- Return those of some names that belong to what was purged.
SELECT name
FROM session.tombstone_salts AS own, unnest(:names::text[]) AS name
WHERE own.tenant_id = :tenant_id
    AND EXISTS (
        SELECT FROM session.tombstones AS stone
        WHERE stone.tenant_id = :tenant_id AND stone.digest = sha256(own.salt || convert_to(name, 'UTF8')));
