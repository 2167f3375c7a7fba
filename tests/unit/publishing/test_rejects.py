"""A reject has its record's bytes, and what is wrong in headers behind the record's own."""

import numpy as np
import pyarrow as pa

from penstock.core.positions import partition_of, position_of
from penstock.ports.sources import MESSAGES
from penstock.publishing.rejects import REJECT_BYTES_MAX, RowsRead, reject_messages
from penstock.rows.encode.encoder import Misfit

OF = partition_of({"topic": "t", "topic_id": "i", "partition": 2}, "t")


def test_a_value_that_no_topic_takes_is_left_out_and_a_header_says_so():
    own = [[{"key": "h", "value": b"\xff"}]] * 2
    records = pa.record_batch(
        {
            "offset": pa.array([7, 9], pa.int64()),
            "timestamp": pa.array([1, None], MESSAGES.field("timestamp").type),
            "key": pa.array([b"k", None], pa.binary()),
            "value": pa.array([b"v", bytes(REJECT_BYTES_MAX)], pa.binary()),
            "headers": pa.array(own, MESSAGES.field("headers").type),
        }
    )
    read = RowsRead(OF, position_of({"offset": 10}, "t"), 2, np.array([9, 7]))
    wrong = [Misfit(0, "c", "why", "P364"), Misfit(1, "c", "why", "P302")]
    found = reject_messages(read, wrong, records, transactional_id="p-0", now_ms=5).to_pylist()

    assert [(None, None), (b"k", b"v")] == [(each["key"], each["value"]) for each in found]
    large, small = ({h["key"]: h["value"] for h in each["headers"]} for each in found)
    assert b"\xff" == large["h"] == small["h"]
    assert (b"1000000", b"9", b"P364") == tuple(
        large[f"penstock.{name}"] for name in ("value.bytes", "offset", "code")
    )
    assert "penstock.value.bytes" not in small
    assert b"1970-01-01T00:00:00.001Z" == small["penstock.timestamp"]
