# SPDX-License-Identifier: Apache-2.0
"""benchmarks.modelzoo: which scripts and runs it finds, what it reads in logs, and its table."""

import dataclasses
import json
import os

import modelzoo_scripts
import pytest

from benchmarks.modelzoo import __main__ as command
from benchmarks.modelzoo import cases, logs, op_times, report, running, scripts

SETTINGS = cases.Settings(steps=200, batch_size=64)


@pytest.fixture
def folder(tmp_path):
    return modelzoo_scripts.write(tmp_path / "scripts")


@pytest.fixture
def found(folder):
    return {script.model: script for script in scripts.find_scripts(folder)}


def lines_of(text):
    return [logs.Line(float(i), line) for i, line in enumerate(text.strip().splitlines())]


def test_scripts_have_their_formats(found):
    assert {model: script.data_format for model, script in found.items()} == {
        "plain": "criteo",
        "features/collective": "criteo",
        "features/lists": "books",
        "integers": "criteo_int64",
        "broken": "taobao",
    }


def test_flags_are_read_from_the_source(found):
    flags = found["plain"].flags
    assert flags["batch_size"].default == 512 and flags["tf"].is_switch
    assert flags["ev_filter"].choices == (None, "counter", "cbf")
    assert flags["tf"].arguments(True) == ["--tf"]
    assert flags["ev"].is_boolean and flags["ev"].arguments("true") == ["--ev", "true"]
    assert flags["ev"].arguments(10) == ["--ev", "true"]
    assert flags["steps"].arguments(10) == ["--steps", "10"]


def test_no_folder():
    with pytest.raises(NotADirectoryError, match="/nowhere"):
        scripts.find_scripts("/nowhere")


def test_each_feature_has_its_runs(found):
    labels = [(case.num_ranks, case.label) for case in cases.cases_of(found["plain"])]
    both = "--ev true --group_embedding"
    assert labels == [
        (1, "default"),
        (1, "--tf"),
        (1, "--ev true"),
        (1, "--ev true --ev_filter counter"),
        (1, "--ev true --ev_filter cbf"),
        (1, "--group_embedding localized"),
        (1, "--group_embedding collective"),
        (1, f"{both} localized"),
        (1, f"{both} collective"),
        (1, "--optimizer adagrad"),
        (2, "--group_embedding collective"),
        (2, f"{both} collective"),
    ]


def test_a_feature_without_choices_is_switched_on(found):
    flags = {"group_embedding": scripts.Flag("group_embedding", default=False)}
    script = scripts.Script("", "", "criteo", {**flags, "enable_hvd": scripts.Flag("enable_hvd")})
    labels = [(case.num_ranks, case.label) for case in cases.cases_of(script)]
    both = "--group_embedding true --enable_hvd true"
    assert labels == [
        (1, "default"),
        (1, "--group_embedding true"),
        (1, both),
        (2, both),
    ]


def test_a_collective_strategy_runs_on_two_ranks(found):
    labels = [(case.num_ranks, case.label) for case in cases.cases_of(found["features/collective"])]
    assert (2, "default") in labels and (2, "--use_feature_columns") in labels


def test_arguments_name_only_flags_that_there_are(found):
    plain, lists = found["plain"], found["features/lists"]
    arguments = cases.Case(plain, "ev", (("ev", "true"),)).arguments(SETTINGS, "/data")
    assert " ".join(arguments) == (
        "--data_location /data --steps 200 --batch_size 64 --output_dir result --ev true"
    )
    assert cases.Case(lists, "default").arguments(SETTINGS, "/data") == ["--steps", "200"]


def test_samples_of_a_step(found):
    default = cases.Case(found["plain"], "default")
    assert default.batch_size(SETTINGS) == 64
    assert cases.Case(found["plain"], "default", num_ranks=2).batch_size(SETTINGS) == 128
    assert cases.Case(found["features/lists"], "default").batch_size(SETTINGS) == 128
    assert cases.Case(found["broken"], "default").batch_size(SETTINGS) is None


def test_patterns_select(found):
    all_cases = [case for script in found.values() for case in cases.cases_of(script)]
    models = {case.script.model for case in cases.selected(all_cases, ["features/*"], [])}
    assert models == {"features/collective", "features/lists"}
    features = {case.feature for case in cases.selected(all_cases, [], ["default", "ev*"])}
    assert features == {"default", "ev", "ev_filter"}


LOG = """
Parsing train.csv
INFO:tensorflow:loss = 0.8, steps = 0
INFO:tensorflow:global_step/sec: 5
INFO:tensorflow:loss = 6.5e-01, steps = 100 (2.0 sec)
INFO:tensorflow:global_step/sec: 20
INFO:tensorflow:global_step/sec: 30
INFO:tensorflow:loss = 0.6, steps = 200 (2.0 sec)
Evaluation complete:[2/2]
ACC = 0.7
AUC = 0.625
"""


def test_losses_speed_and_auc_of_a_log():
    assert logs.read(lines_of(LOG), 300) == logs.Findings(0.8, 0.6, 1.0, 25.0, (0.625,))


