-- insert_webhook --
-- Store a webhook whose place in the log is the horizon: what transactions that are still at work will commit is after it.
INSERT INTO memory.webhooks
    (tenant_id, webhook_id, display_name, event_types, condition, webhook_url, master_key, nonce, ciphertext, transaction,
     change_id, create_time, update_time, created_by, updated_by, grant_ids, makers)
VALUES
    (:tenant_id, :webhook_id, :display_name, :event_types, :condition, :webhook_url, :master_key, :nonce, :ciphertext,
     :horizon, '00000000-0000-0000-0000-000000000000', :create_time, :create_time, :created_by, :created_by, :grant_ids,
     :makers);

-- get_webhook --
-- Read a webhook.
SELECT webhook_id, display_name, event_types, condition, webhook_url, is_active, master_key, nonce, ciphertext, failures,
    last_delivery_time, last_error, disable_time, destination, destination_failures, retry_time, revision, create_time,
    update_time, created_by, updated_by, grant_ids, makers, space_id
FROM memory.webhooks
WHERE tenant_id = :tenant_id AND webhook_id = :webhook_id;

-- get_webhooks --
-- Read some webhooks.
SELECT webhook_id, display_name, event_types, condition, webhook_url, is_active, master_key, nonce, ciphertext, failures,
    last_delivery_time, last_error, disable_time, destination, destination_failures, retry_time, revision, create_time,
    update_time, created_by, updated_by, grant_ids, makers, space_id
FROM memory.webhooks
WHERE tenant_id = :tenant_id AND webhook_id = ANY (:webhook_ids::uuid[]);

-- lock_webhook --
-- Read and lock a webhook.
SELECT webhook_id, display_name, event_types, condition, webhook_url, is_active, master_key, nonce, ciphertext, failures,
    last_delivery_time, last_error, disable_time, destination, destination_failures, retry_time, revision, create_time,
    update_time, created_by, updated_by, grant_ids, makers, space_id
FROM memory.webhooks
WHERE tenant_id = :tenant_id AND webhook_id = :webhook_id
FOR NO KEY UPDATE;

-- list_webhooks --
-- Read the newest webhooks that are older than one.
SELECT webhook_id, display_name, event_types, condition, webhook_url, is_active, master_key, nonce, ciphertext, failures,
    last_delivery_time, last_error, disable_time, destination, destination_failures, retry_time, revision, create_time,
    update_time, created_by, updated_by, grant_ids, makers, space_id
FROM memory.webhooks
WHERE tenant_id = :tenant_id AND webhook_id < :before_id
ORDER BY webhook_id DESC
LIMIT :count;

-- update_webhook --
-- Store a webhook's next revision; one that becomes active continues at the horizon of the log.
UPDATE memory.webhooks
SET display_name = :display_name, event_types = :event_types, condition = :condition, webhook_url = :webhook_url,
    transaction = CASE WHEN :is_active AND NOT is_active THEN :horizon ELSE transaction END,
    change_id = CASE WHEN :is_active AND NOT is_active
                     THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE change_id END,
    failures = CASE WHEN :is_active AND NOT is_active THEN 0 ELSE failures END,
    disable_time = CASE WHEN :is_active THEN NULL ELSE disable_time END,
    destination_failures = CASE WHEN webhook_url <> :webhook_url OR :is_active AND NOT is_active
                                THEN 0 ELSE destination_failures END,
    retry_time = CASE WHEN webhook_url <> :webhook_url OR :is_active AND NOT is_active THEN NULL ELSE retry_time END,
    is_active = :is_active, revision = revision + 1, update_time = :at, updated_by = :updated_by,
    grant_ids = :grant_ids, makers = :makers
WHERE tenant_id = :tenant_id AND webhook_id = :webhook_id;

-- disable_webhooks_of_ended_grants --
-- Switch off the webhooks that a grant made which has ended, and those of whose makers one does not see their space.
UPDATE memory.webhooks AS hook
SET is_active = false, disable_time = :at, last_error = 'grant'
WHERE hook.tenant_id = :tenant_id AND hook.is_active AND (
    EXISTS (
        SELECT FROM unnest(hook.grant_ids) AS made (by)
        WHERE NOT EXISTS (
            SELECT FROM auth.live_grants AS live
            WHERE live.tenant_id = :tenant_id AND live.grant_id = made.by AND live.expire_time > :at))
    OR EXISTS (
        SELECT FROM jsonb_array_elements(hook.makers) AS maker (caller)
        WHERE CASE WHEN hook.space_id = '00000000-0000-0000-0000-000000000000'
            THEN EXISTS (
                SELECT FROM tenancy.space_bindings AS bound
                WHERE bound.tenant_id = :tenant_id
                    AND (maker.caller -> 'principals' ? bound.principal OR bound.principal = maker.caller ->> 'client'))
            ELSE NOT EXISTS (
                SELECT FROM tenancy.space_grants AS known
                WHERE known.tenant_id = :tenant_id AND known.space_id = hook.space_id
                    AND maker.caller -> 'principals' ? known.principal
                    AND (known.expire_time IS NULL OR known.expire_time > :at))
                OR (maker.caller ->> 'client' <> '' AND NOT EXISTS (
                    SELECT FROM tenancy.space_grants AS known
                    WHERE known.tenant_id = :tenant_id AND known.space_id = hook.space_id
                        AND known.principal = maker.caller ->> 'client'
                        AND (known.expire_time IS NULL OR known.expire_time > :at))) END))
