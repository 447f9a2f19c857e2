-- insert_erasure --
-- Record by a digest that a person was erased, so that calls logged a moment later are cleared too. Records of a tenant share
-- a secret while there are any.
INSERT INTO memory.erasures (tenant_id, erasure_id, secret, digest, erase_time)
VALUES (:tenant_id, :erasure_id, :secret, :digest, :erase_time);

-- read_erasure_secret --
-- Return the secret of a tenant's records of erasures, if it has any.
SELECT earlier.secret
FROM memory.erasures AS earlier
WHERE earlier.tenant_id = :tenant_id
ORDER BY earlier.erasure_id
LIMIT 1;

-- erasure_times --
-- Return the times of the first and the last unfinished erasure up to a time; null for none.
SELECT min(erase_time) AS first_time, max(erase_time) AS last_time
FROM memory.erasures
WHERE tenant_id = :tenant_id AND erase_time <= :until_time;

-- delete_erasures --
-- Delete the records of erasures up to a time.
DELETE FROM memory.erasures
WHERE tenant_id = :tenant_id AND erase_time <= :until_time;

-- display_names --
-- Read the display name of a person, and former ones.
SELECT unnest(array_append(former_names, display_name)) AS display_name
FROM tenancy.subjects
WHERE tenant_id = :tenant_id AND subject_id = :subject_id;

-- delete_access_key --
-- Delete the key of a tenant's hashes.
DELETE FROM memory.access_keys WHERE tenant_id = :tenant_id;

-- clear_accesses_of_subject --
-- Clear a person from some accesses: subject, session, query and request id.
UPDATE memory.access_log
SET subject_id = NULL, session_id = NULL, claimed_session_id = NULL, request_data = NULL, client_address = NULL,
    request_id = ''
WHERE tenant_id = :tenant_id AND access_event_id = ANY (ARRAY(
    SELECT about.access_event_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.subject_id = :subject_id
    LIMIT :count));

-- erase_receipts_of_subject --
-- Erase the requests of the receipts of calls that are about a person. BuildContext calls other methods beside Recall,
-- under one request id.
UPDATE recall.receipts
SET request = NULL, query = NULL, request_id = '', subject_ids = '{}'
WHERE tenant_id = :tenant_id AND request IS NOT NULL AND request_id IN (
    SELECT about.request_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.subject_id = :subject_id::text
        AND about.method IN ('Recall', 'ListAgentBlocks'));

-- erase_receipts_of_sessions --
-- Erase the requests of the receipts of calls for a person's sessions, except of those about others.
UPDATE recall.receipts
SET request = NULL, query = NULL, request_id = '', subject_ids = '{}'
WHERE tenant_id = :tenant_id AND request IS NOT NULL AND request_id IN (
    SELECT about.request_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.session_id = ANY (:names::text[])
        AND about.method IN ('Recall', 'GetRecentWindow')
        AND (about.subject_id IS NULL OR about.subject_id = :subject_id::text)
    UNION
    SELECT claimed.request_id FROM memory.access_log AS claimed
    WHERE claimed.tenant_id = :tenant_id AND claimed.claimed_session_id = ANY (:names)
        AND claimed.method IN ('Recall', 'GetRecentWindow', 'ListAgentBlocks')
        AND (claimed.subject_id IS NULL OR claimed.subject_id = :subject_id));

-- erase_receipts_of_memories --
-- Erase the requests of the receipts of answers that have some memories.
UPDATE recall.receipts
SET request = NULL, query = NULL, request_id = '', subject_ids = '{}'
WHERE tenant_id = :tenant_id AND request IS NOT NULL AND request_id IN (
    SELECT found.request_id FROM memory.access_log AS found
    WHERE found.tenant_id = :tenant_id AND found.memory_id = ANY (:memory_ids::uuid[]) AND found.method = 'Recall');

-- erase_receipts_by_text --
-- Erase the requests of the receipts that have an item about a person, whose query has one of the person's names as whole
-- words, in any form of Unicode, or whose other fields have one anywhere, in any case; a receipt's context goes with it.
UPDATE recall.receipts
SET request = NULL, query = NULL, request_id = '', subject_ids = '{}'
WHERE tenant_id = :tenant_id AND request IS NOT NULL AND receipt_id IN (
    SELECT about.receipt_id FROM recall.receipts AS about
    WHERE about.tenant_id = :tenant_id AND about.request IS NOT NULL
        AND (:subject_id::text = ANY (about.subject_ids)
             OR about.query ~* (
                 SELECT '(^|\W)(' || string_agg(regexp_replace(name, '(\W)', '\\\1', 'g'), '|') || ')($|\W)'
                 FROM unnest(:names::text[]) AS name)
             OR lower(encode(about.request, 'escape')) ~ (
                 SELECT string_agg(
                     regexp_replace(lower(encode(convert_to(name, 'UTF8'), 'escape')), '(\W)', '\\\1', 'g'), '|')
                 FROM unnest(:names::text[]) AS name)));

