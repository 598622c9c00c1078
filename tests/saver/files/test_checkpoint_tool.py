# SPDX-License-Identifier: Apache-2.0
"""`python -m sok_compat.checkpoint`: what it says and writes, and what it says of broken files."""

import os
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint import restore_from_files
from sok_compat.checkpoint.files import dump_files
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.tool.command_line import main
from sok_compat.tables import Table
from tests.support.deeprec.deeprec_files import tensors_of, write_tensors
from tests.support.saves import damaged_files
from tests.support.saves.written_table import (
    DENSE,
    DIM,
    ROWS,
    SLOTS,
    write_buckets,
    write_dump,
    write_rows,
)

WRITERS = {"rows": write_rows, "buckets": write_buckets, "dump": write_dump}
of_all_formats = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
of_checkpoints = pytest.mark.parametrize("write", [write_rows, write_buckets], ids=["rows", "ev"])


@pytest.fixture
def output_of(capsys):
    """Runs the tool; what it has printed, after a check of its status."""

    def run(status, *arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == status
        printed = capsys.readouterr()
        if status == 2:
            assert printed.err.startswith("python -m sok_compat.checkpoint: ")
            return printed.err
        assert not printed.err
        return printed.out

    return run


def loaded(*paths):
    return [np.load(path) for path in paths]


class TestShow:
    """What is in files."""

    def test_rows(self, tmp_path, output_of):
        write_rows(str(tmp_path / "model"), ROWS, SLOTS)
        shown = output_of(0, "show", tmp_path / "model")
        assert "checkpoint, 1 data file, " in shown
        assert "table emb: 4 keys int64, dim 3, layout rows, 128 bytes in 1 file\n" in shown
        assert "slot emb/Adam: width 3\n" in shown
        assert "2 other tensors, 17 bytes: dense, words\nchecksums verified\n" in shown

    def test_buckets(self, tmp_path, output_of):
        write_buckets(str(tmp_path / "model"), ROWS, SLOTS)
        shown = output_of(0, "show", tmp_path / "model.index")
        assert "table emb: 4 keys int64, dim 3, layout buckets, 2 parts, " in shown
        assert "slot emb/Adam: width 3\n" in shown
        assert "recorded of each key: versions, freqs\n    1 key more without a row\n" in shown

    def test_dumps(self, tmp_path, output_of):
        write_dump(str(tmp_path / "a folder"), ROWS)
        for path in ("a folder", "a folder/emb"):
            shown = output_of(0, "show", tmp_path / path)
            assert "1 table as files of sok.Saver" in shown
            assert "table emb: 4 keys int64, dim 3, layout dump, 80 bytes in 2 files" in shown
            assert shown.endswith("checksums verified\n")
        (tmp_path / "a folder/emb.dump").unlink()
        assert "there are none for " in output_of(0, "show", tmp_path / "a folder")

    # As older and newer protobufs write it.
    @pytest.mark.parametrize("name", [r"model \303\251-2", "model é-2"])
    def test_the_latest_of_a_folder(self, tmp_path, output_of, name):
        for step in (1, 2):
            write_rows(str(tmp_path / f"model é-{step}"), ROWS)
        tf.compat.v1.train.update_checkpoint_state(str(tmp_path), "model é-2")
        assert "model é-2: checkpoint" in output_of(0, "show", tmp_path)
        (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n')
        assert "model é-2: checkpoint" in output_of(0, "show", tmp_path)
        (tmp_path / "model é-2.index").unlink()
        assert "model é-2.index is missing, which" in output_of(2, "show", tmp_path)

    def test_no_table(self, tmp_path, output_of):
        write_tensors(str(tmp_path / "model"), DENSE)
        shown = output_of(0, "show", tmp_path / "model")
        assert "  no table in it\n  2 other tensors" in shown
        message = output_of(
            2, "export", tmp_path / "model", "--table", "x", "--to", "k.npy", "v.npy"
        )
        assert "has no table x; its tables: none" in message

    def test_nothing(self, tmp_path, output_of):
        assert f"no checkpoint {tmp_path}/x: " in output_of(2, "show", tmp_path / "x")
        assert "neither a `checkpoint` file nor files of sok.Saver" in output_of(
            2, "show", tmp_path
        )
        assert "gs://x is not a path on this machine" in output_of(2, "show", "gs://x")


class TestArrays:
    """Tables as arrays, and back."""

    @of_all_formats
    def test_export(self, tmp_path, output_of, write):
        path = str(tmp_path / "model")
        write(path, ROWS, SLOTS)
        files = [str(tmp_path / name) for name in ("k.npy", "v.npy")]
        out = output_of(0, "export", path, "--table", "emb", "--slots", "--to", *files)
        assert out.startswith(f"4 keys of emb: {files[0]}, {files[1]}")
        keys, rows = loaded(*files)
        assert (keys.dtype, rows.dtype) == (np.int64, np.float32)
        assert {key: tuple(row) for key, row in zip(keys.tolist(), rows.tolist())} == ROWS
        if write is not write_dump:
            (slots,) = loaded(tmp_path / "v.Adam.npy")
            assert {k: tuple(row) for k, row in zip(keys.tolist(), slots.tolist())} == SLOTS
        if write is write_buckets:
            assert np.load(tmp_path / "v.freqs.npy").tolist() == [2] * 4
        assert not [name for name in os.listdir(tmp_path) if "unfinished" in name]

    @of_all_formats
    def test_parquet(self, tmp_path, output_of, write):
        parquet = pytest.importorskip("pyarrow.parquet")
        path, file = str(tmp_path / "model"), str(tmp_path / "t.parquet")
        write(path, ROWS, SLOTS)
        output_of(0, "export", path, "--table", "emb", "--slots", "--to", file)
        columns = parquet.read_table(file).to_pydict()
        assert dict(zip(columns["key"], map(tuple, columns["row"]))) == ROWS
        if write is not write_dump:
            assert dict(zip(columns["key"], map(tuple, columns["Adam"]))) == SLOTS
        output_of(0, "import", tmp_path / "dump", "--table", "scope/other", "--from", file)
        compared = ("--table", "emb", "--as", "scope/other")
        assert output_of(int(write is not write_dump), "diff", path, tmp_path / "dump", *compared)

    def test_names_of_outputs(self, tmp_path, output_of):
        """A slot whose name is that of the rows has its whole name; two of one name are refused."""
        path, arguments = str(tmp_path / "model"), ("--table", "emb", "--slots", "--to")
        keys, rows = np.arange(2), np.ones([2, DIM], np.float32)
        tensors = {"emb/keys": keys, "emb/rows": rows, "emb/row": 2 * rows}
        write_tensors(path, tensors)
        files = [tmp_path / "k.npy", tmp_path / "v.npy"]
        output_of(0, "export", path, *arguments, *files)
        assert np.array_equal(np.load(files[1]), rows)
        assert np.array_equal(np.load(tmp_path / "v.emb_row.npy"), 2 * rows)
        same = output_of(2, "export", path, *arguments, files[0], files[0])
        assert f"two outputs have the name {files[0]}" in same
        write_tensors(path, {**tensors, "emb/a/b": rows, "emb/a_b": rows})
        assert "two outputs have the name" in output_of(2, "export", path, *arguments, *files)

    @pytest.mark.parametrize("key_dtype", ["int64", "uint32"])
    def test_an_import_is_a_dump(self, tmp_path, output_of, key_dtype):
        """Restored by the op that sok.Saver has, in the place of an earlier one."""
        keys = np.array([7, 2**31, 0], key_dtype)
        arrays = [str(tmp_path / name) for name in ("k.npy", "v.npy")]
        np.save(arrays[0], keys)
        table = Table(16, DIM, name="emb", key_dtype=key_dtype)
        for number in range(2):
            rows = np.full([3, DIM], number, np.float64)
            np.save(arrays[1], rows)
            options = ["--table", "emb", "--key-dtype", key_dtype, "--from", *arrays]
            output_of(0, "import", tmp_path / "dump", *options)
            restore_from_files(table, str(tmp_path / "dump"), "emb")
            exported = dict(zip(*(tensor.numpy().tolist() for tensor in table.export())))
            assert exported == dict(zip(keys.tolist(), rows.tolist()))
        assert len(os.listdir(tmp_path / "dump")) == 3
        (tmp_path / "dump/emb.dump").unlink()  # as SparseOperationKit writes them
        options = ["--table", "emb", "--key-dtype", key_dtype, "--to", *arrays]
        output_of(0, "export", tmp_path / "dump", *options)
        assert [array.tolist() for array in loaded(*arrays)] == [keys.tolist(), rows.tolist()]
        if key_dtype == "uint32":
            assert "--key-dtype uint32 takes keys" in output_of(2, "show", tmp_path / "dump")

    BAD = {
        "twice": ([1, 2, 1], np.zeros([3, 2]), [], "k.npy: the key 1 is there twice"),
        "counts": ([1, 2], np.zeros([3, 2]), [], r"k.npy has 2 keys, and .*v.npy 3 rows"),
        "floats": ([1.0], np.zeros([1, 2]), [], r"k.npy holds float64 \[1\], expected keys"),
        "shape": ([1], np.zeros([1, 2, 3]), [], r"v.npy holds float64 \[1, 2, 3\]"),
        "uint32": ([-1], np.zeros([1, 2]), ["--key-dtype", "uint32"], "key -1 is no uint32"),
        "float64": ([4, 5], np.float64([[1, 2], [3, -1e39]]), [], "key 5 has -1e.39, and"),
        "name": ([1], np.zeros([1, 2]), ["--table", "../x"], "'../x', is part of its files' names"),
    }

    @pytest.mark.parametrize("keys, rows, options, message", BAD.values(), ids=BAD)
    def test_arrays_that_do_not_fit(self, tmp_path, output_of, keys, rows, options, message):
        files = [tmp_path / "k.npy", tmp_path / "v.npy"]
        np.save(files[0], np.array(keys))
        np.save(files[1], rows)
        table = [] if "--table" in options else ["--table", "t"]
        error = output_of(2, "import", tmp_path / "dump", *table, *options, "--from", *files)
        assert re.search(message, error)
        assert not [*tmp_path.glob("dump/*")]

    def test_files_that_are_none(self, tmp_path, output_of):
        files = [tmp_path / "k.npy", tmp_path / "v.npy"]
        np.save(files[0], np.arange(9))
        files[1].write_bytes(files[0].read_bytes()[:-1])
        arguments = ("import", tmp_path, "--table", "t", "--from")
        assert "v.npy is not a NumPy array, or cut off" in output_of(2, *arguments, *files)
        assert "k.txt: give two files" in output_of(2, *arguments, "k.txt")
        assert f"{tmp_path}/no.npy: No such file" in output_of(
            2, *arguments, tmp_path / "no.npy", files[0]
        )

    def test_a_table_larger_than_what_it_takes(self, tmp_path, output_of):
        """In pieces: 48 MiB with less than 32, of which most is for 2^17 keys."""
        rows = np.zeros([1 << 17, 96], np.float32)
        tensors = {"t/keys": np.arange(len(rows)), "t/rows": rows}
        write_tensors(str(tmp_path / "model"), tensors)
        del tensors, rows
        files = [tmp_path / "k.npy", tmp_path / "v.npy"]
        tracemalloc.start()
        try:
            output_of(0, "export", tmp_path / "model", "--table", "t", "--to", *files)
            output_of(0, "import", tmp_path / "dump", "--table", "t", "--from", *files)
            output_of(0, "diff", tmp_path / "model", tmp_path / "dump", "--table", "t")
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()


class TestDiff:
    """What two have not in common."""

    @of_all_formats
    def test_equal(self, tmp_path, output_of, write):
        for name, rows in (("a", ROWS), ("b", dict(reversed(ROWS.items())))):
            write(str(tmp_path / name), rows, SLOTS)
        assert "table emb: 4 keys in both, equal" in output_of(
            0, "diff", tmp_path / "a", tmp_path / "b"
        )
        write_dump(str(tmp_path / "c"), {**ROWS, 8: (1.0, 1.0, 1.0)})
        other = output_of(1, "diff", tmp_path / "a", tmp_path / "c", "--table", "emb")
        assert "4 keys in both, 1 only in the second (8)" in other

    @of_checkpoints
    def test_rows_and_slots(self, tmp_path, output_of, write):
        write(str(tmp_path / "a"), ROWS, SLOTS)
        other = {**ROWS, -4: (-4.0, 0.5, 3.0), 11: (0.0, 0.0, 0.0), 5: (5.0, np.nan, -1.0)}
        del other[1002]
        write(str(tmp_path / "b"), other, {**dict.fromkeys(other, (9.0, 0.0, 2.0)), 5: SLOTS[5]})
        found = output_of(1, "diff", tmp_path / "a", tmp_path / "b")
        assert "3 keys in both, 1 only in the first (1002), 1 only in the second (11)" in found
        assert "  rows: 2 rows differ, by at most nan\n" in found
        assert f"  emb/Adam: 2 rows differ, by at most {2.0**40:.6g}\n" in found
        del other[11], other[5]
        write(str(tmp_path / "c"), other)
        found = output_of(1, "diff", tmp_path / "a", tmp_path / "c")
        assert "  rows: 1 row differs, by at most 4\n" in found
        assert "only in one: emb/Adam" in found

    def test_keys_in_another_order(self, tmp_path, output_of):
        rows = {key * 1000003: (float(key), 0.0, 0.0) for key in range(-50, 50)}
        write_rows(str(tmp_path / "a"), rows)
        changed = {key: (*row[:2], 2.0) if key % 2 else row for key, row in rows.items()}
        changed[1] = changed.pop(0)
        write_rows(str(tmp_path / "b"), dict(reversed(changed.items())))
        found = output_of(1, "diff", tmp_path / "a", tmp_path / "b")
        assert "99 keys in both, 1 only in the first (0), 1 only in the second (1)" in found
        assert "rows: 50 rows differ, by at most 2\n" in found

    def test_other_tables_and_tensors(self, tmp_path, output_of):
        write_rows(str(tmp_path / "a"), ROWS)
        tensors = tensors_of("other", ROWS, DIM)
        write_tensors(str(tmp_path / "b"), {**tensors, "dense": np.float32([3, 5])})
        found = output_of(1, "diff", tmp_path / "a", tmp_path / "b")
        assert found == (
            f"table emb: only in {tmp_path}/a\ntable other: only in {tmp_path}/b\n"
            f"tensor dense: differs\ntensor words: only in {tmp_path}/a\n"
        )
        pair = ("--table", "emb", "--as", "other")
        assert "equal" in output_of(0, "diff", tmp_path / "a", tmp_path / "b", *pair)

    def test_another_dim(self, tmp_path, output_of):
        write_tensors(str(tmp_path / "a"), tensors_of("v", {1: (1, 2)}, 2))
        write_tensors(str(tmp_path / "b"), tensors_of("v", {1: (1, 2, 3)}, 3))
        found = output_of(1, "diff", tmp_path / "a", tmp_path / "b")
        assert "  rows: 2 floats in a row, and 3\n" in found

    def test_a_key_twice(self, tmp_path, output_of):
        tensors = tensors_of("v", {1: (1, 2), 5: (1, 2)}, 2)
        write_tensors(str(tmp_path / "a"), tensors)
        write_tensors(str(tmp_path / "b"), {**tensors, "v-keys": np.array([5, 5])})
        error = output_of(2, "diff", tmp_path / "a", tmp_path / "b")
        assert "b.data-00000-of-00001: the key 5 is there twice" in error


class TestBrokenFiles:
    """Exit status 2, and the file's name."""

    @of_all_formats
    @pytest.mark.parametrize("fault", ["bit", "cut", "missing"])
    def test_each_file(self, tmp_path, output_of, write, fault):
        write(str(tmp_path / "model"), ROWS)
        is_dump = write is write_dump
        folder = tmp_path / "model" if is_dump else tmp_path
        files = ["emb_keys.file", "emb_values.file", "emb.dump"]
        for name in files if is_dump else ["model.data-00000-of-00001", "model.index"]:
            if fault == "missing" and name in ("emb.dump", "model.index"):
                continue  # a dump of SparseOperationKit's; TestShow.test_nothing
            file = folder / name
            content = file.read_bytes()
            changed = bytearray(content)
            changed[7] ^= 4
            file.unlink() if fault == "missing" else file.write_bytes(
                changed if fault == "bit" else content[:-1]
            )
            commands = [
                ("show", tmp_path / "model"),
                ("diff", tmp_path / "model", tmp_path / "model"),
                ("export", tmp_path / "model", "--table", "emb", "--to")
                + (tmp_path / "k.npy", tmp_path / "v.npy"),
            ]
            for command in commands:
                assert str(file) in output_of(2, *command)
            file.write_bytes(content)
        assert not os.path.exists(tmp_path / "k.npy") and not os.path.exists(tmp_path / "v.npy")

    UNREADABLE = ("no dtype", "unknown dtype", "truncated varint")

    @pytest.mark.parametrize("name", DENSE)
    def test_each_broken_entry(self, tmp_path, output_of, name):
        """Of a tensor that belongs to no table."""
        path, broken = str(tmp_path / "model"), str(tmp_path / "broken")
        write_rows(path, ROWS)
        for what, damage in damaged_files.index_forgeries([name]):
            damaged_files.copy(path, broken)
            damage(broken)
            commands = [("show", broken), ("diff", path, broken), ("diff", broken, path)]
            if what.startswith(self.UNREADABLE):
                arrays = (tmp_path / "k.npy", tmp_path / "v.npy")
                commands += [
                    ("show", broken, "--no-verify"),
                    ("export", broken, "--table", "emb", "--to", *arrays),
                ]
            for command in commands:
                assert broken in output_of(2, *command), what

    @pytest.mark.parametrize("files", [["k.npy", "v.npy"], ["t.parquet"]], ids=["npy", "parquet"])
    def test_a_disk_that_is_full(self, tmp_path, output_of, files):
        if files == ["t.parquet"]:
            pytest.importorskip("pyarrow")
        write_rows(str(tmp_path / "model"), ROWS)
        paths = [tmp_path / file for file in files]
        os.symlink("/dev/full", f"{paths[-1]}.{os.getpid()}.unfinished")
        message = output_of(2, "export", tmp_path / "model", "--table", "emb", "--to", *paths)
        assert str(paths[-1]) in message and "No space left on device" in message
        assert sorted(os.listdir(tmp_path)) == ["model.data-00000-of-00001", "model.index"]

    def test_an_import_that_fails_leaves_the_earlier_dump(self, tmp_path, output_of):
        write_dump(str(tmp_path / "dump"), ROWS)

        def pieces():
            yield np.arange(3), np.zeros([3, DIM], np.float32)
            raise FileError("a file that ends early")

        with pytest.raises(FileError, match="ends early"):
            dump_files.write_dump(str(tmp_path / "dump"), "emb", DIM, pieces(), "int64")
        assert len(os.listdir(tmp_path / "dump")) == 3
        assert "4 keys int64" in output_of(0, "show", tmp_path / "dump")


def test_it_needs_no_tensorflow(tmp_path):
    write_rows(str(tmp_path / "model"), ROWS)
    code = (
        "import sys; from sok_compat.checkpoint.__main__ import main;"
        "table = ['--table', 'emb']; files = ['k.npy', 'v.npy'];"
        "assert main(['show', 'model']) == 0;"
        "assert main(['export', 'model', *table, '--to', *files]) == 0;"
        "assert main(['import', 'dump', *table, '--from', *files]) == 0;"
        "assert main(['diff', 'model', 'dump', *table]) == 0;"
        "assert not {'tensorflow', 'horovod', 'pyarrow'} & sys.modules.keys()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, cwd=tmp_path, env=environment
    )
