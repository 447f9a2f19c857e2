-- insert_tags --
-- Put tags on memories.
INSERT INTO memory.tags (tenant_id, memory_id, tag, position)
VALUES (:tenant_id, :memory_id, :tag, :position);

-- place_tags --
-- Put tags on a memory, and give those that it has already their places.
INSERT INTO memory.tags (tenant_id, memory_id, tag, position)
VALUES (:tenant_id, :memory_id, :tag, :position)
ON CONFLICT ON CONSTRAINT tags_pkey DO UPDATE
SET position = excluded.position
WHERE tags.position IS DISTINCT FROM excluded.position;

-- delete_tags --
-- Take tags off a memory.
DELETE FROM memory.tags
WHERE tenant_id = :tenant_id AND memory_id = :memory_id AND tag = ANY (:tags::text[]);
