"""From a file or a text to a `Pipeline`, or to all of its problems at once.

The way: characters → YAML 1.2 → references in text leaves → models → checks across blocks → paths.

Invariants:
- whatever the text, `loads` gives a pipeline or raises SpecError;
- one mistake does not hide another: what is wrong is skipped, and the rest is checked;
- nothing that is shown or raised holds a secret of the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from penstock.core.errors import InvalidError
from penstock.spec.checks.agreement import Draft, check
from penstock.spec.checks.literals import literal_secrets
from penstock.spec.checks.published_tables import without_tables
from penstock.spec.consequences import Broken
from penstock.spec.model import UNCHECKED, Pipeline
from penstock.spec.paths import (
    is_resolved_later,
    located,
    located_publications,
    with_leaves,
)
from penstock.spec.problems import (
    PROBLEMS_MAX,
    KeyPath,
    Place,
    Problem,
    SpecError,
    in_order,
    nearest,
)
from penstock.spec.publications import (
    OF_PUBLISHING,
    Publications,
    check_publications,
    secrets_of_all,
    secrets_of_rules,
)
from penstock.spec.secrets import ProcessSecrets, may_hold_secret, references
from penstock.spec.settings.catalogs import Catalog
from penstock.spec.settings.fields import ENTRIES_MAX, Setting
from penstock.spec.settings.security import Cluster
from penstock.spec.settings.table import Table
from penstock.spec.settings.validation import problems_of
from penstock.spec.text import yaml12
from penstock.spec.text.masking import masked, masked_by_text
from penstock.spec.text.yaml12 import Span

FILE_BYTES_MAX = 4 * yaml12.CHARS_MAX
_BLOCKS = {field.name for field in fields(Draft)} - {"catalogs", "tables", "undecided"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pipeline and what is worth a word about it."""

    pipeline: Pipeline
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class LoadedPublications:
    """The publishing part of a spec and what is worth a word about it."""

    publications: Publications
    warnings: tuple[Problem, ...]


def load(path: Path | str) -> Pipeline:
    """Read a spec's file; relative paths in it start at its directory. Raises SpecError."""
    return load_with_warnings(path).pipeline


def load_with_warnings(path: Path | str) -> Loaded:
    """Read a spec's file and keep the warnings. Raises SpecError."""
    path = Path(path)
    return read(_content(path), base=path.absolute().parent, name=str(path))


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be opened"
        problem = Problem((), "P100", f"{path} cannot be read: {reason}", _other_file(path))
        raise SpecError([problem], name=str(path)) from error


def _other_file(path: Path) -> str:
    there: list[str] = []
    with suppress(OSError, ValueError):
        there = [each.name for each in path.parent.iterdir() if _is_spec(each)]
    near = nearest(path.name, there)
    if near and near != path.name:
        return f"did you mean {path.with_name(near)}?"
    return "name it, as in  penstock plan FILE  or PENSTOCK_SPEC=FILE, or write one: penstock init"


def _is_spec(path: Path) -> bool:
    return path.suffix in (".yaml", ".yml") and not path.stem.endswith(".test")


def loads(text: str | bytes, *, base: Path, name: str = "penstock.yaml") -> Pipeline:
    """Read a spec's text; `base` is where relative paths start. Raises SpecError."""
    return read(text, base=base, name=name).pipeline


def read(
    text: str | bytes, *, base: Path, name: str, secrets: ProcessSecrets | None = None
) -> Loaded:
    """Read a spec's text and keep the warnings. Raises SpecError."""
    secrets = secrets or ProcessSecrets()
    reading = _Reading(_decoded(text, name), name)
    data = with_leaves(reading.document.data, partial(reading.interpolated, secrets))
    if lacking := [*_without_tables(data)]:
        raise _refused([*reading.problems, *lacking], reading)
    data = _part(data, without=OF_PUBLISHING)
    problems = [*reading.problems, *_structural(data, Pipeline, reading)]
    broken = Broken(problems)
    problems += [each for each in check(_draft(data, broken)) if not broken.hides(each)]
    if not _errors(problems):
        pipeline = Pipeline.model_validate(data, context=UNCHECKED, by_alias=True, by_name=False)
        try:
            pipeline = located(pipeline, base, secrets)
        except SpecError as error:
            problems += error.problems
        else:
            return Loaded(pipeline, tuple(in_order(map(reading.placed, problems))))
    raise _refused(problems, reading)


