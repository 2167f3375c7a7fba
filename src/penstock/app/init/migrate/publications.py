"""What translations of source connectors share: names and settings of the rules of `publish`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.app.init.migrate.account import NO_NUMBER, Migrated, Rule


def named(name: str, number: int, count: int) -> str:
    """Return the name of a publication; several of one connector are numbered."""
    plain = re.sub(r"[^a-z0-9_-]", "-", name.lower()).lstrip("-0123456789") or "migrated"
    return plain[:64] if count == 1 else f"{plain[:60]}-{number + 1}"


def in_publications(setting: str, form: Callable[[str], Any]) -> Rule:
    """Return the rule of an option that becomes a setting of each publication."""

    def rule(found: Migrated, option: str, value: str) -> None:
        try:
            written = form(value)
        except ValueError:
            found.ask(option, value, NO_NUMBER)
            return
        *path, last = setting.split(".")
        for publication in found.spec["publish"]:
            block = publication
            for step in path:
                block = block.setdefault(step, {})
            block[last] = written
        found.mapped.append((option, f"publish[].{setting}"))

    return rule
