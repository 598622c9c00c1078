# SPDX-License-Identifier: Apache-2.0
"""Steps that tf.Session.run refuses before it runs anything of them, as with a feed of a wrong
shape: lookups count them, as they count steps that fail later."""

import contextlib

import tensorflow as tf

from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import FetchMapper


def count_refused_steps():
    """From now on a refused step of lookups fails on the other ranks, and the next one meets
    theirs."""
    integrations.apply("tf.Session.run", _counting)


def _counting(run):
    def run_and_count(self, handle, fetches, feed_dict, options, run_metadata):
        try:
            return run(self, handle, fetches, feed_dict, options, run_metadata)
        except tf.errors.OpError:  # it has run
            raise
        except Exception:
            lookups = [] if handle is not None else _begun_by(self.graph, fetches, feed_dict)
            if lookups:
                # A session that was closed begins nothing, here or in the call that was refused.
                with contextlib.suppress(RuntimeError, tf.errors.OpError):
                    run(self, None, lookups, None, None, None)
            raise

    return run_and_count


def _begun_by(graph, fetches, feed_dict):
    """The ops that begin the lookups of a step; none where `fetches` is what was refused."""
    try:
        fetched = [
            graph.as_graph_element(each) for each in FetchMapper.for_fetch(fetches).unique_fetches()
        ]
    except (KeyError, TypeError, ValueError):
        return []
    fed, found, to_visit = _fed(graph, feed_dict), set(), list(fetched)
    while to_visit:
        element = to_visit.pop()
        if isinstance(element, tf.Tensor):
            if element.ref() in fed:
                continue
            element = element.op
        if element not in found:
            found.add(element)
            to_visit += [*element.inputs, *element.control_inputs]
    return [op for op in found if op.type == "SokBeginLookup"]


def _fed(graph, feed_dict):
    """References to the tensors that are fed."""
    fed = set()
    for key in feed_dict if isinstance(feed_dict, dict) else ():
        with contextlib.suppress(KeyError, TypeError, ValueError):  # none, or several in one
            fed.add(graph.as_graph_element(key, allow_operation=False).ref())
    return fed
