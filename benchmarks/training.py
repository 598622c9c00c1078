# SPDX-License-Identifier: Apache-2.0
"""Training and lookup steps of one key a feature, beside a plain variable and a peer's table."""

import contextlib

import numpy as np

from benchmarks.contender import check_losses
from benchmarks.contenders import PEER_NAME, PLAIN_NAME, has_peer, make_ours, make_peer, make_plain
from benchmarks.tables import Comparison
from benchmarks.timing import interleaved_medians

OPTIMIZERS = ("adagrad", "lazy_adam")
MAIN_DIMS = (16, 64)  # elsewhere: not slower than plain TensorFlow
TRAIN_BARS = {PLAIN_NAME: 1.3, PEER_NAME: 5.0}
LOOKUP_BARS = {PLAIN_NAME: 0.9, PEER_NAME: 5.0}


def insert_all_keys(contenders, workload):
    """Fills the tables, so that all of the workload's keys are known."""
    keys = np.arange(workload.num_keys - workload.num_keys % workload.num_features)
    for part in np.array_split(keys.reshape(-1, workload.num_features), 16):
        for contender in contenders:
            contender.run("insert", part)


def compare(dim, workload, num_threads, rounds):
    """([Comparison] of training steps, Comparison of lookups)."""
    batches = [(batch,) for batch in workload.batches()]
    sizes = (dim, workload.num_keys, workload.num_features, num_threads)
    with contextlib.ExitStack() as stack:
        ours = [stack.enter_context(make_ours(optimizer, *sizes)) for optimizer in OPTIMIZERS]
        others = [stack.enter_context(make_plain(*sizes))]
        if has_peer():
            others.append(stack.enter_context(make_peer(dim, workload.num_features, num_threads)))
        insert_all_keys(ours + others, workload)
        trained = interleaved_medians(ours + others, "train", batches, rounds)
        check_losses([ours[0], *others], batches[0])
        looked_up = interleaved_medians(ours[:1] + others, "look_up", batches, rounds)
        if has_peer():  # the faster of its two ways
            repeats = interleaved_medians(others[1:], "look_up_repeats", batches, rounds)
            looked_up[PEER_NAME] = min(looked_up[PEER_NAME], repeats[PEER_NAME])
    training = []
    for optimizer, contender in zip(OPTIMIZERS, ours):
        seconds = {name: trained[name] for name in (contender.name, *[o.name for o in others])}
        bars = TRAIN_BARS if dim in MAIN_DIMS else {PLAIN_NAME: 1.0}
        training.append(Comparison(f"train, {optimizer}, dim {dim}", seconds, bars))
    return training, Comparison(f"look up, dim {dim}", looked_up, LOOKUP_BARS)
