"""The files for Kubernetes without a Kubernetes: every field is one that it knows, names agree.

The manifest is what the Helm chart gives: `make chart` and `make dist` ask Helm itself, the test here
compares digests.
"""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes.client
import pytest
import yaml
from deploy.helm import render

from penstock.core.version import __version__
from penstock.spec.load import read
from penstock.spec.secrets import ProcessSecrets

FILES = Path(__file__).parents[3] / "deploy" / "kubernetes"
OBJECTS = list(yaml.safe_load_all((FILES / "pipeline.yaml").read_text()))
BY_KIND = {each["kind"]: each for each in OBJECTS}
CHART = FILES.parent / "helm" / "penstock"
EXAMPLE = yaml.safe_load((CHART.parent / "shop.yaml").read_text())
WHERE = {"NAMESPACE": "shop", "POD": "penstock-shop-0"}
_CONTAINER = re.compile(r"(?:list\[|dict[\[(]str, )(\w+)[\])]", re.IGNORECASE)


def test_every_field_is_one_that_kubernetes_knows() -> None:
    found = [wrong for each in OBJECTS for wrong in faults(each, f"V1{each['kind']}", each["kind"])]

    assert [] == found
    assert ["Deployment.spec.replica"] == faults(
        {"spec": {**BY_KIND["Deployment"]["spec"], "replica": 1}}, "V1Deployment", "Deployment"
    )


def test_the_manifest_is_what_the_chart_gave_when_it_was_rendered_last() -> None:
    text = (FILES / "pipeline.yaml").read_text()
    comments = re.match(r"(#.*\n)+", text)
    assert comments is not None
    objects = text[comments.end() :]

    assert render.HEAD.format(digest=render.digest(objects)) == comments[0], "make chart"
    assert render.digest(objects) != render.digest(objects.replace("replicas: 1", "replicas: 2"))


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({}, ""),
        ({"spec": {"name": "shop"}}, "kafka"),
        ({"executors": {"instances": -1}}, "minimum"),
        ({"secrets": {"LAKE-KEY": {"secret": "shop", "key": "k"}}}, "LAKE-KEY"),
        ({"replicas": 2}, "replicas"),
    ],
)
def test_values_that_make_no_pipeline_are_refused_by_the_charts_schema(
    wrong: dict[str, Any], name: str
) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    values = {**defaults, **EXAMPLE, **wrong}
    found = [*jsonschema.Draft7Validator(schema).iter_errors(values)]

    assert bool(wrong) == bool(found)
    assert all(name in str(each) for each in found)


def test_chart_and_image_are_of_the_version_that_is_here() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    image = BY_KIND["Deployment"]["spec"]["template"]["spec"]["containers"][0]["image"]

    assert {__version__} == {chart["version"], chart["appVersion"], image.rpartition(":")[2]}


def test_the_image_runs_as_nobody_in_particular_and_copies_what_is_there() -> None:
    lines = (FILES / "Dockerfile").read_text().splitlines()
    root = FILES.parents[1]
    copied = [
        line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line
    ]
    names = [name for each in copied for name in each if not name.startswith("dist/")]
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    pod = BY_KIND["Deployment"]["spec"]["template"]["spec"]

    assert [] == [name for name in names if not (root / name).exists()]
    assert [str(pod["securityContext"]["runAsUser"])] == users
    assert [] == [
        line for line in lines if re.match(r"(ARG|ENV).*(?i:secret|token|password)", line)
    ]


def test_the_names_that_objects_have_for_each_other_agree() -> None:
    pod = BY_KIND["Deployment"]["spec"]["template"]
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    mentioned = {spec["volumes"][0]["configMap"]["name"], spec["serviceAccountName"]}
    mentioned |= {BY_KIND["RoleBinding"]["roleRef"]["name"]}
    mentioned |= {each["name"] for each in BY_KIND["RoleBinding"]["subjects"]}

    assert labels == BY_KIND["Service"]["spec"]["selector"]
    assert labels == BY_KIND["Deployment"]["spec"]["selector"]["matchLabels"]
    assert {each["metadata"]["name"] for each in OBJECTS} == mentioned


def test_the_spec_in_it_is_right_and_its_ports_and_secrets_are_those_of_the_pod() -> None:
    text = BY_KIND["ConfigMap"]["data"]["penstock.yaml"]
    found = read(text, base=Path("/etc/penstock"), name="p", secrets=ProcessSecrets(WHERE))
    assert found.pipeline is not None
    conf = found.pipeline.spark.conf
    (driver,) = BY_KIND["Deployment"]["spec"]["template"]["spec"]["containers"]
    ports = {each["name"]: str(each["port"]) for each in BY_KIND["Service"]["spec"]["ports"]}
    given = {
        each["name"]: ":".join(each["valueFrom"]["secretKeyRef"].values())
        for each in driver["env"]
        if "secretKeyRef" in each["valueFrom"]
    }
    secret = "spark.kubernetes.executor.secretKeyRef."

    assert (ports["driver"], ports["blocks"]) == (
        conf["spark.driver.port"],
        conf["spark.driver.blockManager.port"],
    )
    assert BY_KIND["Service"]["metadata"]["name"] == conf["spark.driver.host"]
    assert driver["image"] == conf["spark.kubernetes.container.image"]
    assert {"LAKE_KEY", "LAKE_SECRET"} == {
        name.removeprefix(secret) for name in conf if secret in name
    }
    assert all(given[name.removeprefix(secret)] == conf[name] for name in conf if secret in name)
    assert set(re.findall(r"\$\{env:(\w+)\}", text)) == {each["name"] for each in driver["env"]}


def test_the_entrypoint_starts_an_executor_as_spark_describes_it(tmp_path: Path) -> None:
    (tmp_path / "tini").write_text('#!/bin/sh\nshift 2\nprintf "%s\\n" "$@"\n')
    (tmp_path / "tini").chmod(0o755)
    paths = {
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_DRIVER_URL": "spark://d:7078",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        "SPARK_JAVA_OPT_0": "-Da=b c",
        "SPARK_JAVA_OPT_1": "-Dd=e",
        "SPARK_HOME": "/spark",
    }
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **paths}
    entrypoint = FILES / "entrypoint"
    started = subprocess.run(
        [entrypoint, "executor"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    other = subprocess.run(
        [entrypoint, "penstock", "run"], env=environment, capture_output=True, text=True, check=True
    ).stdout

    assert ["java", "-Da=b c", "-Dd=e", "-Xms512m", "-Xmx512m"] == started[:5]
    assert "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend" in started
    assert ["--podName", "pod"] == started[-2:]
    assert ["penstock", "run"] == shlex.split(other)


def faults(data: Any, kind: str, path: str) -> list[str]:
    """List the fields of an object that Kubernetes's own description of its kind does not have."""
    inner = _CONTAINER.fullmatch(kind)
    if inner is not None:
        items = data.items() if isinstance(data, dict) else enumerate(data)
        return [
            wrong for name, each in items for wrong in faults(each, inner[1], f"{path}[{name}]")
        ]
    model = getattr(kubernetes.client, kind, None)
    if model is None:
        return [] if not isinstance(data, dict) or kind == "object" else [path]
    types = {name: model.openapi_types[own] for own, name in model.attribute_map.items()}
    if not isinstance(data, dict):
        return [path]
    unknown = [f"{path}.{name}" for name in data if name not in types]
    return unknown + [
        wrong
        for name, each in data.items()
        if name in types
        for wrong in faults(each, types[name], f"{path}.{name}")
    ]