-- erase_receipts_between --
-- Erase the requests of all receipts between two times.
UPDATE recall.receipts
SET request = NULL, query = NULL, request_id = '', subject_ids = '{}'
WHERE tenant_id = :tenant_id AND receipt_id >= :since_id AND receipt_id < :before_id AND request IS NOT NULL;

-- erase_late_receipts --
-- Erase the requests of the receipts since a time whose answer has a memory that no longer exists, or an item about a
-- person with a record of erasure, or whose call was cleared from the access log meanwhile.
UPDATE recall.receipts AS receipt
SET request = NULL, query = NULL, request_id = '', subject_ids = '{}'
WHERE receipt.tenant_id = :tenant_id AND receipt.receipt_id >= :since_id AND receipt.request IS NOT NULL
    AND (NOT EXISTS (SELECT FROM memory.access_log AS call
                     WHERE call.tenant_id = :tenant_id AND call.access_event_id >= :since_id
                         AND call.request_id = receipt.request_id)
        OR EXISTS (SELECT FROM memory.erasures AS erasure, unnest(receipt.subject_ids) AS about (subject_id)
                   WHERE erasure.tenant_id = :tenant_id
                       AND erasure.digest = sha256(erasure.secret || convert_to('subject:' || about.subject_id, 'UTF8')))
        OR EXISTS (SELECT FROM memory.access_log AS found
                   WHERE found.tenant_id = :tenant_id AND found.access_event_id >= :since_id
                       AND found.request_id = receipt.request_id AND found.memory_id IS NOT NULL
                       AND NOT EXISTS (SELECT FROM memory.memories AS entry
                                       WHERE entry.tenant_id = :tenant_id AND entry.memory_id = found.memory_id)
                       AND NOT EXISTS (SELECT FROM memory.archived_memories AS archived
                                       WHERE archived.tenant_id = :tenant_id
                                           AND archived.memory_id = found.memory_id)));

-- sessions_of_memories --
-- Return the sessions of memories and of their earlier versions.
SELECT entry.session_id FROM memory.memories AS entry
WHERE entry.tenant_id = :tenant_id AND entry.memory_id = ANY (:memory_ids::uuid[])
    AND entry.memory_id BETWEEN :first_of_memory_ids AND :last_of_memory_ids AND entry.session_id IS NOT NULL
UNION
SELECT version.session_id FROM memory.versions AS version
WHERE version.tenant_id = :tenant_id AND version.memory_id = ANY (:memory_ids) AND version.session_id IS NOT NULL;

-- clear_accesses_of_sessions --
-- Clear a person's sessions from the access log, except from accesses about others: callers choose the names of
-- sessions.
UPDATE memory.access_log
SET subject_id = NULL, session_id = NULL, claimed_session_id = NULL, request_data = NULL, client_address = NULL,
    request_id = ''
WHERE tenant_id = :tenant_id AND access_event_id = ANY (ARRAY(
    SELECT about.access_event_id FROM memory.access_log AS about
    WHERE about.tenant_id = :tenant_id AND about.session_id = ANY (:names::text[])
        AND (about.subject_id IS NULL OR about.subject_id = :subject_id::text)
    UNION
    SELECT claimed.access_event_id FROM memory.access_log AS claimed
    WHERE claimed.tenant_id = :tenant_id AND claimed.claimed_session_id = ANY (:names)
        AND (claimed.subject_id IS NULL OR claimed.subject_id = :subject_id)));

-- clear_late_accesses --
-- Clear people and sessions with a record of erasure from the accesses since a time. A record of a session whose id other
-- spaces have too begins with the space.
WITH noted AS MATERIALIZED (
    SELECT erasure.secret, erasure.digest FROM memory.erasures AS erasure WHERE erasure.tenant_id = :tenant_id
)
UPDATE memory.access_log
SET subject_id = NULL, session_id = NULL, claimed_session_id = NULL, request_data = NULL, client_address = NULL,
    request_id = ''
