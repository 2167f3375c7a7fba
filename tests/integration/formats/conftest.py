from tests.integration.cli.conftest import cluster, shop, shops

__all__ = ["cluster", "shop", "shops"]
