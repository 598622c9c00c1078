// SPDX-License-Identifier: Apache-2.0
// A graph that is about to run as it is: what is known of it, and how a node takes another's place.
#ifndef SOK_OPS_TF_STEP_GRAPH_H_
#define SOK_OPS_TF_STEP_GRAPH_H_

#include <functional>
#include <utility>
#include <vector>

#include "tensorflow/core/graph/graph.h"

namespace sok {

/// An output of a node: the node and the place.
using Source = std::pair<tensorflow::Node*, int>;

/// What a node's input gets.
Source SourceOf(const tensorflow::Node& node, int input);

/// The ops that any of these nodes waits for, without getting anything of them.
std::vector<tensorflow::Node*> ControlInputsOf(const std::vector<tensorflow::Node*>& nodes);

/// Whoever reads an output of `from`, or waits for it, does so of `to`. place_of: which output of
/// `to` is that one.
void MoveOutputs(tensorflow::Graph* graph, tensorflow::Node* from, tensorflow::Node* to,
                 const std::function<int(int output)>& place_of);

/// A step whose inputs come one after another (Session.partial_run) runs its parts in between.
bool IsFedInParts(const tensorflow::Graph& graph);

/// What depends on control flow, by node id: it may not run when others do, or run several times.
std::vector<bool> NodesOfControlFlow(const tensorflow::Graph& graph);

}  // namespace sok

#endif  // SOK_OPS_TF_STEP_GRAPH_H_
