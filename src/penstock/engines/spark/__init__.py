"""Spark as the engine: it runs workers and holds no state of Penstock (spark.md).

Importing this package imports nothing heavy: the worker daemon begins here, before it decides
which pyspark it uses.
"""
