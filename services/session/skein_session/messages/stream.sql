-- read_stream_positions --
-- Read the states and the last sequence numbers of sessions, for streams.
SELECT session_id, state, last_sequence, store_time
FROM session.sessions
WHERE tenant_id = :tenant_id AND session_id = ANY (:session_ids::text[]) AND is_active;
