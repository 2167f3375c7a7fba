"""Data files and manifests of Iceberg tables: their metadata, read and written exactly."""
