"""Workers fork, and have nothing of deploy/spark/driver-only.txt, deltalake among it."""

import subprocess
import sys
from pathlib import Path

LISTED = Path(__file__).parents[3] / "deploy" / "spark" / "driver-only.txt"
ABSENT = [
    line.strip().replace("-", "_")
    for line in LISTED.read_text().splitlines()
    if line.strip() and not line.startswith("#")
]


def loaded_by(code):
    program = f"import sys\n{code}\nprint(','.join(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return set(found.stdout.decode().strip().split(","))


def test_the_connector_of_delta_imports_nothing_heavy():
    loaded = loaded_by("from penstock.connectors.delta import connector")

    assert set() == loaded & {"deltalake", "pyarrow", "numpy"}


def test_a_writer_of_delta_works_without_the_driver_s_libraries():
    loaded = loaded_by(
        f"sys.modules.update(dict.fromkeys({ABSENT}))\n"  # to import one is an error now
        "import tempfile\n"
        "import penstock.app.assembly.worker\n"
        "import pyarrow as pa\n"
        "from penstock.connectors.delta import connector\n"
        "from penstock.connectors.delta.schema.column_mapping import Stored\n"
        "from penstock.connectors.delta.files.target import Target, target_to_json\n"
        "from penstock.core.schema import Field, Kind, Struct\n"
        "class Quiet:\n"
        "    def passed(self, point): pass\n"
        "schema = Struct((Field('id', Kind.LONG), Field('p', Kind.STRING)))\n"
        "target = Target('t', tempfile.mkdtemp(), schema, Stored(schema), ('p',))\n"
        "writer = connector.open_writer(target_to_json(target), prefix='x', observer=Quiet(), secrets=None)\n"
        "writer.write(pa.record_batch({'id': [1, 2], 'p': ['a', 'b']}))\n"
        "assert 2 == len(writer.close())\n"
    )

    assert {"deltalake", "obstore"} <= set(ABSENT)
    assert "pyarrow" in loaded


def test_tasks_and_sources_import_nothing_that_only_the_driver_has():
    loaded = loaded_by(
        f"sys.modules.update(dict.fromkeys({ABSENT}))\n"
        "import penstock.app.assembly.copying_worker\n"
        "import penstock.app.assembly.publishing_worker\n"
        "import penstock.sources.files\n"
        "import penstock.sources.sql\n"
        "import psycopg\n"
        "from penstock.connectors import delta, iceberg\n"
        "from penstock.spec.secrets import ProcessSecrets\n"
        "for connector in (delta.connector, iceberg.connector):\n"
        "    connector.open_file_rows(ProcessSecrets())\n"
    )

    read = {f"penstock.connectors.{name}.read.table_rows" for name in ("delta", "iceberg")}
    assert read <= loaded
