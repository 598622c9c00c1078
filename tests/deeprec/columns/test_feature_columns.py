# SPDX-License-Identifier: Apache-2.0
"""Columns give in input_layer what TensorFlow's gives, in a group or not."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.columns import feature_columns as fc
from sok_compat.deeprec.columns.input_layers import input_layer
from sok_compat.deeprec.namespace.names import HOMES
from sok_compat.deeprec.optimizer_rules.train_optimizers import AdagradOptimizer
from sok_compat.deeprec.variables.embedding_variable import EMBEDDING_VARIABLES
from sok_compat.deeprec.variables.options import EmbeddingVariableOption
from sok_compat.runtime import tf_versions
from sok_compat.runtime.tf_versions import columns
from tests.distributed.launch import has_horovod, reports, run_ranks
from tests.support.deeprec.feature_column_cases import of_tensorflow, trained
from tests.support.processes.subprocess_python import run_python
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
CONFIG = tf1.ConfigProto(inter_op_parallelism_threads=2, intra_op_parallelism_threads=1)
CONFIG.graph_options.rewrite_options.disable_meta_optimizer = True
ev = fc.categorical_column_with_embedding


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Of the run in a scope."""
    return str(tmp_path_factory.mktemp("checkpoint") / "model")


@pytest.fixture(scope="module")
def runs(checkpoint):
    """What `trained` gives, in each way."""
    return {
        "stock": trained("stock", config=CONFIG),
        "layer": trained("layer", config=CONFIG),
        "scope": trained("scope", checkpoint, config=CONFIG),
    }


@pytest.fixture(params=["layer", "scope"])
def alone_and_grouped(request, runs):
    return runs["stock"], runs[request.param]


