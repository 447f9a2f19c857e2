-- insert_changes --
-- Insert events; the position of a row follows from its transaction.
INSERT INTO memory.changes
    (tenant_id, change_id, event_type, entity_type, entity_id, summary, payload, principal, create_time)
VALUES
    (:tenant_id, :change_id::uuid, :event_type::text, :entity_type::text, :entity_id::text, :summary::text,
     :payload::jsonb, :principal::text, :create_time::timestamptz);

-- insert_changes_in_spaces --
-- Insert events of spaces that the transaction does not imply.
INSERT INTO memory.changes
    (tenant_id, change_id, event_type, entity_type, entity_id, summary, payload, principal, create_time, space_id)
VALUES
    (:tenant_id, :change_id::uuid, :event_type::text, :entity_type::text, :entity_id::text, :summary::text,
     :payload::jsonb, :principal::text, :create_time::timestamptz, :space_id::uuid);

-- insert_versions --
-- Insert earlier versions of memories.
INSERT INTO memory.versions
    (tenant_id, memory_id, revision, external_id, type, title, key, content, data, tags, source, source_agent, agent_id,
     subject_id, session_id, scope, level, confidence, importance, expire_time, archive_time, valid_from_time,
     valid_to_time, metadata, delete_time, create_time, update_time, record_time, until_time, created_by, updated_by,
     content_hash, words, fingerprint)
VALUES
    (:tenant_id, :memory_id, :revision, :external_id, :type, :title, :key, :content, :data, :tags, :source,
     :source_agent, :agent_id, :subject_id, :session_id, :scope, :level, :confidence, :importance, :expire_time,
     :archive_time, :valid_from_time, :valid_to_time, :metadata, :delete_time, :create_time, :update_time, :record_time,
     :until_time, :created_by, :updated_by, :content_hash, :words, :fingerprint);

-- insert_revisions --
-- Insert earlier revisions of links, aliases, trust, conflicts and blocks.
INSERT INTO memory.revisions
    (tenant_id, kind, item_id, revision, memory_id, other_memory_id, subject_id, state, from_time, until_time,
     changed_by)
VALUES
    (:tenant_id, :kind, :item_id, :revision, :memory_id, :other_memory_id, :subject_id, :state, :from_time, :until_time,
     :changed_by);

-- read_horizon --
-- Return the oldest open transaction, and the number of the next one. A statement of its own, without a table: on Citus
-- the coordinator answers it, whose transactions number the changes.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint + skein.transaction_base() AS oldest,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint + skein.transaction_base() AS next;

-- read_own_number --
-- Return the number of this transaction, which its changes have. A statement of its own, without a table, as above.
SELECT pg_current_xact_id()::text::bigint + skein.transaction_base();

-- read_changes --
-- Read the log after a position, up to a horizon: a transaction that was the oldest open one before this statement began.
-- No change can still appear before the horizon, so no reader skips a late commit.
SELECT change_id, transaction, event_type, entity_type, entity_id, summary, payload, principal, create_time
FROM memory.changes
WHERE tenant_id = :tenant_id AND (transaction, change_id) > (:transaction::bigint, :change_id::uuid)
    AND transaction < :horizon
ORDER BY transaction, change_id
LIMIT :count;

-- read_changes_of_entity --
-- Read the log of one thing from after a place on, up to the horizon.
SELECT change_id, transaction, event_type, entity_type, entity_id, summary, payload, principal, create_time
FROM memory.changes
WHERE tenant_id = :tenant_id AND entity_id = :entity_id
    AND (transaction, change_id) > (:transaction::bigint, :change_id::uuid)
    AND transaction < :horizon
ORDER BY transaction, change_id
LIMIT :count;

-- read_changes_back --
-- Read the log back from before a place, beginning at the horizon at the latest.
SELECT change_id, transaction, event_type, entity_type, entity_id, summary, payload, principal, create_time
FROM memory.changes
WHERE tenant_id = :tenant_id AND (transaction, change_id) < (:transaction::bigint, :change_id::uuid)
    AND transaction < :horizon
ORDER BY transaction DESC, change_id DESC
LIMIT :count;

-- read_changes_of_entity_back --
-- Read the log of one thing back from before a place, beginning at the horizon at the latest.
SELECT change_id, transaction, event_type, entity_type, entity_id, summary, payload, principal, create_time
FROM memory.changes
WHERE tenant_id = :tenant_id AND entity_id = :entity_id
    AND (transaction, change_id) < (:transaction::bigint, :change_id::uuid)
    AND transaction < :horizon
ORDER BY transaction DESC, change_id DESC
LIMIT :count;

-- last_revision --
-- Return the number of the last stored revision of an item, from which the next one counts on.
SELECT max(revision)
FROM memory.revisions
WHERE tenant_id = :tenant_id AND kind = :kind AND item_id = :item_id;
