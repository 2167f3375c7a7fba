"""Assertions of the shared stories are explained as those of tests are."""

import pytest

pytest.register_assert_rewrite("tests.simulation.stories")
