-- Links as a graph: what changed them, and the orders in which a walk meets them.

-- Null until the first change: a link begins at revision 1, at its create_time.
ALTER TABLE memory.links ADD COLUMN revision bigint NOT NULL DEFAULT 1;
ALTER TABLE memory.links ADD COLUMN update_time timestamptz;
ALTER TABLE memory.links ADD COLUMN updated_by text;

-- A walk meets the strongest links of a memory first, of equal ones the newest, and reads no more of them than it takes,
-- however many there are: of all relations, or of each that it asks for.
CREATE INDEX links_from_strength ON memory.links (tenant_id, from_memory_id, weight DESC, link_id DESC);
CREATE INDEX links_to_strength ON memory.links (tenant_id, to_memory_id, weight DESC, link_id DESC);
CREATE INDEX links_from_relation ON memory.links (tenant_id, from_memory_id, relation, weight DESC, link_id DESC);
CREATE INDEX links_to_relation ON memory.links (tenant_id, to_memory_id, relation, weight DESC, link_id DESC);

-- What links were, in the order in which links are listed.
CREATE INDEX revisions_link_from ON memory.revisions (tenant_id, memory_id, item_id) WHERE kind = 'link';
CREATE INDEX revisions_link_to ON memory.revisions (tenant_id, other_memory_id, item_id) WHERE kind = 'link';
