"""Where a catalog's tables are: names become directories below a root, on a disk, in S3 or Azure.

Invariants:
- a name that reaches a path consists of letters, digits and underscores; nothing else does;
- storage settings that travel to workers are taken from a list of names known to hold no secret,
  and references that the spec has in the place of one: workers resolve them (protocol.md 8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from penstock.core import table_errors
from penstock.core.errors import InvalidError
from penstock.files.filesystems import CREDENTIALS, PUBLIC, filesystem_of, normalised
from penstock.files.storage_settings import (
    AZURE,
    S3,
    Settings,
    account_of,
    address_of,
    is_object_store,
    path_in,
    references,
)
from penstock.ports.runtime import Secrets

_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
_PARTS_MAX = 8
_AZURE = frozenset({"az", "abfs", "abfss"})
_SCHEMES = {S3: frozenset({"s3", "s3a", "s3n"}), **dict.fromkeys(AZURE, _AZURE)}


@dataclass(frozen=True, slots=True)
class LazyOptions(Mapping[str, str]):
    """Options with references that are resolved on each access: secrets change.

    An access raises InvalidError for a reference without a value, and that never had one: a file
    may just be rewritten.
    """

    written: Mapping[str, str] = field(repr=False)
    secrets: Secrets = field(repr=False)
    _last: dict[str, str] = field(default_factory=dict, repr=False)

    def __getitem__(self, key: str) -> str:
        try:
            self._last[key] = self.secrets.resolve(self.written[key])
        except InvalidError:
            if key not in self._last:
                raise
        return self._last[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.written)

    def __len__(self) -> int:
        return len(self.written)


@dataclass(frozen=True, slots=True)
class StorageRoot:
    """Where the tables are; `options` are deltalake's, resolved when they are asked for.

    `references` are the credentials among them as the spec has them, by short names.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    references: Mapping[str, str] = field(default_factory=dict)

    def location(self, name: str) -> str:
        """Return the directory of a table. Raises InvalidError (P404) for a name we do not take."""
        return "/".join([self.uri, *parts_of(name)])

    @property
    def public(self) -> dict[str, str]:
        """Return the options that hold no secret, and references to those that do."""
        known = normalised(self.options)
        return {**{key: known[key] for key in sorted(PUBLIC & known.keys())}, **self.references}

    @property
    def settings(self) -> Settings:
        """Return the options as objects below the root are put and fetched with them."""
        return tuple(sorted(normalised(self.options).items()))

    @property
    def is_local(self) -> bool:
        """Return whether the root is a directory of this machine."""
        return not is_object_store(self.uri)

    @property
    def schemes(self) -> frozenset[str]:
        """Return the schemes by which a log may name files in the root's storage."""
        starts = (own for start, own in _SCHEMES.items() if self.uri.startswith(start))
        return next(starts, frozenset())

    @property
    def account(self) -> str:
        """Return the account in Azure; "" in any other storage."""
        return account_of(self.uri, normalised(self.options)) if self.schemes == _AZURE else ""

    def address(self, path: str) -> str:
        """Return the address of a path in the root's storage."""
        return address_of(path, self.uri)

    def filesystem(self) -> fs.FileSystem:
        """Open the storage with the driver's credentials."""
        return filesystem_of(self.uri, self.options)


def parts_of(name: str) -> list[str]:
    """Split a table's name. Raises InvalidError (P404) when it may not become a path."""
    parts = name.split(".")
    sound = len(parts) <= _PARTS_MAX and all(_PART.fullmatch(part) for part in parts)
    if sound and "_delta_log" not in parts:
        return parts
    raise table_errors.bad_name(name)


def root_of(
    catalog: str, uri: str, options: Mapping[str, str], written: Mapping[str, str] | None = None
) -> StorageRoot:
    """Check a catalog's root; `written` are the options unresolved.

    A path with an escape in it is refused: deltalake reads what the escape stands for, while data
    files, and on a disk deltalake's own first entry, are written to the path as it is.

    Raises InvalidError: P432, and P441 for a credential that is written out.
    """
    found = references(f"the catalog {catalog}", normalised(written or {}), CREDENTIALS)
    plain = uri.removeprefix("file://").rstrip("/")
    if unquote(plain) != plain:
        raise InvalidError(
            f"the root of the catalog {catalog} is {uri[:80]!r}, and deltalake reads below "
            f"{unquote(plain)[:80]!r} then",
            code="P432",
            hint="choose a root without escapes as of URIs, such as %25, in its path",
        )
    is_path = plain.startswith("/") and str(PurePosixPath(plain)) == plain and ".." not in plain
    if is_path or (is_object_store(uri) and path_in(plain)):
        if uri.startswith(AZURE) and not account_of(uri, normalised(written or options)):
            raise InvalidError(
                f"the root of the catalog {catalog} is {uri[:80]!r}, of no account",
                code="P432",
                hint="write  storage_options: { account_name: NAME }",
            )
        return StorageRoot(plain, options, found)
    raise InvalidError(
        f"the root of the catalog {catalog} is {uri[:80]!r}: no absolute path, and in no storage"
        " that is known",
        code="P432",
        hint="write  root: ./delta  in the spec,  s3://bucket/prefix,  or  az://container/prefix",
    )


def place_of(root: StorageRoot, name: str, path: str) -> str:
    """Return where a file is that a table's log names: below its directory, or by a URI.

    Raises InvalidError (P436) for one in another storage. Source: Delta transaction log protocol,
    "Add File and Remove File".
    """
    scheme = urlsplit(path).scheme
    if not scheme and not path.startswith("/"):
        return f"{path_in(root.location(name))}/{unquote(path)}"
    rest = path.removeprefix(f"{scheme}:")
    if root.is_local and scheme in {"", "file"}:
        return "/" + unquote(rest).lstrip("/")
    host, _, key = unquote(rest).lstrip("/").partition("/")
    bucket, _, account = host.partition("@")
    if scheme in root.schemes and account.partition(".")[0] in {"", root.account}:
        return f"{bucket}/{key}"
    raise table_errors.unsupported(name, "files in another storage", path[:80])
