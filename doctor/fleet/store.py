"""What audits found, in SQLite under the state folder (fleet/history.db): safe against kill -9 and against two audits at once.

Interface (streaming; one connection per thread and process):

    open_store(path: Path | None = None) -> Store           the file and its folder are made; None: the state folder's
    store.begin_audit(audit: Audit) -> None                 Audit: id, doctor, inventory, folder, judged_as_of, started, options (dict)
    store.add_host(audit: str, line: HostLine, report: Report | None) -> None       committed when it returns; the last word counts
    store.finish(audit: str, fleet: FleetReport) -> None    the report is kept without its hosts
    store.audits() -> list[Audit]                           the oldest first, with finished, verdict, exit_code, hosts
    store.audit(id: str) -> Audit                           UsageError when there is none; `last` and a unique beginning do
    store.summary(audit: str) -> FleetReport | None         without its hosts; None while it goes on
    store.lines(audit: str) -> Iterator[HostLine]           by name
    store.reports(audit: str) -> Iterator[tuple[HostLine, Report | None]]           by name, one at a time in memory
    store.report(audit: str, host: str) -> Report | None
    store.before(audit: str) -> str                         id of the newest finished audit of the same inventory, or ""
    store.prune(keep: int) -> int
    store.close() -> None                                   also a context manager
"""
