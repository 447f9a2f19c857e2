-- queue_session --
-- Make a session due at a time; at once when enough messages wait.
INSERT INTO session.extractions (tenant_id, session_id, waiting_count, due_time)
VALUES (:tenant_id, :session_id, :count, :due_time)
ON CONFLICT ON CONSTRAINT extractions_pkey DO UPDATE
SET waiting_count = extractions.waiting_count + excluded.waiting_count,
    due_time = CASE WHEN extractions.waiting_count + excluded.waiting_count >= :max_count
        THEN least(extractions.due_time, :at) ELSE excluded.due_time END;

-- queue_messages --
-- Queue messages of a session, or queue them again. A message that no extractor has read stays new.
INSERT INTO session.extraction_messages (tenant_id, message_id, session_id, kind, change_time)
VALUES (:tenant_id, :message_id, :session_id, :kind, :change_time)
ON CONFLICT ON CONSTRAINT extraction_messages_pkey DO UPDATE
SET session_id = excluded.session_id,
    kind = CASE WHEN excluded.kind = 'changed' AND extraction_messages.kind = 'new' THEN 'new' ELSE excluded.kind END,
    change_time = excluded.change_time, attempt_count = 0, retry_time = NULL;

-- find_extracted --
-- Return which of some messages memories were made of, or are proposed to be, or are queued.
SELECT source_id AS message_id
FROM memory.sources
WHERE tenant_id = :tenant_id AND source_id = ANY (:message_ids::uuid[])
UNION
SELECT p.source_id
FROM (
    SELECT unnest(source_ids) AS source_id FROM memory.pending_memories
    WHERE tenant_id = :tenant_id AND source_ids && :message_ids::uuid[]) AS p
WHERE p.source_id = ANY (:message_ids::uuid[])
UNION
SELECT message_id
FROM session.extraction_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]);

-- find_sources_of_proposals --
-- Return what memories that wait are proposed to be made of. At most 20,000 rows of a tenant are read.
SELECT DISTINCT unnest(source_ids) AS source_id
FROM memory.pending_memories
WHERE tenant_id = :tenant_id;

-- find_extracted_of_session --
-- Return which messages of a session memories were made of, or are proposed to be, or are queued.
SELECT s.source_id AS message_id
FROM session.message_order AS o
JOIN memory.sources AS s ON s.tenant_id = o.tenant_id AND s.source_id = o.message_id
WHERE o.tenant_id = :tenant_id AND o.session_id = :session_id
UNION
SELECT message_id
FROM session.message_order
WHERE tenant_id = :tenant_id AND session_id = :session_id AND message_id = ANY (:proposed_ids::uuid[])
UNION
SELECT message_id
FROM session.extraction_messages
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- lease_session --
-- Lease the session that is due for longest; skip those of another transaction, and where the job is paused those without
-- changed messages.
UPDATE session.extractions
SET lease_end_time = :lease_end_time
WHERE tenant_id = :tenant_id AND session_id = (
    SELECT e.session_id
    FROM session.extractions AS e
    WHERE e.tenant_id = :tenant_id AND e.due_time <= :at AND (e.lease_end_time IS NULL OR e.lease_end_time <= :at)
        AND (EXISTS (
                SELECT FROM session.extraction_messages AS m
                WHERE m.tenant_id = :tenant_id AND m.session_id = e.session_id AND m.kind IN ('changed', 'purged'))
            OR NOT EXISTS (
                SELECT FROM tenancy.jobs AS j
                WHERE j.tenant_id = :tenant_id AND j.kind = 'extraction' AND j.pause_time IS NOT NULL))
    ORDER BY e.due_time
    LIMIT 1
    FOR UPDATE SKIP LOCKED)
RETURNING session_id;

-- read_queued --
-- Read the queued messages of a session that rules have to read, oldest first; where the job is paused the changed ones
-- alone.
SELECT message_id, kind, change_time
FROM session.extraction_messages
WHERE tenant_id = :tenant_id AND session_id = :session_id
    AND (kind IN ('changed', 'purged') OR kind = 'new' AND NOT EXISTS (
        SELECT FROM tenancy.jobs AS j
        WHERE j.tenant_id = :tenant_id AND j.kind = 'extraction' AND j.pause_time IS NOT NULL))
