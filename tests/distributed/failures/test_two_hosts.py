# SPDX-License-Identifier: Apache-2.0
"""Ranks on two hosts, which are network namespaces: skipped where there can be none."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.two_hosts import cut
from benchmarks.two_namespaces import NoNamespaces, TwoHosts
from tests.distributed.launch import has_horovod, why_no_mpi

pytestmark = pytest.mark.thorough


@pytest.fixture
def hosts():
    try:
        with TwoHosts() as hosts:
            yield hosts
    except NoNamespaces as reason:
        pytest.skip(str(reason))


def namespaces_of(pid):
    """Those that are left, and their files."""
    folders = Path("/run/netns"), Path("/etc/netns")
    return [path for folder in folders for path in folder.glob(f"sok-host-{pid}-*")]


@pytest.mark.skipif(not has_horovod(), reason="needs Horovod")
def test_a_link_that_goes_down_names_the_rank_behind_it(hosts):
    seen = cut(hosts, 1, {"HOROVOD_GLOO_TIMEOUT_SECONDS": "5"})
    first, second = (message for _, message in seen)
    assert f"lost rank 1 on host {hosts.names[1]}: no sign of life" in first
    assert f"lost rank 0 on host {hosts.names[0]}: this host cannot reach" in second


@pytest.mark.skipif(why_no_mpi() is not None, reason=why_no_mpi() or "")
def test_a_link_of_mpi_that_goes_down_names_the_rank_behind_it(hosts):
    seen = cut(hosts, 1, {"SOK_STALL_TIMEOUT_SECONDS": "5"}, by="mpi")
    for (seconds, message), other, host in zip(seen, (1, 0), reversed(hosts.names)):
        assert f"lost rank {other} on host {host}: no sign of life" in message
        assert seconds < 60


def test_nothing_is_left_after_ctrl_c(hosts):
    command = [sys.executable, "-m", "benchmarks.two_hosts", "--ranks", "1"]
    script = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ignored, where make runs in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while len(namespaces_of(script.pid)) < 4:
        assert script.poll() is None
        time.sleep(0.05)
    script.send_signal(signal.SIGINT)
    assert script.wait(60) != 0
    assert namespaces_of(script.pid) == []
