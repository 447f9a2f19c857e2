-- purge_vectors --
-- Remove some of one model's vectors that a deleted tenant has.
DELETE FROM recall.{table} AS vectors
USING (
    SELECT item_id, chunk FROM recall.{table} WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE vectors.tenant_id = :tenant_id AND vectors.item_id = picked.item_id AND vectors.chunk = picked.chunk;

-- purge_vectors_history --
-- Remove some of the former vectors of one model that a deleted tenant has.
DELETE FROM recall.{table}_history AS vectors
USING (
    SELECT item_id, chunk FROM recall.{table}_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE vectors.tenant_id = :tenant_id AND vectors.item_id = picked.item_id AND vectors.chunk = picked.chunk;

-- purge_postings --
-- Remove some of the postings that a deleted tenant has.
DELETE FROM recall.postings
USING (
    SELECT term, kind, item_id FROM recall.postings WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE postings.tenant_id = :tenant_id
    AND postings.term = picked.term AND postings.kind = picked.kind AND postings.item_id = picked.item_id;

-- purge_vector_origins --
-- Remove some of the origins of a deleted tenant's vectors.
DELETE FROM recall.vector_origins
USING (
    SELECT item_id, model FROM recall.vector_origins WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE vector_origins.tenant_id = :tenant_id
    AND vector_origins.item_id = picked.item_id AND vector_origins.model = picked.model;

-- purge_documents --
-- Remove some of the documents that a deleted tenant has.
DELETE FROM recall.documents
WHERE tenant_id = :tenant_id AND item_id = ANY (ARRAY(
    SELECT item_id FROM recall.documents WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_documents_history --
-- Remove some of the former documents that a deleted tenant has.
DELETE FROM recall.documents_history
WHERE tenant_id = :tenant_id AND item_id = ANY (ARRAY(
    SELECT item_id FROM recall.documents_history WHERE tenant_id = :tenant_id LIMIT :count));

-- purge_postings_history --
-- Remove some of the former postings that a deleted tenant has.
DELETE FROM recall.postings_history
USING (
    SELECT term, kind, item_id, until_time FROM recall.postings_history WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE postings_history.tenant_id = :tenant_id
    AND postings_history.term = picked.term AND postings_history.kind = picked.kind
    AND postings_history.item_id = picked.item_id AND postings_history.until_time = picked.until_time;

-- purge_purged_items --
-- Remove some of the counts of purged items that a deleted tenant has.
DELETE FROM recall.purged_items
USING (
    SELECT purge_time, purge_id, known_time FROM recall.purged_items WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE purged_items.tenant_id = :tenant_id
    AND purged_items.purge_time = picked.purge_time AND purged_items.purge_id = picked.purge_id
    AND purged_items.known_time = picked.known_time;

-- purge_frequencies --
-- Remove some of the frequencies of a deleted tenant's terms.
DELETE FROM recall.frequencies
USING (
    SELECT term, kind FROM recall.frequencies WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE frequencies.tenant_id = :tenant_id AND frequencies.term = picked.term AND frequencies.kind = picked.kind;

-- purge_removals --
-- Remove some of a deleted tenant's removed documents that are still counted.
DELETE FROM recall.removals
WHERE tenant_id = :tenant_id AND removal_id IN (
    SELECT removal_id FROM recall.removals WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_corpora --
-- Remove some of a deleted tenant's counts.
DELETE FROM recall.corpora
WHERE tenant_id = :tenant_id AND kind IN (
    SELECT kind FROM recall.corpora WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_reindex_progress --
-- Remove some of the progress of reindexes in a deleted tenant.
DELETE FROM recall.reindex_progress
WHERE tenant_id = :tenant_id AND reindex_id IN (
    SELECT reindex_id FROM recall.reindex_progress WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_model_choices --
-- Remove some of a deleted tenant's choices of models.
DELETE FROM recall.model_choices
WHERE tenant_id = :tenant_id AND from_time IN (
    SELECT from_time FROM recall.model_choices WHERE tenant_id = :tenant_id LIMIT :count);

-- purge_reindexes --
-- Remove the reindexes of a deleted tenant alone: a few rows.
DELETE FROM recall.reindexes
WHERE only_tenant_id = :tenant_id AND :count::bigint > 0;

-- purge_requests --
-- Remove some of a deleted tenant's saved responses.
DELETE FROM recall.requests
USING (
    SELECT principal, method, request_id FROM recall.requests WHERE tenant_id = :tenant_id LIMIT :count
) AS picked
WHERE requests.tenant_id = :tenant_id
    AND requests.principal = picked.principal AND requests.method = picked.method
    AND requests.request_id = picked.request_id;
