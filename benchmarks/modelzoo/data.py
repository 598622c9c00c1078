# SPDX-License-Identifier: Apache-2.0
"""Folders of generated data, one for each format, written when a script first needs it."""

import json
import os
import shutil

from benchmarks.modelzoo import books_data, criteo_data, taobao_data

WRITERS = {
    "criteo": criteo_data.write,
    "criteo_int64": criteo_data.write_int64,
    "criteo_binary": criteo_data.write_binary,
    "taobao": taobao_data.write,
    "books": books_data.write,
}
_DESCRIPTION = "description.json"  # written last: without it a folder is not complete


class Data:
    """The generated data below one folder."""

    def __init__(self, root, num_train, num_eval, seed=1):
        """Writes nothing yet.

        Args:
          root: a folder, made if needed.
          num_train, num_eval: samples.
        """
        self._root = os.path.abspath(root)
        self._sizes = {"train": num_train, "eval": num_eval}
        self._seed = seed

    def folder(self, data_format):
        """The absolute path of the folder of a format, a key of WRITERS; written if it is not there
        with these sizes."""
        folder = os.path.join(self._root, data_format)
        description = {**self._sizes, "seed": self._seed}
        if _read_description(folder) != description:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            WRITERS[data_format](folder, self._sizes, self._seed)
            with open(os.path.join(folder, _DESCRIPTION), "w") as stream:
                json.dump(description, stream)
        return folder


def _read_description(folder):
    path = os.path.join(folder, _DESCRIPTION)
    if not os.path.exists(path):
        return None
    with open(path) as stream:
        return json.load(stream)
