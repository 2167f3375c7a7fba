"""Storage of Iceberg tables: requests, credentials and how long they are lent for."""
