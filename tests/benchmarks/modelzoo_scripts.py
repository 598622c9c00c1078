# SPDX-License-Identifier: Apache-2.0
"""A folder of small scripts with the frame of DeepRec's, for tests."""

import textwrap

TRAINING = """
    import argparse
    import os

    def boolean_of(text):
        return text == "true"

    parser = argparse.ArgumentParser()
    parser.add_argument("--data_location", default="./data")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument('--batch_size', help="samples of a step", type=int, default=512)
    parser.add_argument("--output_dir", default="./result")
    parser.add_argument("--optimizer", choices=["adam", "adagrad"], default="adam")
    parser.add_argument("--tf", action="store_true")
    parser.add_argument("--ev", type=boolean_of, default=False)
    parser.add_argument("--ev_filter", choices=[None, "counter", "cbf"], default=None)
    parser.add_argument("--group_embedding", choices=[None, "localized", "collective"])
    args = parser.parse_args()
    assert os.path.isfile(args.data_location + "/train.csv") and os.path.isdir(args.output_dir)
    print("INFO:tensorflow:loss = 0.75, steps = 0")
    if args.optimizer == "adagrad":
        raise ValueError("no adagrad here")
    print("INFO:tensorflow:global_step/sec: 20")
    print("INFO:tensorflow:loss = 0.5, steps = 100 (5.0 sec)")
    for name in ("model.ckpt-100", "timeline-100.json"):
        open(args.output_dir + "/" + name, "w").close()
    print("Training completed.")
    print("AUC = 0.625")
"""
COLLECTIVE = """
    import argparse
    from tensorflow.python.distribute.group_embedding_collective_strategy import CollectiveStrategy

    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--use_feature_columns", action="store_true")
    train_file = "data" + "/train.parquet"
"""
WITHOUT_BATCH_FLAG = """
    import argparse

    def train(folder, batch_size=128, steps=0):
        return open(folder + "/local_train_splitByUser")

    argparse.ArgumentParser().add_argument("--steps", type=int)
"""
INTEGERS = """
    import argparse
    import tensorflow as tf

    def defaults():
        return [tf.constant(0, dtype=tf.int64)]

    argparse.ArgumentParser().add_argument("--steps", type=int)
    train_file = "train.csv"
"""
NO_PYTHON = "  import argparse\ntrain_file = 'taobao_train_data'\n"
NO_FLAGS = "print('train.csv')\n"


def write(folder):
    """The scripts in folders of their own, as DeepRec's lie."""
    for model, source in {
        "plain": TRAINING,
        "features/collective": COLLECTIVE,
        "features/lists": WITHOUT_BATCH_FLAG,
        "integers": INTEGERS,
        "broken": NO_PYTHON,
        "launcher": NO_FLAGS,
    }.items():
        path = folder / model / "train.py"
        path.parent.mkdir(parents=True)
        path.write_text(source if source is NO_PYTHON else textwrap.dedent(source))
    return folder