NAN = pytest.approx(float("nan"), nan_ok=True)
SAVED = "Saving dict for global step 9"


@pytest.mark.parametrize(
    "text, first_loss, last_loss, aucs",
    [
        ("AUC1 = 0.5\nAUC2 = 0.75", None, None, (0.5, 0.75)),
        ("> train_loss: 1.25 ---- x\n test_auc: 0.6 ----test_loss: 9", 1.25, 1.25, (0.6,)),
        ("||| AUC: \t0.7 |||", None, None, (0.7,)),
        ("Iteration:100\tloss:0.25\ttime:1s\tAvg:50.00ms/iter", 0.25, 0.25, ()),
        (f"Loss for final step: 0.5.\n{SAVED}: auc = 0.7, loss = 8", 0.5, 0.5, (0.7,)),
        ("auc_precision_recall = 0.5, my_loss = 3", None, None, ()),
        ("loss = nan, steps = 0", NAN, NAN, ()),
    ],
)  # fmt: skip
def test_spellings(text, first_loss, last_loss, aucs):
    found = logs.read(lines_of(text), 100)
    assert (found.first_loss, found.last_loss, found.aucs) == (first_loss, last_loss, aucs)


def test_speed_without_rates_is_that_of_the_clock():
    saved = "Saving checkpoints for 0\nloss = 1, steps = 0\n\n\n\nSaving checkpoints for 11\n"
    for text in (saved, f"{saved}Training completed."):
        assert logs.read(lines_of(text), 11).steps_per_second == pytest.approx(10 / 4)


def test_milliseconds_a_step():
    text = "Avg:100.00ms/iter\nAvg:50.00ms/iter"
    assert logs.read(lines_of(text), 11).steps_per_second == pytest.approx(20)


def test_of_several_ranks_the_first_counts():
    text = (
        "[1]<stdout>:loss = 9\n[0]<stdout>:loss = 1\n[1,0]<stdout>:loss = 2\n[1,1]<stdout>:loss = 8"
    )
    found = logs.read(lines_of(text), 11)
    assert (found.first_loss, found.last_loss) == (1, 2)


@pytest.mark.parametrize(
    "text, error",
    [
        ("Traceback ...\nValueError: no such table\nlast words", "ValueError: no such table"),
        ("a.b.NotFoundError: in a graph:\n\nNo file", "a.b.NotFoundError: in a graph: No file"),
        ("a.NotFoundError: No file\nb.NotFoundError: in a graph:\nx", "a.NotFoundError: No file"),
        ("usage: x\ntrain.py: error: no argument --x", "train.py: error: no argument --x"),
        ("[1]<stderr>:ImportError: no m\n    raise RuntimeError('Horovod detected that x\n"
         "RuntimeError: Horovod detected that x", "ImportError: no m"),
        ("ValueError: in user code:\n\n  File x\n    ValueError: 2 and 3", "ValueError: 2 and 3"),
        ("[1]<stderr>:[libprotobuf FATAL map.h:1] CHECK failed\nTraceback ...\n"
         "  File \"x\", line 1\nRuntimeError: Horovod detected that x",
         "[libprotobuf FATAL map.h:1] CHECK failed"),
        ("Dataset does not exist\n", "Dataset does not exist"),
        ("", "no output"),
    ],
)  # fmt: skip
def test_the_line_that_says_why(text, error):
    assert logs.error_of(text.splitlines()) == error


def result_of(script, feature, values=(), error="", rate=None):
    findings = logs.Findings(0.75, 0.5, 2.0, rate, (0.625,))
    return running.Result(cases.Case(script, feature, values), findings, error)


def test_table(found):
    results = [
        result_of(found["plain"], "default", rate=30.0),
        result_of(found["plain"], "tf", (("tf", True),), rate=20.0),
        result_of(found["plain"], "ev", (("ev", "true"),), error="ValueError: a|b"),
    ]
    text = report.report_lines(results, SETTINGS)
    default = ["default", "1", "runs", "0.7500", "0.5000", "0.6250", "2.0", "1,920", "1.50"]
    cells = cells_of("plain", text)
    assert cells[0] == default
    assert cells[1][-2:] == ["1,280", ""]
    assert cells[2][2] == "ValueError: a\\|b"
    assert "2 of 3 run. By default 1.50 times --tf, the geometric mean of 1 models." in text


def cells_of(model, text):
    """[cells of a row], of a model's table in lines of a report."""
    first = text.index(f"## {model}") + 4
    rows = text[first : text.index("", first)]
    return [[cell.strip() for cell in row[1:-1].split(" | ")] for row in rows]


def test_each_script_has_a_table_and_its_own_baseline(found):
    of_plain = [("default", 30.0), ("tf", 20.0)]
    of_other = [("default", 60.0), ("tf", 15.0)]
    results = [
        result_of(found[model], feature, rate=rate)
        for model, rates in (("plain", of_plain), ("features/lists", of_other))
        for feature, rate in rates
    ]
    text = report.report_lines(results, SETTINGS)
    assert [cells_of(model, text)[0][-1] for model in ("plain", "features/lists")] == [
        "1.50",
        "4.00",
    ]
    assert "4 of 4 run. By default 2.45 times --tf, the geometric mean of 2 models." in text


