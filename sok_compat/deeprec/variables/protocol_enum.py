# SPDX-License-Identifier: Apache-2.0
"""`ProtocolEnum`: an enum of DeepRec's protocol messages, without the messages."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

_Enum = TypeVar("_Enum", bound="ProtocolEnum")


class ProtocolEnum(enum.IntEnum):
    """An IntEnum with the methods of a protocol message enum."""

    @classmethod
    def checked(cls: type[_Enum], argument: str, number: Any) -> _Enum:
        """The member with this number, or the member itself.

        Raises:
          ValueError: there is none.
        """
        try:
            return cls(number)
        except ValueError:
            raise ValueError(
                f"{argument} must be one of {cls.__name__}.{{{', '.join(cls.keys())}}}, got "
                f"{number!r}"
            ) from None

    @classmethod
    def Name(cls, number: int) -> str:  # noqa: N802 - of protocol messages
        """The name of a number; ValueError: there is none."""
        return cls(number).name

    @classmethod
    def Value(cls: type[_Enum], name: str) -> _Enum:  # noqa: N802
        """The number of a name; ValueError: there is none."""
        if name not in cls.__members__:
            raise ValueError(f"{cls.__name__} has no {name!r}, only {cls.keys()}")
        return cls[name]

    @classmethod
    def keys(cls) -> list[str]:
        """All names."""
        return list(cls.__members__)

    @classmethod
    def values(cls: type[_Enum]) -> list[_Enum]:
        """All numbers."""
        return list(cls)

    @classmethod
    def items(cls: type[_Enum]) -> list[tuple[str, _Enum]]:
        """[(name, number)]"""
        return list(cls.__members__.items())
