# SPDX-License-Identifier: Apache-2.0
"""A process for one engine: what kills it kills one call, and no engine sees another's library.

`Worker(engine).run(script)` gives the outcomes of the script's calls.
"""

import multiprocessing
import os
import signal

from tests.conformance.scripts import Outcome

START_SECONDS = 300
SCRIPT_SECONDS = 120


class Worker:
    """Starts with the first script, and again after a call that ended it."""

    def __init__(self, engine):
        self.engine = engine
        self._process = None
        self._why_not = None

    def why_not_here(self):
        """Why the engine cannot run on this machine; None: it can."""
        if self._process is None and self._why_not is None:
            self._start()
        return self._why_not

    def run(self, script):
        """One outcome for each call; one that ends the process is the last."""
        if self._process is None:
            self._start()
        self._connection.send(script)
        outcomes = []
        for _ in script.calls:
            try:
                if not self._connection.poll(SCRIPT_SECONDS):
                    raise TimeoutError(f"{self.engine.name}: no end after {SCRIPT_SECONDS} seconds")
                outcomes.append(self._connection.recv())
            except (EOFError, ConnectionResetError):
                outcomes.append(self._end_of_process())
                break
        return outcomes

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self._connection, remote = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.engine, remote), daemon=True)
        self._process.start()
        remote.close()
        if not self._connection.poll(START_SECONDS):
            raise TimeoutError(f"{self.engine.name} did not start in {START_SECONDS} seconds")
        self._why_not = self._connection.recv()

    def _end_of_process(self):
        self._process.join()
        code = self._process.exitcode
        self._process = None
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Outcome(error="EndOfProcess", message=how)


def _serve(engine, connection):
    """Answers scripts until the other side is gone."""
    os.environ.update({"TF_CPP_MIN_LOG_LEVEL": "3", **engine.environment})
    from tests.conformance import engines
    from tests.conformance.table_ops import run_script

    connection.send(engines.why_not_here(engine))
    while True:
        try:
            script = connection.recv()
        except EOFError:
            return
        for outcome in run_script(engine, script):
            connection.send(outcome)
