"""Writes the first entry of a keyed table: deltalake's, without features that it has no use for.

deltalake lists `variantType` for every table whose protocol lists features, which a table with
deletion vectors does (measured with 1.6.6). A reader that does not know variants would be locked
out of a table without any (docs/design/0245).

Invariants:
- columns, properties and their refusals are deltalake's, which makes a table in a folder of its
  own; of its entry only the protocol is made smaller, and the commit's words tell the real place;
- a feature is left out only where nothing in the table uses it.

Source: Delta transaction log protocol, "Protocol Evolution", "Valid Feature Names in Table
Features".
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.schema import Schema
from deltalake.transaction import CommitProperties, PostCommitHookProperties

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_UNUSED = frozenset({"variantType"})  # no column of ours is a variant
_LISTS = ("readerFeatures", "writerFeatures")
_FIRST = f"{0:020d}.json"


def first_entry(
    location: str,
    schema: Schema,
    partition_by: Sequence[str],
    configuration: Mapping[str, str],
    properties: CommitProperties,
) -> bytes:
    """Return the lines of version 0. Raises what `DeltaTable.create` raises."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as place:
        DeltaTable.create(
            place,
            schema,
            mode="error",
            partition_by=list(partition_by),
            configuration=dict(configuration),
            commit_properties=properties,
            post_commithook_properties=NO_HOOKS,
        )
        written = Path(place, "_delta_log", _FIRST).read_text()
    actions = [json.loads(line) for line in written.splitlines()]
    changed = [
        {name: _changed(name, action, location) for name, action in each.items()}
        for each in actions
    ]
    lines = (json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in changed)
    return "".join(f"{line}\n" for line in lines).encode()


def _changed(name: str, action: dict[str, Any], location: str) -> dict[str, Any]:
    match name:
        case "protocol":
            return _used(action)
        case "commitInfo":
            parameters = action["operationParameters"]
            protocol = json.dumps(_used(json.loads(parameters["protocol"])))
            changed = {**parameters, "protocol": protocol, "location": location}
            return {**action, "operationParameters": changed}
        case _:
            return action


def _used(protocol: dict[str, Any]) -> dict[str, Any]:
    listing = [name for name in _LISTS if protocol.get(name) is not None]
    lists = {name: [f for f in protocol[name] if f not in _UNUSED] for name in listing}
    return {**protocol, **lists}
