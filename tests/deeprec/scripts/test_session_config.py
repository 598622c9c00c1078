# SPDX-License-Identifier: Apache-2.0
"""Configurations with switches that TensorFlow 2 does not have, and arguments of sessions."""

import copy
import types

import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective import session_config
from sok_compat.deeprec.collective.savers import Saver
from sok_compat.deeprec.collective.session_config import (
    ConfigProto,
    ExecutorPolicy,
    GraphOptions,
    OptimizerOptions,
)
from sok_compat.deeprec.collective.sessions_of_ranks import monitored_training_session
from sok_compat.deeprec.namespace.namespaces import Namespace


def nested():
    """A configuration that is made from the inside."""
    options = OptimizerOptions(do_smart_stage=True, global_jit_level=OptimizerOptions.ON_1)
    graph = GraphOptions(optimizer_options=options, no_such_switch=3)
    return ConfigProto(graph_options=graph, allow_soft_placement=True)


def copied():
    config = ConfigProto()
    config.CopyFrom(nested())
    return config


def merged():
    config = ConfigProto(graph_options=GraphOptions(place_pruned_graph=True))
    config.graph_options.optimizer_options.MergeFrom(nested().graph_options.optimizer_options)
    config.graph_options.no_such_switch = 3
    return config


@pytest.mark.parametrize("make", [nested, copied, merged, lambda: copy.deepcopy(nested())])
def test_what_was_set_can_be_read_again(make):
    graph = make().graph_options
    assert graph.optimizer_options.do_smart_stage is True
    assert graph.optimizer_options.global_jit_level == OptimizerOptions.ON_1
    assert graph.no_such_switch == 3


def test_a_copy_has_switches_of_its_own():
    config, other = nested(), copied()
    other.graph_options.optimizer_options.do_smart_stage = False
    other.CopyFrom(ConfigProto())
    assert config.graph_options.optimizer_options.do_smart_stage is True
    with pytest.raises(AttributeError):
        other.graph_options.optimizer_options.do_smart_stage  # noqa: B018


def test_messages_that_are_deeprecs_own(caplog):
    config = ConfigProto()
    pool = config.session_stage_subgraph_thread_pool.add()
    pool.inter_op_threads_num = 8
    config.graph_options.rewrite_options.multi_stream_opts.multi_stream_num = 2
    options = config.graph_options.optimizer_options
    options.smart_stage_options.runner_options.threads = 3
    read = copy.deepcopy(config)
    assert [p.inter_op_threads_num for p in read.session_stage_subgraph_thread_pool] == [8]
    assert read.graph_options.rewrite_options.multi_stream_opts.multi_stream_num == 2
    read.graph_options.optimizer_options.smart_stage_options.runner_options.threads = 4
    assert options.smart_stage_options.runner_options.threads == 3
    assert "multi_stream_opts is ignored: TensorFlow" in caplog.text
    ConfigProto(alow_soft_placement=True)
    assert "no such field; did you mean 'allow_soft_placement'?" in caplog.text
    with pytest.raises(AttributeError):
        config.session_stage_thread_pool  # noqa: B018  no name of DeepRec's, either


def test_what_increments_need():
    with pytest.raises(ValueError, match="secs=60 needs a checkpoint_dir, got None"):
        monitored_training_session(save_incremental_checkpoint_secs=60)
    with tf.Graph().as_default():
        tf.get_variable("x", [])
        scaffold = tf.train.Scaffold(saver=tf.train.Saver())
        with pytest.raises(ValueError, match="without a saver, or with a .*, got Saver"):
            monitored_training_session(
                checkpoint_dir="unused", scaffold=scaffold, save_incremental_checkpoint_secs=60
            )
    with tf.Graph().as_default():
        tf.get_variable("x", [])
        assert Saver(max_to_keep=1, incremental_save_restore=False).saver_def.max_to_keep == 1


def test_a_tensorflow_without_estimators_says_so():
    tensorflow = Namespace("tf", "", types.ModuleType("stock"), {})
    with pytest.raises(AttributeError, match=r"no tf\.estimator, .* use tf\.train\.Monitored"):
        tensorflow.estimator  # noqa: B018


def test_an_executor_policy_is_ignored_and_said_once(caplog, monkeypatch):
    monkeypatch.setattr(session_config, "_warned_of", set())
    policy = ExecutorPolicy
    config = ConfigProto()
    for each in (policy.USE_COST_MODEL_EXECUTOR, policy.USE_INLINE_EXECUTOR):
        config.executor_policy = each
    assert config.executor_policy == policy.USE_INLINE_EXECUTOR == 2
    assert not config.SerializeToString() and policy.Name(0) == "USE_NORMAL_EXECUTOR"
    (record,) = caplog.records
    assert "ConfigProto.executor_policy is ignored" in record.getMessage()


@pytest.mark.parametrize("name, message", [
    ("MultihashOption", "does not have tf.MultihashOption of DeepRec, the option of a variable "),
    ("hash_table", "tf.hash_table of DeepRec, .*: use tf.get_embedding_variable"),
    ("get_hash_table", "tf.get_hash_table of DeepRec, a hash table, .*: use tf.get_embedding"),
])  # fmt: skip
def test_a_refused_name_says_what_it_is_and_what_to_use(name, message):
    namespace = Namespace("tf", "", tf, {"get_embedding_variable": None})
    with pytest.raises(AttributeError, match=message) as caught:
        getattr(namespace, name)
    assert getattr(caught.value, "obj", None) is None  # Python suggests no name of this object
