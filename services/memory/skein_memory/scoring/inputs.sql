-- read_score_inputs --
-- Read the inputs of scores: trust in sources (a key for each memory), use, and relations. Up to `most` links from
-- and to each memory are read. Each part is read from its own index. Links of distrusted principals do not count.
SELECT requested.memory_id, source.trust, used.access_count, used.last_access_time,
       ARRAY(SELECT relation FROM memory.trusted_links
             WHERE trusted_links.tenant_id = :tenant_id AND trusted_links.from_memory_id = requested.memory_id
             LIMIT :most) AS outgoing,
       ARRAY(SELECT relation FROM memory.trusted_links
             WHERE trusted_links.tenant_id = :tenant_id AND trusted_links.to_memory_id = requested.memory_id
             LIMIT :most) AS incoming
FROM unnest(:memory_ids::uuid[], :source_keys::text[]) AS requested (memory_id, source_key)
LEFT JOIN LATERAL (
    SELECT trust FROM memory.source_trust
    WHERE source_trust.tenant_id = :tenant_id AND source_trust.source_key = requested.source_key LIMIT 1) AS source ON true
LEFT JOIN LATERAL (
    SELECT access_count, last_access_time FROM memory.access_counts
    WHERE access_counts.tenant_id = :tenant_id AND access_counts.memory_id = requested.memory_id LIMIT 1) AS used ON true;

-- count_relations --
-- Count the links of memories that have very many, for each relation that the formulas know, up to so many of each, without
-- those of distrusted principals.
SELECT requested.memory_id, named.relation,
       (SELECT count(*) FROM (
           SELECT FROM memory.trusted_links
           WHERE trusted_links.tenant_id = :tenant_id AND trusted_links.from_memory_id = requested.memory_id
               AND trusted_links.relation = named.relation
           LIMIT :most) AS these) AS outgoing,
       (SELECT count(*) FROM (
           SELECT FROM memory.trusted_links
           WHERE trusted_links.tenant_id = :tenant_id AND trusted_links.to_memory_id = requested.memory_id
               AND trusted_links.relation = named.relation
           LIMIT :most) AS these) AS incoming
FROM unnest(:memory_ids::uuid[]) AS requested (memory_id)
CROSS JOIN (VALUES ('supports'), ('contradicts'), ('causes'), ('example_of'), ('supersedes')) AS named (relation);

-- count_links --
-- Count the links of memories that have very many, but for contradictions, up to twice so many in each direction,
-- without those of distrusted principals.
SELECT requested.memory_id,
       (SELECT count(*) FROM (
           (SELECT 1 FROM memory.trusted_links
            WHERE trusted_links.tenant_id = :tenant_id AND trusted_links.from_memory_id = requested.memory_id
                AND trusted_links.relation < 'contradicts'
            LIMIT :most)
           UNION ALL
           (SELECT 1 FROM memory.trusted_links
            WHERE trusted_links.tenant_id = :tenant_id AND trusted_links.from_memory_id = requested.memory_id
                AND trusted_links.relation > 'contradicts'
            LIMIT :most)) AS these) AS outgoing,
       (SELECT count(*) FROM (
           (SELECT 1 FROM memory.trusted_links
            WHERE trusted_links.tenant_id = :tenant_id AND trusted_links.to_memory_id = requested.memory_id
                AND trusted_links.relation < 'contradicts'
            LIMIT :most)
           UNION ALL
           (SELECT 1 FROM memory.trusted_links
            WHERE trusted_links.tenant_id = :tenant_id AND trusted_links.to_memory_id = requested.memory_id
                AND trusted_links.relation > 'contradicts'
            LIMIT :most)) AS these) AS incoming
FROM unnest(:memory_ids::uuid[]) AS requested (memory_id);

-- read_trust --
-- Read the trust in sources.
SELECT source_key, trust
FROM memory.source_trust
WHERE tenant_id = :tenant_id AND source_key = ANY (:source_keys::text[]);
