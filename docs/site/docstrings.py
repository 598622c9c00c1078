# SPDX-License-Identifier: Apache-2.0
"""A griffe extension: `<name>` and `__name__` in a docstring are text, not markup."""

from __future__ import annotations

import griffe

from docs.site.html import as_text


class NamesAreText(griffe.Extension):
    """Changes each docstring when griffe has read its object."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Called by griffe."""
        if obj.docstring:
            obj.docstring.value = as_text(obj.docstring.value)