def test_a_group_gives_what_its_columns_give_alone(alone_and_grouped):
    alone, grouped = alone_and_grouped
    assert alone.keys() == grouped.keys() and len(alone["before"]) == 23
    assert all(np.any(alone["before"][name]) for name in alone["before"])
    for moment in ("before", "after"):
        assert alone[moment].keys() == grouped[moment].keys()
        for name, output in alone[moment].items():
            np.testing.assert_allclose(grouped[moment][name], output, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(grouped["layer"], alone["layer"], atol=1e-6)
    in_order = [grouped["before"][name] for name in sorted(grouped["before"])]
    np.testing.assert_array_equal(grouped["layer"], np.concatenate(in_order, 1))
    moved = [n for n, x in grouped["after"].items() if np.any(x != grouped["before"][n])]
    assert len(moved) == 19  # all of embeddings, but for the one that is not trainable


def test_a_group_changes_no_names(alone_and_grouped, checkpoint):
    alone, grouped = alone_and_grouped
    for what in alone:
        if what.startswith("names of"):
            assert grouped[what] == alone[what], what
    for name, shape in alone["shapes"].items():
        assert grouped["shapes"][name][0] in (6, None) and grouped["shapes"][name][1] == shape[1]
    saved = {name for name, _ in tf.train.list_variables(checkpoint)}
    tables = {name.removesuffix(":0") for name in alone["names of tables"]}
    for name in (name.removesuffix(":0") for name in alone["names of all"]):
        is_plane = any(f"{name}/".startswith(f"{table}/") for table in tables)
        assert f"{name}-keys" in saved and f"{name}-values" in saved if is_plane else name in saved
    assert "input_layer/price_bucketized_embedding/embedding_weights" in saved
    assert "input_layer/filled_embedding/embedding_weights:0" in grouped["names of tables"]
    assert grouped["names of columns"]["words_4_embedding"] == [
        f"input_layer/words_4_embedding/embedding_weights/part_{i}:0" for i in range(2)
    ]
    assert grouped["names of mine"] == [
        name for name in grouped["names of all"] if name.split("/")[-1].startswith("part_")
        or name.endswith("weights:0")
    ]  # fmt: skip


def test_empty_bags_and_ids_below_zero_give_no_key_a_row(alone_and_grouped):
    alone, grouped = alone_and_grouped
    for name, keys, alone_keys in zip(grouped["names of tables"], grouped["keys"], alone["keys"]):
        assert sorted(keys) == sorted(alone_keys), name
    keys = dict(zip(grouped["names of tables"], grouped["keys"]))
    assert set(keys["input_layer/ids_3_embedding/embedding_weights:0"]) == {1, 2, 3, 4, 9}


@pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`")
def test_two_ranks_give_what_one_gives(runs):
    of_ranks = reports(run_ranks("deeprec.feature_columns", 2, timeout=300))
    wanted = runs["layer"]
    for rank, seen in enumerate(of_ranks):
        assert len(seen["before"]) == 9 and seen["names of tables"] == wanted["names of tables"]
        for moment in ("before", "after"):
            for name, output in seen[moment].items():
                of_rank = wanted[moment][name][rank::2]
                np.testing.assert_allclose(output, of_rank, atol=1e-5, err_msg=name)


def names_of_tables():
    return [table.name for table in tf1.get_collection(EMBEDDING_VARIABLES)]


def two_columns():
    return [fc.embedding_column(ev("a", tf.int64), 2), fc.embedding_column(ev("b", tf.int64), 3)]


def two_features():
    return {"a": tf.constant([[1, 2], [-1, 3]]), "b": tf.constant([[1], [5]])}


def test_ids_below_zero_of_an_identity_column(graph):
    """Without a default they come through, and TensorFlow's lookup leaves them out."""
    column = of_tensorflow.categorical_column_with_identity("a", 8)
    ones = tf1.ones_initializer()
    with fc.group_embedding_column_scope():
        columns = [fc.embedding_column(column, 2, initializer=ones)]
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, -1, -1], tf.int64), [2, 2])
    layer = input_layer({"a": ids}, columns)
    with initialized_session() as session:
        np.testing.assert_array_equal(session.run(layer), [[1, 1], [0, 0]])


def test_a_group_is_one_lookup(graph):
    with fc.group_embedding_column_scope("user features"):
        columns = [*two_columns(), fc.embedding_column(ev("c"), 4, "sum")]
    layer = input_layer({**two_features(), "c": tf.constant(["x", ""])}, iter(columns))
    assert layer.shape.as_list() == [2, 9]
    types = [operation.type for operation in graph.get_operations()]
    assert types.count("SokFindRows") == 1


@pytest.mark.parametrize("make", [of_tensorflow.categorical_column_with_hash_bucket, ev])
def test_the_number_of_ops_hardly_grows_with_the_columns(make):
    def number_of_ops(number):
        with tf.Graph().as_default() as graph:
            arguments = [9] if make is not ev else []
            names = [f"c{i}" for i in range(number)]
            columns = [fc.embedding_column(make(name, *arguments), 4) for name in names]
            before = len(graph.get_operations())
            words = {name: tf.constant([["a"], [""]]) for name in names}
            input_layer(words, columns)
            made = [op for op in graph.get_operations()[before:] if "Initializer" not in op.name]
            return len([op for op in made if "embedding_weights" not in op.name])

    with_five, with_six = number_of_ops(5), number_of_ops(6)
    assert with_six - with_five <= 12, (with_five, with_six)  # TensorFlow's: 58


@pytest.mark.parametrize("num_parts", [1, 2])
def test_partitioned_variables(num_parts):
    """A single part is the whole variable; several parts are looked up by TensorFlow's ops."""

    def trained_by(look_up):
        with tf.Graph().as_default() as graph, initialized_session_of(graph) as run:
            with tf1.variable_scope("", partitioner=tf1.fixed_size_partitioner(num_parts)):
                kinds = of_tensorflow.categorical_column_with_hash_bucket("a", 9), ev("b")
                ones = tf1.ones_initializer()
                columns = [fc.embedding_column(kind, 4, initializer=ones) for kind in kinds]
                words = {name: tf.constant([["x", "y"], ["", ""], ["y", ""]]) for name in "ab"}
                layer = look_up(words, columns)
            step = AdagradOptimizer(0.1).minimize(tf.reduce_sum(layer**2))
            types = [op.type for op in graph.get_operations()]
            return run([layer, step, layer]), types.count("SokPoolReceivedRows")

    (ours, in_group), (expected, _) = trained_by(input_layer), trained_by(of_tensorflow.input_layer)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    assert np.any(ours[0] != ours[1]) and in_group == (num_parts == 1)


@contextlib.contextmanager
def initialized_session_of(graph):
    """A function that runs (tensor, op, tensor) one after another; returns the tensors' values."""
    with tf1.Session(graph=graph) as session:

        def run(fetches):
            session.run(tf1.global_variables_initializer())
            return [found for found in map(session.run, fetches) if found is not None]

        yield run


def test_scopes_end_where_the_with_does():
    with fc.group_embedding_column_scope("outer") as outer:
        before = two_columns()[0]
        with pytest.raises(KeyError), fc.group_embedding_column_scope() as inner:
            inside = fc.shared_embedding_columns([ev("c"), ev("d")], 2)
            raise KeyError
        between = of_tensorflow.numeric_column("n"), two_columns()[1]
        with fc.group_embedding_column_scope() as other:
            pass
    after = two_columns()[0]
    assert outer == "group_embedding_column_scope_outer" and inner != other
    assert before.group_name == between[1].group_name == outer
    assert [column.group_name for column in inside] == [inner] * 2
    assert not hasattr(after, "group_name") and not hasattr(between[0], "group_name")


@pytest.mark.parametrize("grouped", [False, True])
def test_a_second_call(graph, grouped):
    """Has variables of its own, but for a scope that is entered again with `reuse`."""
    with fc.group_embedding_column_scope() if grouped else contextlib.nullcontext():
        columns = two_columns()
    names = [f"{name}_embedding/embedding_weights:0" for name in "ab"]
    for number in range(2):
        input_layer(two_features(), columns)
        expected = [f"{layer}/{n}" for layer in ("input_layer", "input_layer_1") for n in names]
        assert names_of_tables() == expected[: 2 * number + 2]
    layers = []
    for _ in range(2):
        with tf1.variable_scope("model", reuse=tf1.AUTO_REUSE):
            layers.append(input_layer(two_features(), columns))
        assert names_of_tables()[4:] == [f"model/input_layer/{name}" for name in names]
    gradient = tf.gradients(layers[0], tf1.get_collection(EMBEDDING_VARIABLES)[4:])
    with initialized_session(rewrites=False) as session:
        np.testing.assert_array_equal(*session.run(layers))
        assert session.run(gradient[0].values).shape == (3, 2)


def test_two_graphs_share_columns_and_nothing_else():
    with fc.group_embedding_column_scope("g"):
        columns = [*two_columns(), *fc.shared_embedding_columns([ev("c"), ev("d")], 2)]
        one_more = fc.embedding_column(ev("not asked for"), 2)
    for size in (3, 2):
        with tf.Graph().as_default() as graph:
            outputs = {}
            words = tf.constant([["x"], ["y"]])
            given = {**two_features(), "c": words, "d": words}
            layer = input_layer(given, columns[-size:], cols_to_output_tensors=outputs)
            assert layer.graph is graph and len(names_of_tables()) == size - 1
            assert set(outputs) == set(columns[-size:]) and one_more not in outputs
            with initialized_session(rewrites=False) as session:
                found = session.run([layer, *outputs.values()])
            np.testing.assert_array_equal(found[0], np.concatenate(found[1:], 1))


def test_strings_have_the_keys_of_deeprec(graph):
    words = tf.SparseTensor([[0, 0], [1, 0]], ["a", ""], [3, 1])
    spec = of_tensorflow.make_parse_example_spec(two_columns())
    assert spec["a"].dtype == tf.int64 and ev("c").num_buckets == 1
    layer = input_layer({"c": words}, fc.embedding_column(ev("c"), 2))
    (table,) = tf1.get_collection(EMBEDDING_VARIABLES)
    gradient = tf.gradients(layer, table)[0]
    with initialized_session(rewrites=False) as session:
        session.run(gradient)
        keys = session.run(table.export()[0])
    assert 3694432073954588132 in keys and len(keys) == 2


@pytest.mark.parametrize("grouped", [False, True])
def test_sequences_are_for_keras(graph, grouped):
    of_sequence = of_tensorflow.sequence_categorical_column_with_identity("a", 9)
    with fc.group_embedding_column_scope() if grouped else contextlib.nullcontext():
        column = fc.embedding_column(of_sequence, 2, initializer=tf1.ones_initializer())
    features = {"a": tf.sparse.from_dense([[1, 5, 0], [2, 0, 0]])}
    layer, lengths = tf_versions.keras.experimental.SequenceFeatures([column])(features)
    with initialized_session(rewrites=False) as session:
        found, lengths = session.run([layer, lengths])
    np.testing.assert_array_equal(found[..., 1], [[1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(lengths, [2, 1])
    with pytest.raises(ValueError, match="must not be of type _?SequenceCategorical"):
        input_layer(features, column)


OPTION = EmbeddingVariableOption()


@pytest.mark.parametrize("call, error, message", [
    (lambda: ev("a", tf.float32), ValueError, "'a': dtype must be string, int64 or int32, got fl"),
    (lambda: ev("a", partition_num=0), ValueError, "'a': partition_num must be an int >= 1, got 0"),
    (lambda: fc.embedding_column(ev("a"), 0), ValueError, "Invalid dimension 0"),
    (lambda: fc.embedding_column(ev("a"), 2, tf1.ones_initializer), ValueError,
     "combiner must be one of mean, sqrtn, sum, got <class"),
    (lambda: fc.shared_embedding_columns([ev("a")], 2, "max"), ValueError, "sum, got 'max'"),
    (lambda: fc.embedding_column(ev("a"), 2, coalesced_scope="s"), NotImplementedError,
     "does not support coalesced scopes, got 's'"),
    (lambda: fc.embedding_column(ev("a"), 2, ckpt_to_load_from="x", tensor_name_in_ckpt="y"),
     NotImplementedError, "'a_embedding' of an embedding variable cannot start from the ch.* 'x'"),
    (lambda: fc.shared_embedding_columns([ev("a"), ev("b", tf.int64)], 2), ValueError,
     "the same arguments except the key, got"),
    (lambda: fc.shared_embedding_columns([ev("a"), ev("b", ev_option=OPTION)], 2), ValueError,
     "the same arguments except the key, got"),
    (lambda: input_layer(two_features(), of_tensorflow.indicator_column(ev("a", tf.int64))),
     NotImplementedError, "'a' of categorical_column_with_embedding has no number of buckets"),
    (lambda: of_tensorflow.linear_model(two_features(), [ev("a")]), NotImplementedError,
     "or tf.feature_column.linear_model, .* use categorical_column_with_hash_bucket"),
    (lambda: tf_versions.keras.layers.DenseFeatures(two_columns())(two_features()),
     NotImplementedError, "'a_embedding' of an embedding variable works in tf.feature_column.inp"),
])  # fmt: skip
def test_what_is_refused(graph, call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("features, columns, message", [
    (two_features, [*two_columns(), ev("c")], "must be dense, got the categorical column 'c'"),
    (two_features, [], "must not be empty"),
    (two_features, two_columns()[:1] * 2, "Duplicate feature column name"),
    (dict, two_columns(), "Feature a is not in features dictionary"),
    (lambda: {"a": tf.constant(["x"])}, two_columns()[:1], "must be compatible. key: a, column d"),
    (lambda: {"a": tf.constant([0.5])}, two_columns()[:1], "'a' must be strings or integers, got"),
    (lambda: {"a": tf.constant([1]), "b": tf.constant([1, 2])}, two_columns(),
     "Batch size .first dimension. of each feature must be same"),
])  # fmt: skip
def test_what_a_group_refuses(graph, features, columns, message):
    with fc.group_embedding_column_scope():
        grouped = [*columns, fc.embedding_column(ev("z"), 2)] if columns else []
    given = features()
    with pytest.raises(ValueError, match=message):
        input_layer({**given, "z": tf.constant(["x"])} if given else {}, grouped)


def test_a_shared_collection_with_another_variable(graph):
    with fc.group_embedding_column_scope():
        both = [ev("a", tf.int64), ev("b", tf.int64)]
        columns = fc.shared_embedding_columns(both, 2, shared_embedding_collection_name="shared")
    tf1.add_to_collection("shared", tf1.get_variable("other", [4, 2]))
    with pytest.raises(ValueError, match=r"the collection shared must have .* \(2,\)"):
        input_layer(two_features(), columns)


def test_a_tensorflow_without_feature_columns(monkeypatch):
    """Names can be imported, and say what is not there when they are called."""
    wanted = {**columns._OF_FEATURE_COLUMNS, "feature_column": ("_LazyBuilder", "_NoSuch")}
    monkeypatch.setattr(columns, "_OF_FEATURE_COLUMNS", wanted)
    missing = columns._feature_columns().missing
    assert "_NoSuch" in missing and isinstance(columns._feature_columns().LazyBuilder, type)
    monkeypatch.setattr(fc.stock, "missing", missing)
    for name, (module, function) in HOMES.items():
        if module != fc.__name__:
            continue
        with pytest.raises(NotImplementedError, match=f"tf.{name}: TensorFlow .*_NoSuch"):
            getattr(fc, function)("a")


def test_as_scripts_write_it():
    assert run_python("""
        import sok_compat.deeprec as tf
        column = tf.feature_column.categorical_column_with_embedding
        with tf.feature_column.group_embedding_column_scope(name="user"):
            columns = [
                tf.feature_column.embedding_column(
                    column("id", dtype=tf.int64, ev_option=tf.EmbeddingVariableOption()), 4,
                    combiner="sum", do_fusion=True),
                tf.feature_column.embedding_column(
                    tf.feature_column.categorical_column_with_hash_bucket("word", 10), 3),
                tf.feature_column.numeric_column("price"),
            ]
        data = {"id": [[1], [2]], "word": [["a"], ["b"]], "price": [[1.0], [2.0]]}
        features = {key: tf.constant(value) for key, value in data.items()}
        tensors = {}
        layer = tf.feature_column.input_layer(
            {**features, "id": tf.cast(features["id"], tf.int64)}, columns,
            cols_to_output_tensors=tensors)
        loss = tf.reduce_mean(tf.layers.dense(layer, 1)) + tf.reduce_sum(tensors[columns[0]])
        train = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        with tf.train.MonitoredTrainingSession() as session:
            print(session.run([layer, train])[0].shape)
        print(*sorted(v.op.name for v in tf.trainable_variables()))
    """).splitlines() == [
        "(2, 8)",
        "dense/bias dense/kernel input_layer/id_embedding/embedding_weights "
        "input_layer/word_embedding/embedding_weights",
    ]
