# SPDX-License-Identifier: Apache-2.0
"""The launcher of unchanged TF1 scripts: `python -m sok_compat.run script.py arguments...`.

It imports neither TensorFlow nor a face, so that settings before a script's own imports count.
"""
