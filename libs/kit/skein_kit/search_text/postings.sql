-- analyse --
-- Count the terms of texts: the stems of the language, without stop words. `place` is the position of the text in the
-- array, from 1.
SELECT text.place, term.lexeme, cardinality(term.positions) AS frequency
FROM unnest(:texts::text[]) WITH ORDINALITY AS text (body, place),
     unnest(to_tsvector(('pg_catalog.' || :language::text)::regconfig, text.body)) AS term;

-- insert_documents --
-- Insert documents into the search index.
INSERT INTO recall.documents
    (tenant_id, item_id, kind, type, scope, source, key, importance, agent_id, subject_id, session_id, role, speaker,
     is_question, mentions_time, expire_time, length, revision, words_version, pending)
VALUES
    (:tenant_id, :item_id::uuid, :kind::text, :type::text, :scope::text, :source::text, :key::text,
     :importance::float8, :agent_id::text, :subject_id::text, :session_id::text, :role::text, :speaker::text,
     :is_question::boolean, :mentions_time::boolean, :expire_time::timestamptz, :length::integer,
     :revision::bigint, :words_version::smallint, :pending::boolean);

-- insert_postings --
-- Insert the postings of documents.
INSERT INTO recall.postings (tenant_id, term, frequency, header_frequency, kind, item_id, length)
VALUES
    (:tenant_id, :term::text, :frequency::integer, :header_frequency::integer, :kind::text, :item_id::uuid,
     :length::integer);

-- delete_postings --
-- Delete the postings of documents, which get others.
DELETE FROM recall.postings
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[]);

-- read_postings --
-- Read the postings of documents.
SELECT item_id, term, frequency, header_frequency
FROM recall.postings
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[]);

-- set_words_version --
-- Record that the words of documents follow a version of the rule.
UPDATE recall.documents
SET words_version = :words_version::smallint
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[]);

-- set_renewed_words --
-- Record what follows from the renewed words of documents, which the worker counts again.
UPDATE recall.documents AS d
SET length = renewed.length, is_question = renewed.is_question, mentions_time = renewed.mentions_time,
    words_version = :words_version::smallint, is_counted = false, transaction = :transaction::bigint
FROM unnest(:item_ids::uuid[], :lengths::integer[], :are_questions::boolean[], :mention_times::boolean[])
    AS renewed (item_id, length, is_question, mentions_time)
WHERE d.tenant_id = :tenant_id AND d.item_id = renewed.item_id;

-- delete_documents --
-- Remove documents from the search index, with their postings and vectors.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[])
RETURNING kind, length, is_counted;

-- list_counted --
-- Read whether documents are in the tenant's counts, and lock them, so that the worker does not count them before their
-- removal.
SELECT kind, length, is_counted
FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[])
ORDER BY item_id
FOR UPDATE;

-- list_counted_of_session --
-- Read and lock the documents of a session's messages as list_counted does.
SELECT kind, length, is_counted
FROM recall.documents
WHERE tenant_id = :tenant_id AND session_id = :session_id AND kind = 'message'
ORDER BY item_id
FOR UPDATE;

-- insert_removals --
-- Insert removed documents that are still in the tenant's counts.
INSERT INTO recall.removals (tenant_id, removal_id, kind, documents, length)
VALUES (:tenant_id, :removal_id, :kind, :documents, :length);

-- update_document --
-- Update the filtered columns of a document with an unchanged text; vectors stay. With a new header it gets other
-- postings, and the worker counts it again. The transaction is given where a search measures something else.
UPDATE recall.documents
SET type = :type, scope = :scope, source = :source, importance = :importance, agent_id = :agent_id,
    subject_id = :subject_id, session_id = :session_id, expire_time = :expire_time,
    is_counted = is_counted AND NOT :has_new_header::boolean,
    words_version = CASE WHEN :has_new_header THEN :words_version::smallint ELSE words_version END,
    transaction = coalesce(:transaction::bigint, transaction)
WHERE tenant_id = :tenant_id AND item_id = :item_id;

-- read_transaction_id --
-- Return the number of this transaction. A statement of its own, without a table: on Citus the coordinator answers it,
-- whose transactions number the rows.
SELECT pg_current_xact_id()::text::bigint + skein.transaction_base();

-- purge_history --
-- Purge what the search index keeps of items that are purged: their former documents, postings and vectors.
SELECT recall.purge_history(:tenant_id, :item_ids::uuid[]);

-- delete_expired_documents --
-- Remove up to :count expired documents of one kind, the earliest first. A document with a new expire_time stays.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND kind = :kind AND expire_time <= :at
    AND item_id IN (
        SELECT expired.item_id FROM recall.documents AS expired
        WHERE expired.tenant_id = :tenant_id AND expired.kind = :kind AND expired.expire_time <= :at
        ORDER BY expired.expire_time
        LIMIT :count)
RETURNING kind, length, is_counted;
