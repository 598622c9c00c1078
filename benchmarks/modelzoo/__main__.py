# SPDX-License-Identifier: Apache-2.0
"""Each training script of DeepRec's model collection, run by the launcher, unmodified:
`python -m benchmarks.modelzoo --scripts FOLDER`.

Finds the scripts in FOLDER, generates the data that they read, runs each by default and with its
feature flags, and prints a table. Ctrl-C ends the run in progress and prints the table so far.
The installed sok_compat is used, in this interpreter; the extra `parquet` is needed.
"""

import argparse
import math
import os
import sys

from benchmarks.modelzoo import cases as cases_module
from benchmarks.modelzoo import report, running, scripts
from benchmarks.modelzoo.data import Data

_EVAL_SHARE = 5  # training samples for each of evaluation


def main(arguments=None):
    """Runs what the command line asks for; the status is 1 if a run failed."""
    parsed = _parser().parse_args(arguments)
    settings = cases_module.Settings(
        parsed.steps, parsed.batch_size, max(1, parsed.steps // 6) if parsed.op_times else 0
    )
    found = [case for one in scripts.find_scripts(parsed.scripts) for case in _cases(one, parsed)]
    if parsed.list:
        for case in found:
            print(f"{case.script.model}  {case.script.data_format}  {case.num_ranks}  {case.label}")
        return
    num_train, num_eval = _sizes(parsed)
    data = Data(os.path.join(parsed.work, "data"), num_train, num_eval)
    results = []
    try:
        for number, case in enumerate(found, 1):
            print(f"[{number}/{len(found)}] {_name(case)}", end="", file=sys.stderr, flush=True)
            folder = data.folder(case.script.data_format)
            work = os.path.join(os.path.abspath(parsed.work), "runs")
            result = running.run_case(case, settings, folder, work, parsed.time_limit, parsed.keep)
            results.append(result)
            print(f": {result.error or 'runs'}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"\nended after {len(results)} of {len(found)} runs", file=sys.stderr)
    _write(results, settings, parsed.report)
    sys.exit(not all(result.runs for result in results) or len(results) < len(found))


def _parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scripts", required=True, metavar="FOLDER")
    parser.add_argument("--models", nargs="+", default=[], help="patterns, as in dlrm features/*")
    parser.add_argument(
        "--flags",
        nargs="+",
        default=[],
        help=f"patterns of {', '.join(dict.fromkeys(['default', *_features()]))}",
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], choices=[1, 2])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--train-samples", type=int, help="default: what --steps take")
    parser.add_argument("--eval-samples", type=int, help="default: a fifth of those")
    parser.add_argument("--time-limit", type=float, default=600, help="seconds of one run")
    parser.add_argument(
        "--work", default="runs/modelzoo", help="folder for data, output and timelines"
    )
    parser.add_argument(
        "--keep", action="store_true", help="read the output of runs in --work, and run the others"
    )
    parser.add_argument(
        "--op-times", action="store_true", help="ask for timelines, and add their times of ops"
    )
    parser.add_argument("--report", help="a Markdown file to write")
    parser.add_argument("--list", action="store_true", help="print the runs, and do nothing")
    return parser


def _features():
    return [feature for feature, _ in cases_module.FEATURES]


def _cases(script, parsed):
    cases = cases_module.selected(cases_module.cases_of(script), parsed.models, parsed.flags)
    return [case for case in cases if case.num_ranks in parsed.ranks]


def _sizes(parsed):
    """(samples to train on, to evaluate on): whole batches."""
    num_train = parsed.train_samples or parsed.steps * parsed.batch_size
    num_eval = parsed.eval_samples or num_train // _EVAL_SHARE
    return tuple(
        parsed.batch_size * max(1, math.ceil(number / parsed.batch_size))
        for number in (num_train, num_eval)
    )


def _name(case):
    ranks = f" on {case.num_ranks} ranks" if case.num_ranks > 1 else ""
    return f"{case.script.model} {case.label}{ranks}"


def _write(results, settings, path):
    text = "\n".join(report.report_lines(results, settings))
    print(text)
    if path:
        with open(path, "w") as stream:
            stream.write(f"{text}\n")


if __name__ == "__main__":
    main()
