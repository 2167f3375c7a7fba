"""Whether the page can be served here: it needs libraries that nothing else does."""

from __future__ import annotations

from importlib.util import find_spec

from penstock.core.errors import InvalidError

LIBRARIES = ("starlette", "uvicorn", "jinja2")


def require_page() -> None:
    """Raise InvalidError (P543) where the extra is not installed."""
    missing = [each for each in LIBRARIES if find_spec(each) is None]
    if missing:
        raise InvalidError(
            f"the page needs {', '.join(missing)}, which is not installed",
            code="P543",
            hint='pip install "penstock[page]"',
        )
