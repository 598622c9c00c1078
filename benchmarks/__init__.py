# SPDX-License-Identifier: Apache-2.0
"""Speed, always as ratios between contenders that run in turn in one process."""
