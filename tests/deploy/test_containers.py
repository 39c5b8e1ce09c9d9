"""deploy/containers: the images are built from the tarball, and run: servers, clients, and other images that are made clients (E6).

Wants root, buildah, podman, runc or crun, and mmdebstrap, all Debian's. Nothing is fetched but Debian's base system, once. Pods of
deploy/kubernetes run here as containers: with their user, without capabilities, their file system read-only."""

import functools
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

import harness
from manifests import container_of, pod_of, render
from volumes import Volumes, put, secret_files

ROOT = harness.ROOT
CONTAINERS = ROOT / "deploy" / "containers"
FOLDER = pathlib.Path(os.environ.get("WARPLINE_CONTAINERS", ROOT / "build" / "containers")).resolve()
BASE = "localhost/warpline-test-base"
CUDA_BASE = "localhost/warpline-test-cuda-base"
PROGRAMS = harness.programs()
COMMANDS = ("buildah", "podman", "mmdebstrap")
SECONDS = 300


@functools.cache
def tarball():
    """The one that WARPLINE_TARBALL names, else one of the build."""
    given = os.environ.get("WARPLINE_TARBALL")
    if given:
        return pathlib.Path(given)
    folder = FOLDER / "package"
    shutil.rmtree(folder, ignore_errors=True)
    Engine.good([ROOT / "scripts" / "package", "--output", folder, "tarball"], env={**os.environ, "WARPLINE_PACKAGE_BUILT": "yes"})
    made, = folder.glob("warpline-*-linux-x86_64.tar.gz")
    return made


def version():
    return re.fullmatch(r"warpline-(.+)-linux-x86_64\.tar\.gz", tarball().name)[1]


class Engine:
    """podman and buildah with a storage of the test's own, in the way that works here."""

    storage = ["--root", str(FOLDER / "storage"), "--runroot", str(FOLDER / "run")]
    podman = []  # what podman is called with; set by find()

    @classmethod
    def find(cls):
        """Chooses the driver of the storage and the run time of containers. @raises SkipTest where no container can be run"""
        refusals = []
        for driver in ("overlay", "vfs"):
            for runtime in ("crun", "runc"):
                if not shutil.which(runtime):
                    continue
                cls.storage = ["--root", str(FOLDER / f"storage-{driver}"), "--runroot", str(FOLDER / "run"), "--storage-driver", driver]
                cls.podman = ["podman", *cls.storage, "--cgroup-manager", "cgroupfs", "--runtime", runtime]
                try:
                    make_base()
                except RuntimeError as why:
                    refusals.append(f"{driver}: {why}")
                    break
                tried = cls.call([*cls.podman, "run", "--rm", *cls.limits(), "--network", "host", BASE, "true"])
                if tried.returncode == 0:
                    return
                refusals.append(f"{driver}, {runtime}: {tried.stderr.strip().splitlines()[-1:]}")
        raise unittest.SkipTest(f"no container can be run here: {'; '.join(refusals)}")

    @staticmethod
    def limits():
        """Not above this process's: raising them takes a capability that a machine may not give."""
        return [word for name, which, most in (("nofile", resource.RLIMIT_NOFILE, 20000), ("nproc", resource.RLIMIT_NPROC, 4096))
                for value in [min(most, *(n for n in resource.getrlimit(which) if n != resource.RLIM_INFINITY), most)]
                for word in ("--ulimit", f"{name}={value}:{value}")]

    @staticmethod
    def call(command, **options):
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=SECONDS, **options)

    @classmethod
    def good(cls, command, **options):
        done = cls.call(command, **options)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    @classmethod
    def bud(cls):
        return ["buildah", *cls.storage, "bud", "--isolation", "chroot"]

    @classmethod
    def build(cls, tag, containerfile, context, **arguments):
        values = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        return cls.good([*cls.bud(), *values, "-f", containerfile, "-t", tag, context])

    @classmethod
    def run(cls, image, *command, options=()):
        """(exit code, what it said)"""
        done = cls.call([*cls.podman, "run", "--rm", "--no-healthcheck", *cls.limits(), "--network", "host", *options, image, *command])
        return done.returncode, done.stdout + done.stderr