def blocks_of(path: Path | str) -> frozenset[str]:
    """Return the names of a spec's blocks; none of what cannot be read as a spec at all."""
    try:
        data = _Reading(_decoded(_content(Path(path)), str(path)), str(path)).document.data
    except SpecError:
        return frozenset()
    return frozenset(map(str, data)) if isinstance(data, dict) else frozenset()


def load_publications(path: Path | str) -> Publications:
    """Read the publishing part of a spec's file. Raises SpecError, also where there is none."""
    return load_publications_with_warnings(path).publications


def load_publications_with_warnings(path: Path | str) -> LoadedPublications:
    """Read the publishing part of a spec's file and keep the warnings. Raises SpecError."""
    path = Path(path)
    return read_publications(_content(path), base=path.absolute().parent, name=str(path))


def read_publications(
    text: str | bytes, *, base: Path, name: str, secrets: ProcessSecrets | None = None
) -> LoadedPublications:
    """Read the publishing part of a spec's text and keep the warnings.

    Of what both parts have, the one that lands warns, where there is one. Raises SpecError, also
    where nothing is published.
    """
    secrets = secrets or ProcessSecrets()
    reading = _Reading(_decoded(text, name), name)
    data = with_leaves(reading.document.data, partial(reading.interpolated, secrets))
    problems, lands = [*reading.problems], isinstance(data, dict) and "tables" in data
    if isinstance(data, dict) and "publish" not in data and not problems:
        meant = [key for key in data if isinstance(key, str) and nearest(key, ["publish"])]
        fact = "this spec publishes nothing: it has no 'publish'"
        hint = "did you mean publish?" if meant else "to land its topics:  penstock run"
        problems = [Problem(tuple(meant[:1]), "P823", fact, hint)]
    else:
        if lands:
            data = _part(data, only=Publications.model_fields.keys())
            data["kafka"] = _part(data.get("kafka"), only=Cluster.model_fields.keys())
        problems += _structural(data, Publications, reading)
    if not _errors(problems):
        found = Publications.model_validate(data, context=UNCHECKED, by_alias=True, by_name=False)
        problems += check_publications(found, _landing(text, base, name) if lands else None)
        problems += [] if lands else without_tables(found.publish, found.quarantine)
        problems += literal_secrets((secrets_of_rules if lands else secrets_of_all)(found))
        if not _errors(problems):
            found = located_publications(found, base, secrets, name=name)
            return LoadedPublications(found, tuple(in_order(map(reading.placed, problems))))
    raise _refused(problems, reading)


def _landing(text: str | bytes, base: Path, name: str) -> Pipeline | None:
    """Return what a spec lands; None where that part of it is broken."""
    try:
        return loads(text, base=base, name=name)
    except InvalidError:
        return None


def _refused(problems: Iterable[Problem], reading: _Reading) -> SpecError:
    found = in_order(map(reading.placed, problems))
    if len(found) > PROBLEMS_MAX:  # more than a person reads; an error stays among them
        found = _errors(found)[:PROBLEMS_MAX]
    return SpecError(found, name=reading.name)


def _part(data: Any, *, only: Collection[str] = (), without: Collection[str] = ()) -> Any:
    """Return the blocks of a spec that one of its parts has."""
    if not isinstance(data, dict):
        return data
    return {
        name: block
        for name, block in data.items()
        if name not in without and (not only or name in only)
    }


def _without_tables(data: Any) -> Iterator[Problem]:
    if isinstance(data, dict) and "publish" in data and "tables" not in data:
        fact = "this spec lands nothing: it has no 'tables'"
        yield Problem((), "P824", fact, "to publish what it has:  penstock publish")


