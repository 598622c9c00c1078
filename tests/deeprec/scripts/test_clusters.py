# SPDX-License-Identifier: Apache-2.0
"""Scripts for clusters: servers, parameter servers, and strategies by their older names."""

import json

import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective import older_strategies
from sok_compat.deeprec.collective.session_config import ConfigProto, Server
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.run import program


def test_servers_take_a_config_of_deeprec():
    config = ConfigProto(allow_soft_placement=True, no_such_field=1)
    server = Server.create_local_server(config=config)
    assert isinstance(server, Server) and server.server_def.default_session_config == config
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        assert session.run(tf.constant(3)) == 3


@pytest.mark.parametrize("cluster, num_ranks", [
    ({"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1", "d:1"]}, 3),
    ({"worker": ["a:1", "b:1"]}, 2),
    ({"chief": ["a:1"], "ps": ["b:1"]}, 1),
])  # fmt: skip
def test_a_cluster_is_refused_at_once(monkeypatch, capsys, cluster, num_ranks):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "ps"}}))
    with pytest.raises(SystemExit) as exit_of_launcher:
        program.main(["script.py"])
    output = capsys.readouterr().err
    assert exit_of_launcher.value.code == 2
    assert all(f"{len(tasks)} of job {job!r}" in output for job, tasks in cluster.items())
    assert "Unset TF_CONFIG, and start all ranks by one command: " in output
    assert f"python -m sok_compat.run.launch -np {num_ranks} " in output


@pytest.mark.parametrize("tf_config", ["", "{}", "[]", "no JSON", '{"cluster": {"chief": ["a"]}}'])
def test_other_configurations_are_the_scripts(monkeypatch, capsys, tf_config):
    monkeypatch.setenv("TF_CONFIG", tf_config)
    with pytest.raises(SystemExit) as exit_of_launcher:
        program.main(["no_such_script.py"])
    output = capsys.readouterr().err
    assert exit_of_launcher.value.code == 2 and "can't open file" in output
    assert "TF_CONFIG" not in output


def test_variables_on_parameter_servers_are_refused():
    cluster = tf.train.ClusterSpec({"ps": ["localhost:1"], "worker": ["localhost:2"]})
    with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(cluster=cluster)):
        message = "v:0: an embedding variable cannot be on a parameter server, got the device /job:"
        with pytest.raises(ValueError, match=message):
            get_embedding_variable("v", 4)


@pytest.mark.parametrize("name, argument", [
    ("MirroredStrategy", ["/cpu:0"]), ("OneDeviceStrategy", "/cpu:0"),
])  # fmt: skip
def test_strategies_have_their_older_names(name, argument):
    with tf.Graph().as_default():
        strategy = getattr(older_strategies, name)(argument)
        assert isinstance(strategy, getattr(tf.distribute, name))
        with strategy.scope(), tf.Session() as session:
            found = tf.distribute.get_strategy().experimental_run_v2(lambda x: x + 1, args=(3,))
            assert session.run(tf.convert_to_tensor(found)) == 4
