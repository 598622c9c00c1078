# SPDX-License-Identifier: Apache-2.0
"""What tests of the TensorFlow API share: data, layers, optimizers, sessions, plain references."""
