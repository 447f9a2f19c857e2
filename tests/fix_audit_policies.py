"""The policies of audit events, as Postgres writes them."""

from __future__ import annotations

# An audit event is inserted when it happens, and loses nothing but the name of a purged person.
AUDIT_POLICIES = (
    (
        "auth.audit_events",
        "INSERT",
        (
            "((audit_event_id >= skein.first_id((now() - '01:00:00'::interval))) AND"
            " (audit_event_id < skein.first_id((now() + '01:00:00'::interval))) AND"
            " ((create_time >= (now() - '01:00:00'::interval)) AND (create_time <= (now() + '01:00:00'::interval))))"
        ),
    ),
    ("auth.audit_events", "UPDATE", "((subject_target IS NULL) AND (subject_salt IS NULL))"),
    ("auth.audit_checkpoints", "INSERT", "(expire_time IS NULL)"),
)
