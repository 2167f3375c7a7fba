"""A schema registry over HTTP on this machine, with the paths, answers and error codes of
Confluent's; it can be asked to fail, and to ask for credentials.

Source: Confluent Schema Registry, "API reference".
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

_JSON = "application/vnd.schemaregistry.v1+json"
_SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
_ID_MAX = (1 << 31) - 1
Answer = tuple[int, Any]


@dataclass(slots=True)
class Registered:
    """What the server holds, and how it is to behave. `failures` are statuses to answer next.

    Where it `is_strict`, no schema is compatible with another one.
    """

    is_strict: bool = False
    authorization: str | None = None
    failures: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    _schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    _versions: dict[str, list[int]] = field(default_factory=dict)

    def register(
        self,
        subject: str,
        schema: Any,
        *,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """Register a schema under a subject and give its number; equal ones share it."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            entry["schemaType"] = kind
        if references:
            entry["references"] = [dict(each) for each in references]
        number = next((n for n, known in self._schemas.items() if known == entry), None)
        if number is None:
            number = len(self._schemas) + 1
            self._schemas[number] = entry
        versions = self._versions.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def guid(self, number: int) -> str:
        """Return the GUID of a schema."""
        return str(uuid.uuid5(_SPACE, json.dumps(self._schemas[number])))

    def answer(self, path: str) -> Answer:
        """Answer a GET as the real one does."""
        match [unquote(part) for part in path.partition("?")[0].split("/")[1:]]:
            case ["schemas", "types"]:
                return 200, ["JSON", "PROTOBUF", "AVRO"]
            case ["schemas", "ids", number] if number.isdigit() and int(number) <= _ID_MAX:
                found = self._schemas.get(int(number))
                return (200, found) if found else _missing(40403, "Schema not found")
            case ["schemas", "guids", guid]:
                numbers = {self.guid(number): number for number in self._schemas}
                if guid in numbers:
                    return 200, self._schemas[numbers[guid]]
                return _missing(404, "HTTP 404 Not Found")
            case ["subjects"]:
                return 200, sorted(self._versions)
            case ["subjects", subject, "versions", "latest"]:
                return self._version(subject, len(self._versions.get(subject, [])))
            case ["subjects", subject, "versions", version] if version.isdigit():
                return self._version(subject, int(version))
            case _:
                return _missing(404, "HTTP 404 Not Found")

    def posted(self, path: str, said: Mapping[str, Any]) -> Answer:
        """Answer a POST as the real one does."""
        kind, entry = str(said.get("schemaType", "AVRO")), {"schema": said["schema"]}
        if kind != "AVRO":
            entry["schemaType"] = kind
        match [unquote(part) for part in path.partition("?")[0].split("/")[1:]]:
            case ["subjects", subject]:
                numbers = self._versions.get(subject, [])
                found = [number for number in numbers if self._schemas[number] == entry]
                if found:
                    return 200, {"subject": subject, "id": found[0], **entry}
                return _missing(40403 if numbers else 40401, "Schema not found")
            case ["subjects", subject, "versions"]:
                if said["schema"] == "broken":
                    return 422, {"error_code": 42201, "message": "Invalid schema"}
                if not self._is_compatible(subject, entry):
                    return 409, {"error_code": 409, "message": "READER_FIELD_MISSING"}
                return 200, {"id": self.register(subject, said["schema"], kind=kind)}
            case ["compatibility", "subjects", subject, "versions", "latest"]:
                if subject not in self._versions:
                    return _missing(40401, f"Subject '{subject}' not found.")
                fits = self._is_compatible(subject, entry)
                reasons = [] if fits else ["READER_FIELD_MISSING"]
                return 200, {"is_compatible": fits, "messages": reasons}
            case _:
                return _missing(404, "HTTP 404 Not Found")

    def _is_compatible(self, subject: str, entry: Mapping[str, Any]) -> bool:
        numbers = self._versions.get(subject, [])
        known = [self._schemas[number] for number in numbers]
        return not (self.is_strict and known) or entry in known

    def _version(self, subject: str, version: int) -> Answer:
        if subject not in self._versions:
            return _missing(40401, f"Subject '{subject}' not found.")
        versions = self._versions[subject]
        if not 1 <= version <= len(versions):
            return _missing(40402, f"Version {version} not found.")
        number = versions[version - 1]
        return 200, {"subject": subject, "version": version, "id": number, **self._schemas[number]}


@contextmanager
def serving(registered: Registered) -> Iterator[str]:
    """Serve on a free port of this machine and give the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(registered.answer)

        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(lambda path: registered.posted(path, said))

        def _answer(self, answering: Callable[[str], Answer]) -> None:
            registered.asked.append(self.path)
            wanted = registered.authorization
            if wanted is not None and self.headers.get("Authorization") != wanted:
                self._send(401, {"error_code": 401, "message": "Unauthorized"})
            elif registered.failures:
                status = registered.failures.pop(0)
                self._send(status, {"error_code": status, "message": "set to fail"})
            else:
                self._send(*answering(self.path))

        def _send(self, status: int, data: Any) -> None:
            body = json.dumps(data).encode()
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", "/subjects")
            self.send_header("Content-Type", _JSON)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _missing(code: int, message: str) -> Answer:
    return 404, {"error_code": code, "message": message}
