"""The version of Penstock, as tables and events bear it."""

from __future__ import annotations

__version__ = "0.1.0"
