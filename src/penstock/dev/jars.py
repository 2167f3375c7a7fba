"""Fetch jars once, check each one, and cache them: the local broker's, and those of tests.

Invariants:
- a folder of jars appears in the cache whole or not at all, under a name that holds the digest of
  the lock file: a new pin never mixes with old jars;
- only jars with the SHA-256 of the lock file are returned, and no other jar is in their folder;
- two processes that fetch at once wait for each other; an interrupted download is continued.

The Ivy that PySpark brings along resolves the jars, from its default repository or from the mirror
that `PENSTOCK_MAVEN_MIRROR` names.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from penstock.core.errors import InvalidError, UnavailableError
from penstock.engines.java import Java

KAFKA_VERSION = "4.3.1"
FETCH_SECONDS_MAX = 900


@dataclass(frozen=True, slots=True)
class Bundle:
    """Jars that are fetched together with their dependencies.

    `dependencies` are elements of Ivy's `<dependencies>`. A bundle with another `suffix` is a
    whole distribution: Ivy does not read its dependencies.
    """

    name: str
    dependencies: str
    lock: Path
    suffix: str = "jar"


BROKER = Bundle(
    f"kafka-{KAFKA_VERSION}",
    # Kafka depends on no logging binding: without one the broker logs nothing.
    f"""
<dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default->default"/>
<dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
""",
    Path(__file__).with_name("broker.jars.lock"),
)

Progress = Callable[[str, int, int], None]
"""Called with (jar, jars fetched so far, jars in all) after each download."""


def silent(_jar: str, _done: int, _total: int) -> None:
    """Show no progress."""


def home() -> Path:
    """Return the folder for what is kept between runs: $PENSTOCK_HOME, else ~/.cache/penstock."""
    chosen = os.environ.get("PENSTOCK_HOME", "").strip()
    return Path(chosen).expanduser().resolve() if chosen else Path.home() / ".cache" / "penstock"


def jars_of(bundle: Bundle, java: Java, *, progress: Progress = silent) -> Path:
    """Return the folder with a bundle's jars, checked; fetch them when they are not there.

    Raises UnavailableError when they cannot be fetched (P654), InvalidError when a jar is not the
    one in the lock file (P653).
    """
    cache = home()
    wanted = locked(bundle.lock.read_text())
    digest = hashlib.sha256(bundle.lock.read_bytes()).hexdigest()[:12]
    target = cache / f"{bundle.name}-{digest}"
    if not target.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with held(cache / "jars.lock"):
            if not target.is_dir():
                _fetch(bundle, java, target, progress)
    check(target, wanted, suffix=bundle.suffix)
    return target


def locked(text: str) -> dict[str, str]:
    """Read a lock file, lines of `sha256  name`, into digests by file name."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return {name: digest for digest, name in rows}


def check(folder: Path, wanted: Mapping[str, str], *, suffix: str = "jar") -> None:
    """Compare every jar of a folder with the lock file. Raises InvalidError (P653)."""
    found = {path.name: path for path in folder.glob(f"*.{suffix}")}
    wrong = [f"{name} is missing" for name in sorted(wanted.keys() - found.keys())]
    wrong += [f"{name} is not in the lock file" for name in sorted(found.keys() - wanted.keys())]
    wrong += [
        f"{name} has other contents"
        for name in sorted(wanted.keys() & found.keys())
        if hashlib.sha256(found[name].read_bytes()).hexdigest() != wanted[name]
    ]
    if wrong:
        raise InvalidError(
            f"the broker's jars in {folder} are not the ones Penstock was tested with: "
            f"{'; '.join(wrong[:3])}{' …' if len(wrong) > 3 else ''}",  # noqa: PLR2004
            code="P653",
            hint=f"rm -r '{folder}' && penstock dev up",
        )


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock file against other processes; it is released however the holder ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(bundle: Bundle, java: Java, target: Path, progress: Progress) -> None:
    """Resolve into a scratch folder and rename it when all jars are there and right."""
    downloads, wanted = target.parent / "ivy", locked(bundle.lock.read_text())
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=target.parent) as scratch:
        command = _resolving(bundle, java, Path(scratch), downloads)
        _run(command, lambda jar, done: progress(jar, done, len(wanted)))
        fetched = Path(scratch, "jars")
        fetched.mkdir(exist_ok=True)
        try:
            check(fetched, wanted, suffix=bundle.suffix)
        except InvalidError as error:
            # or the same jar would come back each time
            shutil.rmtree(downloads, ignore_errors=True)
            raise InvalidError(
                error.message.replace(str(fetched), "what was downloaded"),
                code=error.code,
                hint="penstock dev up  (fetches all of them anew; a mirror may be serving others)",
            ) from error
        fetched.rename(target)
    shutil.rmtree(downloads, ignore_errors=True)


def _resolving(bundle: Bundle, java: Java, scratch: Path, downloads: Path) -> list[str]:
    """Write what Ivy is to do, and give the command that does it.

    It asks one repository: its stock chain would also read local folders of Maven and Ivy, with
    half-finished downloads.
    """
    settings, module = scratch / "ivysettings.xml", scratch / "ivy.xml"
    mirror = os.environ.get("PENSTOCK_MAVEN_MIRROR", "").strip()
    root = f" root={quoteattr(mirror)}" if mirror else ""
    root += "" if bundle.suffix == "jar" else ' usepoms="false"'
    settings.write_text(
        '<ivysettings><settings defaultResolver="central"/><resolvers>'
        f'<ibiblio name="central" m2compatible="true"{root}/></resolvers></ivysettings>'
    )
    module.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="penstock" module="bundle"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{bundle.dependencies}</dependencies></ivy-module>"
    )
    pattern = f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"
    command = [str(java.path), "-Xmx256m", "-jar", str(_ivy()), "-settings", str(settings)]
    return [*command, "-cache", str(downloads), "-ivy", str(module), "-retrieve", pattern]


def _run(command: list[str], progress: Callable[[str, int], None]) -> None:
    """Run Ivy, and report each jar that arrives."""
    said: list[str] = []
    done = 0
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    watch = threading.Timer(FETCH_SECONDS_MAX, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.strip())
            arrived = re.search(r"\[SUCCESSFUL ] \S+!(\S+\.(?:jar|gz))", line)
            if arrived:
                done += 1
                progress(arrived[1], done)
        process.wait()
    finally:
        watch.cancel()
        process.kill()
        process.wait()
    if process.returncode or any("UNRESOLVED" in line for line in said):
        reasons = [line for line in said if "not found" in line or "rror" in line] or said[-1:]
        raise UnavailableError(
            f"the broker's jars could not be fetched: {reasons[0] if reasons else 'Ivy ended'}",
            code="P654",
            hint="check the network (or PENSTOCK_MAVEN_MIRROR) and run again; "
            "what has arrived is kept",
        )


def _ivy() -> Path:
    """Find the Ivy that PySpark brings along, without importing PySpark."""
    spark = importlib.util.find_spec("pyspark")
    for folder in (spark.submodule_search_locations or []) if spark else []:
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise InvalidError(
        "PySpark, which brings the resolver for the broker's jars, is not installed",
        code="P655",
        hint='pip install "penstock[spark]"',
    )
