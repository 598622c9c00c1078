# SPDX-License-Identifier: Apache-2.0
"""`Follower`: serves a model while a trainer writes its checkpoints and increments."""

from __future__ import annotations

import collections
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.runtime.error_texts import first_line
from sok_compat.serving.saved_model import FIRST_VALUES
from sok_compat.serving.served_model import NoContentsError, ServedModel
from sok_compat.serving.versions import (
    Version,
    chain_to,
    latest_version,
    names_before,
    state_of_folder,
    versions_after,
    versions_in,
    whole_chains_in,
)

_logger = logging.getLogger(__name__)
_REFUSED = FileError, OSError, tf.errors.OpError
_NUM_NAMES = 10_000  # of past versions, for wait()
_LONGEST_DELAY = 60.0  # seconds until what has failed is tried again


class Follower:
    """A served model whose contents follow the checkpoints in a folder.

    A thread watches the folder. What an increment, or another whole checkpoint, changes is read
    beside the contents, checked, and becomes visible between two requests: each request sees one
    version. A checkpoint that is damaged, or lacks a link, is refused and logged, and the version
    before stays. It is tried again when files in the folder change, and after 1, 2, 4, ... 60 s.

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
          on_version: is called with the name of each version, once it is served; it may call any
            method.
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
        self._names: list[str] = []  # of the served version, and of those before it
        self._untold: collections.deque[str] = collections.deque()  # to on_version
        self._tells = threading.Lock()  # whoever calls on_version
        self._problem, self._behind_since = "", 0.0
        self._latest_id = ""  # of the folder
        self._state: Any = None  # of the folder when it was looked at; None: look again
        self._delay, self._retry_at = 0.0, math.inf
        self._failed_swaps: dict[str, Exception] = {}  # by the version's id, until tried again
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
          RuntimeError: there is no version yet, or none any more, or the Follower is closed.
          ValueError: the model has no such signature, or other inputs.
        """
        self._check_is_open()
        try:
            return self._model.run(inputs, signature)
        except NoContentsError:
            why = f"{self._folder} has had no checkpoint to serve yet"
            if self._names:
                why = f"a version has failed, and the one before is gone: {self._problem}"
            raise RuntimeError(f"{why}: call wait()") from None

    def _check_is_open(self):
        if self._ends.is_set():
            raise RuntimeError("the Follower is closed")

    def version(self) -> str | None:
        """The name of the served checkpoint, such as 'model.ckpt-1000'; None if there is none."""
        served = self._served
        return served.name if served else None

    def lag_seconds(self) -> float:
        """For how long the folder has had a later checkpoint than the served one, or a problem;
        0.0 if neither."""
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
            if self._ends.is_set():
                return True
            return self._served is not None and (version is None or version in self._names)

        with self._news:
            in_time = self._news.wait_for(is_there, timeout)
            served = self.version()
        self._check_is_open()
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
          RuntimeError: the Follower is closed.
        """
        with self._updates:
            self._check_is_open()
            is_held = self._is_held
            try:
                goal = Version.at(os.path.join(self._folder, version))
                self._change(goal, chain_to(goal), is_back=True)
                is_held = True
            finally:  # if the contents are not what is served, the folder's latest version mends it
                self._is_held = is_held and self._model.contents is self._served
                self._state = None
        self._tell()

    def resume(self) -> None:
        """Follows the folder again after `rollback`.

        Raises:
          RuntimeError: the Follower is closed.
        """
        with self._updates:
            self._check_is_open()
            self._is_held, self._state = False, None

    def close(self) -> None:
        """Ends the thread and, once running requests have ended, the session."""
        self._ends.set()
        with self._news:
            self._news.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()
        with self._updates:
            self._model.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _watch(self) -> None:
        while not self._ends.wait(self._poll_seconds):
            try:
                state = state_of_folder(self._folder)
                is_due = time.monotonic() >= self._retry_at
                if state == self._state and not is_due:
                    continue
                if is_due:
                    self._failed_swaps.clear()
                self._state = state  # rollback and resume may ask for another look meanwhile
                self._catch_up()
            except Exception as error:  # noqa: BLE001  the thread goes on, whatever it is
                self._refuse(error)
            else:
                self._problem, self._delay, self._retry_at = "", 0.0, math.inf
                self._failed_swaps.clear()

    def _refuse(self, error: Exception) -> None:
        problem = first_line(error, None) if isinstance(error, _REFUSED) else repr(error)
        if problem != self._problem:
            _logger.warning("%s stays: %s", self.version() or "no version", problem)
        self._problem, self._behind_since = problem, self._behind_since or time.time()
        now = time.monotonic()
        if not now < self._retry_at < math.inf:  # that is tried again, or is new
            self._delay = min(2 * self._delay or 1.0, _LONGEST_DELAY)
            self._retry_at = now + self._delay

    def _catch_up(self) -> None:
        """Serves what is new in the folder, version by version."""
        latest = latest_version(self._folder)
        if latest is None:
            if self._served is not None:
                raise FileError(f"{os.path.join(self._folder, 'checkpoint')} is missing")
            return
        self._latest_id = latest.id
        served, contents = self._served, self._model.contents
        if served is not None and contents is served and latest.id == served.id:
            self._behind_since = 0.0
            return
        # Another machine's clock may be ahead.
        self._behind_since = self._behind_since or min(latest.seconds, time.time())
        if self._is_held:
            return
        broken: FileError | None = None
        try:
            chain = chain_to(latest)
        except FileError as error:
            broken, chain = error, []
        if not chain and served is not None and contents is not None:
            chain = [contents, *versions_after(contents)]
        ids = [link.id for link in chain]
        if contents is not None and contents.id in ids:
            first = ids.index(contents.id)
            self._serve_all(chain[first + 1 if contents is served else first :])
        else:
            self._serve_last([chain] if chain else whole_chains_in(self._folder))
        if broken is not None:
            raise broken

    def _serve_all(self, links: list[Version]) -> None:
        """Serves one after the other."""
        for link in links:
            if not self._serve(link):
                return

    def _serve_last(self, chains: list[list[Version]]) -> None:
        """Serves the last version that can be: of the first chain that has one."""
        problem: Exception | None = None
        passed = versions_in(self._folder) if self._served is not None else []
        since = self._served.seconds if self._served is not None else 0.0
        for chain in chains:
            for number in range(len(chain), 0, -1):
                link = chain[number - 1]
                try:
                    earlier = [each for each in passed if since < each.seconds < link.seconds]
                    self._serve(link, [*earlier, *chain[:number]])
                except Exception as error:  # noqa: BLE001  an earlier one may do
                    problem = problem or error
                    continue
                if problem is not None:
                    raise problem
                return
        if problem is not None:
            raise problem

    def _serve(self, version: Version, passed: Iterable[Version] = ()) -> bool:
        """Serves a version of the folder, unless the Follower is held or closed meanwhile."""
        with self._updates:
            if self._is_held or self._ends.is_set():
                return False
            if version.id in self._failed_swaps:
                raise self._failed_swaps[version.id].with_traceback(None)
            self._change(version, passed)
        self._tell()
        return True

    def _change(
        self, version: Version, passed: Iterable[Version] = (), is_back: bool = False
    ) -> None:
        """Reads a version, and then swaps it in.

        Args:
          version: the version.
          passed: other versions that are not after it.
          is_back: whether the version before may be after it.
        """
        try:
            if self._model.contents is None:
                self._model.restore(version)
            else:
                changes = self._model.read(version)
                try:
                    self._model.swap(changes)
                except Exception as error:
                    self._failed_swaps[version.id] = error
                    raise
        finally:
            if self._model.contents is None:
                self._served = None
        names = self._names
        if version.name in names:  # of another series, or by rollback
            names = names[: names.index(version.name)]
        elif is_back:
            names = []
        skipped = [*names_before(version), *(each.name for each in passed)]
        names = [*names, *skipped, version.name]
        with self._news:
            self._served, self._names = version, list(dict.fromkeys(names))[-_NUM_NAMES:]
            self._news.notify_all()
        is_latest = version.id == self._latest_id
        self._behind_since = 0.0 if is_latest else self._behind_since or time.time()
        self._untold.append(version.name)

    def _tell(self) -> None:
        """Calls on_version, in the order of the versions; one thread does so for all."""
        while self._untold and self._tells.acquire(blocking=False):
            try:
                while self._untold:
                    name = self._untold.popleft()
                    if self._on_version is not None:
                        self._on_version(name)
            except Exception:
                _logger.exception("on_version(%r) has failed", name)
            finally:
                self._tells.release()
