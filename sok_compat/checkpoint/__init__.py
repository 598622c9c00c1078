# SPDX-License-Identifier: Apache-2.0
"""What files and TensorFlow's savers and checkpoints hold of tables."""

from sok_compat.checkpoint.key_files import dump_to_files, restore_from_files, set_rows
from sok_compat.checkpoint.tf_saver import save_tables_in_checkpoints

__all__ = ["dump_to_files", "restore_from_files", "save_tables_in_checkpoints", "set_rows"]
