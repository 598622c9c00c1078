# SPDX-License-Identifier: Apache-2.0
"""Where TensorFlow would copy a table as an ordinary variable, without its keys."""


class NoCopies:
    """Before BaseResourceVariable, for a table."""

    def _export_to_saved_model_graph(self, *args, **kwargs):
        """For tf.saved_model.save and Keras's model.save in eager mode.

        Raises:
          NotImplementedError: always.
        """
        del args, kwargs
        raise NotImplementedError(
            f"a SavedModel of eager mode cannot hold the table {self.table_name}: use "
            "sok_compat.export_saved_model for serving; to save, tf.train.Checkpoint, "
            f"model.save_weights with a path without an ending, or {self.words.save}"
        )

    def _copy_trackable_to_cpu(self, object_map):
        """For checkpoints that are written while training goes on.

        Raises:
          ValueError: always; TensorFlow passes over a NotImplementedError.
        """
        raise ValueError(
            f"the table {self.table_name} cannot be saved with "
            "experimental_enable_async_checkpoint, which copies all variables first: leave it out"
        )
