"""The guard before every answer, and the headers of every answer."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.web.guard import HEADERS, STATIC, Guard, Request


class Gate:
    """Let through what the guard does not refuse."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        kept = "no-cache" if scope["path"].startswith(STATIC) else "no-store"
        request = Request(scope["method"], scope["path"], Headers(scope=scope))
        refusal = self._guard.refusal(request)
        app: ASGIApp = self._app
        if refusal is not None and refusal.location:
            app = RedirectResponse(refusal.location, refusal.status)
        elif refusal is not None:
            app = PlainTextResponse(refusal.text + "\n", refusal.status)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", kept)
            await send(message)

        await app(scope, receive, send_with_headers)
