"""The page says what it needs, where that is not installed."""

from __future__ import annotations

import pytest

from penstock.app.page import extra
from penstock.core.errors import InvalidError


def test_what_is_missing_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "LIBRARIES", ("json", "penstock_has_no_such_library"))
    with pytest.raises(InvalidError) as raised:
        extra.require_page()

    assert "P543" == raised.value.code
    assert "needs penstock_has_no_such_library, which" in raised.value.message
    assert 'pip install "penstock[page]"' == raised.value.hint
