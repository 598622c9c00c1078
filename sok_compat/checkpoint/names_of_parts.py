# SPDX-License-Identifier: Apache-2.0
"""Names in checkpoints: where in that of a table, or of what stands below one, its part is told."""


def around_part(name, wholes, part):
    """(head, tail): the name of another part of the same has '/part_<i>' between them.

    Scopes may stand before a table's name, and a slot's name behind it. What is named without the
    part, as the caller of a saver may, has it at the end.

    Args:
      name: of a table, or part of one, or of its slot or scalar.
      wholes: names of the table that may be in `name`, if it is whole.
      part: its TablePart; None: it is whole.
    """
    if part:
        head, suffix, tail = f"{name}/".rpartition(f"{part.suffix}/")
        return (head, f"/{tail}"[:-1] if tail else "") if suffix else (name, "")
    for whole in wholes:
        before = f"/{name}/".rfind(f"/{whole}/")
        if before >= 0:
            end = before + len(whole)
            return name[:end], name[end:]
    return name, ""
