-- Whoever takes messages away holds their documents first, so that nobody counts them meanwhile; and the search of messages
-- takes what is known of all of them from the counts.

-- To lock a row takes the right to change a column of it.
GRANT UPDATE (is_counted) ON recall.documents TO skein_session;
GRANT SELECT ON recall.corpora, recall.removals TO skein_session;
