"""script/server and the recipe of the guest image, as far as they go without packages and virtual machines."""
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from harness.gateway import ROOT, binary, scratch

OLD = 8 * 24 * 3600


def run(*argv, env=None, cwd=None, timeout=120):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, cwd=cwd, env={**os.environ, **(env or {})})


def test_help_needs_no_build_and_lists_every_option():
    folder = scratch("h")
    shutil.copytree(ROOT + "/script", folder + "/script")
    os.mkdir(folder + "/gateway")
    shutil.copy(ROOT + "/gateway/config.c", folder + "/gateway")
    for option in ("--help", "-h"):
        r = run(folder + "/script/server", "--port", "1", option)
        assert (r.returncode, r.stderr) == (0, "")
    options = [line for line in r.stdout.splitlines() if line.startswith("  --")]
    known = [line for line in run(binary(), "serve", "--help").stdout.splitlines() if line.startswith("  --")]
    assert options == known
    assert sorted(os.listdir(folder)) == ["gateway", "script"]
    shutil.rmtree(folder)


# --- the image --------------------------------------------------------------------------------------

# In the place of rootfs.sh: what the real one makes, with the progress display of mkfs.erofs.
ROOTFS = r"""#!/bin/bash
set -e
out=$1 log=$4
echo "image: making (3/4)" >&3
end=$((SECONDS + ${FAKE_SECONDS:-0}))
printf 'mkfs.erofs 1.5\n' >>"$log"
while :; do
  for i in {1..40}; do printf '\r\033[KProcessing usr/lib/python3/dist-packages/scipy/file%d.py ...' $i >>"$log"; done
  [ $SECONDS -lt $end ] || break
  sleep 0.1
done
[ -z "${FAKE_FAILS:-}" ] || { printf '\r\033[K\033[31merror\033[0m: it broke\n' >>"$log"; exit 1; }
mkdir "$out/modules"
for f in vmlinuz modules/load; do echo "$f" >"$out/$f"; done
z() { head -c "$1" /dev/zero; }
{ z 1024; printf '\342\341\365\340'; z 8; printf '\014'; z 23; printf '\1'; z 3035; } >"$out/root.erofs" # a block
echo '{"kernel_version":"6.1","packages":1,"suite":"x"}' >"$out/rootfs.json"
"""


@pytest.fixture
def recipe():
    """build.sh with a root file system that takes no time, and a cache of its own."""
    if os.geteuid():
        pytest.skip("the root filesystem is made as root")
    folder = scratch("i")
    shutil.copytree(ROOT + "/guest/image", folder + "/image")
    shutil.copytree(ROOT + "/guest/kernel", folder + "/kernel", ignore=shutil.ignore_patterns("__pycache__"))
    with open(folder + "/image/rootfs.sh", "w") as f:
        f.write(ROOTFS)

    def build(agent="agent 1", **env):
        with open(folder + "/agent", "w") as f:
            f.write(agent)
        return run(binary(), "image", "build", "--cache-dir", folder + "/cache", "--agent", folder + "/agent",
                   "--recipe", folder + "/image/build.sh", env=env)

    yield folder, build
    shutil.rmtree(folder)


def printable(text):
    assert not re.search(r"[^\n -~]", text), ascii(text)
    return text


def test_progress_of_the_image_build_is_plain_whole_lines(recipe):
    _, build = recipe
    r = build(FAKE_SECONDS="11")
    assert r.returncode == 0, r.stderr
    shown = re.findall(r"^image:   (\d+) s: (.*)$", printable(r.stderr), re.M)
    assert shown
    for _, words in shown:
        assert re.fullmatch(r"Processing usr/lib/python3/dist-packages/scipy/file\d+\.py \.\.\.", words)


def test_a_failed_image_build_says_why_in_plain_lines_and_leaves_nothing(recipe):
    folder, build = recipe
    r = build(FAKE_FAILS="1")
    assert r.returncode == 1
    assert "error: it broke" in printable(r.stderr).splitlines()
    assert os.listdir(folder + "/cache/rootfs") == os.listdir(folder + "/cache/images") == []


def age(folder, kind, json_name, seconds):
    for name in os.listdir(f"{folder}/cache/{kind}"):
        path = f"{folder}/cache/{kind}/{name}/{json_name}"
        os.utime(path, (time.time() - seconds,) * 2)


def test_an_image_that_nobody_used_for_a_week_goes_with_the_next_build(recipe):
    folder, build = recipe
    first = build("agent 1").stdout.strip()
    second = build("agent 2").stdout.strip()
    assert os.path.isdir(first) and os.path.isdir(second)
    age(folder, "images", "image.json", OLD)
    age(folder, "rootfs", "rootfs.json", OLD)
    r = build("agent 2")
    assert r.stdout.strip() == second
    assert re.search(r"^image: removed what nobody used for 7 days: 1 image \(.* freed\)$", r.stderr, re.M), r.stderr
    assert os.listdir(folder + "/cache/images") == [os.path.basename(second)]
    with open(second + "/image.json") as f:
        assert os.listdir(folder + "/cache/rootfs") == [json.load(f)["rootfs"]]
    assert "removed" not in build("agent 2").stderr


@pytest.mark.parametrize("file", ["root.erofs", "vmlinuz", "initrd"])
def test_an_image_with_a_file_that_was_cut_short_is_built_again(recipe, file):
    folder, build = recipe
    image = build().stdout.strip()
    path = os.path.join(image, file)
    size = os.path.getsize(path)
    os.truncate(path, 3)
    doctor = run(binary(), "doctor", "--cache-dir", folder + "/cache")
    said = [line for line in doctor.stdout.splitlines() + doctor.stderr.splitlines() if "damaged" in line]
    assert doctor.returncode == 1 and said and file in said[0] and "image build" in said[0], doctor
    assert build().stdout.strip() == image
    assert os.path.getsize(path) == size
    assert os.path.getsize(os.path.join(image, "root.erofs")) == 4096


def test_an_image_of_a_version_without_sizes_is_built_again(recipe):
    folder, build = recipe
    image = build().stdout.strip()
    path = os.path.join(image, "image.json")
    with open(path) as f:
        old = json.load(f)
    sizes = old.pop("sizes")
    with open(path, "w") as f:
        json.dump({**old, "version": 1}, f)
    assert build().stdout.strip() == image
    with open(path) as f:
        assert json.load(f)["sizes"] == sizes
