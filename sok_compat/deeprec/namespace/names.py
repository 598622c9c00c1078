# SPDX-License-Identifier: Apache-2.0
"""The names of DeepRec, and the module of this face that defines each. Imports none of them."""

from __future__ import annotations

import importlib
from typing import Any

_FACE = "sok_compat.deeprec"
_MODELS = ("Baseline", "DNN", "DNNLinearCombined", "Linear")
_DEFINED_IN = {  # {module of the face: paths under `tf`}
    "collective.distributed_strategy": (
        "config.experimental.enable_distributed_strategy",
        "config.experimental.enable_group_embedding",
    ),
    "collective.estimators_of_ranks": (
        *("estimator.BestExporter", "estimator.Estimator", "estimator.LatestExporter"),
        *(
            f"estimator.{model}{kind}"
            for model in _MODELS
            for kind in ("Classifier", "Estimator", "Regressor")
        ),
    ),
    "collective.exported_models": (
        "saved_model.Builder",
        "saved_model.builder.SavedModelBuilder",
        "saved_model.simple_save",
    ),
    "collective.older_strategies": ("distribute.MirroredStrategy", "distribute.OneDeviceStrategy"),
    "collective.run_folders": ("train.ChiefSessionCreator", "train.latest_checkpoint"),
    "collective.savers": ("train.Saver",),
    "collective.session_config": (
        *("ConfigProto", "ExecutorPolicy", "GPUOptions", "GraphOptions", "OptimizerOptions"),
        *("distribute.Server", "train.Server"),
    ),
    "collective.sessions_of_ranks": ("train.MonitoredTrainingSession",),
    "columns.adaptive_columns": ("feature_column.categorical_column_with_adaptive_embedding",),
    "columns.feature_columns": (
        "feature_column.categorical_column_with_embedding",
        "feature_column.embedding_column",
        "feature_column.group_embedding_column_scope",
        "feature_column.shared_embedding_columns",
    ),
    "columns.input_layers": ("feature_column.input_layer",),
    "columns.linear_models": ("feature_column.linear_model",),
    "columns.multihash_columns": ("feature_column.categorical_column_with_multihash",),
    "lookups.adaptive_lookup": ("nn.adaptive_embedding_lookup_sparse",),
    "lookups.group_lookup": ("nn.group_embedding_lookup", "nn.group_embedding_lookup_sparse"),
    "lookups.multi_dim_lookup": ("nn.embedding_lookup_sparse_multi_dim",),
    "lookups.pipelining": ("make_prefetch_hook", "staged", "train.mark_target_node"),
    "lookups.stock_lookups": (
        "nn.embedding_lookup",
        "nn.embedding_lookup_sparse",
        "nn.safe_embedding_lookup_sparse",
    ),
    "optimizer_rules.gradient_averages": ("gradients",),
    "optimizer_rules.train_optimizers": tuple(
        f"train.{rule}"
        for rule in (
            *("AdadeltaOptimizer", "AdagradDAOptimizer", "AdagradDecayOptimizer"),
            *("AdagradDecayOptimizerV2", "AdagradOptimizer", "AdamAsyncOptimizer"),
            *("AdamOptimizer", "AdamWOptimizer", "FtrlOptimizer", "GradientDescentOptimizer"),
            *("MomentumOptimizer", "ProximalAdagradOptimizer"),
            *("ProximalGradientDescentOptimizer", "RMSPropOptimizer", "RowWiseAdagradOptimizer"),
        )
    ),
    "variables.composed_variables": (
        "get_dynamic_dimension_embedding_variable",
        "get_multihash_variable",
    ),
    "variables.devices": ("device",),
    "variables.embedding_variable": (
        "EmbeddingVariable",
        "GraphKeys.ASYNC_EMBEDDING_OUTPUT_TENSORS",
        "GraphKeys.EMBEDDING_VARIABLES",
        "GraphKeys.EV_INIT_SLOT_OPS",
        "GraphKeys.EV_INIT_VAR_OPS",
    ),
    "variables.kept_weights": ("variable_scope",),
    "variables.options": (
        *("CBFFilter", "CheckpointOption", "CounterFilter", "EmbeddingVariableOption"),
        *("GlobalStepEvict", "InitializerOption", "L2WeightEvict"),
    ),
    "variables.storage_option": ("CacheStrategy", "StorageOption", "StorageType"),
    "variables.variable_creation": ("get_embedding_variable",),
}
_ATTRIBUTES = {  # {path: the name in its module, unless it is the last of the path}
    "saved_model.Builder": "SavedModelBuilder",
    "train.MonitoredTrainingSession": "monitored_training_session",
    "variable_scope": "VariableScope",
}
HOMES = {  # {path under `tf`: (module, name there)}
    path: (f"{_FACE}.{module}", _ATTRIBUTES.get(path, path.rpartition(".")[2]))
    for module, paths in _DEFINED_IN.items()
    for path in paths
}


def value_of(path: str) -> Any:
    """The value of a name of DeepRec, whose module is imported."""
    module, name = HOMES[path]
    return getattr(importlib.import_module(module), name)
