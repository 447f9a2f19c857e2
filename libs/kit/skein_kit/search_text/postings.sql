-- analyse --
-- Count the terms of texts: stems without stop words, as the language has them, with how often each occurs. `place` is
-- the text's place in the array, from 1.
SELECT text.place, term.lexeme, cardinality(term.positions) AS frequency
FROM unnest(:texts::text[]) WITH ORDINALITY AS text (body, place),
     unnest(to_tsvector(('pg_catalog.' || :language::text)::regconfig, text.body)) AS term;

-- insert_documents --
-- Put items into the search index.
INSERT INTO recall.documents
    (tenant_id, item_id, kind, type, scope, source, key, importance, agent_id, subject_id, session_id, asks,
     dated, expire_time, length, revision, pending)
VALUES
    (:tenant_id, :item_id, :kind, :type, :scope, :source, :key, :importance, :agent_id, :subject_id, :session_id,
     :asks, :dated, :expire_time, :length, :revision, :pending);

-- insert_postings --
-- Make items findable by their words.
INSERT INTO recall.postings (tenant_id, term, frequency, kind, item_id, length)
VALUES (:tenant_id, :term, :frequency, :kind, :item_id, :length);

-- delete_documents --
-- Take items out of the search index; their postings and vectors go with them.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[])
RETURNING kind, length, counted;

-- list_counted --
-- Read whether some items are in the tenant's counts, and keep the worker from counting them until they are gone.
SELECT kind, length, counted
FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (:item_ids::uuid[])
ORDER BY item_id
FOR UPDATE;

-- list_counted_of_session --
-- The same of a session's messages.
SELECT kind, length, counted
FROM recall.documents
WHERE tenant_id = :tenant_id AND session_id = :session_id AND kind = 'message'
ORDER BY item_id
FOR UPDATE;

-- insert_departures --
-- Say that documents went away which are still in the tenant's counts.
INSERT INTO recall.departures (tenant_id, departure_id, kind, documents, length)
VALUES (:tenant_id, :departure_id, :kind, :documents, :length);

-- update_document --
-- Change what filters ask of an item whose text is the same; postings and vectors stay.
UPDATE recall.documents
SET type = :type, scope = :scope, source = :source, importance = :importance, agent_id = :agent_id,
    subject_id = :subject_id, session_id = :session_id, expire_time = :expire_time
WHERE tenant_id = :tenant_id AND item_id = :item_id;

-- delete_expired_documents --
-- Take some of the items of one kind that are past their time out of the search index, those that expired first. One that
-- gets more time meanwhile stays.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND kind = :kind AND expire_time <= :at
    AND item_id IN (
        SELECT expired.item_id FROM recall.documents AS expired
        WHERE expired.tenant_id = :tenant_id AND expired.kind = :kind AND expired.expire_time <= :at
        ORDER BY expired.expire_time
        LIMIT :count)
RETURNING kind, length, counted;
