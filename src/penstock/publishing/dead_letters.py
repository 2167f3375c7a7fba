"""Rejected records as messages: how rows of a quarantine become what their records were.

Invariants:
- a dead letter has the key, the value and, where the quarantine has them, the headers of its
  record, byte by byte; a record without a value is one without a value;
- its own headers say what the quarantine's row says; together with `penstock.id` they are behind
  the record's, so that the last header of a name is the newest;
- a row that resolves another one is none: it was told when it was rejected.

Source: data.md 5; docs/design/0374.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.core.resolutions import STAGE
from penstock.rows.encode.rules import MessageRules

_PIPELINE = "regexp_extract(pipeline, '^[^+]*')"
"""Without the number of its shard."""
HEADERS = {
    "penstock.id": f'concat_ws(\'/\', {_PIPELINE}, "table", topic_id, "partition", "offset")',
    "penstock.pipeline": _PIPELINE,
    "penstock.table": "table",
    "penstock.topic": "topic",
    "penstock.partition": "partition",
    "penstock.offset": "offset",
    "penstock.timestamp": "timestamp",
    "penstock.stage": "stage",
    "penstock.code": "code",
    "penstock.message": "message",
    "penstock.time": "quarantined_at",
}
"""The headers of a dead letter: each a column of the quarantine, or SQL over them."""


def dead_letter_rules(rules: MessageRules, pipeline: str, tables: Sequence[str]) -> MessageRules:
    """Return the rules by which rows of a quarantine are dead letters of a pipeline.

    `rules` are those of the spec: further conditions, headers, and perhaps another time. Without
    `tables` they are of all.
    """
    parts = [f"{_PIPELINE} = {_quoted(pipeline)}", f"stage <> {_quoted(STAGE)}"]
    if tables:
        parts.append(f'"table" in ({", ".join(map(_quoted, tables))})')
    parts += [f"({rules.where})"] if rules.where else []
    return replace(
        rules,
        key=("key",),
        key_is_object=False,
        bytes_of="value",
        where=" and ".join(parts),
        timestamp=rules.timestamp or "quarantined_at",
        headers={**HEADERS, **rules.headers},
        headers_of="headers",
        omits_headers=True,
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
