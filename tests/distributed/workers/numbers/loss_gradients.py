# SPDX-License-Identifier: Apache-2.0
"""Gradients through Horovod's collectives in losses, beside those of TensorFlow alone.

CASES beside one process that computes all ranks' losses, with sums, means, pieces and copies in the
place of the collectives. FORMS, ways to write one loss, beside that of the whole batch.

Arguments: the names of those to compare.
"""

import sys

import numpy as np

import sok_compat.deeprec as tf
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

enable_strategy = tf.config.experimental.enable_distributed_strategy
enable_strategy("collective", differentiate_sums=True)
import horovod.tensorflow as hvd  # noqa: E402 - the strategy has initialized it

FIRST = np.array([0.5, -1.5, 2.0], np.float32)
SOME = hvd.add_process_set([0, 1]) if SIZE > 2 else hvd.global_process_set
BATCH = np.random.default_rng(1).normal(size=[8, 3]).astype(np.float32)  # of all ranks


class RealRanks:
    """Collectives of [x of this rank]."""

    numbers = [RANK]

    def reduce(self, xs, op, **kwargs):
        return [hvd.allreduce(x, op=op, **kwargs) for x in xs]

    def reduce_group(self, groups, op):
        return [hvd.grouped_allreduce(xs, op=op) for xs in groups]

    def gather(self, xs, **kwargs):
        return [hvd.allgather(x, **kwargs) for x in xs]

    def gather_group(self, groups):
        return [hvd.grouped_allgather(xs) for xs in groups]

    def scatter(self, xs, op):
        return [hvd.reducescatter(x, op=op, prescale_factor=0.5) for x in xs]

    def scatter_group(self, groups, op):
        return [hvd.grouped_reducescatter(xs, op=op) for xs in groups]

    def broadcast(self, xs, root):
        return [hvd.broadcast(x, root) for x in xs]

    def exchange(self, xs):
        return [hvd.alltoall(x) for x in xs]


class AllRanks:
    """The same of [x of each rank], in one process."""

    numbers = list(range(SIZE))

    def reduce(self, xs, op, process_set=None):
        return [tf.add_n(xs) / (len(xs) if op == hvd.Average else 1)] * len(xs)

    def reduce_group(self, groups, op):
        reduced = [self.reduce(list(xs), op) for xs in zip(*groups)]
        return [list(xs) for xs in zip(*reduced)]

    def gather(self, xs, process_set=None):
        return [tf.concat(xs, 0)] * len(xs)

    def gather_group(self, groups):
        gathered = [self.gather(list(xs)) for xs in zip(*groups)]
        return [list(xs) for xs in zip(*gathered)]

    def scatter(self, xs, op, scale=0.5):
        return tf.split(scale * self.reduce(xs, op)[0], len(xs))

    def scatter_group(self, groups, op):
        scattered = [self.scatter(list(xs), op, 1.0) for xs in zip(*groups)]
        return [list(xs) for xs in zip(*scattered)]

    def broadcast(self, xs, root):
        return [xs[root]] * len(xs)

    def exchange(self, xs):
        parts = [tf.split(x, len(xs)) for x in xs]
        return [tf.concat([of_rank[i] for of_rank in parts], 0) for i in range(len(xs))]


def of_each(ranks, function):
    return [function(float(number + 1)) for number in ranks.numbers]


def broadcast(ranks, w):
    copies = ranks.broadcast(of_each(ranks, lambda c: w * c), SIZE - 1)
    return [tf.reduce_sum(y * y) * c for y, c in zip(copies, of_each(ranks, float))]


def gathered(ranks, w):
    """Of other sizes on each rank."""
    xs = of_each(ranks, lambda c: w[: int(c)] * c)
    return [tf.reduce_sum(y**2) * c for y, c in zip(ranks.gather(xs), of_each(ranks, float))]


def gathered_in_groups(ranks, w):
    groups = of_each(ranks, lambda c: [w[: int(c)] * c, tf.sin(w * c)])
    both = zip(ranks.gather_group(groups), of_each(ranks, float))
    return [tf.reduce_sum(y**2) * c + tf.reduce_sum(z) ** 2 for (y, z), c in both]


def scattered(ranks, w, op=hvd.Sum):
    parts = ranks.scatter(of_each(ranks, lambda c: tf.tile(w * c, [SIZE])), op)
    return [tf.reduce_sum(y**2) * c for y, c in zip(parts, of_each(ranks, float))]


def scattered_means(ranks, w):
    return scattered(ranks, w, hvd.Average)


def scattered_in_groups(ranks, w):
    groups = of_each(ranks, lambda c: [tf.tile(w * c, [SIZE]), tf.tile(tf.sin(w * c), [SIZE])])
    both = zip(ranks.scatter_group(groups, hvd.Average), of_each(ranks, float))
    return [tf.reduce_sum(y**2) * c + tf.reduce_sum(z) ** 2 for (y, z), c in both]


