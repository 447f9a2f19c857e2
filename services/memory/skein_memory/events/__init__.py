"""The event log: events are appended, listed, and streamed; earlier revisions are kept beside them."""