ORDER BY message_id
LIMIT :count;

-- queue_for_model --
-- Queue a message for the language model, unless it changed meanwhile.
INSERT INTO session.extraction_messages AS queued (tenant_id, message_id, session_id, kind, change_time, retry_time)
VALUES (:tenant_id, :message_id, :session_id, 'model', :change_time, :at)
ON CONFLICT ON CONSTRAINT extraction_messages_pkey DO UPDATE
SET kind = excluded.kind, retry_time = excluded.retry_time, attempt_count = 0
WHERE queued.change_time = excluded.change_time;

-- lease_model_messages --
-- Lease messages that the model may read, those that wait for longest; skip those of another transaction.
UPDATE session.extraction_messages
SET retry_time = :lease_end_time
WHERE tenant_id = :tenant_id AND message_id = ANY (ARRAY(
    SELECT message_id FROM session.extraction_messages
    WHERE tenant_id = :tenant_id AND kind = 'model' AND retry_time <= :at
    ORDER BY retry_time, message_id
    LIMIT :count
    FOR UPDATE SKIP LOCKED))
RETURNING message_id, kind, change_time;

-- count_model_messages --
-- Count the messages that the model has still to read, up to a limit.
SELECT count(*)
FROM (SELECT FROM session.extraction_messages
    WHERE tenant_id = :tenant_id AND kind = 'model' LIMIT :count) AS queued;

-- count_attempts --
-- Count attempts at a message of a model, unless it changed meanwhile; return all of its attempts.
UPDATE session.extraction_messages
SET attempt_count = attempt_count + :attempt_count
WHERE tenant_id = :tenant_id AND message_id = :message_id AND change_time = :change_time AND kind = 'model'
RETURNING attempt_count;

-- delay_message --
-- Set when a model may read a message again.
UPDATE session.extraction_messages
SET retry_time = :retry_time
WHERE tenant_id = :tenant_id AND message_id = :message_id AND kind = 'model';

-- read_present_revisions --
-- Read the sessions and revisions of messages, of deleted ones too.
SELECT message_id, session_id, revision, is_active
FROM session.messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
    AND message_id BETWEEN :first_of_message_ids AND :last_of_message_ids;

-- put_failure --
-- Record a message that no attempt could read.
INSERT INTO session.extraction_failures (tenant_id, message_id, session_id, reason, attempt_count, attempt_time)
VALUES (:tenant_id, :message_id, :session_id, :reason, :attempt_count, :at)
ON CONFLICT ON CONSTRAINT extraction_failures_pkey DO UPDATE
SET reason = excluded.reason, attempt_count = excluded.attempt_count, attempt_time = excluded.attempt_time;

-- delete_failures --
-- Delete the failures of messages that are read, or purged.
DELETE FROM session.extraction_failures
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]);

-- list_failures --
-- Read the failures of messages before one that are not deleted, newest message first.
SELECT f.message_id, f.session_id, f.reason, f.attempt_count, f.attempt_time
FROM session.extraction_failures AS f
JOIN session.messages AS m ON m.tenant_id = f.tenant_id AND m.message_id = f.message_id AND m.is_active
WHERE f.tenant_id = :tenant_id AND f.message_id < :before_id
ORDER BY f.message_id DESC
LIMIT :count;

-- read_extraction_preferences --
-- Read which of some people say how extractors read them: as JSON texts, by path.
SELECT subject_id, value
FROM tenancy.subject_properties
WHERE tenant_id = :tenant_id AND path = 'preferences.extraction' AND subject_id = ANY (:subject_ids::text[]);

-- read_neighbours --
-- Read the messages at some positions of a session; a long text is left out.
SELECT message_id, sequence, role, name, subject_id, pending_approval, create_time, revision,
    CASE WHEN char_length(content) <= :max_characters::integer THEN content ELSE '' END AS content
FROM session.messages
WHERE tenant_id = :tenant_id AND is_active AND message_id = ANY (ARRAY(
    SELECT o.message_id
    FROM session.message_order AS o
    WHERE o.tenant_id = :tenant_id AND o.session_id = :session_id AND o.sequence = ANY (:sequences::bigint[])));

