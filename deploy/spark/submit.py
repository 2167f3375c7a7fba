"""What spark-submit runs: penstock, with the session that spark-submit configured.

The spec says `spark: { master: existing }`; words behind this file are those of the command line.
"""

from penstock.cli import console

console()
