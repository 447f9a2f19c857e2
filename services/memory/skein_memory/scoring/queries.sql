-- read_score_inputs --
-- Read what the formulas know of memories beside themselves: trust in their sources (a key for each memory), use, and the
-- relations of up to so many links from and to each. Each part is looked up by its own index.
SELECT asked.memory_id, said.trust, used.access_count, used.last_access_time,
       ARRAY(SELECT relation FROM memory.links
             WHERE links.tenant_id = :tenant_id AND links.from_memory_id = asked.memory_id LIMIT :most) AS outgoing,
       ARRAY(SELECT relation FROM memory.links
             WHERE links.tenant_id = :tenant_id AND links.to_memory_id = asked.memory_id LIMIT :most) AS incoming
FROM unnest(:memory_ids::uuid[], :source_keys::text[]) AS asked (memory_id, source_key)
LEFT JOIN LATERAL (
    SELECT trust FROM memory.source_trust
    WHERE source_trust.tenant_id = :tenant_id AND source_trust.source_key = asked.source_key LIMIT 1) AS said ON true
LEFT JOIN LATERAL (
    SELECT access_count, last_access_time FROM memory.accesses
    WHERE accesses.tenant_id = :tenant_id AND accesses.memory_id = asked.memory_id LIMIT 1) AS used ON true;

-- count_relations --
-- Count the links of memories that have very many, for each relation that the formulas know, up to so many of each.
SELECT asked.memory_id, named.relation,
       (SELECT count(*) FROM (
           SELECT FROM memory.links
           WHERE links.tenant_id = :tenant_id AND links.from_memory_id = asked.memory_id
               AND links.relation = named.relation
           LIMIT :most) AS these) AS outgoing,
       (SELECT count(*) FROM (
           SELECT FROM memory.links
           WHERE links.tenant_id = :tenant_id AND links.to_memory_id = asked.memory_id
               AND links.relation = named.relation
           LIMIT :most) AS these) AS incoming
FROM unnest(:memory_ids::uuid[]) AS asked (memory_id)
CROSS JOIN (VALUES ('supports'), ('contradicts'), ('causes'), ('example_of'), ('supersedes')) AS named (relation);

-- count_links --
-- Count the links of memories that have very many, but for contradictions, up to twice so many in each direction.
SELECT asked.memory_id,
       (SELECT count(*) FROM (
           (SELECT 1 FROM memory.links
            WHERE links.tenant_id = :tenant_id AND links.from_memory_id = asked.memory_id
                AND links.relation < 'contradicts' LIMIT :most)
           UNION ALL
           (SELECT 1 FROM memory.links
            WHERE links.tenant_id = :tenant_id AND links.from_memory_id = asked.memory_id
                AND links.relation > 'contradicts' LIMIT :most)) AS these) AS outgoing,
       (SELECT count(*) FROM (
           (SELECT 1 FROM memory.links
            WHERE links.tenant_id = :tenant_id AND links.to_memory_id = asked.memory_id
                AND links.relation < 'contradicts' LIMIT :most)
           UNION ALL
           (SELECT 1 FROM memory.links
            WHERE links.tenant_id = :tenant_id AND links.to_memory_id = asked.memory_id
                AND links.relation > 'contradicts' LIMIT :most)) AS these) AS incoming
FROM unnest(:memory_ids::uuid[]) AS asked (memory_id);

-- read_trust --
-- Read how far sources are trusted.
SELECT source_key, trust
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = ANY (:source_keys::text[]);