WHERE tenant_id = :tenant_id AND access_event_id = ANY (ARRAY(
    SELECT late.access_event_id
    FROM memory.access_log AS late,
         (SELECT DISTINCT noted.secret FROM noted) AS own,
         LATERAL (SELECT '' UNION ALL
                  SELECT reached || ':'
                  FROM unnest(coalesce(late.space_ids, '{00000000-0000-0000-0000-000000000000}'::uuid[])) AS reached
         ) AS place (prefix),
         LATERAL (VALUES ('subject:' || late.subject_id),
                         ('subject-session:' || char_length(late.subject_id) || ':' || late.subject_id || ':'
                          || late.session_id),
                         ('subject-session:' || char_length(late.subject_id) || ':' || late.subject_id || ':'
                          || late.claimed_session_id),
                         (CASE WHEN late.subject_id IS NULL THEN 'session:' || late.session_id END),
                         (CASE WHEN late.subject_id IS NULL THEN 'session:' || late.claimed_session_id END)) AS known (name)
    WHERE late.tenant_id = :tenant_id AND late.access_event_id >= :since_id AND known.name IS NOT NULL
        AND sha256(own.secret || convert_to(place.prefix || known.name, 'UTF8')) IN (SELECT noted.digest FROM noted)));

-- clear_queries_between --
-- Clear the queries of all searches between two times.
UPDATE memory.access_log
SET request_data = NULL
WHERE tenant_id = :tenant_id AND access_event_id >= :since_id AND access_event_id < :before_id
    AND request_data @? '$.**.query ? (@.type() == "string")';

-- clear_queries_of_memories --
-- Clear the queries of searches that returned some memories, from all accesses of these searches.
UPDATE memory.access_log AS access
SET request_data = NULL
FROM (
    SELECT DISTINCT found.request_id, found.create_time FROM memory.access_log AS found
    WHERE found.tenant_id = :tenant_id AND found.memory_id = ANY (:memory_ids::uuid[])
        AND found.request_data @? '$.**.query ? (@.type() == "string")'
) AS search
WHERE access.tenant_id = :tenant_id AND access.request_id = search.request_id
    AND access.create_time = search.create_time
    AND access.request_data @? '$.**.query ? (@.type() == "string")';

-- clear_queries_of_missing_memories --
-- Clear the queries of searches since a time that returned memories which no longer exist.
UPDATE memory.access_log AS access
SET request_data = NULL
FROM (
    SELECT DISTINCT found.request_id, found.create_time FROM memory.access_log AS found
    WHERE found.tenant_id = :tenant_id AND found.access_event_id >= :since_id AND found.memory_id IS NOT NULL
        AND found.request_data @? '$.**.query ? (@.type() == "string")'
        AND NOT EXISTS (SELECT FROM memory.memories AS entry
                        WHERE entry.tenant_id = :tenant_id AND entry.memory_id = found.memory_id)
        AND NOT EXISTS (SELECT FROM memory.archived_memories AS archived
                        WHERE archived.tenant_id = :tenant_id AND archived.memory_id = found.memory_id)
) AS search
WHERE access.tenant_id = :tenant_id AND access.request_id = search.request_id
    AND access.create_time = search.create_time
    AND access.request_data @? '$.**.query ? (@.type() == "string")';

-- clear_queries_by_text --
-- Clear the queries that contain one of some names of a person, as whole words, in any case and form of Unicode.
UPDATE memory.access_log AS access
SET request_data = NULL
WHERE access.tenant_id = :tenant_id AND access.request_data @? '$.**.query ? (@.type() == "string")'
    AND EXISTS (
        SELECT FROM jsonb_path_query(access.request_data, '$.**.query') AS found,
             LATERAL (SELECT found #>> '{}' AS words) AS query
        WHERE query.words ~* (
            SELECT '(^|\W)(' || string_agg(regexp_replace(name, '(\W)', '\\\1', 'g'), '|') || ')($|\W)'
            FROM unnest(:names::text[]) AS name));

-- outdated_statistics --
-- Return the tables whose planner statistics are older than a time. Of no tenant.
SELECT n.nspname::text AS schema, c.relname::text AS name
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_stat_all_tables AS s ON s.relid = c.oid
WHERE n.nspname IN ('memory', 'session', 'recall', 'tenancy') AND c.relkind IN ('r', 'p') AND c.reltuples >= 0
    AND coalesce(greatest(s.last_analyze, s.last_autoanalyze), '-infinity') < :before::timestamptz
ORDER BY c.oid;

-- refresh_statistics --
-- Refresh the planner statistics of a table unless they are newer than a time; return whether they were refreshed.
-- Of no tenant.
SELECT memory.refresh_statistics(:schema::text, :name::text, :before::timestamptz);

-- log_end --
-- Return the end of the write-ahead log, as Postgres writes positions. Of no tenant.
SELECT pg_current_wal_insert_lsn()::text;
