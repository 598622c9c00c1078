# SPDX-License-Identifier: Apache-2.0
"""`Follower`: serves a model while a trainer writes its checkpoints and increments."""

from __future__ import annotations

import collections
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.runtime.error_texts import first_line
from sok_compat.serving.saved_model import FIRST_VALUES
from sok_compat.serving.served_model import ServedModel
from sok_compat.serving.versions import (
    Version,
    chain_to,
    latest_version,
    state_of_folder,
    versions_after,
    whole_chains_in,
)

_logger = logging.getLogger(__name__)
_REFUSED = FileError, OSError, tf.errors.OpError
_NUM_NAMES = 10_000  # of past versions, for wait()


class Follower:
    """A served model whose contents follow the checkpoints in a folder.

    A thread watches the folder. What an increment, or another whole checkpoint, changes is read
    beside the contents, checked, and becomes visible between two requests: each request sees one
    version. A checkpoint that is damaged, or lacks a link, is refused and logged, and the version
    before stays until files in the folder change.

        with Follower(build, "checkpoints") as follower:
            follower.wait()
            scores = follower.run({"keys": keys})["scores"]

    All methods may be called by several threads.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Callable[[], Any],
        folder: str | os.PathLike[str],
        *,
        poll_seconds: float = 0.1,
        missing_keys: str = FIRST_VALUES,
        on_version: Callable[[str], Any] | None = None,
        config: tf.compat.v1.ConfigProto | None = None,
    ) -> None:
        """Builds the graph, and begins to watch the folder.

        Args:
          model: what builds the model, as `build` of `export_saved_model`; or the folder of a
            SavedModel with our ops, which serves its own contents at first.
          folder: of the checkpoints, on this machine, with a file `checkpoint`; it may be empty.
          poll_seconds: between two looks at the folder.
          missing_keys: as for `export_saved_model`, unless `model` is a SavedModel.
          on_version: is called with the name of each version, once it is served.
          config: of the session.

        Raises:
          ValueError, NotImplementedError: the model cannot be served.
        """
        if not poll_seconds > 0:
            raise ValueError(f"poll_seconds must be above 0, got {poll_seconds}")
        self._model = ServedModel(model, missing_keys, config)
        self._folder, self._poll_seconds = os.fspath(folder), poll_seconds
        self._on_version = on_version
        self._updates = threading.Lock()  # whoever changes the contents
        self._news = threading.Condition()
        self._served: Version | None = None
        self._names: collections.deque[str] = collections.deque(maxlen=_NUM_NAMES)
        self._problem, self._behind_since = "", 0.0
        self._state: Any = None  # of the folder when it was looked at
        self._is_held = False
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sok follower", daemon=True)
        self._thread.start()

    def run(self, inputs: Mapping[str, Any], signature: str = "serving_default") -> dict[str, Any]:
        """The outputs {name: array} of one version.

        Args:
          inputs: {name: array}, for a sparse input a SparseTensorValue.
          signature: name of the signature.

        Raises:
          RuntimeError: there is no version yet, or the Follower is closed.
          ValueError: the model has no such signature, or other inputs.
        """
        if self._ends.is_set():
            raise RuntimeError("the Follower is closed")
        if not self._model.is_filled:
            raise RuntimeError(f"{self._folder} has had no checkpoint to serve yet: call wait()")
        return self._model.run(inputs, signature)

    def version(self) -> str | None:
        """The name of the served checkpoint, such as 'model.ckpt-1000'; None if there is none."""
        served = self._served
        return served.name if served else None

    def lag_seconds(self) -> float:
        """For how long the folder has had a later checkpoint than the served one; 0.0 if it has
        none."""
        since = self._behind_since
        return max(0.0, time.time() - since) if since else 0.0

    def problem(self) -> str:
        """Why a later checkpoint is refused; '' if none is."""
        return self._problem

    def wait(self, version: str | None = None, timeout: float | None = None) -> str:
        """Waits until a version is served, or one after it.

        Args:
          version: its name; None: any.
          timeout: in seconds; None: no limit.

        Returns:
          The name of the version that is served now.

        Raises:
          TimeoutError: the time is over; the message has the problem, if there is one.
          RuntimeError: the Follower is closed meanwhile.
        """

        def is_there():
            return self._ends.is_set() or (
                self._names if version is None else version in self._names
            )

        with self._news:
            in_time = self._news.wait_for(is_there, timeout)
            served = self.version()
        if self._ends.is_set():
            raise RuntimeError("the Follower is closed")
        if not in_time:
            problem = f": {self._problem}" if self._problem else ""
            raise TimeoutError(
                f"{version or 'a checkpoint'} in {self._folder} is not served after {timeout} s, "
                f"but {served}{problem}"
            )
        assert served is not None
        return served

    def rollback(self, version: str) -> None:
        """Serves an earlier checkpoint of the folder, and stays there until `resume`.

        Raises:
          FileError: it is missing, damaged, or lacks a link; the version before stays.
        """
        with self._updates:
            self._serve(Version.at(os.path.join(self._folder, version)))
            self._is_held, self._behind_since = True, self._behind_since or time.time()

    def resume(self) -> None:
        """Follows the folder again after `rollback`."""
        with self._updates:
            self._is_held, self._state = False, None

    def close(self) -> None:
        """Ends the thread and, once running requests have ended, the session."""
        self._ends.set()
        with self._news:
            self._news.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._model.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _watch(self) -> None:
        while not self._ends.wait(self._poll_seconds):
            with self._updates:
                if self._is_held:
                    continue
                state = state_of_folder(self._folder)
                if state == self._state:
                    continue
                problem = ""
                try:
                    self._catch_up()
                except _REFUSED as error:
                    problem = first_line(error)
                except Exception as error:  # noqa: BLE001  the thread goes on, whatever it is
                    problem = repr(error)
                if problem and problem != self._problem:
                    _logger.warning("%s stays: %s", self.version() or "no version", problem)
                if problem:
                    self._behind_since = self._behind_since or time.time()
                self._problem, self._state = problem, state

    def _catch_up(self) -> None:
        """Serves what is new in the folder, version by version."""
        latest = latest_version(self._folder)
        if latest is None:
            return
        if self._served and latest.id == self._served.id:
            self._behind_since = 0.0
            return
        self._behind_since = self._behind_since or latest.seconds
        broken: FileError | None = None
        try:
            chain = chain_to(latest)
        except FileError as error:
            broken, chain = error, []
        if self._served is None:
            self._serve_first([chain] if chain else whole_chains_in(self._folder))
        else:
            ids = [link.id for link in chain]
            first = ids.index(self._served.id) + 1 if self._served.id in ids else 0
            for link in chain[first:] or versions_after(self._served):
                self._serve(link)
        if broken is not None:
            raise broken
        self._behind_since = 0.0

    def _serve_first(self, chains: list[list[Version]]) -> None:
        """Serves the last version that can be: of the first chain that has one."""
        problem: Exception | None = None
        for chain in chains:
            for number in range(len(chain), 0, -1):
                try:
                    self._serve(chain[number - 1], passed=chain[:number])
                except _REFUSED as error:
                    problem = problem or error
                    continue
                if problem is not None:
                    raise problem
                return
        if problem is not None:
            raise problem

    def _serve(self, version: Version, passed: list[Version] | None = None) -> None:
        """Reads a version, and then swaps it in."""
        before = self._served
        if not self._model.is_filled:
            self._model.restore(version.prefix)
        else:
            is_next = before is not None and version.base_id == before.id
            changes = self._model.read(version.prefix, is_next)
            try:
                self._model.swap(changes)
            except tf.errors.OpError:
                if before is not None:
                    self._model.restore(before.prefix)
                raise
        with self._news:
            self._served = version
            self._names += [each.name for each in passed or [version]]
            self._news.notify_all()
        if self._on_version is not None:
            try:
                self._on_version(version.name)
            except Exception:
                _logger.exception("on_version(%r) has failed", version.name)
