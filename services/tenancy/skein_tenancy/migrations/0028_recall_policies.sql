-- How a tenant's memory is searched.

ALTER TABLE tenancy.policies
    -- A text search configuration of Postgres.
    ADD COLUMN search_language text
        CONSTRAINT policies_search_language_known CHECK (search_language IN (
            'simple', 'arabic', 'armenian', 'basque', 'catalan', 'danish', 'dutch', 'english', 'finnish', 'french',
            'german', 'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian', 'nepali',
            'norwegian', 'portuguese', 'romanian', 'russian', 'serbian', 'spanish', 'swedish', 'tamil', 'turkish',
            'yiddish')),
    ADD COLUMN recall_fusion text
        CONSTRAINT policies_recall_fusion_known CHECK (recall_fusion IN ('scores', 'ranks')),
    -- Weights by signal, where they are not the default ones.
    ADD COLUMN recall_weights jsonb
        CONSTRAINT policies_recall_weights_object CHECK (jsonb_typeof(recall_weights) = 'object');
