# SPDX-License-Identifier: Apache-2.0
"""A picture of the AUC during training."""

import importlib.util

INSTALL_HINT = "no picture: matplotlib is not installed (pip install matplotlib)"


def is_possible():
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def save(path, history, test_auc, best_auc):
    """Writes a PNG.

    Args:
      path: path of the file.
      history: [(samples, loss, AUC)] during training.
      test_auc, best_auc: horizontal lines; None: none.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="samples", ylabel="AUC", title="DCNv2 on Criteo's format")
    samples, _, aucs = zip(*history)
    axes.plot(samples, aucs, label="training, on samples before their update")
    for auc, label, style in ((test_auc, "test", "--"), (best_auc, "best possible on test", ":")):
        if auc is not None:
            axes.axhline(auc, linestyle=style, color="black", label=f"{label}: {auc:.4f}")
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:,.0f}")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    figure.savefig(path)
