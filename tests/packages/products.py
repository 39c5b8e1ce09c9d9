"""What is tried here: the packages, a program that runs wherever they do, and what docs/install.md makes besides."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import harness  # noqa: E402

CLIENT_CONFIG = "/etc/warpline/client.toml"


def package(output, *kinds):
    """The files that scripts/package makes, by name."""
    done = subprocess.run([ROOT / "scripts" / "package", "--output", output, *kinds], capture_output=True, text=True,
                          env={**os.environ, "WARPLINE_PACKAGE_BUILT": "yes"})
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return {re.sub(r"[_-]\d.*", "", file.name): file for file in pathlib.Path(output).iterdir()}


def program_for_old_systems(name, folder):
    """A program of tests/programs that runs wherever Warpline does: linked as Warpline itself is."""
    program, objects = harness.programs()[name], harness.BUILD / "CMakeFiles"
    harness.build_program(program)
    binary = pathlib.Path(folder) / name
    harness.link_program(program, binary, [
        objects / "warpline_newer_glibc.dir/cmake/glibc/newer.c.o", objects / "warpline_older_start.dir/cmake/glibc/start.c.o",
        f"-L{harness.BUILD / 'glibc-2.28'}", "-Xlinker", "--wrap=__libc_start_main", "-Xcompiler", "-static-libstdc++",
        "-Xcompiler", "-static-libgcc"])
    return binary


def enrol(server, client, port):
    """Certificates as docs/install.md makes them, in the server's system, and one for the user of the client's, which dials this port of
    this machine."""
    certs = "/usr/share/warpline/certs"
    server.run(f"{certs}/make-ca")
    server.run(f"{certs}/enrol-server", "localhost", "127.0.0.1")
    server.run(f"{certs}/enrol-tenant", "alice")
    of_server = server.folder / "root/.config/warpline/ca/servers/localhost"
    for name in ("server.crt", "server.key", "ca.crt"):
        shutil.copy(of_server / name, server.folder / "etc/warpline")
        (server.folder / "etc/warpline" / name).chmod(0o600 if name.endswith(".key") else 0o644)
    of_tenant = server.folder / "root/.config/warpline/ca/tenants/alice"
    for name in ("tenant.crt", "tenant.key", "ca.crt"):
        client.copy_in(of_tenant / name, f"/root/.config/warpline/{name}")
    client.copy_in(ROOT / "deploy/debian/client.toml", CLIENT_CONFIG)
    config = client.folder / CLIENT_CONFIG.lstrip("/")
    config.write_text(config.read_text() + f'servers = ["localhost:{port}"]\n')
