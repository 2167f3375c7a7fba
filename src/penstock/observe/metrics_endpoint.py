"""Where metrics are read: an endpoint over HTTP, as Prometheus asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from penstock.core.errors import InvalidError
from penstock.core.outlook_events import MetricsServed
from penstock.ports.runtime import Observer


@contextmanager
def serving(registry: CollectorRegistry, at: str, observer: Observer) -> Iterator[None]:
    """Serve the metrics of a registry at `host:port` inside the block, and report the URL.

    Raises InvalidError (P592).
    """
    host, port = address(at)
    with metrics_served(registry, host, port) as served:
        observer(MetricsServed(served_at(host, served)))
        yield


@contextmanager
def metrics_served(registry: CollectorRegistry, host: str, port: int) -> Iterator[int]:
    """Serve a registry over HTTP at `/metrics` inside the block; yield the port in use.

    Raises InvalidError (P592) when the address is not available.
    """
    try:
        server, thread = start_http_server(port, host, registry=registry)
    except (OSError, UnicodeError) as error:  # the latter: not a possible host name
        why = error.strerror if isinstance(error, OSError) else "not a host name"
        raise InvalidError(
            f"metrics cannot be served at {host}:{port}: {why}",
            code="P592",
            hint="choose another address:  penstock run --metrics 127.0.0.1:0",
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, or of a port alone on the loopback address.

    An IPv6 host may be in brackets, as in a URL; they are removed. Raises InvalidError (P592).
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004  the highest port there is
        raise InvalidError(
            f"{text[:80]!r} is not an address for metrics",
            code="P592",
            hint="write  127.0.0.1:9464",
        )
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    return bare or "127.0.0.1", int(port)


def served_at(host: str, port: int) -> str:
    """Return the URL of an endpoint."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
