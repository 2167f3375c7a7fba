"""Deletes rows of a Delta table as another writer that knows deletion vectors would.

deltalake writes no vectors, so the entry is written by hand: of the actions that Spark's DELETE
writes, without anything of ours in it. Spark's own DELETE is in `readers/test_row_deletes_of_delta.py`.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from penstock.connectors.delta.locations import StorageRoot, place_of
from penstock.connectors.delta.log.actions import now_ms, removal, renewed
from penstock.connectors.delta.log.commit_file import log_of, put_if_absent
from penstock.connectors.delta.read.live_files import live_adds
from penstock.connectors.delta.vectors.descriptor import vector_of
from penstock.connectors.delta.vectors.store import read_vector, write_vectors


def foreign_delete(root: StorageRoot, name: str, is_gone: Callable[[dict[str, Any]], bool]) -> bool:
    """Delete rows by new vectors; files stay, also where no row is left.

    False when another writer took the version, and nothing is deleted.
    """
    log = log_of(root, name)
    version = log.versions()[-1]
    info = {
        "timestamp": now_ms(),
        "operation": "DELETE",
        "operationParameters": {"predicate": '["(id = ?)"]'},
        "engineInfo": "another writer",
    }
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    for add in live_adds(log, version):
        place = place_of(root, name, add["path"])
        rows = pq.read_table(place, filesystem=root.filesystem(), partitioning=None).to_pylist()
        vector = vector_of(add)
        former = [] if vector is None else read_vector(root, name, vector).tolist()
        gone = {at for at, row in enumerate(rows) if is_gone(row)} | {*former}
        if gone != {*former}:
            written = write_vectors(root, name, {"": np.array(sorted(gone), np.int64)})
            actions += [
                {"remove": removal(add, now_ms())},
                {"add": renewed(add, len(rows), written[""])},
            ]
    body = "".join(json.dumps(each) + "\n" for each in actions)
    return put_if_absent(root, name, version + 1, body.encode())
