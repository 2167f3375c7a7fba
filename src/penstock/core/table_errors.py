"""The errors of tables that all table formats share: one code, one sentence, one next step each.

A connector decides which of them an error of its libraries is; `why` is what the library said, and
holds no secret.
"""

from __future__ import annotations

from penstock.core.errors import (
    BugError,
    ConflictError,
    DecisionNeededError,
    InvalidError,
    OutcomeUnknownError,
    UnavailableError,
)

FILE_MISSING = "P403"
TABLE_MISSING = "P402"
FILES_REJECTED = "P439"
"""Code of the InvalidError by which `Table.commit` says that prepared files no longer fit the table
(partitioning changed, a column was dropped): nothing was applied, the range is to be read again."""


def moved(name: str, why: str) -> ConflictError:
    """Build the error for a commit that was certainly not applied."""
    return ConflictError(
        f"{name} moved since it was examined: {why}",
        code="P401",
        hint="it is read again; nothing has to be done",
    )


def missing(name: str) -> UnavailableError:
    """Build the error for a table that is not in its catalog."""
    return UnavailableError(
        f"the table {name} is not there",
        code=TABLE_MISSING,
        hint="restore it, or remove it from the spec",
    )


def file_missing(name: str, why: str) -> UnavailableError:
    """Build the error for a file that a table names and its storage does not have."""
    return UnavailableError(
        f"a file of {name} is missing: {why}",
        code=FILE_MISSING,
        hint="restore the file, or the table to a state without it",
    )


def bad_name(name: str) -> InvalidError:
    """Build the error for what cannot be the name of a table."""
    return InvalidError(
        f"{name[:80]!r} is not a name for a table",
        code="P404",
        hint="name it as in bronze.orders, of small letters, digits and underscores",
    )


def in_doubt(name: str, why: str) -> OutcomeUnknownError:
    """Build the error for a commit that may have been applied."""
    return OutcomeUnknownError(
        f"the commit to {name} got no definite answer: {why}",
        code="P433",
        hint="the table is read again to find out; nothing was deleted",
    )


def unreadable(what: str, why: str) -> InvalidError:
    """Build the error for damaged metadata."""
    return InvalidError(
        f"{what} cannot be read: {why}",
        code="P438",
        hint="check whether other readers can read the table, and restore it if not",
    )


def no_room(name: str) -> UnavailableError:
    """Build the error for a full disk."""
    return UnavailableError(
        f"no space is left to write {name}",
        code="P480",
        hint="free some space on that disk, then run again; nothing was committed",
    )


def storage_failed(what: str, act: str, why: str) -> UnavailableError:
    """Build the error for a storage that did not do what it was asked for."""
    return UnavailableError(
        f"{what} could not be {act}: {why}",
        code="P481",
        hint="check that the storage exists and may be written, then run again",
    )


def file_rejected(path: str, table: str, why: str) -> InvalidError:
    """Build the error for a prepared file that no longer fits its table."""
    return InvalidError(
        f"the prepared file {path} cannot be committed to {table}: {why}",
        code=FILES_REJECTED,
        hint="its range is read and written again from the log; nothing was committed",
    )


def no_late_rows(table: str, why: str) -> InvalidError:
    """Build the error for a table in which rows cannot land outside of their partitions."""
    return InvalidError(
        f"no rows can land late in {table}: {why}",
        code="P869",
        hint="set  write: {distribution: none}  for it, or auto, which chooses what it can have",
    )


def not_live(table: str, path: str) -> InvalidError:
    """Build the error for a file that a commit replaces and that the table no longer has."""
    return InvalidError(
        f"{table}: {path} is to be replaced, and is not live any more",
        code=FILES_REJECTED,
        hint="another writer rewrote the table's files; run the command again",
    )


def not_deletable(table: str, path: str) -> BugError:
    """Build the error for row deletes that are not of live rows of the state they land on."""
    return BugError(
        f"{table}: rows to be deleted in {path} are not live in the state that was examined",
        code="P707",
        hint="nothing was changed; report this with the log",
    )


def not_rearrangeable(table: str, path: str) -> BugError:
    """Build the error for a rearrangement of a file that is not as it was read."""
    return BugError(
        f"{table}: {path} is to be replaced, and is not live with the row deletes it was read with",
        code="P848",
        hint="nothing was changed; report this with the log",
    )


def not_vouched(table: str, chain: str, evidence: str) -> DecisionNeededError:
    """Build the error for a table whose files may be somebody's evidence."""
    return DecisionNeededError(
        f"{table} is left as it is, for no witness in its metadata vouches for {chain}: {evidence}",
        code="P846",
        hint="after its next commit it can be maintained; see  penstock status",
    )


def shared_location(table: str, path: str) -> InvalidError:
    """Build the error for a table in whose directories another one lies."""
    return InvalidError(
        f"the files of {table} are not swept: another table's files are there as well: {path}",
        code="P891",
        hint="give each table a directory of its own; the other acts need none:  "
        "penstock maintain --only rearrange --only expire",
    )


def unswept(table: str, why: str) -> InvalidError:
    """Build the error for a table whose storage cannot be swept."""
    return InvalidError(
        f"the files of {table} cannot be swept: {why}",
        code="P892",
        hint="leave sweeps to another tool:  penstock maintain --only rearrange --only expire",
    )


def behind_its_files(table: str, path: str) -> InvalidError:
    """Build the error for a table that another catalog, or a former state of this one, took on."""
    return InvalidError(
        f"the files of {table} are not swept: its catalog is behind what was committed: {path}",
        code="P896",
        hint="another catalog goes on with the table, or this one was restored from a backup: "
        "see which one counts",
    )


def data_elsewhere(table: str, path: str) -> InvalidError:
    """Build the error for a table whose data lie where those of other tables may lie as well."""
    return InvalidError(
        f"the files of {table} are not swept: write.data.path is outside of its location, where "
        f"other tables may have files too: {path}",
        code="P897",
        hint="leave sweeps to another tool:  penstock maintain --only rearrange --only expire",
    )


def no_column(table: str, column: str) -> InvalidError:
    """Build the error for a source column that a table does not have."""
    return InvalidError(
        f"{table} has no column {column}",
        code="P435",
        hint="see source_columns in the spec, or name the table's own columns",
    )


def unsupported(table: str, feature: str, why: str = "") -> InvalidError:
    """Build the error for a table with a feature that is not supported."""
    because = f": {why}" if why else ""
    return InvalidError(
        f"{table} has {feature}, which Penstock does not support{because}",
        code="P436",
        hint="land into a table without it, or remove it from the table or the spec",
    )


def time_beyond_orc(table: str, path: str) -> InvalidError:
    """Build the error for a time in an ORC file that cannot be read here."""
    return InvalidError(
        f"{path} of {table} holds a time before 1677-09-21 or after 2262-04-11: it is ORC, which"
        " Arrow reads in nanoseconds, and those reach no further",
        code="P299",
        hint="set  write.format.default  to parquet, and have the file rewritten, by Spark for one",
    )


def require_target_version(version: int, known: int) -> None:
    """Raise InvalidError (P190) for the target of a newer driver."""
    if version > known:
        raise InvalidError(
            f"this target has version {version}, and this penstock reads {known}",
            code="P190",
            hint="install the driver's version of penstock on the workers",
        )


def no_target(kind: str, error: Exception) -> BugError:
    """Build the error for a text that is not the target of a table."""
    return BugError(
        f"this is not a target for {kind}: {type(error).__name__}",
        code="P702",
        hint="please report this",
    )
