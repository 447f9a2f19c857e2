-- lock_source_trust --
-- Read and lock the trust in a source.
SELECT source_key, trust, notes, revision, create_time, update_time, created_by, updated_by
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = :source_key
FOR NO KEY UPDATE;

-- get_source_trust --
-- Read the trust in a source.
SELECT source_key, trust, notes, revision, create_time, update_time, created_by, updated_by
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = :source_key;

-- list_source_trust --
-- Read the trust in sources, in the order of their keys.
SELECT source_key, trust, notes, revision, create_time, update_time, created_by, updated_by
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key > :after
ORDER BY source_key
LIMIT :count;

-- insert_source_trust --
-- Insert the trust in a source; nothing is inserted when a concurrent transaction did.
INSERT INTO memory.source_trust
    (tenant_id, source_key, trust, notes, revision, create_time, update_time, created_by, updated_by)
VALUES
    (:tenant_id, :source_key, :trust, :notes, :revision, :create_time, :update_time, :created_by, :updated_by)
ON CONFLICT ON CONSTRAINT source_trust_pkey DO NOTHING;

-- update_source_trust --
-- Update the trust in a source.
UPDATE memory.source_trust
SET trust = :trust, notes = :notes, revision = :revision, update_time = :update_time, updated_by = :updated_by
WHERE tenant_id = :tenant_id AND source_key = :source_key;

-- delete_source_trust --
-- Delete the trust in a source.
DELETE FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = :source_key;
