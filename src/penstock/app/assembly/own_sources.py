"""Opens sources of one's own by their names, in the driver and in workers."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from penstock.app.assembly.kept_readers import kept_in_thread
from penstock.app.assembly.process import SystemClock
from penstock.core.errors import InvalidError, PenstockError
from penstock.ports.own_sources import Batch, OwnSource, Place, PositionGoneError
from penstock.ports.sources import EpochLimit
from penstock.publishing.own_rows import OwnReadings
from penstock.publishing.own_stops import options_refused, raised, wrong_shape
from penstock.spec.secrets import ProcessSecrets

T = TypeVar("T")
GROUP = "penstock.sources"
NAME = "NAME"
UNIT_MAX = "unit_max"
"""What the settings of a source name that says where transactions end: how large one may be."""
_MEMBERS = [name for name in vars(OwnSource) if not name.startswith("_")]


@kept_in_thread
def kept_own_source(settings: str) -> OwnReadings:
    """Return what reads a source in this process, by its name and options as JSON."""
    given = json.loads(settings)
    options = resolved(given["options"], ProcessSecrets())
    opened, publication = open_own_source(given["own"], options), given["publication"]
    source = GuardedSource(opened, given["name"], publication)
    ends = given.get(UNIT_MAX)
    unit_max = None if ends is None else EpochLimit(*ends)
    return OwnReadings(source, given["name"], SystemClock(), unit_max, publication)


class GuardedSource(OwnSource):
    """A source of which everything that it raises is one of our errors, with its place.

    A source does not know who publishes it: NAME in a hint is the `publication`. A
    PositionGoneError is as it is.
    """

    def __init__(self, source: OwnSource, name: str, publication: str = NAME) -> None:
        self._source, self._name, self._publication = source, name, publication
        self.replay, self.boundaries = source.replay, source.boundaries

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        """Read it. Raises UnavailableError (P854)."""
        reached = at
        try:
            for batch in self._source.read(part, at, until):
                yield batch
                reached = batch.next
        except PositionGoneError:
            raise
        except PenstockError as error:
            self._name_publication(error)
            raise
        except Exception as error:
            where = f", {json.dumps(part)} behind {json.dumps(reached, default=str)}"
            raise raised(f"the source {self._name}{where}", error) from error

    def parts(self) -> Iterable[Place]:
        """List its parts. Raises as `read`."""
        return self._asked(lambda: [*self._source.parts()])

    def end(self, part: Place) -> Place | None:
        """Ask for an end. Raises as `read`."""
        return self._asked(lambda: self._source.end(part))

    def gone(self, part: Place, at: Place) -> str:
        """Ask what is lost. Raises as `read`."""
        return self._asked(lambda: self._source.gone(part, at))

    def columns(self) -> pa.Schema | None:
        """Ask for its columns. Raises as `read`."""
        return self._asked(self._source.columns)

    def close(self) -> None:
        """Close it. Raises as `read`."""
        self._asked(self._source.close)

    def _asked(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except PenstockError as error:
            self._name_publication(error)
            raise
        except Exception as error:
            raise raised(f"the source {self._name}", error) from error

    def _name_publication(self, error: PenstockError) -> None:
        error.hint = error.hint.replace(f" {NAME} ", f" {self._publication} ")


def open_own_source(name: str, options: Mapping[str, Any]) -> OwnSource:
    """Open a source: an entry point of the group `penstock.sources`, or `module:Object`.

    Raises InvalidError: it cannot be imported (P850), is no source or does not take its options
    (P851); UnavailableError (P854): its constructor raised.
    """
    made = _imported(name)
    if not callable(made):
        raise wrong_shape(name, f"it is a {type(made).__name__}, which cannot be called")
    try:
        found = made(**options)
    except PenstockError:
        raise
    except TypeError as error:
        raise options_refused(name, error) from error
    except Exception as error:
        raise raised(f"the source {name}", error) from error
    missing = [each for each in _MEMBERS if not hasattr(found, each)]
    if missing:
        raise wrong_shape(name, f"it lacks {', '.join(missing)}")
    if found.replay not in {"range", "resume"}:
        raise wrong_shape(name, f"its  replay  is {found.replay!r}, not range or resume")
    return found  # type: ignore[no-any-return]


def resolved(value: Any, secrets: ProcessSecrets) -> Any:
    """Return options with their references replaced. Raises InvalidError: one is missing."""
    match value:
        case str():
            return secrets.resolve(value)
        case dict():
            return {key: resolved(each, secrets) for key, each in value.items()}
        case list():
            return [resolved(each, secrets) for each in value]
        case _:
            return value


def _imported(name: str) -> Any:
    """Import what a name names; modules are looked for in the working directory, too."""
    module, _, attribute = name.partition(":")
    try:
        if not attribute:
            return next(each for each in entry_points(group=GROUP) if each.name == name).load()
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)
        found = importlib.import_module(module)
    except Exception as error:  # a module may raise anything when it is imported
        said = "nothing installed has that name" if isinstance(error, StopIteration) else str(error)
        raise InvalidError(
            f"the source {name} cannot be imported: {type(error).__name__}: {said[:500]}",
            code="P850",
            hint="put its folder on PYTHONPATH; executors get a file by"
            "  spark: { conf: { spark.submit.pyFiles: feeds.py } }",
        ) from error
    if not hasattr(found, attribute):
        raise InvalidError(
            f"the source {name} is not there: {found.__file__} has no {attribute}",
            code="P850",
            hint="correct  source  in the spec, as module:name",
        )
    return getattr(found, attribute)
