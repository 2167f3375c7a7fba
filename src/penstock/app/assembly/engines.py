"""The engine of a spec: Spark of our own, a session that is lent, or this process."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from penstock.core.errors import InvalidError
from penstock.core.events import ClassArchiveBegun
from penstock.engines.background import BackgroundEngine, CancellationToken
from penstock.engines.work import LANDING_WORK
from penstock.ports.runtime import Engine, Observer
from penstock.spec.checks.agreement import is_remote, unreachable
from penstock.spec.model import Pipeline
from penstock.spec.problems import path_text
from penstock.spec.publications import Publications
from penstock.spec.settings.sections import SparkSettings as SparkSection

INLINE = "inline"
EXISTING = "existing"


def open_engine(
    spec: Pipeline | Publications,
    session: Any = None,
    *,
    observer: Observer | None = None,
    work: str = LANDING_WORK,
) -> Engine:
    """Start Spark, take a running session, or run in this process (`spark.master: inline`).

    With `spark.master: existing` the session is that of this process, such as spark-submit's. Our
    own Spark starts in the background: the first jobs wait for it. That there is a Java for it is
    checked now. With an `observer`, a process of its own archives Java's classes as soon as
    Spark runs (docs/design/0239). Raises InvalidError (P297, P602; of a session P128, P298, P603,
    P604).
    """
    if spec.spark.master == INLINE and session is None:
        from penstock.engines.inline import InlineEngine

        return InlineEngine(work)
    if session is not None or spec.spark.master == EXISTING:
        from penstock.engines.spark.engine import SparkEngine
        from penstock.engines.spark.session import existing_session

        lent = SparkEngine(existing_session() if session is None else session, work=work)
        if not lent.is_local:
            _require_reachable(spec)
        return lent
    require_engine(spec)
    return BackgroundEngine(partial(_spark, spec.spark, work, observer))


def require_engine(spec: Pipeline | Publications) -> None:
    """Raise InvalidError where our own engine certainly could not start (P128, P297, P602)."""
    if spec.spark.master in (INLINE, EXISTING):
        return
    from penstock.engines.java import find_java
    from penstock.engines.spark.release import require_installed

    require_installed()
    if is_remote(spec.spark.master):
        _require_reachable(spec)
    find_java(os.environ)


def _require_reachable(spec: Pipeline | Publications) -> None:
    catalogs = spec.catalogs if isinstance(spec, Pipeline) else {}
    problem = next(iter(unreachable(spec.spark, catalogs)), None)
    if problem is not None:
        raise InvalidError(
            f"{path_text(problem.path)}: {problem.message}", code=problem.code, hint=problem.hint
        )


def _spark(
    spark: SparkSection, work: str, observer: Observer | None, token: CancellationToken
) -> Engine:
    from penstock.engines.spark.class_archive import make_in_background
    from penstock.engines.spark.engine import SparkEngine
    from penstock.engines.spark.settings import SparkSettings

    settings = SparkSettings(master=spark.master, conf=dict(spark.conf))
    engine = SparkEngine(settings=settings, work=work, launched=token.on_cancel)
    if token.is_cancelled:
        return engine
    engine.warm()
    if observer is not None and spark.prepare:
        path = make_in_background(settings.conf, os.environ)
        if path is not None:
            observer(ClassArchiveBegun(str(path)))
    return engine