def exchanged(ranks, w):
    parts = ranks.exchange(of_each(ranks, lambda c: tf.tile(w * c, [SIZE])))
    return [tf.reduce_sum(y**2) * c for y, c in zip(parts, of_each(ranks, float))]


def means_with_weights(ranks, w):
    """That are numbers of the script, other ones on each rank."""
    means = ranks.reduce(of_each(ranks, lambda c: tf.sin(w * c)), hvd.Average)
    return [tf.reduce_sum(y) * (c - 1.0) for y, c in zip(means, of_each(ranks, float))]


def means_with_random_weights(ranks, w):
    """All but the same in each step, other ones on each rank."""
    means = ranks.reduce(of_each(ranks, lambda c: tf.sin(w * c)), hvd.Average)
    weights = of_each(ranks, lambda c: tf.random.uniform([], c, c * 1.000001))
    return [tf.reduce_sum(y) * c for y, c in zip(means, weights)]


def groups_of_means(ranks, w):
    groups = of_each(ranks, lambda c: [tf.reduce_sum(w * c), tf.sin(w * c)])
    both = zip(ranks.reduce_group(groups, hvd.Average), of_each(ranks, float))
    return [y**2 * c + tf.reduce_sum(z) for (y, z), c in both]


def squares_of_sums(ranks, w):
    return [tf.reduce_sum(y**2) for y in ranks.reduce(of_each(ranks, lambda c: w * c), hvd.Sum)]


def in_branches(ranks, w):
    def mean(x):
        return ranks.reduce(x, hvd.Average)

    xs = of_each(ranks, lambda c: tf.reduce_sum(tf.sin(w * c)))
    is_taken = tf.placeholder_with_default(True, [])
    return tf.cond(is_taken, lambda: [y**2 for y in mean(xs)], lambda: xs, strict=True)


def in_loops(ranks, w):
    """Sums that a loop multiplies by what is trained, which its gradient takes from a stack."""

    def body(i, *totals):
        xs = of_each(ranks, lambda c: tf.reduce_sum(w * c * tf.cast(i, tf.float32)))
        sums = ranks.reduce(xs, hvd.Sum)
        return i + 1, *(y * tf.reduce_sum(tf.sin(w)) + t for y, t in zip(sums, totals))

    first = [tf.constant(1), *of_each(ranks, lambda c: tf.constant(0.0))]
    found = tf.while_loop(lambda i, *_: i < 4, body, first, parallel_iterations=1)
    return list(found[1:])


def of_some(ranks, w, collective):
    """Of the ranks 0 and 1."""
    xs = of_each(ranks, lambda c: w * c)
    number_of = {number: i for i, number in enumerate(ranks.numbers)}
    inner = [xs[number_of[n]] for n in (0, 1) if n in number_of]
    found = collective(inner) if inner else []
    losses = [tf.reduce_sum(y**2) for y in found]
    rest = [tf.reduce_sum(xs[number_of[n]]) for n in ranks.numbers if n > 1]
    return [y * c for y, c in zip([*losses, *rest], of_each(ranks, float))]


def sums_of_some(ranks, w):
    return of_some(ranks, w, lambda xs: ranks.reduce(xs, hvd.Sum, process_set=SOME))


def means_of_some(ranks, w):
    return of_some(ranks, w, lambda xs: ranks.reduce(xs, hvd.Average, process_set=SOME))


def gathered_of_some(ranks, w):
    return of_some(ranks, w, lambda xs: ranks.gather(xs, process_set=SOME))


def own_mean(logits):
    return tf.reduce_mean(tf.sin(logits))


def beside_a_sum(logits):
    """That is written down, and not differentiated."""
    tf.summary.scalar("sum", hvd.allreduce(own_mean(logits), op=hvd.Sum))
    return own_mean(logits)


def mean_of_means(logits):
    return hvd.allreduce(own_mean(logits))


def halves_of_means(logits):
    """A number that may be the number of ranks means nothing else then."""
    return hvd.allreduce(own_mean(logits)) / 2 + hvd.allreduce(own_mean(logits) / 2)


def grouped_means(logits):
    return tf.add_n(hvd.grouped_allreduce([0.25 * own_mean(logits), 0.75 * own_mean(logits)]))


def quotient_of_means(logits):
    return hvd.allreduce(tf.reduce_sum(tf.sin(logits))) / hvd.allreduce(num_samples(logits))


def gathered_losses(logits):
    return tf.reduce_mean(hvd.allgather(tf.sin(logits)))


def gathered_logits(logits):
    return own_mean(hvd.allgather(logits))


def sum_by_number_of_ranks(logits):
    return hvd.allreduce(own_mean(logits), op=hvd.Sum) / hvd.size()


def sum_of_scaled(logits):
    return hvd.allreduce(own_mean(logits), op=hvd.Sum, prescale_factor=1.0 / SIZE)


def sum_of_shares(logits):
    return hvd.allreduce(tf.reduce_sum(tf.sin(logits)) / len(BATCH), op=hvd.Sum)