-- find_answer --
-- Find the short message of a person at a position of a session.
SELECT message_id
FROM session.messages
WHERE tenant_id = :tenant_id AND is_active AND role = 'user' AND char_length(content) <= :max_characters::integer
    AND message_id = ANY (ARRAY(
        SELECT o.message_id
        FROM session.message_order AS o
        WHERE o.tenant_id = :tenant_id AND o.session_id = :session_id AND o.sequence = :sequence));

-- find_queued_sessions --
-- Return the sessions of queued messages.
SELECT DISTINCT session_id
FROM session.extraction_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[])
ORDER BY session_id;

-- lock_extraction --
-- Lock a queued session, so that no message is queued until the transaction ends.
SELECT session_id
FROM session.extractions
WHERE tenant_id = :tenant_id AND session_id = :session_id
FOR UPDATE;

-- delete_queued --
-- Delete messages from the queue, unless they changed meanwhile.
DELETE FROM session.extraction_messages
USING unnest(:message_ids::uuid[], :change_times::timestamptz[]) AS done (message_id, change_time)
WHERE extraction_messages.tenant_id = :tenant_id AND extraction_messages.message_id = done.message_id
    AND extraction_messages.change_time = done.change_time;

-- end_lease --
-- End the lease of a session in which messages remain.
UPDATE session.extractions
SET lease_end_time = NULL,
    waiting_count = (SELECT count(*) FROM session.extraction_messages AS m
        WHERE m.tenant_id = :tenant_id AND m.session_id = :session_id AND m.kind <> 'model')
WHERE tenant_id = :tenant_id AND session_id = :session_id;

-- delete_done_session --
-- Delete a session from the queue in which no message remains.
DELETE FROM session.extractions
WHERE tenant_id = :tenant_id AND session_id = :session_id AND NOT EXISTS (
    SELECT FROM session.extraction_messages AS m
    WHERE m.tenant_id = :tenant_id AND m.session_id = :session_id AND m.kind <> 'model');

-- list_extraction_tenants --
-- Read tenants, after one, with sessions whose extraction is due.
SELECT due.tenant_id
FROM session.list_extraction_tenants(:at, :after, :size) AS due (tenant_id);

-- list_unread_tenants --
-- Read tenants, after one, with messages that a model may read.
SELECT due.tenant_id
FROM session.list_unread_tenants(:at, :after, :size) AS due (tenant_id);

-- record_extracted --
-- Record that an extractor has read messages at their revisions.
INSERT INTO session.extracted_messages (tenant_id, message_id, extractor, revision)
VALUES (:tenant_id, :message_id, :extractor, :revision)
ON CONFLICT ON CONSTRAINT extracted_messages_pkey DO UPDATE
SET extractor = excluded.extractor, revision = excluded.revision;

-- read_revisions --
-- Read the revisions of messages, unless they changed meanwhile and are queued.
SELECT m.message_id, m.revision
FROM session.messages AS m
WHERE m.tenant_id = :tenant_id AND m.message_id = ANY (:message_ids::uuid[])
    AND m.message_id BETWEEN :first_of_message_ids AND :last_of_message_ids
    AND NOT EXISTS (
    SELECT FROM session.extraction_messages AS q WHERE q.tenant_id = :tenant_id AND q.message_id = m.message_id)
ORDER BY m.message_id;

-- purge_extracted --
-- Delete what is recorded of purged messages.
DELETE FROM session.extracted_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (:message_ids::uuid[]);

-- put_backfill --
-- Start a backfill, in place of one that is not done.
INSERT INTO session.extraction_backfills
    (tenant_id, first_id, before_id, remaining_count, leased_ids, due_time, create_time)
VALUES (:tenant_id, :first_id, :before_id, :count, '{}', :at, :at)
ON CONFLICT ON CONSTRAINT extraction_backfills_pkey DO UPDATE
SET first_id = excluded.first_id, before_id = excluded.before_id, remaining_count = excluded.remaining_count,
    leased_ids = '{}', due_time = excluded.due_time, create_time = excluded.create_time;

