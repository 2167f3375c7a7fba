"""What another system's configuration becomes: a spec in the making, and the account of it.

Invariants:
- every option that was read is accounted for: mapped to a setting, unmapped with the reason why
  nothing is lost without it, or undecided;
- what is not known for sure is undecided, and the spec is refused until a person decides (P175);
- what options become is data, `Rules`: by name, a setting, a reason to leave it, or a question;
- no secret is copied: a reference replaces it, and is among what is unmapped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from penstock.core.errors import InvalidError
from penstock.spec.secrets import is_secret_name, without_password

NOT_NEEDED = "not needed: progress is kept in the table itself"
NO_COUNTERPART = "it is not known here: does it change which records land, or how? Write that, too"
NO_NUMBER = "its value is no number: write the setting by hand"
VALUE_MAX = 200
BEGINNING = (
    "where the first run begins: kafka.start. earliest lands all that Kafka has, again where tables"
    " have it; latest skips it; init --offsets begins where the other system ended"
)

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """An option whose meaning for the spec is undecided, and the decision to make."""

    option: str
    value: str
    decide: str


@dataclass(slots=True)
class Migrated:
    """A spec in the making, and the account: (option, setting) mapped, (option, reason) unmapped,
    and what is `undecided`; `beginning` are those of it on where the first run begins, until that
    is known.

    Where the system kept its progress: in a consumer `group`, or as an `application` of a table.
    """

    system: str
    spec: dict[str, Any] = field(default_factory=dict)
    mapped: list[tuple[str, str]] = field(default_factory=list)
    unmapped: list[tuple[str, str]] = field(default_factory=list)
    undecided: list[Question] = field(default_factory=list)
    beginning: list[Question] = field(default_factory=list)
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
        """Put a catalog into the spec; return its name: a numbered one if the name is in use.

        What two descriptions of one catalog say differently is as the first says.
        """
        catalogs = self.spec.setdefault("catalogs", {})
        named, number = name, 1
        while _address(catalogs.get(named, settings)) != _address(settings):
            number += 1
            named = f"{name}_{number}"
        catalogs[named] = {**settings, **catalogs.get(named, {})}
        return named

    def follow(self, rules: Rules, option: str, value: str, name: str = "") -> None:
        """Account for an option by the first rule that has its `name`, or `name=value`."""
        names = (name or option, f"{name or option}={value.strip().lower()}")
        for patterns, rule in rules.items():
            if any(fnmatchcase(each, pattern) for each in names for pattern in patterns.split()):
                if isinstance(rule, str):
                    self.leave(option, rule)
                else:
                    rule(self, option, value)
                return

    def include(self, part: Migrated, prefix: str, block: str) -> None:
        """Take over the account of some options of one prefix, for a block."""
        self.mapped += [(prefix + option, block + setting) for option, setting in part.mapped]
        self.unmapped += [(prefix + option, why) for option, why in part.unmapped]
        self.undecided += [replace(each, option=prefix + each.option) for each in part.undecided]

    def leave(self, option: str, why: str) -> None:
        """Note an option that needs no counterpart, and why."""
        self.unmapped.append((option, why))

    def ask(self, option: str, value: str = "", decide: str = NO_COUNTERPART) -> None:
        """Note an option to decide on; a value that may be a secret is hidden."""
        hidden = decide == NO_COUNTERPART or is_secret_name(option) or is_secret_name(value)
        shown = "" if hidden else without_password(value)
        self.undecided.append(Question(option, " ".join(shown.split())[:VALUE_MAX], decide))

    def begin(self, option: str, value: str, start: Any) -> None:
        """Write where a first run would begin, for a person to decide: nothing moves in silence.

        The other system goes on from its position, which its configuration does not say.
        """
        self.spec.setdefault("kafka", {})["start"] = start
        self.beginning.append(Question(option, value, BEGINNING))

    def questions(self) -> list[Question]:
        """Return all that is undecided, what moves the beginning first."""
        return [*self.beginning, *self.undecided]

    def secret(self, option: str, name: str) -> str:
        """Return what replaces a secret, a reference to a variable, and note that."""
        variable = re.sub(r"\W", "_", name).upper()
        self.leave(option, f"a secret is not copied: export {variable}=…")
        return f"${{env:{variable}}}"


Rule = Callable[[Migrated, str, str], None]
"""Accounts for an option with its value."""
Rules = Mapping[str, Rule | str]
"""By names with blanks between, in which `*` matches anything: the first that fits counts.

A text is the reason why an option needs no counterpart.
"""


def to(setting: str, form: Callable[[str], Any] = str) -> Rule:
    """Return the rule of an option that becomes a setting; `form` writes its value.

    Where that raises ValueError, the setting is for a person to write.
    """

    def rule(found: Migrated, option: str, value: str) -> None:
        try:
            found.put(option, setting, form(value))
        except ValueError:
            found.ask(option, value, NO_NUMBER)

    return rule


def names_in(text: str) -> list[str]:
    """Return the names of a list with commas."""
    return [name for each in text.split(",") if (name := each.strip())]


def milliseconds(text: str) -> str:
    """Write a number of milliseconds as a spec has it. Raises ValueError."""
    return f"{int(text)}ms"


def with_setting(setting: str) -> Rule:
    """Return the rule of an option that a setting has taken in already."""
    return lambda found, option, _: found.mapped.append((option, setting))


def asked(decide: str = NO_COUNTERPART) -> Rule:
    """Return the rule of an option that a person decides on."""
    return lambda found, option, value: found.ask(option, value, decide)


def elsewhere(found: Migrated, option: str, value: str) -> None:
    """Pass over an option that is accounted for with another."""


def _address(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(settings.get(key) for key in ("type", "uri", "warehouse", "root"))


def partition_field(text: str) -> str:
    """Write a partition field as a spec has it: Java's tools have plurals, and the column first."""
    sized = r"(?i)(bucket|truncate)\(\s*([^,()]+?)\s*,\s*(\d+)\s*\)"
    turned = re.sub(sized, r"\1(\3, \2)", text.strip())
    return re.sub(r"(?i)^(year|month|day|hour)s\(", r"\1(", turned)


def delta_table(found: Migrated, option: str, location: str) -> str:
    """Put the catalog of the Delta table at a place into the spec; return the table's name."""
    root, _, name = location.rstrip("/").removeprefix("file://").rpartition("/")
    root, _, namespace = root.rpartition("/")
    catalog = found.catalog("delta", {"type": "delta", "root": root or "."})
    found.mapped.append((option, "catalogs"))
    return f"{catalog}.{namespace or 'landed'}.{name}"


def unreadable(why: str) -> InvalidError:
    """Build the error for a configuration that is not in the form that it seems to be in."""
    return InvalidError(
        f"the configuration cannot be read: {why}",
        code="P165",
        hint="correct it there, or export it again from the other system",
    )


def unknown(why: str) -> InvalidError:
    """Build the error for a configuration of an unknown system."""
    return InvalidError(
        f"the configuration is not supported: {why}",
        code="P165",
        hint="known are Kafka Connect (the Iceberg sink; sources: files, JDBC, MirrorMaker 2),"
        " kafka-delta-ingest and Flink SQL",
    )