RETURNING webhook_id, space_id;

-- list_older_webhooks --
-- Name some of the webhooks whose keys another master key encrypts.
SELECT webhook_id
FROM memory.webhooks
WHERE tenant_id = :tenant_id AND master_key <> :master_key
ORDER BY webhook_id
LIMIT :count;

-- rekey_webhook --
-- Give a webhook another key, or the same under another master key.
UPDATE memory.webhooks
SET master_key = :master_key, nonce = :nonce, ciphertext = :ciphertext
WHERE tenant_id = :tenant_id AND webhook_id = :webhook_id;

-- delete_webhook --
-- Remove a webhook with its deliveries.
DELETE FROM memory.webhooks
WHERE tenant_id = :tenant_id AND webhook_id = :webhook_id
RETURNING master_key;

-- list_spaces_of_webhooks --
-- Return the spaces with an active webhook: without one, nothing is queued and nothing is due.
SELECT DISTINCT space_id FROM memory.webhooks WHERE tenant_id = :tenant_id AND is_active ORDER BY space_id;

-- lock_active_webhooks --
-- Read and lock the active webhooks; skip those that another worker has locked.
SELECT webhook_id, display_name, event_types, condition, webhook_url, is_active, transaction, change_id
FROM memory.webhooks
WHERE tenant_id = :tenant_id AND is_active
ORDER BY webhook_id
LIMIT :count
FOR NO KEY UPDATE SKIP LOCKED;

-- changes_after_place --
-- Read events from after a place in the log on, up to the horizon.
SELECT transaction, change_id, event_type, entity_type, entity_id
FROM memory.changes
WHERE tenant_id = :tenant_id AND (transaction, change_id) > (:transaction::bigint, :change_id::uuid)
    AND transaction < :horizon
ORDER BY transaction, change_id
LIMIT :count;

-- newest_change --
-- Return the position of the newest event before the horizon.
SELECT transaction, change_id
FROM memory.changes
WHERE tenant_id = :tenant_id AND transaction < :horizon
ORDER BY transaction DESC, change_id DESC
LIMIT 1;

-- advance_webhooks --
-- Remember up to where some webhooks have their deliveries queued.
UPDATE memory.webhooks
SET transaction = :transaction, change_id = :change_id
WHERE tenant_id = :tenant_id AND webhook_id = ANY (:webhook_ids::uuid[]);

-- insert_deliveries --
-- Queue deliveries; those that are queued already are passed over.
INSERT INTO memory.deliveries (tenant_id, delivery_id, webhook_id, change_id, state, next_time, create_time)
VALUES (:tenant_id, :delivery_id, :webhook_id, :change_id, 'pending', :create_time, :create_time)
ON CONFLICT ON CONSTRAINT deliveries_change_key DO NOTHING;

