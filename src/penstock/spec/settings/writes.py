"""What a rule says of how its rows get into files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from penstock.spec.language.notation import MalformedError
from penstock.spec.settings.fields import NOT_YET, Setting

_INSTEAD = "write hash, and  sort: in_maintenance, which sorts rows where files are made few"


def _distribution(value: Any) -> Any:
    """Refuse an exchange of rows by ranges of values, by its name in Iceberg."""
    if value == "range":
        raise MalformedError("P867", f"distribution {value!r} {NOT_YET}", _INSTEAD)
    return value


class Write(Setting):
    """How rows get into the files of a table."""

    distribution: Annotated[
        Literal["none", "hash", "late", "auto"], BeforeValidator(_distribution)
    ] = Field(
        "none",
        description=(
            "none: each task writes a file for each partition. hash: rows of a partition meet"
            " in one task, which writes a file for it. late: each task writes one file, sorted"
            " by partition, and maintenance moves its rows to their partitions. auto: hash where"
            " the table's write.distribution-mode is hash or range; else, in tables that"
            " Penstock created, none or late, whichever takes less CPU by the rows of a task."
        ),
    )
    sort: Literal["at_write", "in_maintenance", "never"] = Field(
        "in_maintenance",
        description=(
            "When rows are sorted by the table's sort order, where it has one: in each file that"
            " lands, in files that maintenance writes, or never."
        ),
    )
