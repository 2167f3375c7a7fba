"""What is unpacked of a value that is refused is let go of."""

import gzip

import pyarrow as pa
import pytest

from penstock.rows.decode.compression import gunzip_values

WHOLE = gzip.compress(b"a" * 1000, mtime=0)  # a time would make another name of each test


@pytest.mark.parametrize("value", [WHOLE, WHOLE + b"\x1f\x8b\x08" + b"\x00" * 10])
def test_a_refused_value_keeps_no_frame_that_holds_what_was_unpacked(value: bytes) -> None:
    ((_, rejects),) = gunzip_values(pa.array([value], pa.binary()), 999 if value == WHOLE else 2000)

    assert {0} == {*rejects}
    assert (None, None) == (rejects[0].__traceback__, rejects[0].__context__)
