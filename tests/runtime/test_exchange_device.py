# SPDX-License-Identifier: Apache-2.0
"""Which device ranks exchange bytes from, with a Horovod that says it has NCCL, or has not."""

import types

import pytest
import tensorflow as tf

from sok_compat.ranks.horovod import communicator as horovod_ranks
from sok_compat.ranks.horovod.communicator import Collectives, exchange_device
from sok_compat.runtime.settings import EXCHANGE_BY_NCCL


def make_horovod(has_nccl, exchanged=None):
    """Two ranks; `exchanged` gets the tensors given to alltoall."""

    def alltoall(data, splits, name, ignore_name_scope):
        assert ignore_name_scope  # ranks meet by name
        tensors = tf.identity(data, name=name), tf.identity(splits)
        if exchanged is not None:
            exchanged.extend(tensors)
        return tensors

    return types.SimpleNamespace(
        rank=lambda: 0, size=lambda: 2, nccl_built=lambda: has_nccl, alltoall=alltoall
    )


@pytest.fixture
def see_gpus(monkeypatch):
    def see(count):
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["GPU"] * count)

    return see


@pytest.mark.parametrize("value", [None, "0"])
def test_through_the_host_unless_asked(monkeypatch, see_gpus, value):
    monkeypatch.delenv(EXCHANGE_BY_NCCL.name, raising=False)
    if value is not None:
        monkeypatch.setenv(EXCHANGE_BY_NCCL.name, value)
    see_gpus(1)
    exchanged = []
    Collectives(make_horovod(has_nccl=True, exchanged=exchanged))
    assert all("CPU:0" in tensor.device for tensor in exchanged)


def test_by_nccl_from_the_gpu(monkeypatch, see_gpus):
    monkeypatch.setenv(EXCHANGE_BY_NCCL.name, "1")
    see_gpus(1)
    exchanged, configs = [], []
    make_session = horovod_ranks.tf1.Session
    monkeypatch.setattr(
        horovod_ranks.tf1,
        "Session",
        lambda graph, config: configs.append(config) or make_session(graph=graph, config=config),
    )
    Collectives(make_horovod(has_nccl=True, exchanged=exchanged))
    assert all("GPU:0" in tensor.device for tensor in exchanged)
    assert configs[0].gpu_options.allow_growth and not configs[0].device_count


@pytest.mark.parametrize("has_nccl, gpus, words", [
    (False, 1, "built without NCCL: build it with HOROVOD_GPU_OPERATIONS=NCCL"),
    (True, 0, "this one sees 0: set CUDA_VISIBLE_DEVICES for each rank"),
    (True, 8, "this one sees 8: set CUDA_VISIBLE_DEVICES for each rank"),
])  # fmt: skip
def test_what_nccl_needs(monkeypatch, see_gpus, has_nccl, gpus, words):
    monkeypatch.setenv(EXCHANGE_BY_NCCL.name, "1")
    see_gpus(gpus)
    with pytest.raises(RuntimeError, match=words):
        exchange_device(make_horovod(has_nccl))
