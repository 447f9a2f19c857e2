-- search_messages --
-- Rank messages by BM25 (k1 = 1.2, b = 0.75): any of the query's terms counts. How rare a term is, and how long a message
-- usually is, are the tenant's figures whatever the filters are. Each term's list is read as one run of the key.
SELECT found.item_id,
    sum(
        ln(1 + (greatest(corpus.documents, found.holders) - found.holders + 0.5) / (found.holders + 0.5))
        * found.frequency * 2.2
        / (found.frequency + 1.2 * (0.25 + 0.75 * found.length / corpus.average_length))
    ) AS score
FROM (
    SELECT greatest(sum(part.documents), 1)::double precision AS documents,
        greatest(sum(part.length) / greatest(sum(part.documents), 1), 1)::double precision AS average_length
    FROM (
        SELECT documents, length FROM recall.corpora WHERE tenant_id = :tenant_id AND kind = 'message'
        UNION ALL
        -- Not counted yet.
        SELECT count(*), coalesce(sum(length), 0) FROM recall.documents
        WHERE tenant_id = :tenant_id AND kind = 'message' AND NOT counted
        UNION ALL
        SELECT -documents, -length FROM recall.departures WHERE tenant_id = :tenant_id AND kind = 'message'
    ) AS part
) AS corpus,
unnest(to_tsvector(('pg_catalog.' || :language::text)::regconfig, :words::text)) AS asked,
LATERAL (
    SELECT item_id, frequency, length, (count(*) OVER ())::double precision AS holders
    FROM recall.postings
    WHERE tenant_id = :tenant_id AND term = asked.lexeme AND kind = 'message'
) AS found
WHERE (:lowest::uuid IS NULL OR found.item_id >= :lowest)
    AND (:below::uuid IS NULL OR found.item_id < :below)
    AND (:session_id::text IS NULL OR EXISTS (
        SELECT FROM recall.documents AS document
        WHERE document.tenant_id = :tenant_id AND document.item_id = found.item_id
            AND document.session_id = :session_id))
GROUP BY found.item_id
ORDER BY score DESC, found.item_id DESC
LIMIT :limit;

-- neighbours --
-- Read the places around others: up to so many before and after each, in order. `place` is the hit's place in the
-- arrays, from 1.
SELECT hit.place, near.sequence, near.message_id
FROM unnest(:session_ids::text[], :sequences::bigint[]) WITH ORDINALITY AS hit (session_id, sequence, place),
LATERAL (
    (SELECT sequence, message_id
     FROM session.message_order
     WHERE tenant_id = :tenant_id AND session_id = hit.session_id AND sequence < hit.sequence
     ORDER BY sequence DESC
     LIMIT :context_size)
    UNION ALL
    (SELECT sequence, message_id
     FROM session.message_order
     WHERE tenant_id = :tenant_id AND session_id = hit.session_id AND sequence > hit.sequence
     ORDER BY sequence
     LIMIT :context_size)
) AS near
ORDER BY hit.place, near.sequence;

-- rarest_term --
-- Find the one of the terms of some words that the fewest messages hold, counting no further than a limit. No row comes
-- back when the words have no terms.
SELECT asked.lexeme AS term, held.holders
FROM unnest(to_tsvector(('pg_catalog.' || :language::text)::regconfig, :words::text)) AS asked,
LATERAL (
    SELECT count(*) AS holders
    FROM (
        SELECT FROM recall.postings
        WHERE tenant_id = :tenant_id AND term = asked.lexeme AND kind = 'message'
        LIMIT :count
    ) AS counted
) AS held
ORDER BY held.holders, asked.lexeme
LIMIT 1;

-- holders_of_term --
-- Read messages that hold a term, newest first, of a range of ids.
SELECT item_id
FROM recall.postings
WHERE tenant_id = :tenant_id AND term = :term AND kind = 'message'
    AND item_id >= :from_id AND item_id < :before_id
ORDER BY item_id DESC
LIMIT :count;

-- newest_messages --
-- Read the ids of messages, deleted ones too, newest first, of a range of ids.
SELECT message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id >= :from_id AND message_id < :before_id
ORDER BY message_id DESC
LIMIT :count;

-- newest_of_session --
-- Read the ids of a session's messages, newest first, of a range of ids.
SELECT message_id
FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id AND message_id >= :from_id AND message_id < :before_id
ORDER BY message_id DESC
LIMIT :count;

-- messages_containing --
-- Find those of some messages that contain a pattern of LIKE, in any case, newest first.
SELECT message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]) AND is_active AND content ILIKE :pattern
ORDER BY message_id DESC
LIMIT :count;
