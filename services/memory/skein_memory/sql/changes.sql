-- insert_changes --
-- Add to the event log; a row's place follows from the transaction that writes it.
INSERT INTO memory.changes
    (tenant_id, change_id, event_type, entity_type, entity_id, summary, payload, principal, create_time)
VALUES
    (:tenant_id, :change_id, :event_type, :entity_type, :entity_id, :summary, :payload, :principal, :create_time);

-- insert_versions --
-- Keep what memories said before a change.
INSERT INTO memory.versions
    (tenant_id, memory_id, revision, external_id, type, title, key, content, data, tags, source, source_agent, agent_id,
     subject_id, session_id, scope, level, confidence, importance, expire_time, archive_time, valid_from_time,
     valid_to_time, metadata, delete_time, create_time, update_time, until_time, created_by, updated_by)
VALUES
    (:tenant_id, :memory_id, :revision, :external_id, :type, :title, :key, :content, :data, :tags, :source,
     :source_agent, :agent_id, :subject_id, :session_id, :scope, :level, :confidence, :importance, :expire_time,
     :archive_time, :valid_from_time, :valid_to_time, :metadata, :delete_time, :create_time, :update_time, :until_time,
     :created_by, :updated_by);

-- insert_revisions --
-- Keep what links, aliases, trust, conflicts and blocks were before a change.
INSERT INTO memory.revisions
    (tenant_id, kind, item_id, revision, memory_id, other_memory_id, state, from_time, until_time, changed_by)
VALUES
    (:tenant_id, :kind, :item_id, :revision, :memory_id, :other_memory_id, :state, :from_time, :until_time,
     :changed_by);
