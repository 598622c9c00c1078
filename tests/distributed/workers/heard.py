# SPDX-License-Identifier: Apache-2.0
"""What workers are told."""

import logging


class Heard(logging.Handler):
    """Keeps warnings."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())
