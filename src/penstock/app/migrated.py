"""What another system's configuration becomes: a spec in the making, and the account of it.

Invariants:
- every option that was read is accounted for: mapped to a setting, or left with a reason;
- no secret is copied: a reference stands in its place, and is among what was left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import InvalidError

NOT_NEEDED = "not needed: progress is kept in the table itself"
NO_COUNTERPART = "no counterpart"
NO_NUMBER = "its value is no number"

Options = Mapping[str, str]


@dataclass(slots=True)
class Migrated:
    """A spec in the making, and the account: (option, setting) mapped, (option, why not) left.

    Where the system kept its progress: in a consumer `group`, or as an `application` of a table.
    """

    system: str
    spec: dict[str, Any] = field(default_factory=dict)
    mapped: list[tuple[str, str]] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    group: str = ""
    application: str = ""

    def put(self, option: str, setting: str, value: Any) -> None:
        """Set a setting by its dotted path, and note which option it comes from."""
        block = self.spec
        *path, last = setting.split(".")
        for step in path:
            block = block.setdefault(step, {})
        block[last] = value
        self.mapped.append((option, setting))

    def catalog(self, name: str, settings: Mapping[str, Any]) -> str:
        """Put a catalog into the spec; give its name: a numbered one, where another has it.

        What two descriptions of one catalog say differently is as the first says.
        """
        catalogs = self.spec.setdefault("catalogs", {})
        named, number = name, 1
        while _address(catalogs.get(named, settings)) != _address(settings):
            number += 1
            named = f"{name}_{number}"
        catalogs[named] = {**settings, **catalogs.get(named, {})}
        return named

    def leave(self, option: str, why: str = NO_COUNTERPART) -> None:
        """Note an option that has no counterpart, and why."""
        self.left.append((option, why))

    def secret(self, option: str, name: str) -> str:
        """Give what stands in a secret's place, a reference to a variable, and note that."""
        reference, why = in_place_of_secret(name)
        self.leave(option, why)
        return reference


def in_place_of_secret(name: str) -> tuple[str, str]:
    """Give the reference to write for a secret of this name, and what its reader has to do."""
    variable = re.sub(r"\W", "_", name).upper()
    return f"${{env:{variable}}}", f"a secret is not copied: export {variable}=…"


def _address(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(settings.get(key) for key in ("type", "uri", "warehouse", "root"))


def delta_table(found: Migrated, option: str, topic: str, location: str) -> None:
    """Land a topic in the Delta table at a place."""
    root, _, name = location.rstrip("/").removeprefix("file://").rpartition("/")
    root, _, namespace = root.rpartition("/")
    catalog = found.catalog("delta", {"type": "delta", "root": root or "."})
    found.mapped.append((option, "catalogs"))
    into = f"{catalog}.{namespace or 'landed'}.{name}"
    found.spec["tables"] = [{"from": topic, "into": into}]


def unknown(why: str) -> InvalidError:
    """Say that a configuration is none that is known."""
    return InvalidError(
        f"the configuration is not understood: {why}",
        code="P165",
        hint="known are the Iceberg sink of Kafka Connect, kafka-delta-ingest and Flink SQL",
    )
