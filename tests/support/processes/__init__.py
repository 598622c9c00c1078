# SPDX-License-Identifier: Apache-2.0
"""Other processes: forks, subprocesses, killed ones."""