def make_base():
    """Debian's base system as an image; the archive of it is kept."""
    archive = FOLDER / "base" / "base.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        fresh = archive.with_suffix(".new.tar")
        Engine.good(["mmdebstrap", "--variant=minbase", "--include=openssl", "bookworm", fresh])
        fresh.rename(archive)
    if Engine.call([*Engine.podman, "image", "exists", BASE]).returncode != 0:
        (archive.parent / "Containerfile").write_text("FROM scratch\nADD base.tar /\n")
        Engine.build(BASE, archive.parent / "Containerfile", archive.parent)


def setUpModule():
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root can run these containers")
    missing = [name for name in COMMANDS if not shutil.which(name)]
    if missing:
        raise unittest.SkipTest(f"not installed: apt-get install {' '.join(missing)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    Engine.find()
    bud = " ".join(Engine.bud())
    Engine.good([CONTAINERS / "build", "--engine", bud, "--base", BASE, "--prefix", "localhost/", tarball()])
    for name in ("vector_add", "until_error", "nvrtc"):
        harness.build_program(PROGRAMS[name])


def tearDownModule():
    """Leaves the images, for the next time. buildah keeps containers of stages that only lend files, mounted."""
    if Engine.podman:
        Engine.call([*Engine.podman, "rm", "-af", "-t", "0"])
        Engine.call(["buildah", *Engine.storage, "rm", "-a"])
        Engine.call([*Engine.podman, "image", "prune", "-f"])


def image(name):
    return f"localhost/warpline-{name}:{version()}"


class ContainersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="case-", dir=FOLDER)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        self.ip = f"127.{180 + os.getpid() % 50}.{os.getpid() // 50 % 250}.1"
        authority = self.folder / "ca"
        for command in (["make-ca", authority], ["enrol-server", "--dir", authority, "localhost", self.ip],
                        ["enrol-tenant", "--dir", authority, "alice"]):
            Engine.good([ROOT / "certs" / command[0], *command[1:]])
        server, tenant = authority / "servers" / "localhost", authority / "tenants" / "alice"
        self.secrets = {"warpline-server-tls": secret_files(server / "server.crt", server / "server.key", server / "ca.crt"),
                        "warpline-tenant": secret_files(tenant / "tenant.crt", tenant / "tenant.key", tenant / "ca.crt")}
        self.tenant = self.folder / "tenant"
        put(self.tenant, self.secrets["warpline-tenant"])

    @staticmethod
    def as_in(pod, container, volumes):
        """The options of podman's that stand for what a pod says of a container."""
        identity = pod["securityContext"]
        options = ["--user", f"{identity['runAsUser']}:{identity['runAsGroup']}", "--read-only", "--read-only-tmpfs=false", "--cap-drop", "all",
                   "--security-opt", "no-new-privileges"]
        for path, folder, read_only in volumes.mounts(container):
            options += ["-v", f"{folder}:{path}{':ro' if read_only else ''}"]
        for variable in container.get("env", []):
            options += ["-e", f"{variable['name']}={variable['value']}"]
        return options

    def start_server(self):
        """The software GPU's overlay as a container at an address of its own, once its start-up probe is content."""
        objects = render("overlays/softgpu")
        self.pod = pod_of(objects)
        self.container = container_of(self.pod, "gpu-server")
        folder = self.folder / "server"
        folder.mkdir()
        self.volumes = volumes = Volumes(folder, self.pod, objects, self.secrets)
        volumes.own(self.pod["securityContext"]["runAsUser"])
        self.name = f"warpline-test-{os.getpid()}"
        Engine.good([*Engine.podman, "run", "-d", "--name", self.name, *Engine.limits(), "--network", "host",
                     *self.as_in(self.pod, self.container, volumes), "-e", f"WARPLINE_LISTEN={self.ip}:14833",
                     "--entrypoint", self.container["command"][0], image("server-softgpu")])
        self.addCleanup(Engine.call, [*Engine.podman, "rm", "-f", "-t", "0", self.name])
        self.assertTrue(harness.until(lambda: self.probe("startupProbe") == 0), self.log())

    def execute(self, command):
        return Engine.call([*Engine.podman, "exec", self.name, *command])

    def probe(self, name):
        return self.execute(self.container[name]["exec"]["command"]).returncode

    def log(self):
        done = Engine.call([*Engine.podman, "logs", self.name])
        return done.stdout + done.stderr

    def as_tenant(self):
        """What every client container is given: its certificate, and the server."""
        return ["-v", f"{self.tenant}:/tenant:ro", "-e", f"WARPLINE_SERVERS={self.ip}:14833", "-e", "WARPLINE_CERT=/tenant/tls.crt",
                "-e", "WARPLINE_KEY=/tenant/tls.key", "-e", "WARPLINE_CA=/tenant/ca.crt"]

    def program_image(self, tag, containerfile, program, **arguments):
        context = self.folder / tag
        context.mkdir()
        shutil.copy(PROGRAMS[program].binary, context / "program")
        Engine.build(f"localhost/{tag}", CONTAINERS / "examples" / containerfile, context, CLIENT=image("client"), **arguments)
        return f"localhost/{tag}"

    def verified(self, tag, *command, options=()):
        code, said = Engine.run(tag, *command, options=[*self.as_tenant(), *options])
        self.assertEqual((code, "verified" in said), (0, True), said)

    def test_e6_images_run_as_nobody_and_hold_what_they_are_for(self):
        for name in ("server", "server-softgpu", "client", "tools"):
            list_all = "id -u; cd /opt/warpline; find bin lib -type f -o -type l | sort"
            code, said = Engine.run(image(name), "-c", list_all, options=["--entrypoint", "/bin/sh"])
            user, *files = said.splitlines()
            self.assertEqual((code, user), (0, "65532"), said)
            library = {f"lib/warpline/{name}" for name in ("libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1", "nvrtc.so")}
            scripts = {f"bin/{script}" for script in ("dev", "make-ca", "enrol-server", "enrol-tenant", "lib.sh")}
            server = {"bin/gpu-server"}
            self.assertEqual(set(files), {"server": server, "server-softgpu": server | {"lib/libsoftgpu.so", "lib/libnvidia-ml.so.1"},
                                          "client": library | {"bin/warpline"},
                                          "tools": library | scripts | {"bin/warpline", "bin/warpline-bench"}}[name])

    def test_e6_a_server_without_a_gpu_says_so_and_ends(self):
        certificates = self.folder / "certificates"
        put(certificates, self.secrets["warpline-server-tls"])
        options = ["-v", f"{certificates}:/tls:ro", "-e", f"WARPLINE_LISTEN={self.ip}:14833", "-e", "WARPLINE_DRIVER=nvidia",
                   "-e", "WARPLINE_SERVER_CERT=/tls/tls.crt", "-e", "WARPLINE_SERVER_KEY=/tls/tls.key", "-e", "WARPLINE_SERVER_CA=/tls/ca.crt"]
        code, said = Engine.run(image("server"), options=options)
        self.assertNotEqual(code, 0)
        self.assertIn("libcuda.so.1", said)

    def test_e6_a_server_and_its_clients(self):
        self.start_server()
        self.assertEqual([self.probe(name) for name in ("readinessProbe", "livenessProbe")], [0, 0])
        # The image's own health check, which engines without Kubernetes ask.
        self.assertEqual(Engine.call([*Engine.podman, "healthcheck", "run", self.name]).returncode, 0)
        with self.subTest("the client's image is a check of servers"):
            code, said = Engine.run(image("client"), options=self.as_tenant())
            self.assertEqual((code, f"{self.ip}:14833" in said), (0, True), said)
        with self.subTest("one COPY"):
            self.verified(self.program_image("warpline-test-program", "Containerfile.program", "vector_add", BASE=BASE))
        with self.subTest("one volume, for an image that knows nothing"):
            self.verified(BASE, "/app/vector_add", options=["-v", f"{self.client_volume()}:/opt/warpline:ro", "-v", f"{harness.BINARIES}:/app:ro",
                                                             "-e", "LD_LIBRARY_PATH=/opt/warpline/lib/warpline"])
        with self.subTest("the launcher from the volume"):
            self.verified(BASE, "/opt/warpline/bin/warpline", "run", "--", "/app/vector_add",
                          options=["-v", f"{self.client_volume()}:/opt/warpline:ro", "-v", f"{harness.BINARIES}:/app:ro"])
        with self.subTest("tools"):
            code, said = Engine.run(image("tools"), "warpline", "ping", "--count", "3", options=self.as_tenant())
            self.assertEqual(code, 0, said)
            authority = self.folder / "authority"
            authority.mkdir()
            for command in (["make-ca"], ["enrol-tenant", "bob"]):
                code, said = Engine.run(image("tools"), *command, options=["--user", f"{os.getuid()}:{os.getgid()}", "-v", f"{authority}:/ca"])
                self.assertEqual(code, 0, said)
            self.assertTrue((authority / "tenants" / "bob" / "tenant.crt").is_file())
        self.assertIn('tenant="alice"', self.log())
        self.assertNotIn("Landlock", self.log())  # it is there, and the default filter of system calls lets it pass
        self.stops_in_peace()

    def stops_in_peace(self):
        drain = self.execute(self.container["lifecycle"]["preStop"]["exec"]["command"])
        self.assertIn("0 sessions are running", drain.stdout)
        self.assertEqual(Engine.good([*Engine.podman, "wait", self.name]).strip(), "0")

    def client_volume(self):
        """A folder of the host's with what the client's image has: what a named volume is filled with."""
        folder = self.folder / "volume"
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o777)
            code, said = Engine.run(image("client"), "-R", "/opt/warpline/.", "/to/", options=["--entrypoint", "/bin/cp", "-v", f"{folder}:/to"])
            self.assertEqual(code, 0, said)
        return folder

    def test_e6_cuda_base_images(self):
        """One as NVIDIA's are: shared libraries of CUDA's below /usr/local/cuda, a libcuda.so.1 for newer drivers that the loader's cache
        knows, and LD_LIBRARY_PATH set to folders of the container run time's."""
        self.start_server()
        context = self.folder / "cuda"
        (context / "lib").mkdir(parents=True)
        libraries = harness.cuda_root() / "lib64"
        for library in [*libraries.glob("libnvrtc*.so.*"), *libraries.glob("libcudart.so.*")]:
            shutil.copy(library, context / "lib" / library.name)
        Engine.good(["gcc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", context / "lib" / "libcuda.so.1", "-x", "c", "/dev/null"])
        (context / "Containerfile").write_text(
            f"FROM {BASE}\nCOPY lib /usr/local/cuda/lib64\n"
            "RUN mkdir /usr/local/cuda/compat && mv /usr/local/cuda/lib64/libcuda.so.1 /usr/local/cuda/compat/ && "
            "printf '/usr/local/cuda/compat\\n/usr/local/cuda/lib64\\n' >/etc/ld.so.conf.d/00-cuda.conf && ldconfig\n"
            "ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64\n")
        Engine.build(CUDA_BASE, context / "Containerfile", context)
        by_cache = self.program_image("warpline-test-cuda-cache", "Containerfile.cuda", "nvrtc", BASE=CUDA_BASE)
        self.verified(by_cache)
        self.verified(by_cache, "env", "-i", *[word for word in self.as_tenant() if word.startswith("WARPLINE_")], "/app/program")
        by_variable = self.program_image("warpline-test-cuda-variable", "Containerfile.program", "nvrtc", BASE=CUDA_BASE)
        self.verified(by_variable)

    def test_e6_the_example_pod_on_an_image_that_knows_nothing(self):
        """Its init container and its program, as containers, with all that the pod says of them."""
        self.start_server()
        objects = render("example")
        pod = pod_of(objects)
        folder = self.folder / "example"
        folder.mkdir()
        volumes = Volumes(folder, pod, objects, self.secrets)
        volumes.own(pod["securityContext"]["runAsUser"])
        first, program = container_of(pod, "warpline"), container_of(pod, "program")
        code, said = Engine.run(image("client"), *first["command"][1:],
                                options=[*self.as_in(pod, first, volumes), "--entrypoint", first["command"][0]])
        self.assertEqual((code, said), (0, ""))
        application = self.folder / "app"
        application.mkdir()
        shutil.copy(PROGRAMS["vector_add"].binary, application / "program")
        code, said = Engine.run(BASE, *program["command"], options=[*self.as_in(pod, program, volumes), "-v", f"{application}:/app:ro",
                                                                     "-e", f"WARPLINE_SERVERS={self.ip}:14833"])
        self.assertEqual((code, "verified" in said), (0, True), said)

    def test_e6_a_container_notices_renewed_certificates(self):
        """Those of its volume, which the kubelet exchanges from outside; they belong to root at first, and then to its group."""
        self.start_server()
        put(self.volumes.folders["certificates"], self.secrets["warpline-server-tls"])
        self.volumes.own(self.pod["securityContext"]["runAsUser"])
        self.assertTrue(harness.until(lambda: "the certificates have changed, and are those of all" in self.log()), self.log())
