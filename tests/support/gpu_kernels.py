# SPDX-License-Identifier: Apache-2.0
"""Tests of tables on a GPU; or of the kernels written for one, on CPU threads."""

import importlib.util
import os
import sys
from pathlib import Path

# Environment variables, also for the processes that tests start.
LIBRARY = "SOK_TEST_OPS_LIBRARY"  # the path of _ops_host_queue.so, whose CPU ops run these kernels
GPU_SWITCH = "SOK_TEST_ON_GPU"
_BUILD_INFO = "sok_compat.runtime._build_info"


def use_library_asked_for():
    """Lets sok_compat load the op library that the environment names; call it before its import."""
    path = os.environ.get(LIBRARY)
    if not path or _BUILD_INFO in sys.modules:
        return
    if "sok_compat.runtime.op_library" in sys.modules:
        raise RuntimeError("sok_compat has loaded its op library already: ask for another before")
    (package,) = importlib.util.find_spec("sok_compat").submodule_search_locations
    spec = importlib.util.spec_from_file_location(
        _BUILD_INFO, Path(package, "runtime", "_build_info.py")
    )
    build_info = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build_info)
    build_info.OPS_LIBRARIES = dict.fromkeys(build_info.OPS_LIBRARIES, Path(path))
    sys.modules[_BUILD_INFO] = build_info


def use_what_is_asked_for():
    """Puts tables where the environment says, from now on."""
    if os.environ.get(GPU_SWITCH):
        _put_tables_on_gpu()
    elif os.environ.get(LIBRARY):
        from sok_compat.runtime import devices

        devices._is_gpu = lambda variable: True  # whole planes have memory for rows in use only


def _put_tables_on_gpu():
    import tensorflow as tf

    from sok_compat.runtime import devices

    if not devices.can_use_gpus():
        raise RuntimeError(
            f"no table can be on a GPU here: TensorFlow {tf.__version__} sees "
            f"{tf.config.get_visible_devices('GPU')}, and the op library has "
            f"{'' if devices.has_gpu_kernels() else 'no '}kernels for GPUs"
        )
    devices._named_device = lambda: "/GPU:0"
    make_session = tf.compat.v1.Session.__init__

    def make_session_with_soft_placement(self, target="", graph=None, config=None):
        config = config or tf.compat.v1.ConfigProto()
        config.allow_soft_placement = True
        make_session(self, target, graph, config)

    tf.compat.v1.Session.__init__ = make_session_with_soft_placement
