"""Render the chart by Helm itself: check it, and write deploy/kubernetes/pipeline.yaml.

    python deploy/helm/render.py           write it
    python deploy/helm/render.py --check   fail where it is not what the chart gives

Needs requirements/ship.lock; `make chart` installs it. The digest on top of what is written is that
of the chart, its example and the objects: with it a test sees what is out of step, without Helm.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
CHART, EXAMPLE = HERE / "penstock", HERE / "shop.yaml"
MANIFEST = HERE.parent / "kubernetes" / "pipeline.yaml"
RELEASE = "penstock-shop"
ORDER = ("serviceaccount", "role", "service", "configmap", "deployment")
"""Templates in the order in which a cluster wants their objects."""
HEAD = """\
# A pipeline on Kubernetes: the driver is a Deployment of one pod, which starts executors as pods.
#
#   kubectl create secret generic shop --from-literal=lake-key=… --from-literal=lake-secret=… \\
#     --from-literal=store-password=…
#   kubectl apply -f deploy/kubernetes/pipeline.yaml
#
# For a pipeline that one pod can carry, write  master: local[*]  below; then the Service, the Role
# and its binding are not needed.
#
# Made by `make chart` from deploy/helm/penstock with deploy/helm/shop.yaml; digest {digest}
"""


def digest(objects: str) -> str:
    """Return the digest of the chart's files, the example, and the objects made of them."""
    files = sorted(path for path in CHART.rglob("*") if path.is_file())
    whole = hashlib.sha256()
    for path in (*files, EXAMPLE):
        whole.update(f"{path.relative_to(HERE).as_posix()}\0".encode() + path.read_bytes())
    whole.update(objects.encode())
    return whole.hexdigest()


def rendered(values: str, release: str = RELEASE) -> str:
    """Return the objects that Helm makes of the chart with some values, as YAML.

    Helm raises where values do not fit the schema or a template fails.
    """
    import helm_python as helm  # a library of 80 MB, in an environment of its own

    given = helm.values_from_yaml(values)
    found = helm.lint(str(CHART), given, strict=True)
    wrong = [each for each in found["messages"] if each["severity"] > 1] or found["errors"]
    assert not wrong, wrong
    with helm.Chart.load(str(CHART)) as chart:
        chart.validate_schema(given)
        made = chart.render(given, name=release, namespace="default")
    texts = (made[f"penstock/templates/{name}.yaml"].strip() for name in ORDER)
    return "---\n".join(f"{text}\n" for text in texts if text)


def main() -> None:
    """Write the manifest, or compare it with what the chart gives."""
    objects = rendered(EXAMPLE.read_text("utf-8"))
    text = HEAD.format(digest=digest(objects)) + objects
    if "--check" in sys.argv[1:]:
        sys.exit(text != MANIFEST.read_text("utf-8") and f"{MANIFEST}: make chart")
    MANIFEST.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
