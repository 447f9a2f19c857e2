-- A receipt is shown to who sees all that its answer was made of: messages in cold storage, blocks and profiles too.
SET LOCAL lock_timeout = '5s';

GRANT SELECT (space_id) ON session.archived_messages TO skein_recall;
GRANT SELECT (tenant_id, block_id, create_time, space_id) ON memory.blocks TO skein_recall;
GRANT SELECT (create_time) ON tenancy.subjects, tenancy.subjects_history TO skein_recall;
