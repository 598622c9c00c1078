# SPDX-License-Identifier: Apache-2.0
"""Two hosts made of one: network namespaces, with names of their own, and a link between them.

Needs root, Linux, and Debian's package iproute2 (`ip`, `tc`).
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

INTERFACE = "sok0"  # of each host, to the other one
_PREFIX = "sok-host-"
_NAMESPACES = Path("/run/netns")
_FILES = Path("/etc/netns")  # in a folder of its name: what a namespace has in /etc


class NoNamespaces(Exception):
    """Why there can be none here."""


class TwoHosts:
    """Two namespaces with a link, as a context: at its end, also by Ctrl-C, nothing is left.

    Attributes:
      names: of the hosts, which are those of the namespaces, too.
      addresses: of the hosts, on the link.
      link: words for what the kernel here can do of what was asked.
    """

    def __init__(self, rate="10gbit", delay="100us"):
        """
        Args:
          rate: of the link in each direction, as tc has it.
          delay: one way, as tc has it.
        """
        self.names = [f"{_PREFIX}{os.getpid()}-{side}" for side in "ab"]
        self.addresses = ["10.117.0.1", "10.117.0.2"]
        self._rate, self._delay = rate, delay
        self.link = ""

    def __enter__(self):
        _check_possible()
        _remove_left_over()
        with contextlib.ExitStack() as stack:
            stack.callback(self._remove)
            self._make()
            self._keep = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._keep.close()

    def command(self, host, program):
        """A command line that runs another one on host 0 or 1."""
        name = self.names[host]
        inside = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]
        return ["ip", "netns", "exec", name, *inside, *program]

    def sent_bytes(self, host):
        """What a host has sent over the link, with headers of packets."""
        counter = f"/sys/class/net/{INTERFACE}/statistics/tx_bytes"
        return int(_run(*self.command(host, ["cat", counter])))

    def cut(self, host):
        """Takes the interface of a host down."""
        _run(*self.command(host, ["ip", "link", "set", INTERFACE, "down"]))

    def _make(self):
        for name in self.names:
            _run("ip", "netns", "add", name)
            self._name_hosts(name)
        first, second = self.names
        end = f"type veth peer name {INTERFACE} netns {second}".split()
        _run("ip", "link", "add", INTERFACE, "netns", first, *end)
        for host, (name, address) in enumerate(zip(self.names, self.addresses)):
            inside = ["ip", "-n", name]
            _run(*inside, "address", "add", f"{address}/24", "dev", INTERFACE)
            for interface in (INTERFACE, "lo"):
                _run(*inside, "link", "set", interface, "up")
            self.link = self._shape(host)

    def _name_hosts(self, name):
        folder = _FILES / name
        folder.mkdir(parents=True)
        known = zip(["127.0.0.1", *self.addresses], ["localhost", *self.names])
        (folder / "hosts").write_text("".join(f"{address} {host}\n" for address, host in known))

    def _shape(self, host):
        """Makes the link as slow as asked; what came of it."""
        add = ["tc", "-n", self.names[host], "qdisc", "add", "dev", INTERFACE, "root"]
        try:
            _run(*add, "netem", "delay", self._delay, "rate", self._rate, "limit", "100000")
            return f"{self._rate}, {self._delay} one way"
        except RuntimeError as error:
            no_delay = (
                f"no delay, as this kernel has no netem ({str(error).rpartition('Error: ')[2]})"
            )
        try:
            _run(*add, "tbf", "rate", self._rate, "burst", "1mb", "latency", "10ms")
            return f"{self._rate}, {no_delay}"
        except RuntimeError:
            return f"as fast as the kernel, {no_delay}"

    def _remove(self):
        for name in self.names:
            _remove(name)


def _check_possible():
    missing = [program for program in ("ip", "tc", "unshare") if shutil.which(program) is None]
    if missing:
        raise NoNamespaces(f"{' and '.join(missing)} not found: install iproute2 and util-linux")
    if os.geteuid() != 0:
        raise NoNamespaces("network namespaces need root")
    try:
        _run("unshare", "--net", "--uts", "true")
        _run("ip", "netns", "list")
    except RuntimeError as error:
        raise NoNamespaces(f"no network namespaces here: {error}") from None


def _remove_left_over():
    """Those of a process that was killed before it could."""
    for folder in (_NAMESPACES, _FILES):
        for path in folder.glob(f"{_PREFIX}*") if folder.exists() else ():
            pid = path.name.removeprefix(_PREFIX).partition("-")[0]
            if not Path("/proc", pid).exists():
                _remove(path.name)


def _remove(name):
    """A namespace and its files, as far as they are there, and what still runs in it."""
    shutil.rmtree(_FILES / name, ignore_errors=True)
    if not (_NAMESPACES / name).exists():
        return
    for pid in _run("ip", "netns", "pids", name).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    _run("ip", "netns", "delete", name)


def _run(*command):
    """What it prints.

    Raises:
      RuntimeError: it has failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
