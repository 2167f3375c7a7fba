"""The page: what is known of pipelines, in a browser. Read-only.

Needs the extra `penstock[page]`. It stands on `app` alone; nothing below knows of it.
"""
