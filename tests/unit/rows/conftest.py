"""Tests of rows give few records and mean blocks: what is few for users is none here."""

from collections.abc import Iterator

import pytest

from penstock.rows.convert import blocks as fitting


@pytest.fixture(autouse=True, scope="module")
def blocks() -> Iterator[None]:
    """Have every batch read as a block, however small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "FEW_ROWS", 0)
        yield