-- lease_backfill --
-- Lease the backfill of a tenant, if it is due.
UPDATE session.extraction_backfills
SET due_time = :lease_end_time
WHERE tenant_id = :tenant_id AND due_time <= :at
RETURNING first_id, before_id, remaining_count, leased_ids, create_time;

-- find_backfill_messages --
-- Find, among the newest messages of a range, those that count by the policy and that an extractor has not read; queued
-- ones are read anyway.
SELECT m.message_id
FROM (
    SELECT message_id, role, is_active, pending_approval, content, revision
    FROM session.messages
    WHERE tenant_id = :tenant_id AND message_id >= :first_id AND message_id < :before_id
    ORDER BY message_id DESC
    LIMIT :window) AS m
WHERE m.role = ANY (:roles::text[]) AND m.is_active AND NOT m.pending_approval AND m.content ~ '\S'
    AND NOT EXISTS (
        SELECT FROM session.extracted_messages AS e
        WHERE e.tenant_id = :tenant_id AND e.message_id = m.message_id AND e.extractor = :extractor
            AND e.revision = m.revision)
    AND NOT EXISTS (
        SELECT FROM session.extraction_messages AS q WHERE q.tenant_id = :tenant_id AND q.message_id = m.message_id)
ORDER BY m.message_id DESC
LIMIT :count;

-- skip_backfill_window --
-- Move a backfill behind the newest messages of its range, of which none is left to read; no row where no others are.
UPDATE session.extraction_backfills
SET before_id = skipped.message_id, due_time = :at
FROM (
    SELECT message_id
    FROM session.messages
    WHERE tenant_id = :tenant_id AND message_id >= :first_id AND message_id < :before_id
    ORDER BY message_id DESC
    OFFSET :window - 1
    LIMIT 1) AS skipped
WHERE extraction_backfills.tenant_id = :tenant_id AND extraction_backfills.create_time = :create_time;

-- update_backfill_lease --
-- Keep which messages of a backfill an extractor has, and until when.
UPDATE session.extraction_backfills
SET leased_ids = :message_ids, due_time = :due_time
WHERE tenant_id = :tenant_id AND create_time = :create_time;

-- complete_backfill_lease --
-- Move a backfill behind the messages of its lease, if all of them are done.
UPDATE session.extraction_backfills
SET before_id = leased_ids[cardinality(leased_ids)], remaining_count = remaining_count - cardinality(leased_ids),
    leased_ids = '{}', due_time = :at
WHERE tenant_id = :tenant_id AND leased_ids <> '{}' AND leased_ids <@ :message_ids::uuid[];

-- delete_backfill --
-- End a backfill.
DELETE FROM session.extraction_backfills
WHERE tenant_id = :tenant_id AND (:create_time::timestamptz IS NULL OR create_time = :create_time);

-- purge_tenant_extracted_messages --
-- Purge what is recorded of messages of a deleted tenant, up to a limit.
DELETE FROM session.extracted_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (ARRAY(
    SELECT message_id FROM session.extracted_messages WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_extraction_backfills --
-- Purge the backfill of a deleted tenant.
DELETE FROM session.extraction_backfills
WHERE tenant_id = ANY (ARRAY(
    SELECT tenant_id FROM session.extraction_backfills WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_extraction_failures --
-- Purge failures of a deleted tenant, up to a limit.
DELETE FROM session.extraction_failures
WHERE tenant_id = :tenant_id AND message_id = ANY (ARRAY(
    SELECT message_id FROM session.extraction_failures WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_extraction_messages --
-- Purge queued messages of a deleted tenant, up to a limit.
DELETE FROM session.extraction_messages
WHERE tenant_id = :tenant_id AND message_id = ANY (ARRAY(
    SELECT message_id FROM session.extraction_messages WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_tenant_extractions --
-- Purge queued sessions of a deleted tenant, up to a limit.
DELETE FROM session.extractions
WHERE tenant_id = :tenant_id AND session_id = ANY (ARRAY(
    SELECT session_id FROM session.extractions WHERE tenant_id = :tenant_id LIMIT :count));
