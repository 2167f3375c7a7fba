"""Where a run leaves, on this machine, what other commands show of it."""

from __future__ import annotations

from pathlib import Path

from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications
from penstock.spec.secrets import ProcessSecrets

_SQLITE = "sqlite:///"


def state_folder(spec: Pipeline | Publications) -> Path:
    """Return the folder of a pending store that is a file, else `state/`.

    That one is in the working folder: a service's own, and the one `kubectl exec` begins in.
    """
    address = spec.pending.store.replace("{name}", spec.name)
    if not address.startswith(_SQLITE):
        return Path("state")
    return Path(ProcessSecrets().resolve(address).removeprefix(_SQLITE)).parent
