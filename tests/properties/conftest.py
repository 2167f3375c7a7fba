"""Properties of rows are those of blocks, too, however small."""

from tests.unit.rows.conftest import blocks  # noqa: F401
