-- insert_tags --
-- Put tags on memories.
INSERT INTO memory.tags (tenant_id, memory_id, tag)
VALUES (:tenant_id, :memory_id, :tag);

-- delete_tags --
-- Take tags off a memory.
DELETE FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND tag = ANY (:tags::text[]);
