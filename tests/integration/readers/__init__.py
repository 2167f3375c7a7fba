"""A package, so that pytest ends its one Spark session before other tests start theirs."""
