# SPDX-License-Identifier: Apache-2.0
"""The transcript in docs/use/checkpoint_tool.md is what the commands print."""

import re
import shlex

import numpy as np
import tensorflow as tf
from documents import ROOT, blocks

from sok_compat.checkpoint.tool.command_line import main

PAGE = ROOT / "docs" / "use" / "checkpoint_tool.md"
COMMAND = "python -m sok_compat.checkpoint "


def save(prefix, keys, planes, others):
    """As two ranks do: each has a part of the keys."""
    shards = [f"{prefix}_part{rank}" for rank in range(2)]
    for rank, shard in enumerate(shards):
        mine = slice(0, 600) if rank == 0 else slice(600, len(keys))
        names, slices, values = [], [], []
        for name, value in {"EmbeddingVariable/keys": keys, **planes}.items():
            part = value[mine]
            shape = " ".join(map(str, value.shape))
            slices.append(f"{shape} {mine.start},{len(part)}{':-' * (value.ndim - 1)}")
            names.append(name)
            values.append(part)
        if rank == 0:
            names += list(others)
            slices += [""] * len(others)
            values += list(others.values())
        tf.raw_ops.SaveV2(prefix=shard, tensor_names=names, shape_and_slices=slices, tensors=values)
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=shards, destination_prefix=prefix)


def save_both(folder):
    """The checkpoints that the page speaks of."""
    for step in (100, 200):
        num_keys = 1000 + (step == 200)
        keys = np.arange(num_keys)
        keys[1000:] = 5000
        planes = {
            f"EmbeddingVariable/{name}": np.ones([num_keys, 16], np.float32)
            for name in ("rows", "Adam", "Adam_1")
        }
        others = {
            "global_step": np.int64(step),
            "beta1_power": np.float32(0.9),
            "dense/kernel": np.ones([16, 84], np.float32),
        }
        if step == 200:
            planes["EmbeddingVariable/rows"][7, 3] += 1.5
            planes["EmbeddingVariable/rows"][9, 0] -= 1.0
            planes["EmbeddingVariable/Adam"][9] += 0.25
        save(f"{folder}/model.ckpt-{step}", keys, planes, others)
    tf.compat.v1.train.update_checkpoint_state(folder, f"{folder}/model.ckpt-200")


def test_the_transcript(tmp_path, monkeypatch, capsys):
    (tmp_path / "train").mkdir()
    monkeypatch.chdir(tmp_path)
    save_both("train")
    shown = "".join(blocks(PAGE, "console"))
    commands = re.findall(r"^\$ (.*)$", shown, re.MULTILINE)
    assert len(commands) == 5
    printed = ""
    for command in commands:
        assert command.startswith(COMMAND)
        assert main(shlex.split(command[len(COMMAND) :])) in (0, 1)
        printed += f"$ {command}\n{capsys.readouterr().out}"
    assert printed == shown
