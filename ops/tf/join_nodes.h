// SPDX-License-Identifier: Apache-2.0
// Several nodes of a graph, of one type whose arguments are lists of one tensor for each item, made
// one of all their items.
#ifndef SOK_OPS_TF_JOIN_NODES_H_
#define SOK_OPS_TF_JOIN_NODES_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/step_graph.h"
#include "tensorflow/core/graph/graph.h"

namespace sok {

/// The names of what a node's input argument gets.
std::set<std::string> InputsOf(const tensorflow::Node& node, const std::string& argument);

/// What nodes that are joined have in common: type, device, attributes that are not of items, and
/// the inputs that are of no item, except tickets.
std::string KindOf(const tensorflow::Node& node);

/// In an order that is the same on all ranks, and in all arrows of a step.
void SortByTicketAndName(std::vector<tensorflow::Node*>* nodes);

class NodeJoiner {
 public:
  explicit NodeJoiner(tensorflow::Graph* graph) : graph_(graph) {}

  /// Puts one node in the place of nodes of one kind, none of which depends on another. Its name
  /// says which they were: TensorFlow keeps kernels by name.
  absl::Status Join(const std::vector<tensorflow::Node*>& nodes);

 private:
  absl::Status MakeJoined(const std::vector<tensorflow::Node*>& nodes, tensorflow::Node** joined);
  absl::Status JoinTickets(const std::vector<tensorflow::Node*>& nodes, Source* ticket);

  tensorflow::Graph* const graph_;
  std::map<std::vector<Source>, Source> tickets_;  // joined ones, by what they were made of
};

}  // namespace sok

#endif  // SOK_OPS_TF_JOIN_NODES_H_