-- claim_deliveries --
-- Take up to `count` deliveries that are due: of each destination as many as `free_slots` says, or `per_destination`.
-- They come from the destinations in turn. Other workers take none of them before `until`.
-- Of destinations whose last attempt failed at most `failing_destinations` are taken, with one delivery each. A
-- destination that failed `threshold` times gets nothing until its retry_time. Then one delivery probes it, and its
-- retry_time moves to `until`; it does not change when no delivery of the destination was taken.
WITH slots AS (
    SELECT slot.destination, slot.free
    FROM unnest(:destinations::text[], :free_slots::integer[]) AS slot (destination, free)
), probeable AS MATERIALIZED (
    SELECT failing.webhook_id, failing.destination FROM memory.webhooks AS failing
    WHERE failing.tenant_id = :tenant_id AND failing.is_active AND failing.retry_time <= :at
        AND failing.destination IN (
            SELECT one.destination FROM memory.webhooks AS one
            WHERE one.tenant_id = :tenant_id AND one.is_active AND one.retry_time <= :at
                AND NOT EXISTS (SELECT FROM slots WHERE slots.destination = one.destination AND slots.free <= 0)
                AND EXISTS (
                    SELECT FROM memory.deliveries AS pending
                    WHERE pending.tenant_id = :tenant_id AND pending.webhook_id = one.webhook_id
                        AND pending.state = 'pending' AND pending.next_time <= :at)
            GROUP BY one.destination
            ORDER BY min(one.retry_time)
            LIMIT :failing_destinations)
    ORDER BY failing.webhook_id
    FOR NO KEY UPDATE OF failing SKIP LOCKED
), due AS (
    SELECT one.delivery_id, one.next_time, webhooks.destination, webhooks.destination_failures > 0 AS is_failing,
        row_number() OVER (PARTITION BY webhooks.destination ORDER BY one.next_time, one.delivery_id) AS place
    FROM memory.webhooks
    CROSS JOIN LATERAL (
        SELECT deliveries.delivery_id, deliveries.next_time FROM memory.deliveries
        WHERE deliveries.tenant_id = :tenant_id AND deliveries.webhook_id = webhooks.webhook_id
            AND deliveries.state = 'pending' AND deliveries.next_time <= :at
        ORDER BY deliveries.next_time
        LIMIT :per_destination) AS one
    WHERE webhooks.tenant_id = :tenant_id AND webhooks.is_active
        AND (webhooks.retry_time IS NULL OR webhooks.webhook_id IN (SELECT probeable.webhook_id FROM probeable))
), fitting AS (
    SELECT due.delivery_id, due.next_time, due.place, due.is_failing,
        row_number() OVER (PARTITION BY due.is_failing ORDER BY due.place, due.next_time, due.delivery_id) AS rank
    FROM due
    LEFT JOIN slots ON slots.destination = due.destination
    WHERE due.place <= CASE WHEN due.is_failing THEN least(slots.free, 1)
                            ELSE coalesce(slots.free, :per_destination::integer) END
), unlocked AS (
    SELECT deliveries.delivery_id FROM memory.deliveries
    WHERE deliveries.tenant_id = :tenant_id AND deliveries.state = 'pending' AND deliveries.next_time <= :at
        AND deliveries.delivery_id = ANY (ARRAY(
            SELECT fitting.delivery_id FROM fitting
            WHERE NOT fitting.is_failing OR fitting.rank <= :failing_destinations
            ORDER BY fitting.place, fitting.next_time, fitting.delivery_id
            LIMIT :count))
    FOR NO KEY UPDATE SKIP LOCKED
), claimed AS (
    UPDATE memory.deliveries
    SET attempts = attempts + 1, next_time = :until
    WHERE tenant_id = :tenant_id AND delivery_id = ANY (ARRAY(SELECT unlocked.delivery_id FROM unlocked))
    RETURNING delivery_id, webhook_id, change_id, attempts
), probed AS (
    UPDATE memory.webhooks
    SET retry_time = :until
    WHERE tenant_id = :tenant_id AND webhook_id = ANY (ARRAY(
        SELECT probeable.webhook_id FROM probeable
        WHERE probeable.destination IN (
            SELECT tried.destination FROM probeable AS tried JOIN claimed ON claimed.webhook_id = tried.webhook_id)))
)
SELECT claimed.delivery_id, claimed.webhook_id, claimed.change_id, claimed.attempts FROM claimed;

-- release_deliveries --
-- Give back deliveries whose attempts were broken off, so that another worker tries them at once.
UPDATE memory.deliveries
SET attempts = deliveries.attempts - 1, next_time = :at
FROM unnest(:delivery_ids::uuid[], :attempts::integer[]) AS own (delivery_id, attempts)
WHERE deliveries.tenant_id = :tenant_id AND deliveries.state = 'pending'
    AND deliveries.delivery_id = own.delivery_id AND deliveries.attempts = own.attempts;

-- release_probes --
-- Let another worker try destinations whose attempts were broken off.
UPDATE memory.webhooks
SET retry_time = :at
WHERE tenant_id = :tenant_id AND webhook_id = ANY (ARRAY(
    SELECT webhook_id FROM memory.webhooks
    WHERE tenant_id = :tenant_id AND retry_time = :until AND destination = ANY (:destinations::text[])
    ORDER BY webhook_id
    FOR NO KEY UPDATE));

-- due_deliveries --
-- Count the due deliveries, up to a number, and return the time of the oldest. Deliveries to destinations in a pause
-- are left out.
SELECT count(*)::integer AS count, min(due.next_time) AS oldest_time
FROM (
    SELECT one.next_time
    FROM memory.webhooks
    CROSS JOIN LATERAL (
        SELECT deliveries.next_time FROM memory.deliveries
        WHERE deliveries.tenant_id = :tenant_id AND deliveries.webhook_id = webhooks.webhook_id
            AND deliveries.state = 'pending' AND deliveries.next_time <= :at
        ORDER BY deliveries.next_time
        LIMIT :count) AS one
    WHERE webhooks.tenant_id = :tenant_id AND webhooks.is_active
        AND (webhooks.retry_time IS NULL OR webhooks.retry_time <= :at)
    LIMIT :count) AS due;