class _Reading:
    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.document = yaml12.read(text)
        shown = text if len(text) <= yaml12.CHARS_MAX else ""
        lines = yaml12.lines_of(shown.removeprefix("\ufeff"))
        by_text = masked_by_text(lines, self.document.context)
        self.lines = masked(lines, self.document) if self.document.readable else by_text
        self.problems = [
            Problem(
                fault.path,
                fault.code,
                fault.message,
                fault.hint,
                place=self.place(fault.span, by_text),
            )
            for fault in self.document.faults
        ]
        if not self.document.readable:
            raise SpecError(self.problems, name=name)

    def interpolated(self, secrets: ProcessSecrets, value: Any, path: KeyPath) -> Any:
        if isinstance(value, bool | int | float) and _is_free_text(path):
            return self.document.texts.get(path, value)
        if not isinstance(value, str) or "${" not in value:
            return value
        found = list(_reference_problems(value, path))
        self.problems += found
        if found or is_resolved_later(path):
            return value
        try:
            return secrets.resolve(value)
        except InvalidError as error:
            self.problems.append(Problem(path, error.code, error.message, error.hint))
            return value

    def placed(self, problem: Problem) -> Problem:
        if problem.place is not None:
            return problem
        return replace(problem, place=self.place(self.span(problem), self.lines))

    def span(self, problem: Problem) -> Span:
        """Find the text a problem is about: its key or value, or else the nearest one above."""
        path, document = problem.path, self.document
        first, second = (document.values, document.keys)
        if problem.on_key:
            first, second = second, first
        span = first.get(path) or second.get(path)
        while span is None:
            path = path[:-1]
            span = document.keys.get(path) or _first_of(document.values.get(path))
        return span

    def place(self, span: Span, lines: list[str]) -> Place:
        line = lines[span.line] if span.line < len(lines) else ""
        stop = span.end_column if span.end_line == span.line else len(line.rstrip())
        return Place(self.name, span.line + 1, span.column + 1, max(stop - span.column, 1), line)


def _decoded(text: str | bytes, name: str) -> str:
    if isinstance(text, str):
        return text
    if len(text) > FILE_BYTES_MAX:  # too large, whatever its characters
        return text.decode("utf-8", "replace")
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        before = yaml12.lines_of(text[: error.start].decode("utf-8"))
        place = Place(name, len(before), len(before[-1]) + 1, 1, "")
        message = f"the byte 0x{text[error.start]:02x} is not UTF-8"
        problem = Problem((), "P101", message, "save the file as UTF-8", place=place)
        raise SpecError([problem], name=name) from None


def _reference_problems(text: str, path: KeyPath) -> Iterator[Problem]:
    for reference in references(text):
        if reference["malformed"]:
            read = "" if may_hold_secret(path) else f": '{reference[0]}'"
            fact = f"'${{' does not begin a reference{read}"
            hint = "write ${env:NAME}, ${env:NAME:-default}, ${file:/path}, or $${ for text"
            yield Problem(path, "P122", fact, hint)
        if reference["file"] and not is_resolved_later(path):
            fact = "file references are allowed in kafka.security, catalogs and registry only"
            yield Problem(path, "P122", fact, "write it out, or write ${env:NAME}")


def _is_free_text(path: KeyPath) -> bool:
    """Return whether a library defines the setting, so that its scalars are taken as written."""
    match path:
        case ("catalogs", _, name):
            return name not in {"type", "uri", "warehouse", "root"}
        case ("spark", "conf", _) | ("tables", _, "properties", _):
            return True
        case _:
            return False


def _structural(data: Any, model: type[Setting], reading: _Reading) -> list[Problem]:
    if not isinstance(data, dict):
        fact = "a spec is a mapping of settings"
        hint = "write one from your topics:  penstock init"
        return [] if reading.problems else [Problem((), "P106", fact, hint)]
    try:
        model.model_validate(data, context=UNCHECKED, by_alias=True, by_name=False)
    except ValidationError as error:
        broken = Broken(reading.problems)
        found = problems_of(error, model)
        return [problem for problem in found if not broken.covers(problem.path)]
    return []


def _draft(data: Any, broken: Broken) -> Draft:
    data = data if isinstance(data, dict) else {}
    tables, catalogs = data.get("tables"), data.get("catalogs")
    table_kind, catalog_kind = TypeAdapter(Table), TypeAdapter(Catalog)

    def block(name: str) -> Any:
        field = Pipeline.model_fields[name]
        if name not in data and not field.is_required():
            return field.get_default(call_default_factory=True)
        kind = TypeAdapter(field.rebuild_annotation())
        return _valid(kind, broken.left_out(data.get(name), (name,)))

    return Draft(
        catalogs=(
            {str(name): _valid(catalog_kind, each) for name, each in catalogs.items()}
            if isinstance(catalogs, dict)
            else None
        ),
        tables=[
            _valid(table_kind, broken.left_out(table, ("tables", index)))
            for index, table in enumerate(tables[:ENTRIES_MAX] if isinstance(tables, list) else ())
        ],
        undecided=block("undecided") or (),
        **{name: block(name) for name in _BLOCKS},
    )


def _valid(adapter: TypeAdapter[Any], value: Any) -> Any:
    try:
        return adapter.validate_python(value, by_alias=True, by_name=False)
    except ValidationError:
        return None


def _first_of(span: Span | None) -> Span | None:
    return None if span is None else Span(span.line, span.column, span.line, span.column + 1)


def _errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]
