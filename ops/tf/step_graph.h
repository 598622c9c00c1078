// SPDX-License-Identifier: Apache-2.0
// What is known of a graph that is about to run as it is.
#ifndef SOK_OPS_TF_STEP_GRAPH_H_
#define SOK_OPS_TF_STEP_GRAPH_H_

#include <vector>

#include "tensorflow/core/graph/graph.h"

namespace sok {

/// A step whose inputs come one after another (Session.partial_run) runs its parts in between.
bool IsFedInParts(const tensorflow::Graph& graph);

/// What depends on control flow, by node id: it may not run when others do, or run several times.
std::vector<bool> NodesOfControlFlow(const tensorflow::Graph& graph);

}  // namespace sok

#endif  // SOK_OPS_TF_STEP_GRAPH_H_
