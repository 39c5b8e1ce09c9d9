"""Volumes of a pod as the kubelet lays them out, in folders of this machine."""

import itertools
import os
import pathlib


def put(folder, files, mode=0o444):
    """The files of a ConfigMap or a Secret: links to a folder of their own, which is exchanged as a whole when they change."""
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    fresh = next(f for f in (folder / f"..data_{n}" for n in itertools.count()) if not f.exists())
    fresh.mkdir()
    for name, content in files.items():
        (fresh / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        (fresh / name).chmod(mode)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(pathlib.Path("..data") / name)
    link = folder / "..data_tmp"
    link.symlink_to(fresh.name)
    before = (folder / "..data").resolve() if (folder / "..data").exists() else None
    os.replace(link, folder / "..data")
    if before is not None:
        for old in before.iterdir():
            old.unlink()
        before.rmdir()


def secret_files(certificate, key, authority):
    """A Secret of type kubernetes.io/tls, with the authority's certificate, as cert-manager makes it."""
    return {"tls.crt": pathlib.Path(certificate).read_bytes(), "tls.key": pathlib.Path(key).read_bytes(),
            "ca.crt": pathlib.Path(authority).read_bytes()}


class Volumes:
    """All volumes of a pod below a folder. `secrets`: by name, the files of each. `change`: what becomes of a ConfigMap's texts."""

    def __init__(self, folder, pod, objects, secrets, change=lambda text: text):
        self.folders = {}
        maps = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "ConfigMap"}
        for volume in pod["volumes"]:
            path = pathlib.Path(folder) / volume["name"]
            self.folders[volume["name"]] = path
            if "configMap" in volume:
                put(path, {name: change(text) for name, text in maps[volume["configMap"]["name"]].items()})
            elif "secret" in volume:
                put(path, secrets[volume["secret"]["secretName"]], volume["secret"]["defaultMode"])
            elif "emptyDir" in volume:
                path.mkdir()
                path.chmod(0o777)
            else:
                raise ValueError(f"no way to make {volume}")

    def mounts(self, container):
        """(where it is in the container, the folder here, whether it is read-only) of each."""
        return [(m["mountPath"], self.folders[m["name"]], m.get("readOnly", False)) for m in container.get("volumeMounts", [])]

    def own(self, user):
        """Gives all of it to the pod's user, as fsGroup does."""
        for folder in self.folders.values():
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, user, user, follow_symlinks=False)
