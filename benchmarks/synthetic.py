# SPDX-License-Identifier: Apache-2.0
"""distributed-embeddings' synthetic models: `python -m benchmarks.synthetic --model tiny`.

Times of a step on one process, of DistributedEmbedding beside plain Keras layers, taken in turn;
and of DistributedEmbedding on each number of ranks, which share the batch. Tables are made smaller
where they would not fit into the memory of this machine.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile

from benchmarks.launching import run_program
from benchmarks.synthetic_models import MODELS

_TIMEOUT_SECONDS = 1800
_SHARE_OF_MEMORY = 0.5  # for tables and slots of all contenders
_BYTES = 4 * 2 * 2  # of a float, with Adagrad's, in both contenders


def fitting(model, scale, free_bytes):
    """(the scaled model, its scale), which is smaller than asked for where memory is."""
    while True:
        scaled = model.scaled(scale)
        if scaled.num_floats() * _BYTES <= free_bytes * _SHARE_OF_MEMORY:
            return scaled, scale
        scale *= 0.9


def free_bytes_of_machine():
    """Memory that programs can still have."""
    with open("/proc/meminfo") as info:
        fields = dict(line.split(":") for line in info)
    return int(fields["MemAvailable"].split()[0]) * 1024


def measure(num_ranks, arguments, scale):
    """{contender: {what: milliseconds}}, in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result.json")
        command = [sys.executable, "-m", "benchmarks.synthetic_steps", "--result", result]
        if num_ranks > 1:
            launcher = [sys.executable, "-m", "horovod.runner.launch", "-np", str(num_ranks)]
            command = [*launcher, *command]
        for name in ("model", "batch_size", "rounds", "strategy", "column_slice_threshold"):
            value = getattr(arguments, name)
            command += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
        command += ["--scale", repr(scale)]
        command += ["--threads", str(max(1, os.cpu_count() // num_ranks))]
        run_program(command, _TIMEOUT_SECONDS)
        with open(result) as stream:
            return json.load(stream)


def _print_head(arguments, model, scale):
    shapes, inputs = model.shapes(), model.inputs()
    if scale < arguments.scale:
        print(f"scale {scale:.3g}, not {arguments.scale}: more does not fit into the memory here")
    print(
        f"{arguments.model} at scale {scale:.3g}: {len(shapes)} tables, {len(inputs)} inputs, "
        f"{sum(hotness for _, hotness in inputs)} ids a sample, "
        f"{model.num_floats() * 4 / 2**20:,.0f} MiB; batches of {arguments.batch_size} samples, "
        f"Adagrad; medians of {arguments.rounds} steps, in ms"
    )
    print(f"{'ranks':>5}  {'':24}{'forward':>10}{'and backward':>14}{'whole model':>13}")


def main():
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="tiny")
    parser.add_argument("--scale", type=float, default=0.01, help="of the numbers of rows")
    parser.add_argument("--batch-size", type=int, default=4096, help="samples of all ranks")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--strategy", default="memory_balanced")
    parser.add_argument("--column-slice-threshold", type=int)
    arguments = parser.parse_args()
    if not arguments.scale > 0 or arguments.batch_size < 1:
        parser.error("--scale and --batch-size must be above 0")
    model, scale = fitting(MODELS[arguments.model], arguments.scale, free_bytes_of_machine())
    _print_head(arguments, model, scale)
    for num_ranks in arguments.ranks:
        if num_ranks > 1 and importlib.util.find_spec("horovod") is None:
            print(f"{num_ranks:>5}  needs Horovod (`make horovod`)")
            continue
        for name, times in measure(num_ranks, arguments, scale).items():
            forward, both, whole = (times[what] for what in ("forward", "backward", "model"))
            print(f"{num_ranks:>5}  {name:24}{forward:>10.2f}{both:>14.2f}{whole:>13.2f}")


if __name__ == "__main__":
    main()
