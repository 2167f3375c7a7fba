"""What was examined of a table, as the store keeps it: versioned JSON."""

from __future__ import annotations

import json

from penstock.core.serialization import positions_from_json, positions_to_json
from penstock.ports.store import Examined


def examined_to_json(noted: Examined) -> str:
    """Write what was noted of a table."""
    parts = {"basis": noted.basis, "rejects": noted.rejects, "reached": noted.reached}
    data = {name: positions_to_json(positions) for name, positions in parts.items()}
    return json.dumps({"v": 1, "rules": noted.rules_hash, **data}, separators=(",", ":"))


def examined_from_json(body: str) -> Examined | None:
    """Read what was noted; None when it is damaged: it is advice, records are read again."""
    try:
        data = json.loads(body)
        return Examined(
            basis=positions_from_json(data["basis"]),
            rejects=positions_from_json(data["rejects"]),
            reached=positions_from_json(data["reached"]),
            rules_hash=str(data.get("rules", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
