-- search_messages --
-- Rank messages by BM25 (k1 = 1.2, b = 0.75); each matches any term of the query. Document counts and lengths are those
-- of the whole tenant, whatever the filters. The postings of a term are one range of the primary key. They have no space:
-- `in_spaces` leaves out those whose documents the call does not reach.
SELECT match.item_id,
    sum(
        ln(1 + (greatest(corpus.documents, match.term_documents) - match.term_documents + 0.5)
            / (match.term_documents + 0.5))
        * match.frequency * 2.2
        / (match.frequency + 1.2 * (0.25 + 0.75 * match.length / corpus.average_length))
    ) AS score
FROM (
    SELECT greatest(sum(part.documents), 1)::double precision AS documents,
        greatest(sum(part.length) / greatest(sum(part.documents), 1), 1)::double precision AS average_length
    FROM (
        SELECT documents, length FROM recall.corpora WHERE tenant_id = :tenant_id AND kind = 'message'
        UNION ALL
        -- Documents that no job has counted yet.
        SELECT count(*), coalesce(sum(length), 0) FROM recall.documents
        WHERE tenant_id = :tenant_id AND kind = 'message' AND NOT is_counted
        UNION ALL
        SELECT -documents, -length FROM recall.removals WHERE tenant_id = :tenant_id AND kind = 'message'
    ) AS part
) AS corpus,
unnest(to_tsvector(('pg_catalog.' || :language::text)::regconfig, :words::text)) AS query_term,
LATERAL (
    SELECT item_id, frequency, length, (count(*) OVER ())::double precision AS term_documents
    FROM recall.postings
    WHERE tenant_id = :tenant_id AND term = query_term.lexeme AND kind = 'message' AND frequency > 0
) AS match
WHERE (:lowest::uuid IS NULL OR match.item_id >= :lowest)
    AND (:below::uuid IS NULL OR match.item_id < :below)
    AND (:session_id::text IS NULL OR EXISTS (
        SELECT FROM recall.documents AS document
        WHERE document.tenant_id = :tenant_id AND document.item_id = match.item_id
            AND document.session_id = :session_id))
    AND (NOT :in_spaces::boolean OR EXISTS (
        SELECT FROM recall.documents AS document
        WHERE document.tenant_id = :tenant_id AND document.item_id = match.item_id))
GROUP BY match.item_id
ORDER BY score DESC, match.item_id DESC
LIMIT :limit;

-- neighbours --
-- Read the positions around hits, up to `context_size` before and after each, in order. `hit_number` is the hit's
-- position in the arrays, from 1.
SELECT hit.hit_number, neighbour.sequence, neighbour.message_id
FROM unnest(:session_ids::text[], :sequences::bigint[], :message_ids::uuid[]) WITH ORDINALITY
    AS hit (session_id, sequence, message_id, hit_number)
-- Sessions of several spaces may have one id.
JOIN session.message_order AS own ON own.tenant_id = :tenant_id AND own.session_id = hit.session_id
    AND own.sequence = hit.sequence AND own.message_id = hit.message_id,
LATERAL (
    (SELECT sequence, message_id
     FROM session.message_order
     WHERE tenant_id = :tenant_id AND session_id = hit.session_id AND sequence < hit.sequence AND space_id = own.space_id
     ORDER BY sequence DESC
     LIMIT :context_size)
    UNION ALL
    (SELECT sequence, message_id
     FROM session.message_order
     WHERE tenant_id = :tenant_id AND session_id = hit.session_id AND sequence > hit.sequence AND space_id = own.space_id
     ORDER BY sequence
     LIMIT :context_size)
) AS neighbour
ORDER BY hit.hit_number, neighbour.sequence;

-- rarest_term --
-- Find the term of some words that the fewest messages have, counted up to a limit. No row comes back when the words
-- have no terms.
SELECT query_term.lexeme AS term, counted_term.message_count
FROM unnest(to_tsvector(('pg_catalog.' || :language::text)::regconfig, :words::text)) AS query_term,
LATERAL (
    SELECT count(*) AS message_count
    FROM (
        SELECT FROM recall.postings
        WHERE tenant_id = :tenant_id AND term = query_term.lexeme AND kind = 'message' AND frequency > 0
        LIMIT :count
    ) AS counted
) AS counted_term
ORDER BY counted_term.message_count, query_term.lexeme
LIMIT 1;

-- messages_with_term --
-- Find messages that have a term, within a range of ids, newest first; `in_spaces` as above.
SELECT item_id
FROM recall.postings
WHERE tenant_id = :tenant_id AND term = :term AND kind = 'message' AND frequency > 0
    AND item_id >= :from_id AND item_id < :before_id
    AND (NOT :in_spaces::boolean OR EXISTS (
        SELECT FROM recall.documents AS document
        WHERE document.tenant_id = :tenant_id AND document.item_id = postings.item_id))
ORDER BY item_id DESC
LIMIT :count;

-- newest_messages --
-- Find messages, deleted ones too, within a range of ids, newest first.
SELECT message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id >= :from_id AND message_id < :before_id
ORDER BY message_id DESC
LIMIT :count;

-- newest_of_session --
-- Find messages of a session within a range of ids, newest first.
SELECT message_id
FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id AND message_id >= :from_id AND message_id < :before_id
ORDER BY message_id DESC
LIMIT :count;

-- messages_containing --
-- Find messages with a literal text, newest first. One that waits for approval is found in its own session alone.
SELECT message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
    AND is_active AND ({condition})
    AND (NOT pending_approval OR session_id = :session_id)
ORDER BY message_id DESC
LIMIT :count;
