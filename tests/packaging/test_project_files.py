# SPDX-License-Identifier: Apache-2.0
"""Files for code hosts and package indexes: their form, and what they repeat of other files."""

import importlib.util
import re
import sys

import pytest
import yaml

from tests.packaging.environments import REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest

GITHUB = REPOSITORY / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(
    set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"}
)
INPUTS = {"checkboxes", "dropdown", "input", "textarea"}
MORE_PERMISSIONS = {  # of jobs that publish
    "release": {"contents": "write"},
    "publish": {"id-token": "write", "pages": "write"},
}
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def read(path):
    """A YAML file with every scalar as a string: `on` is a key, 3.10 and 1.2.0 are versions."""
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", REPOSITORY / ".ci" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def jobs():
    return [job for path in WORKFLOWS for job in read(path)["jobs"].values()]


def steps(job, key):
    return [step[key] for step in job["steps"] if key in step]


def pythons_of_requires_python():
    first, end = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    return [f"3.{minor}" for minor in range(int(first), int(end))]


def parametrize(paths):
    assert paths
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


@parametrize(WORKFLOWS)
def test_workflow(path):
    workflow = read(path)
    assert workflow["name"] == path.stem
    by_itself = {"schedule", "workflow_dispatch"}
    assert set(workflow["on"]) == (
        by_itself if path.stem == "nightly" else {"push", "pull_request"}
    )
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job.get("permissions") == MORE_PERMISSIONS.get(name)
    assert workflow["concurrency"]["group"]
    assert workflow["jobs"]
    for job in workflow["jobs"].values():
        assert re.fullmatch(r"ubuntu-\d\d\.\d\d", job["runs-on"])
        assert 0 < int(job["timeout-minutes"]) <= 90
        for action in steps(job, "uses"):
            assert re.fullmatch(r"actions/[\w-]+@v\d+|Jimver/cuda-toolkit@v\d+\.\d+\.\d+", action)


def test_workflows_call_targets_of_the_makefile():
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][\w-]*):(?!=)", makefile, re.MULTILINE))
    variables = set(re.findall(r"\b([A-Z_]+)=", makefile.partition("\n\n")[0]))
    calls = [run.split()[1:] for job in jobs() for run in steps(job, "run") if run[:5] == "make "]
    assert len(calls) >= 4
    for target, *arguments in calls:
        assert target in targets
        assert {argument.partition("=")[0] for argument in arguments} <= variables


def test_workflows_test_the_tested_versions(tensorflow_install):
    tested = {}
    for job in jobs():
        for version in re.findall(r"TENSORFLOW=(\S+)", " ".join(steps(job, "run"))):
            tested[version] = next(iter(steps(job, "with")))["python-version"]
    assert sorted(tested) == sorted(tensorflow_install.TESTED_VERSIONS)
    for version, python in tested.items():
        last = tensorflow_install.PYTHONS[int(version.split(".")[1])][1]
        assert python == f"3.{last}", version


def test_wheels_are_built_for_each_python():
    job = read(GITHUB / "workflows" / "wheels.yml")["jobs"]["wheels"]
    (set_up,) = [step for step in job["steps"] if "setup-python" in step.get("uses", "")]
    *built, last = pythons_of_requires_python()
    assert sorted(set_up["with"]["python-version"].split()) == sorted([*built, last])
    makefile = (REPOSITORY / "Makefile").read_text()
    assert re.search(r"^PYTHONS := (.+)$", makefile, re.MULTILINE)[1].split() == built


@pytest.mark.parametrize(
    ("tag", "date", "words"),
    [
        (None, "unreleased", None),
        ("v0.1.0", "2026-11-26", None),
        ("v0.1.0", "unreleased", "no date for 0.1.0"),
        ("0.1.0", "2026-11-26", "must be v0.1.0"),
        ("v0.2.0", "2026-11-26", "must be v0.1.0"),
    ],
)
def test_tag_version_and_changelog_of_a_release(release, tag, date, words):
    project, changelog = 'name = "x"\nversion = "0.1.0"\n', f"# Changelog\n\n## [0.1.0] - {date}\n"
    found = list(release.problems(tag, project, changelog))
    assert len(found) == (words is not None) and (not found or words in found[0])
    assert list(release.problems(tag, project.replace("0.1.0", "0.2.0"), changelog))


def test_the_changelog_begins_with_the_version(release):
    texts = [(REPOSITORY / name).read_text() for name in ("pyproject.toml", "CHANGELOG.md")]
    assert list(release.problems(None, *texts)) == []


def test_classifiers_name_each_python():
    classifier = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    named = [match[1] for match in map(classifier.fullmatch, PROJECT["classifiers"]) if match]
    assert named == pythons_of_requires_python()


def test_citation():
    citation = read(REPOSITORY / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["message"]
    assert citation["title"] == PROJECT["name"]
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]


@parametrize(FORMS)
def test_issue_form(path):
    form = read(path)
    assert form["name"] and form["description"]
    ids = [item["id"] for item in form["body"] if item["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    for item in form["body"]:
        assert item["type"] in INPUTS | {"markdown"}
        assert item["attributes"]["value" if item["type"] == "markdown" else "label"]


def test_bug_reports_ask_for_the_doctor():
    form = (GITHUB / "ISSUE_TEMPLATE" / "bug_report.yml").read_text()
    assert "python -m sok_compat.doctor" in form


def test_hooks_of_pre_commit_run_what_lint_runs():
    makefile = (REPOSITORY / "Makefile").read_text()
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    tools = set(re.findall(r"ruff check|ruff format|clang-format|\.ci/\w+\.py", lint))
    assert len(tools) == 5
    (repository,) = read(REPOSITORY / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"  # with no `rev`: versions stand in requirements-lint.txt
    entries = [hook["entry"] for hook in repository["hooks"]]
    for tool in tools:
        assert [entry for entry in entries if tool in entry], tool
