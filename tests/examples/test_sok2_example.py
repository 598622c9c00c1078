# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit 2's DLRM learns the same on one rank and on two, resumes, and is served."""

import numpy as np
import pytest
import tensorflow as tf

from examples import console
from examples.sok2.train import Dlrm, export, make_batch, parse_arguments, part_of, train
from tests.distributed.launch import folder_of_tests, has_horovod, launched_once, reports, run_ranks
from tests.support.horovod_state import shut_down_horovod


@pytest.fixture(autouse=True, scope="module")
def horovod_is_shut_down():
    yield
    shut_down_horovod()


@launched_once
def results(num_ranks):
    path = f"{folder_of_tests('sok2_example')}/{num_ranks}"
    environment = {"SOK_TEST_EAGER": "1"}
    return reports(run_ranks("sok2.example", num_ranks, path, environment=environment))


def test_learns_and_resumes():
    ((losses, resumed),) = (each.values() for each in results(1))
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    assert np.mean(resumed) < 0.9 * np.mean(losses[:5])


def test_is_served(tmp_path):
    path = f"{folder_of_tests('sok2_example')}/1"
    results(1)
    folder = export(path, str(tmp_path / "served"))
    ids, dense, _ = part_of(make_batch(0, 6), 0, 1)
    inputs = {f"keys_{i}": each.values for i, each in enumerate(ids)}
    inputs |= {f"splits_{i}": each.row_splits for i, each in enumerate(ids)}
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    model = Dlrm()
    tf.train.Checkpoint(model=model).read(path).expect_partial()
    expected = tf.sigmoid(model(ids, dense))
    np.testing.assert_allclose(serve(dense=dense, **inputs)["clicks"], expected, rtol=1e-5)


@pytest.mark.thorough
@pytest.mark.skipif(not has_horovod(), reason="Horovod is not installed: run `make horovod`")
def test_two_ranks_learn_the_same():
    ((losses, resumed),) = (each.values() for each in results(1))
    for rank in results(2):
        np.testing.assert_allclose(rank["losses"], losses, rtol=1e-3)
        np.testing.assert_allclose(rank["resumed"], resumed, rtol=1e-2)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--steps", "0"], "--steps must be positive"),
        (["--batch-size", "-1"], "--batch-size must be positive"),
        (["--export", "new"], "--export needs --checkpoint"),
        (["--export", "/", "--checkpoint", "c"], "/ already exists"),
    ],
)
def test_arguments_that_make_no_sense(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(arguments)
    assert ended.value.code == console.EXIT_BAD_INPUT
    assert words in capsys.readouterr().err


@pytest.mark.thorough
def test_ctrl_c_ends_after_a_step_and_saves(tmp_path):
    """On one process; on several, launchers end the ranks."""
    stop = console.StopRequest()
    stop.is_set = True
    assert len(train(5, 32, f"{tmp_path}/saved", stop)) == 1
    assert tf.train.load_checkpoint(f"{tmp_path}/saved")
