"""Where files of a table lie: as PyIceberg places them, or a class that its properties name.

A class that a table names is code, so it runs only where the spec allows it: whoever may set a
property of a table could else run what he likes on our workers. PyIceberg's own two are harmless.

Invariant: files are written by one filesystem; a class that leaves it is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyiceberg.table import TableProperties
from pyiceberg.table.locations import LocationProvider, load_location_provider

from penstock.core.errors import InvalidError
from penstock.core.table_errors import unsupported

PROVIDER = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
_OF_PYICEBERG = {
    "pyiceberg.table.locations.SimpleLocationProvider",
    "pyiceberg.table.locations.ObjectStoreLocationProvider",
}

_FAILURES = (ImportError, AttributeError, TypeError, ValueError, LookupError, RuntimeError, OSError)
"""What a module may raise that is not there, or a class that does not take what it is given."""


def require_allowed(properties: Mapping[str, str], name: str, allowed: Collection[str]) -> None:
    """Raise InvalidError for a class that the spec does not allow (P436), or cannot be made (P289).

    PyIceberg makes it whenever it loads or creates the table, and translates none of its errors.
    """
    if not names_a_class(properties):
        return
    given = properties[PROVIDER]
    if given not in allowed:
        why = "a class is run only where  location_providers  of its catalog in the spec names it"
        raise unsupported(name, f"{PROVIDER}={given[:100]}", why)
    provider_of("", properties, name)


def names_a_class(properties: Mapping[str, str]) -> bool:
    """Return whether a table names a class of somebody else, which may ask for any property."""
    return properties.get(PROVIDER, "") not in {"", *_OF_PYICEBERG}


def provider_of(location: str, properties: Mapping[str, str], name: str) -> LocationProvider:
    """Return what places files. Raises InvalidError (P289): its class cannot be made."""
    try:
        return load_location_provider(location, dict(properties))
    except _FAILURES as error:
        said = f"{type(error).__name__}: {str(error)[:100]}"
        raise _unplaced(name, f"{properties.get(PROVIDER)} cannot be made: {said}") from error


def elsewhere(name: str, uri: str) -> InvalidError:
    """Build the error for a file that is to lie in another storage than those before it."""
    return _unplaced(name, f"files of one table are to lie in several storages, one at {uri[:200]}")


def _unplaced(name: str, why: str) -> InvalidError:
    return InvalidError(
        f"the files of {name} cannot be placed: {why}",
        code="P289",
        hint=f"install its package where tasks run, or set another {PROVIDER} in the table",
    )
