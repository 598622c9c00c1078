# SPDX-License-Identifier: Apache-2.0
"""Seeds of everything that initializers of Keras draw from."""

import random

import numpy as np
import tensorflow as tf


def set_random_seed(seed):
    """As keras.utils.set_random_seed, after which layers of tf-keras fail on Python 3.12."""
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)
