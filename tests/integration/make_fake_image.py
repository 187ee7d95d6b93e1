#!/usr/bin/python3
"""make_fake_image.py CACHE [FAULT...]: a cache folder with a guest image whose QEMU is the fake one.

`cellkeep serve --cache-dir CACHE --qemu PRINTED_PATH` then builds its template from it in seconds,
by the same code as the real one. The fake lies alone in a folder of the cache, because a jailed
bridge sees only that of its QEMU, the image, the template and the system's own. Faults hold for all
VMs of the cache (fake/fake_qemu.py and fake/agent.py know them).
"""
import hashlib
import json
import os
import shutil
import sys

FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake")


def make(cache, faults=()):
    """Returns the path of the fake QEMU to give to serve."""
    digest = hashlib.sha256(" ".join(faults).encode())
    for name in sorted(os.listdir(FAKE)):
        if name.endswith(".py"):
            with open(os.path.join(FAKE, name), "rb") as f:
                digest.update(f.read())
    name = digest.hexdigest()[:32]
    d = os.path.join(cache, "images", name)
    if not os.path.exists(os.path.join(d, "image.json")):
        os.makedirs(d, exist_ok=True)
        sizes = {}
        for part in ("root.erofs", "vmlinuz", "initrd"):
            with open(os.path.join(d, part), "wb") as f:
                sizes[part] = f.write(b"fake " + part.encode())
        with open(os.path.join(d, "image.json"), "w") as f:
            json.dump({"magic": "cellkeep-image", "version": 2, "hash": name, "sizes": sizes}, f)
    fake = os.path.join(cache, "fake")
    os.makedirs(fake, exist_ok=True)
    for part in os.listdir(FAKE):
        if part.endswith(".py"):
            shutil.copy(os.path.join(FAKE, part), os.path.join(fake, part))
    with open(os.path.join(fake, "faults"), "w") as f:
        f.write("\n".join(faults))
    for path in [cache, *(os.path.join(r, x) for r, ds, _ in os.walk(cache) for x in ds)]:
        os.chmod(path, 0o755)
    return os.path.join(fake, "fake_qemu.py")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    print(make(os.path.abspath(sys.argv[1]), sys.argv[2:]))
