"""The composition root: connectors found, catalogs opened, settings made from a spec; what an
executor calls.
"""
