# SPDX-License-Identifier: Apache-2.0
"""Every script on every engine: what the contract says, the same as on the CPU, errors included."""

import functools

import pytest

from tests.conformance import (
    contents_cases,
    group_cases,
    history_cases,
    limit_cases,
    lookup_cases,
    training_cases,
)
from tests.conformance.conftest import worker_or_skip
from tests.conformance.engines import CPU, engines_here
from tests.conformance.scripts import NotPossibleHere, broken_promise

SCRIPTS = {
    **lookup_cases.CASES,
    **group_cases.CASES,
    **training_cases.CASES,
    **contents_cases.CASES,
    **history_cases.CASES,
    **limit_cases.CASES,
}


@functools.cache
def outcomes(engine, name):
    return worker_or_skip(engine).run(SCRIPTS[name])


def outcomes_or_skip(engine, name):
    found = outcomes(engine, name)
    for outcome in found:
        if outcome.error == NotPossibleHere.__name__:
            pytest.skip(outcome.message)
    return found


def on_each(engines):
    """Parameters of a test: all scripts on these engines."""
    cases = []
    for (engine,), marks, _ in engines:
        here = [name for name, script in SCRIPTS.items() if script.is_on(engine)]
        for name in ["all"] if any(mark.args[0] for mark in marks) else here:
            cases.append(pytest.param(engine, name, marks=marks, id=f"{engine}: {name}"))
    return pytest.mark.parametrize("engine, name", cases)


@on_each(engines_here())
def test_calls_do_what_they_promise(engine, name):
    found = outcomes_or_skip(engine, name)
    broken = [
        f"{one_call.method}: {problem}"
        for one_call, outcome in zip(SCRIPTS[name].calls, found)
        if (problem := broken_promise(one_call, outcome))
    ]
    if broken:
        pytest.fail("\n".join(broken), pytrace=False)


@on_each(engines_here())
def test_an_error_leaves_the_table_as_it_was(engine, name):
    changed = [
        f"{outcome}\n  changed {outcome.changed}"
        for outcome in outcomes_or_skip(engine, name)
        if outcome.changed
    ]
    if changed:
        pytest.fail("\n".join(changed), pytrace=False)


@on_each(engines_here(but=CPU))
def test_the_same_as_on_the_cpu(engine, name):
    script = SCRIPTS[name]
    if not script.is_on(CPU.name):
        return
    pairs = zip(outcomes_or_skip(CPU.name, name), outcomes_or_skip(engine, name))
    different = [
        f"{one_call.method}: {on_engine}\n  on the CPU: {on_cpu}"
        for one_call, (on_cpu, on_engine) in zip(script.calls, pairs)
        if not on_engine.says_as(on_cpu, script.tolerance)
    ]
    if different:
        pytest.fail("\n".join(different), pytrace=False)
