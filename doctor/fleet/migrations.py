"""The history's schema, step by step. A step that was released never changes; a new one is added below."""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE audits (id TEXT PRIMARY KEY, doctor TEXT NOT NULL, inventory TEXT NOT NULL, folder TEXT NOT NULL,"
        " judged_as_of TEXT NOT NULL, started TEXT NOT NULL, options TEXT NOT NULL, finished TEXT NOT NULL DEFAULT '',"
        " verdict TEXT NOT NULL DEFAULT '', exit_code INTEGER, fleet BLOB)",
        "CREATE INDEX audits_by_inventory ON audits (inventory, started)",
        "CREATE TABLE hosts (audit TEXT NOT NULL REFERENCES audits (id) ON DELETE CASCADE, host TEXT NOT NULL,"
        " state TEXT NOT NULL, verdict TEXT NOT NULL, exit_code INTEGER NOT NULL, line BLOB NOT NULL,"
        " PRIMARY KEY (audit, host)) WITHOUT ROWID",
        "CREATE TABLE findings (audit TEXT NOT NULL REFERENCES audits (id) ON DELETE CASCADE, host TEXT NOT NULL,"
        " id TEXT NOT NULL, outcome TEXT NOT NULL, severity TEXT NOT NULL, blocked_by TEXT, waived TEXT,"
        " PRIMARY KEY (audit, host, id)) WITHOUT ROWID",
        "CREATE INDEX findings_by_id ON findings (id, audit)",
        "CREATE TABLE reports (audit TEXT NOT NULL REFERENCES audits (id) ON DELETE CASCADE, host TEXT NOT NULL,"
        " report BLOB NOT NULL, PRIMARY KEY (audit, host))",
    ),
)
"""user_version n: the first n steps are done."""
