"""The page as an application: routes, pages drawn from data, and one stream for what is new.

Invariants:
- each page has a `.json` twin, and a `.live` one that sends its main part again where it changed;
- a page is drawn once a second at most, for any number of viewers; where drawing takes long, less
  often: a hundred times as long passes in between, ten seconds at most;
- all text is escaped; a template that misses a value fails.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jinja2
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from penstock.app.page.views import PipelineView, Watched
from penstock.core.version import __version__
from penstock.ports.runtime import Clock
from penstock.web import pages
from penstock.web.gate import Gate
from penstock.web.guard import ENTER, Guard
from penstock.web.words import FILTERS, HELPERS

HERE = Path(__file__).parent
LIVE_SECONDS = 1.0
STEP_SECONDS = 0.2
REST_TIMES = 100
REST_SECONDS_MAX = 10.0
FORM_BYTES_MAX = 4_096
FORGOTTEN_SECONDS = 60
RESERVED = ("enter", "static", "pipelines")


@dataclass(frozen=True, slots=True)
class _Drawn:
    at: float
    rest_seconds: float
    html: str


class Site:
    """Answers requests for pages of watched pipelines."""

    def __init__(self, watched: Sequence[Watched], guard: Guard, clock: Clock) -> None:
        self._watched = {_place(each.name, watched, at): each for at, each in enumerate(watched)}
        self._guard, self._clock = guard, clock
        self._drawn: dict[tuple[str, str], _Drawn] = {}
        self._is_ending = False
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(FILTERS)
        self._templates.globals.update(HELPERS, version=__version__)

    def application(self) -> Starlette:
        """Return what a server serves."""
        return Starlette(
            routes=[
                Route("/", self._page),
                Route(ENTER, self._enter, methods=["GET", "POST"]),
                Mount("/static", StaticFiles(directory=HERE / "static")),
                Route("/pipelines.json", self._data),
                Route("/pipelines.live", self._live),
                Route("/{pipeline}.json", self._data),
                Route("/{pipeline}.live", self._live),
                Route("/{pipeline}/{section}.json", self._data),
                Route("/{pipeline}/{section}.live", self._live),
                Route("/{pipeline}", self._page),
                Route("/{pipeline}/{section}", self._page),
            ],
            middleware=[
                Middleware(Gate, guard=self._guard),
                Middleware(GZipMiddleware, minimum_size=2_000),
            ],
        )

    def end(self) -> None:
        """End the streams of all viewers: the server waits for them."""
        self._is_ending = True

    async def _page(self, request: Request) -> Response:
        found = self._found(request)
        if found is None:
            return self._missing()
        return HTMLResponse(self._render("page.html", **found))

    async def _data(self, request: Request) -> Response:
        found = self._found(request)
        if found is None:
            return Response(
                '{"error": "there is no such page"}', 404, media_type="application/json"
            )
        kept = {name: found[name] for name in ("head", "data") if found[name] is not None}
        return Response(data_text(kept), media_type="application/json")

    async def _live(self, request: Request) -> Response:
        if self._found(request) is None:
            return Response(status_code=404)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(
            self._changes(request), media_type="text/event-stream", headers=headers
        )

    async def _changes(self, request: Request) -> AsyncIterator[str]:
        """Yield the main part of a page whenever it has changed, until the viewer is gone."""
        before = ""
        yield "retry: 2000\n\n"
        while not (self._is_ending or await request.is_disconnected()):
            drawn = self._main(request)
            if drawn.html != before:
                before = drawn.html
                yield f"data: {json.dumps(drawn.html)}\n\n"
            else:
                yield ": still so\n\n"
            await self._rest(max(LIVE_SECONDS, drawn.rest_seconds))

    async def _rest(self, seconds: float) -> None:
        """Let time pass, until the server ends."""
        until = self._clock.monotonic() + seconds
        # Another thread ends it, so that no event of this loop could be waited for.
        while not self._is_ending and (left := until - self._clock.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, STEP_SECONDS))

    def _main(self, request: Request) -> _Drawn:
        key, now = (request.url.path, request.url.query), self._clock.monotonic()
        kept = self._drawn.get(key)
        if kept is not None and now - kept.at < max(LIVE_SECONDS, kept.rest_seconds) / 2:
            return kept
        found = self._found(request)
        html = "" if found is None else self._render("main.html", **found)
        took = self._clock.monotonic() - now
        drawn = _Drawn(now, min(took * REST_TIMES, REST_SECONDS_MAX), html)
        self._drawn = {  # what nobody asks for any more is forgotten
            each: old for each, old in self._drawn.items() if now - old.at < FORGOTTEN_SECONDS
        } | {key: drawn}
        return drawn

    async def _enter(self, request: Request) -> Response:
        """Ask for the token; take it, keep a cookie, and go on."""
        wrong = False
        if request.method == "POST":
            given = await _form_field(request, "token")
            if self._guard.is_token(given):
                answer = RedirectResponse("/", 303)
                answer.set_cookie(
                    self._guard.cookie_name,
                    self._guard.cookie_value,
                    path="/",
                    secure=self._guard.is_secure,
                    httponly=True,
                    samesite="strict",
                )
                return answer
            wrong = True
        html = self._render("enter.html", wrong=wrong)
        return HTMLResponse(html, 403 if wrong else 200)

    def _found(self, request: Request) -> dict[str, Any] | None:
        """Return what a page is drawn from; None where there is none."""
        pipeline = request.path_params.get("pipeline")
        if pipeline is None:
            looks = {place: each.view() for place, each in self._watched.items()}
            return self._overview(looks)
        watched = self._watched.get(pipeline)
        if watched is None:
            return None
        look = watched.view()
        available = pages.sections(look)
        section = request.path_params.get("section") or next(iter(available), "")
        needs = "tables" if section == "table" else section
        if section and (section not in pages.SECTIONS or (look.status and needs not in available)):
            return None
        data = pages.SECTIONS[section](look, request.query_params) if section else {}
        if data is None:
            return None
        return {
            "place": pipeline,
            "section": section,
            "head": pages.head(look),
            "data": data,
            "live": _twin(request, ".live"),
            "twin": _twin(request, ".json"),
            "command": _command(section, look.spec),
        }

    def _overview(self, looks: Mapping[str, PipelineView]) -> dict[str, Any]:
        data = pages.overview(looks)
        return {
            "place": "",
            "section": "",
            "head": None,
            "data": data,
            "live": "/pipelines.live",
            "twin": "/pipelines.json",
            "command": _command("overview", ""),
        }

    def _missing(self) -> Response:
        html = self._render("missing.html")
        return HTMLResponse(html, 404)

    def _render(self, template: str, **given: Any) -> str:
        return self._templates.get_template(template).render(**given)


def _place(name: str, watched: Sequence[Watched], at: int) -> str:
    """Return the name of a pipeline in addresses: another one where it is taken."""
    earlier = [each.name for each in watched[:at]]
    return f"{name}~{at}" if name in RESERVED or name in earlier else name


def _twin(request: Request, suffix: str) -> str:
    path = request.url.path.removesuffix(".live").removesuffix(".json").rstrip("/")
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{path}{suffix}{query}"


def _command(section: str, spec: str) -> str:
    command = pages.COMMANDS.get(section, "penstock status")
    return f"{command} {spec}".strip()


async def _form_field(request: Request, name: str) -> str:
    """Return a field of a form that was sent; "" where it is too long or has none."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES_MAX:
            return ""
    return parse_qs(body.decode(errors="replace")).get(name, [""])[0]


def data_text(data: Any) -> str:
    """Return data as JSON; dataclasses are objects.

    In ASCII: a name of others may hold half of a surrogate pair, which UTF-8 cannot say.
    """
    return json.dumps(data, default=_plain)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return dict(value) if isinstance(value, Mapping) else str(value)
