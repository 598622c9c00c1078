# SPDX-License-Identifier: Apache-2.0
"""Which TensorFlows the wheels carry op libraries for, and which of them are tried."""

import zipfile

import pytest

from sok_compat.runtime import built_libraries


@pytest.mark.parametrize(
    ("python", "first", "last", "count"),
    [((3, 9), "2.15.1", "2.20.0", 6), ((3, 12), "2.16.2", "2.21.0", 6), (None, "2.15.1", None, 7)],
)
def test_a_wheel_carries_all_releases_of_its_python(tensorflow_install, python, first, last, count):
    found = tensorflow_install.releases(python)
    assert len(found) == count and found[0] == first and last in (None, found[-1])


def test_the_tested_releases_are_among_them(tensorflow_install):
    assert set(tensorflow_install.TESTED_VERSIONS) <= set(tensorflow_install.releases())
    assert set(tensorflow_install.LAST_PATCHES) == set(tensorflow_install.PYTHONS)
    first, last = built_libraries.MINORS
    assert set(tensorflow_install.PYTHONS) == set(range(first, last + 1))


@pytest.mark.parametrize(
    ("python", "is_all", "tried"),
    [("3.11", False, ["2.15.1"]), ("3.12", False, ["2.16.2"]),
     ("3.11", True, ["2.15.1", "2.16.2"]), ("3.13", True, [])],
)  # fmt: skip
def test_what_is_tried_of_a_wheel(tensorflow_install, tmp_path, python, is_all, tried):
    import wheel_check

    path = tmp_path / "sok_compat-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name in ("_ops-2.15.1.so", "_ops-2.16.2.so", "_build_info.py"):
            wheel.writestr(f"sok_compat/runtime/{name}", "")
    assert wheel_check.releases_to_try(path, python, is_all) == tried