def sum_of_halves(logits):
    return hvd.allreduce(own_mean(logits) / 2, op=hvd.Sum) * 2 / hvd.size()


def grouped_sums(logits):
    losses = [tf.reduce_sum(tf.sin(logits)), num_samples(logits)]
    total, number = hvd.grouped_allreduce(losses, op=hvd.Sum)
    return total / number


def quotient_of_sums(logits):
    losses = [tf.reduce_sum(tf.sin(logits)), num_samples(logits)]
    total, number = (hvd.allreduce(x, op=hvd.Sum) for x in losses)
    return total / number


def scattered_sums(logits):
    """Of the losses of a batch whose other parts are zeros."""
    losses = tf.scatter_nd(tf.range(RANK, len(BATCH), SIZE)[:, None], tf.sin(logits), [len(BATCH)])
    return tf.reduce_mean(hvd.reducescatter(losses, op=hvd.Sum))


def num_samples(logits):
    return tf.cast(tf.shape(logits)[0], tf.float32)


CASES = [
    broadcast, gathered, gathered_in_groups, scattered, scattered_means, scattered_in_groups,
    exchanged, means_with_weights, means_with_random_weights, groups_of_means, squares_of_sums,
    in_branches, in_loops, sums_of_some, means_of_some, gathered_of_some,
]  # fmt: skip
FORMS = [
    own_mean, beside_a_sum, mean_of_means, halves_of_means, grouped_means, quotient_of_means,
    gathered_losses, gathered_logits,
]  # fmt: skip
FORMS_OF_SUMS = [
    sum_by_number_of_ranks, sum_of_scaled, sum_of_shares, sum_of_halves, grouped_sums,
    quotient_of_sums, scattered_sums,
]  # fmt: skip


UNEVEN = [quotient_of_means, gathered_losses, gathered_logits, grouped_sums, quotient_of_sums]


def whole_loss(form, w):
    """With a penalty, which all ranks have the same of."""
    return form(tf.linalg.matvec(batch_of(form)[RANK::SIZE], w)) + 0.1 * tf.nn.l2_loss(w)


def whole_loss_alone(form, w):
    return own_mean(tf.linalg.matvec(batch_of(form), w)) + 0.1 * tf.nn.l2_loss(w)


def batch_of(form):
    """Of all ranks, which have shares of different sizes where the form allows for that."""
    return BATCH[:-1] if form in UNEVEN else BATCH


def refused(form):
    """The text of the error."""
    with tf.Graph().as_default():
        w = tf.get_variable("w", initializer=FIRST)
        try:
            tf.gradients(whole_loss(form, w), [w])
        except (NotImplementedError, ValueError) as error:
            return str(error)
    return None


def refused_reduction(op):
    return refused(lambda logits: hvd.allreduce(own_mean(logits), op=op))


def own_loss(case, w):
    return case(RealRanks(), w)[0] if case in CASES else whole_loss(case, w)


def mean_loss(case, w):
    """That of all ranks, in one process."""
    if case in CASES:
        return tf.add_n(case(AllRanks(), w)) / SIZE
    return whole_loss_alone(case, w)


def compare(case):
    """The gradient of the ranks' mean loss, and on rank 0 that of one process."""
    with tf.Graph().as_default():
        w = tf.get_variable("w", initializer=FIRST)
        gradients = tf.gradients(own_loss(case, w), [w])
        if RANK == 0:
            whole = mean_loss(case, w)
            gradients += tf.compat.v2.compat.v1.gradients(whole, [w], gate_gradients=True)
        with tf.Session(config=session_config(rewrites=False)) as session:
            session.run(w.initializer)
            return session.run(gradients)


def compare_named(cases):
    """{name: as compare gives it} of those that the arguments name."""
    return {case.__name__: compare(case) for case in cases if case.__name__ in sys.argv[1:]}


def fetch_more_on_one_rank(form):
    """(the gradient, the same fetched with something else on rank 0), in graphs as rewritten."""
    with tf.Graph().as_default():
        w = tf.get_variable("w", initializer=FIRST)
        (found,) = tf.gradients(whole_loss(form, w), [w])
        with tf.Session() as session:
            session.run(w.initializer)
            first = session.run(found)
            return first, session.run([found, w + 1.0] if RANK == 0 else [found])[0]


def main():
    gradients = compare_named(CASES + FORMS_OF_SUMS)
    enable_strategy("collective")
    gradients |= compare_named(FORMS)
    reported = {"gradients": gradients}
    if SIZE == 2:
        refusals = {form.__name__: refused(form) for form in FORMS_OF_SUMS}
        refusals |= {name: refused_reduction(getattr(hvd, name)) for name in ("Max", "Product")}
        repeated = [fetch_more_on_one_rank(form) for form in (halves_of_means, gathered_losses)]
        reported |= {"refusals": refusals, "repeated": repeated}
    report(reported)


if __name__ == "__main__":
    main()
