# ruff: noqa: D102 - the names of the tests are their sentences
"""The part of the table contract that is about writers: where each row that they took went."""

from __future__ import annotations

from itertools import product

from penstock.ports.row_deletes import POSITION
from penstock.ports.tables import TableFormat
from penstock.ports.writers import AS_THEY_COME, Distribution, Placing
from penstock.testing.contracts.table_fixture import RETAIN, Quiet, TableBench, batch_of
from penstock.testing.prepared import orders, origin

_BATCHES = (range(5), range(5, 5), range(5, 12))
_PLACINGS = (AS_THEY_COME, Placing(Distribution.AUTO, is_sorted=True))


class WriterTests(TableBench):
    """Writers of one table format."""

    def test_a_writer_knows_the_file_of_each_row_and_its_place_there(
        self, catalog: TableFormat
    ) -> None:
        for number, (definition, placing) in enumerate(product(self.layouts, _PLACINGS)):
            name = self.name.replace("orders", f"placed_{number}")
            table = catalog.create(name, definition, [origin(self.chain, {0: 0})])
            state = table.state(self.chain)
            rows = [
                {**row, "name": f"name {place * 7 % 3}"}
                for place, row in enumerate(orders({0: (0, 12)}))
            ]
            writer = self.open_writer()(
                state.target, prefix="shop-1-0-", observer=Quiet(), places=True, placing=placing
            )
            for batch in _BATCHES:
                writer.write(batch_of(state.schema, [rows[each] for each in batch]))
            files = tuple(writer.close())
            file, position = writer.places()
            table.commit(state, self.prepare(state, {0: (0, 12)}, files=files), retain=RETAIN)
            landed = table.state(self.chain)
            found = {
                (live.path, at): id_
                for live in table.live_files(landed)
                for batch in table.read_live(landed, live, ["id"])
                for id_, at in zip(
                    batch.column("id").to_pylist(),
                    batch.column(POSITION).to_pylist(),
                    strict=True,
                )
            }

            places = [
                (files[each].path, at)
                for each, at in zip(file.tolist(), position.tolist(), strict=True)
            ]
            assert dict(zip(places, range(12), strict=True)) == found, definition
            assert [str(each.dtype) for each in (file, position)] == ["int32", "int64"]
