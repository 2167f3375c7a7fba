"""What a rule says of how its rows get into files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from penstock.spec.language.notation import MalformedError
from penstock.spec.settings.fields import NOT_YET, Setting

_INSTEAD = {
    "hash": "write late, which gives as few files: rows go to their partitions in maintenance",
    "range": "write late, and sort: in_maintenance, which sorts rows where files are made few",
}


def _distribution(value: Any) -> Any:
    """Refuse an exchange of rows between tasks, by its name in Iceberg."""
    if isinstance(value, str) and value in _INSTEAD:
        raise MalformedError("P867", f"distribution {value!r} {NOT_YET}", _INSTEAD[value])
    return value


class Write(Setting):
    """How rows get into the files of an Iceberg table."""

    distribution: Annotated[Literal["none", "late", "auto"], BeforeValidator(_distribution)] = (
        Field(
            "none",
            description=(
                "none: each task writes a file for each partition. late: each task writes one file,"
                " sorted by partition, and maintenance moves its rows to their partitions. auto: in"
                " tables that Penstock created, whichever takes less CPU by the rows of a task."
            ),
        )
    )
    sort: Literal["at_write", "in_maintenance", "never"] = Field(
        "in_maintenance",
        description=(
            "When rows are sorted by the table's sort order, where it has one: in each file that"
            " lands, in files that maintenance writes, or never."
        ),
    )
