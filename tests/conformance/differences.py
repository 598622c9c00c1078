# SPDX-License-Identifier: Apache-2.0
"""Where the engines still differ, or break a promise. A test of each fails as long as it does not:
what is repaired goes from this list."""

import fnmatch

# Why: (checks, engines, patterns of names of scripts); "*" are all of them.
_DIFFERENCES = {
    "a restore that cannot read on leaves a part of the file, or nothing": [
        ("state", "*", ["a file that ends early, *"]),
        ("same", "*", ["a file that ends early, after the first part"]),
    ],
    "on the CPU, keys that are inserted while a table's contents are replaced lose their rows": [
        ("promises", "cpu", ["keys that come while *"]),
        ("same", "*", ["keys that come while *"]),
    ],
    "on the CPU a slot of a wrong capacity takes its variable's plane away before it is refused": [
        ("promises state", "cpu", ["a slot of another capacity in the place of one"]),
        ("same", "*", ["a slot of another capacity in the place of one"]),
    ],
    "on the CPU, rows that were there before a slot of -0.0 hold 0.0 in it": [
        ("same", "*", ["a slot of negative zeros *"]),
    ],
    "on the CPU, rows that no key has do not read as zeros": [
        ("promises", "cpu", ["rows that no key has read as zeros *", "* leaves no rows of keys *"]),
        ("same", "*", ["rows that no key has read as zeros *", "* leaves no rows of keys *"]),
        ("same", "*", ["another value of the rows"]),
    ],
    "a dump that fails at its second file has replaced the first": [
        ("promises", "*", ["a dump that fails leaves both files"]),
    ],
    "on the CPU a number of floats above 2^63 ends the process": [
        ("promises", "cpu", ["* larger than numbers"]),
        ("same", "*", ["* larger than numbers"]),
    ],
    "each engine has its own words for a table that is too large": [
        ("same", "*", ["a table larger than memory"]),
    ],
    "some ops look for their variables before their table": [
        ("promises", "cpu", ["pool of a table that is not *"]),
        ("promises", "host_threads cuda", ["read_rows of a table that is not *"]),
        ("promises same", "*", ["adam of a table that is not *", "adagrad of a table that is *"]),
        ("same", "*", ["pool of a table that is not *", "read_rows of a table that is not *"]),
    ],
    "a GPU's kernels do not check row ids that are said to be distinct": [
        ("promises same", "host_threads cuda", ["gradients of no row of this table, *"]),
    ],
    "Adam over all rows takes a gradient for a row without a key on a GPU only": [
        ("promises", "cpu", ["a row below the last one that no key has"]),
        ("same", "*", ["a row below the last one that no key has"]),
    ],
    "a GPU's kernels do not check where row_splits end": [
        ("promises same", "host_threads cuda", ["*: row_splits that end *", "*: no row_splits"]),
    ],
    "nothing checks that row_splits ascend, nor what inverse points at": [
        ("promises", "*", ["*: row_splits that descend", "*: an inverse beyond the rows"]),
        ("same", "*", ["merge: row_splits that descend"]),
    ],
    "a GPU's kernels refuse rows for absent keys where none is absent": [
        ("promises same", "host_threads cuda", ["rows that are given where no key is absent"]),
    ],
    "a GPU's kernels look at planes for calls that read none": [
        ("promises same", "host_threads cuda", ["calls that read no plane, *"]),
    ],
    "the CPU reads the table's rows, whatever variable it is asked to read": [
        ("promises", "cpu", ["a slot read as a whole"]),
        ("same", "*", ["a slot read as a whole"]),
    ],
    "a GPU's kernels pool the table's rows, whatever variable they are asked to pool": [
        ("promises same", "host_threads cuda", ["rows pooled from a slot"]),
    ],
    "many gradients of one row are added up in another order": [
        ("same", "*", ["merged: * of 20000, *"]),
    ],
}  # fmt: skip


def reason_of(check, engine, name):
    """Why the check fails for this script on this engine; None: it does not."""
    for reason, places in _DIFFERENCES.items():
        for checks, engines, patterns in places:
            is_here = check in checks.split() and (engines == "*" or engine in engines.split())
            if is_here and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                return reason
    return None
