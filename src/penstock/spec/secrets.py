"""References to what is not in the spec, and the hiding of what should not be.

`${env:NAME}` and `${env:NAME:-default}` read the environment, `${file:/path}` a file without its
last line break. `$${` is a plain `${`. As in a shell, `:-` also covers an empty variable.

Invariants:
- references are resolved once and not again in what they gave;
- no error, representation or dump made here holds a secret: errors name the reference only;
- a reference without a default is no secret and is shown as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.core.errors import InvalidError

SECRET_BYTES_MAX = 64 * 1024
HIDDEN = "***"

# Every repeat is bounded, so that no text takes longer than it is long.
_REFERENCE = re.compile(
    r"\$\$\{"
    r"|\$\{env:(?P<env>[A-Za-z_][A-Za-z0-9_]{0,200})(?::-(?P<default>[^}]{0,1000}))?\}"
    r"|\$\{file:(?P<file>/[^}]{1,1000})\}"
    r"|(?P<malformed>\$\{[^}]{0,60}\}?)"
)
_SECRET_NAME = re.compile(
    r"password|passwd|passphrase|secret|token(?![-_.]?(?:endpoint|command|ca\b))|key[-_.]?id|credential|authorization"
    r"|(?:access|account|api|private)[-_.]?key|connection[-_.]?string",
    re.IGNORECASE,
)
_SHOWN_SECURITY = frozenset(
    {"protocol", "mechanism", "username", "ca", "certificate", "key", "region"}
    | {"token_endpoint", "client_id", "scope", "token_ca", "token_command"}
    | {"kerberos_service", "kerberos_principal", "kerberos_keytab"}
)
_SHOWN_CATALOG = frozenset({"type", "uri", "warehouse", "root"})
_USERINFO = re.compile(
    r"(?P<head>[a-z][a-z0-9+.-]{0,30}://[^/@:\s]{0,200}:)(?P<password>\S{1,500})(?=@)",
    re.IGNORECASE,
)
_QUERY = re.compile(
    rf"(?P<head>[?&;][^=&?\s]{{0,60}}?(?:{_SECRET_NAME.pattern})[^=&?\s]{{0,60}}=)(?P<password>[^&\s]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ProcessSecrets:
    """Resolves references in this process: the port `Secrets` over environment and files."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def resolve(self, text: str) -> str:
        """Return the text with references replaced. Raises InvalidError: a reference is missing."""
        return _REFERENCE.sub(self._replacement, text)

    def _replacement(self, found: re.Match[str]) -> str:
        if found["env"] is not None:
            return self._variable(found["env"], found["default"])
        if found["file"] is not None:
            return _content(found["file"])
        if found["malformed"] is None:
            return "${"
        raise InvalidError(
            "'${' does not begin a reference in a text that is to be resolved",
            code="P122",
            hint="write ${env:NAME}, ${env:NAME:-default}, ${file:/path}, or $${ for text",
        )

    def _variable(self, name: str, default: str | None) -> str:
        value = self.environment.get(name)
        if default is not None:
            return value or default
        if value is None:
            raise InvalidError(
                f"the environment variable {name} is not set",
                code="P123",
                hint=f"export {name}=…  or write ${{env:{name}:-default}}",
            )
        return value


def references(text: str) -> Iterator[re.Match[str]]:
    """List the references of a text in order, with the groups `env` and `default`, `file`, or
    `malformed`.
    """
    return (found for found in _REFERENCE.finditer(text) if found.lastgroup)


def escaped(text: str) -> str:
    """Write a text so that resolving gives it back."""
    return text.replace("${", "$${")


def is_secret_name(name: str) -> bool:
    """Return whether a setting of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def may_hold_secret(path: tuple[str | int, ...]) -> bool:
    """Return whether a setting may hold a secret; among those that do, a misspelt one may too."""
    match path:
        case ("publish", _, "from", *inner) if inner[:1] == ["kafka"]:
            return may_hold_secret(tuple(inner))
        case ("kafka", "security", name, *_):
            return name not in _SHOWN_SECURITY
        case ("catalogs", _, name, *_):
            return name not in _SHOWN_CATALOG
        case ("kafka", "security") | ("catalogs", *_):
            return True
        case ("kafka", "start", *_) | ("tables", _, "schema", *_):
            return False
        case _:
            return any(isinstance(step, str) and is_secret_name(step) for step in path)


def is_literal(text: str) -> bool:
    """Return whether a secret is in the text itself, not only in references."""
    return bool(text) and redacted(text) != text


def redacted(text: str) -> str:
    """Return what may be shown of a secret: a bare reference, else stars."""
    found = _REFERENCE.fullmatch(text)
    if found is None or not (found["env"] or found["file"]):
        return HIDDEN if text else text
    return f"${{env:{found['env']}:-{HIDDEN}}}" if found["default"] else text


def without_password(text: str) -> str:
    """Return what may be shown of an address: `scheme://user:***@host?password=***`."""
    return _with_passwords(text, redacted)


def referring(text: str, reference: str) -> str:
    """Return an address with a reference in the place of each literal password."""
    return _with_passwords(text, lambda found: reference if is_literal(found) else found)


def secret_parts(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and stop of each literal password inside of an address."""
    for pattern in (_USERINFO, _QUERY):
        for found in pattern.finditer(text):
            if is_literal(found["password"]):
                yield found.span("password")


def redacted_tree(data: Any, name: str = "") -> Any:
    """Return plain data in which secrets, known by the names of their settings, are hidden."""
    match data:
        case dict():
            return {key: redacted_tree(value, str(key)) for key, value in data.items()}
        case list() | tuple():
            return type(data)(redacted_tree(value, name) for value in data)
        case str() if is_secret_name(name):
            return redacted(data)
        case str():
            return without_password(data)
        case _:
            return data


def _with_passwords(text: str, written: Callable[[str], str]) -> str:
    for pattern in (_USERINFO, _QUERY):
        text = pattern.sub(lambda found: found["head"] + written(found["password"]), text)
    return text


def _content(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(SECRET_BYTES_MAX + 1)
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise _unreadable(path, reason or "it cannot be opened") from error
    if len(data) > SECRET_BYTES_MAX:
        raise _unreadable(path, f"it is larger than {SECRET_BYTES_MAX // 1024} KiB")
    return text.removesuffix("\n").removesuffix("\r")


def _unreadable(path: str, reason: str) -> InvalidError:
    return InvalidError(
        f"the file {path} of a reference cannot be read: {reason}",
        code="P123",
        hint=f"run 'ls -l {path}' as the user of this process",
    )
