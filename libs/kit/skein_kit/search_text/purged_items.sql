-- insert_purged_items --
-- Record how many items a purge removed, by when they had become known.
INSERT INTO recall.purged_items (tenant_id, purge_time, purge_id, known_time, item_count)
VALUES (:tenant_id, :purge_time, :purge_id, :known_time, :item_count);
