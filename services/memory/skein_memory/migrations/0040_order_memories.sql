-- Orders of lists that had no index: by confidence, archived and deleted memories included, and by the count of reads.
CREATE INDEX memories_by_confidence ON memory.memories (tenant_id, confidence, memory_id);
CREATE INDEX access_counts_access_count ON memory.access_counts (tenant_id, access_count, memory_id);
