# SPDX-License-Identifier: Apache-2.0
"""`VariableMixin`: the base of classes that extend the methods of BaseResourceVariable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sok_compat.runtime.tf_versions import BaseResourceVariable as VariableMixin
else:
    VariableMixin = object  # a PlaneVariable is the last base of a table

__all__ = ["VariableMixin"]
