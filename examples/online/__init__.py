# SPDX-License-Identifier: Apache-2.0
"""A trainer on a stream, and a server that follows its increments."""
