"""Ranks in network namespaces of their own, joined by a bridge that is cut and mended."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proxlin import Problem, Ridge, minimize
from tests.problem.parallel.launch import TIMEOUT, environment
from tests.problem.parallel.problems import net, table
from tests.problem.parallel.train import METHOD, STEPS, difference

pytestmark = pytest.mark.processes

TRAIN = Path(__file__).with_name("train.py")
NAMES = [f"proxlin{os.getpid()}-{place}" for place in ("a", "b", "bridge")]
ADDRESSES = ["10.231.77.1", "10.231.77.2"]  # known inside the namespaces alone
SENTENCE = "another process of the run is gone or silent"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Network:
    """Two namespaces and the bridge between them, which stands in a third."""

    def __init__(self):
        for name in NAMES:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        bridge = NAMES[2]
        ip("-n", bridge, "link", "add", "middle", "type", "bridge")
        ip("-n", bridge, "link", "set", "middle", "up")
        for number, (name, address) in enumerate(zip(NAMES, ADDRESSES, strict=False)):
            port = f"port{number}"
            ip("-n", name, "link", "add", "cable", "type", "veth", "peer", port, "netns", bridge)
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", bridge, "link", "set", port, "master", "middle")
            ip("-n", bridge, "link", "set", port, "up")

    def set(self, state):
        """Let frames through ("up") or not ("down"); neither side sees its cable unplugged."""
        ip("-n", NAMES[2], "link", "set", "middle", state)

    def close(self):
        for name in NAMES:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


@pytest.fixture
def network():
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the command ip (iproute2)")
    try:
        made = Network()
    except subprocess.CalledProcessError as cause:
        for name in NAMES:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
        pytest.skip(f"the system allows no network namespaces: {cause.stderr.strip()}")
    yield made
    made.close()


@contextlib.contextmanager
def training(folder, *arguments, **more):
    """One process in each of the two namespaces."""
    marks = {
        "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29571", "WORLD_SIZE": "2",
        "TORCHELASTIC_RUN_ID": "apart", "GLOO_SOCKET_IFNAME": "cable",
    }  # fmt: skip
    processes = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, str(TRAIN), str(folder), *arguments],
            env=environment(RANK=str(rank), LOCAL_RANK="0", **marks, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, name in enumerate(NAMES[:2])
    ]
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def wait_for_checkpoint(folder, processes):
    end = time.monotonic() + TIMEOUT
    while not list((folder / "run").glob("*.safetensors")):
        assert all(process.poll() is None for process in processes), processes[0].stderr.read()
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_link_cut_for_some_seconds_is_waited_for(tmp_path, network):
    with training(tmp_path, "--pause", "0.005", PROXLIN_TIMEOUT="120") as processes:
        wait_for_checkpoint(tmp_path, processes)
        network.set("down")
        time.sleep(2)
        assert all(process.poll() is None for process in processes)
        network.set("up")
        for process in processes:
            _, stderr = process.communicate(timeout=TIMEOUT)
            assert process.returncode == 0, stderr[-3000:]
    told = json.loads((tmp_path / "result.json").read_text())
    problem = Problem(net(), table(), residual=difference, regularizer=Ridge(1e-3))
    expected = minimize(problem, METHOD, max_seconds=None, max_iter=STEPS)
    assert told["objective"] == pytest.approx(expected.objective, rel=1e-8)


def test_a_link_cut_for_longer_than_the_timeout_ends_both(tmp_path, network):
    with training(tmp_path, "--pause", "0.005", PROXLIN_TIMEOUT="3") as processes:
        wait_for_checkpoint(tmp_path, processes)
        network.set("down")
        cut = time.time()
        for rank, process in enumerate(processes):
            _, stderr = process.communicate(timeout=TIMEOUT)
            assert process.returncode not in (0, None)
            assert SENTENCE in stderr
            assert float((tmp_path / f"told{rank}").read_text()) - cut < 3 + 25