-- notified_changes --
-- Read what is sent of events.
SELECT change_id, event_type, entity_type, entity_id, summary, payload, create_time
FROM memory.changes
WHERE tenant_id = :tenant_id AND change_id = ANY (:change_ids::uuid[]);

-- finish_delivery --
-- Record the outcome of an attempt, unless another process has tried the delivery since.
UPDATE memory.deliveries
SET state = :state, next_time = :next_time, last_error = :last_error, finish_time = :finish_time
WHERE tenant_id = :tenant_id AND delivery_id = :delivery_id AND state = 'pending' AND attempts = :attempts;

-- lock_destinations --
-- Keep others from the webhooks of some destinations until the transaction ends, all in one order.
SELECT webhook_id
FROM memory.webhooks
WHERE tenant_id = :tenant_id AND destination = ANY (:destinations::text[])
ORDER BY webhook_id
FOR NO KEY UPDATE;

-- count_attempt --
-- Say on a webhook what came of attempts; one that failed too often is switched off.
UPDATE memory.webhooks
SET failures = CASE WHEN :delivered::boolean THEN 0 ELSE failures + :failed::integer END,
    last_delivery_time = CASE WHEN :delivered THEN :at ELSE last_delivery_time END,
    last_error = coalesce(:last_error::text, last_error),
    is_active = is_active AND (:delivered OR failures + :failed < :most::integer),
    disable_time = CASE WHEN is_active AND NOT :delivered AND failures + :failed >= :most THEN :at ELSE disable_time END
WHERE tenant_id = :tenant_id AND webhook_id = :webhook_id
RETURNING (disable_time = :at) IS true AS is_disabled, failures, space_id;

-- count_destination --
-- Record the result of attempts on all webhooks of a destination. A destination that answered accepts all deliveries
-- again. One that failed `threshold` times in a row gets a pause until the first of `retry_times`, with each further failure
-- until the next one; attempts that began before the pause are not counted.
UPDATE memory.webhooks
SET destination_failures = CASE WHEN :answered::boolean THEN 0 ELSE destination_failures + :failed::integer END,
    retry_time = CASE
        WHEN :answered OR destination_failures + :failed < :threshold::integer THEN NULL
        ELSE (:retry_times::timestamptz[])[
            1 + least(destination_failures + :failed - :threshold, cardinality(:retry_times) - 1)] END
WHERE tenant_id = :tenant_id AND destination = :destination
    AND CASE WHEN :answered THEN destination_failures > 0 OR retry_time IS NOT NULL
             ELSE retry_time IS NULL OR retry_time = :until END;

-- probe_now --
-- Let the next delivery try a webhook's destination at once.
UPDATE memory.webhooks
SET retry_time = :at
WHERE tenant_id = :tenant_id AND webhook_id = ANY (ARRAY(
    SELECT other.webhook_id FROM memory.webhooks AS own
    JOIN memory.webhooks AS other ON other.tenant_id = :tenant_id AND other.destination = own.destination
    WHERE own.tenant_id = :tenant_id AND own.webhook_id = :webhook_id AND other.retry_time > :at
    ORDER BY other.webhook_id
    FOR NO KEY UPDATE OF other));

-- list_deliveries --
-- Read the newest deliveries of a webhook that are older than one; a null state does not restrict.
SELECT delivery_id, webhook_id, change_id, state, attempts, next_time, last_error, create_time, finish_time
FROM memory.deliveries
WHERE tenant_id = :tenant_id AND webhook_id = :webhook_id AND delivery_id < :before_id
    AND (:state::text IS NULL OR state = :state)
ORDER BY delivery_id DESC
LIMIT :count;

-- retry_delivery --
-- Have a delivery tried again at once, as if for the first time.
UPDATE memory.deliveries
SET state = 'pending', attempts = 0, next_time = :at, finish_time = NULL
WHERE tenant_id = :tenant_id AND delivery_id = :delivery_id AND state <> 'delivered'
    AND EXISTS (SELECT FROM memory.webhooks AS hook
                WHERE hook.tenant_id = :tenant_id AND hook.webhook_id = deliveries.webhook_id)
RETURNING delivery_id, webhook_id, change_id, state, attempts, next_time, last_error, create_time, finish_time;

-- delete_old_deliveries --
-- Remove some of the deliveries that ended long ago.
DELETE FROM memory.deliveries
WHERE tenant_id = :tenant_id AND delivery_id = ANY (ARRAY(
    SELECT delivery_id FROM memory.deliveries
    WHERE tenant_id = :tenant_id AND finish_time < :before LIMIT :count));
