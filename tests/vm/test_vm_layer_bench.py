"""Layers of a real VM, without gateway and bridge: build/bench/vmm_layers in the bridge's jail. A program in
the guest holds memory with a checksum and writes and fsyncs a file without end; the source and every
clone check both, the file after dropping it from the guest's cache."""
import json
import os
import subprocess

from harness.gateway import binary


def run(tmp, *options):
    cellkeep = binary()
    subprocess.run([cellkeep, "template", "build"], check=True, capture_output=True, timeout=900, stdin=subprocess.DEVNULL)
    doctor = subprocess.run([cellkeep, "doctor", "--json"], capture_output=True, text=True, timeout=120,
                            stdin=subprocess.DEVNULL)
    facts = json.loads(doctor.stdout)
    assert facts["layers"]["usable"], facts["layers"]
    bench = os.path.join(os.path.dirname(cellkeep), "bench", "vmm_layers")
    r = subprocess.run([bench, "--dir", tmp, *options, facts["template"]["dir"]], capture_output=True, text=True,
                       timeout=280, stdin=subprocess.DEVNULL)
    assert r.returncode == 0, r.stdout + r.stderr
    assert os.listdir(tmp) == []
    return [json.loads(line) for line in r.stdout.splitlines()]


def test_memory_and_disk_are_of_one_instant_in_every_clone(tmp_path):
    os.chmod(tmp_path, 0o755)
    steps = run(str(tmp_path), "--mb", "2", "--forks", "3")
    by = {s["step"]: s for s in steps if "step" in s}
    assert list(by) == ["checkpoint", "verify", "restore", "checkpoint_again", "merged", "checkpoint_merged",
                        "restore_merged", "forks", "pause", "resume"]
    assert by["forks"]["n"] == 3
    # What is stored follows what is dirty, not the size of the memory; and a merged chain is gone.
    assert by["checkpoint"]["ram_bytes"] < 64 << 20
    assert by["checkpoint"]["data_mb"] <= by["checkpoint"]["private_mb"]
    assert by["checkpoint_again"]["below"] == 3
    assert by["checkpoint_merged"]["below"] == 0


def test_without_the_jail_too(tmp_path):
    steps = run(str(tmp_path), "--mb", "20", "--no-jail")
    assert steps[-1]["ok"] is True
