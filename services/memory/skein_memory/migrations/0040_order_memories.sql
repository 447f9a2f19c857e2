-- Orders of lists that had no index: by confidence, archived and deleted memories included, and by the count of reads.
CREATE INDEX entries_by_confidence ON memory.entries (tenant_id, confidence, memory_id);
CREATE INDEX accesses_access_count ON memory.accesses (tenant_id, access_count, memory_id);