def test_times_of_ops(found, tmp_path):
    for step, scale in ((9, 50), (10, 1), (200, 3)):  # the first step has more to do
        events = [
            ("MatMul", "dense/MatMul", 1000),
            ("_FusedMatMul", "input_layer/MatMul", 300),
            ("_MklNativeBatchMatMulV2", "dense/MatMul_1", 150),
            ("_MklMatMul", "input_layer/MatMul_1", 50),
            ("Mul", "head/gradients/dense/mul_grad/Mul", 250),
            ("Slice", "gradients/input_layer/concat_grad/Slice", 100),
            ("ApplyAdam", "train/Adam/update_dense/kernel/ApplyAdam", 25),
            ("metadata", "dense/MatMul", None),
        ]
        written = [
            {
                "ph": "X" if micros else "M",
                "name": op,
                "dur": (micros or 0) * scale,
                "args": {"name": node},
            }
            for op, node, micros in events
        ]
        (tmp_path / f"timeline-{step}.json").write_text(json.dumps({"traceEvents": written}))
    assert op_times.read(tmp_path) == op_times.OpTimes(3.0, 0.5, 0.25)
    assert op_times.read(tmp_path / "none") is None
    results = [
        dataclasses.replace(result_of(found["plain"], feature), op_times=times)
        for feature, times in (
            ("default", op_times.OpTimes(3.0, 0.25, 0.25)),
            ("tf", op_times.OpTimes(4.0, 0.5, 1.5)),
            ("ev", None),
        )
    ]
    text = report.report_lines(results, dataclasses.replace(SETTINGS, timeline_steps=5))
    assert [row[-4:] for row in cells_of("plain", text)] == [
        ["3.0", "0.2", "0.2", "0.25"],
        ["4.0", "0.5", "1.5", ""],
        [""] * 4,
    ]


def test_command_runs_what_is_selected(folder, tmp_path, capsys):
    work, table = str(tmp_path / "work"), tmp_path / "table.md"
    arguments = ["--scripts", str(folder), "--models", "plain", "--flags", "default", "optimizer"]
    sizes = ["--steps", "3", "--batch-size", "8", "--work", work, "--report", str(table)]
    with pytest.raises(SystemExit) as ended:
        command.main([*arguments, *sizes])
    assert ended.value.code == 1
    rows = cells_of("plain", table.read_text().splitlines())
    assert rows[0][2] == "runs" and rows[0][5] == "0.6250"
    assert rows[1][2] == "ValueError: no adagrad here"
    assert "2 of 2" not in capsys.readouterr().out
    run = tmp_path / "work" / "runs" / "plain" / "default"
    assert "Training completed." in (run / "output.txt").read_text()
    assert os.listdir(run / "result") == ["timeline-100.json"]  # checkpoints are removed


def test_an_interrupt_prints_the_table_so_far(folder, tmp_path, capsys, monkeypatch):
    run_case, cases_run = running.run_case, []

    def run_one(case, *arguments):
        cases_run.append(case)
        if len(cases_run) > 1:
            raise KeyboardInterrupt
        return run_case(case, *arguments)

    monkeypatch.setattr(running, "run_case", run_one)
    arguments = ["--scripts", str(folder), "--models", "plain", "--work", str(tmp_path / "work")]
    with pytest.raises(SystemExit):
        command.main([*arguments, "--steps", "3", "--batch-size", "8"])
    assert "1 of 1 run." in capsys.readouterr().out


def test_a_run_that_takes_too_long_is_ended(folder, tmp_path):
    path = folder / "plain" / "train.py"
    path.write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    script = scripts.Script(str(path), "plain", "criteo", {})
    done = running.run_case(cases.Case(script, "default"), SETTINGS, "/data", tmp_path, 1)
    assert not done.runs and done.error == "not done in 1 s: begun"


def test_a_script_that_ends_before_a_step_does_not_run(folder, tmp_path):
    path = folder / "plain" / "train.py"
    path.write_text("print('Please see the comments.')\n")
    script = scripts.Script(str(path), "plain", "criteo", {})
    done = running.run_case(cases.Case(script, "default"), SETTINGS, "/data", tmp_path, 20)
    assert done.error == "ended without a step: Please see the comments."


def test_a_run_that_ended_is_kept(folder, tmp_path):
    path = folder / "plain" / "train.py"
    script = scripts.Script(str(path), "plain", "criteo", {"steps": scripts.Flag("steps")})

    def run(text, steps=200, keeps=True):
        path.write_text(f"print('loss = 0.5')\nprint({text!r})\nraise SystemExit(3)\n")
        settings = dataclasses.replace(SETTINGS, steps=steps)
        case = cases.Case(script, "default")
        return running.run_case(case, settings, "/data", tmp_path, 20, keeps)

    first = run("first")
    assert first.error == "first" and first.findings.first_loss == 0.5
    kept = run("second")
    assert kept.error == "first" and kept.findings.first_loss == 0.5
    assert run("third", steps=100).error == "third"
    assert run("fourth", keeps=False).error == "fourth"
