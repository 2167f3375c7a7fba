"""Assertions of the shared stories are explained as those of tests are; portions of records may be
as small as a story wants them.
"""

import pytest

from penstock.rows.decode import portions

pytest.register_assert_rewrite("tests.simulation.stories")

A_FEW_RECORDS = 200
"""Bytes: a batch of a story is then cut into portions of one record to three."""


@pytest.fixture(params=[portions.PORTION_BYTES_MAX, A_FEW_RECORDS], ids=["whole", "in portions"])
def portion_bytes(request, monkeypatch):
    """Play a story with batches that are taken whole, and with such as are cut into portions."""
    monkeypatch.setattr(portions, "PORTION_BYTES_MAX", request.param)
