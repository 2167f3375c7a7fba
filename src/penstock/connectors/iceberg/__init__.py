"""connectors.iceberg"""
