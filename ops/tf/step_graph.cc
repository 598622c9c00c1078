// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/step_graph.h"

namespace sok {

namespace tf = tensorflow;

bool IsFedInParts(const tf::Graph& graph) {
  for (const tf::Node* node : graph.op_nodes()) {
    const tf::AttrValue* from_client =
        node->IsRecv() ? node->attrs().Find("client_terminated") : nullptr;
    if (from_client != nullptr && from_client->b()) return true;
  }
  return false;
}

std::vector<bool> NodesOfControlFlow(const tf::Graph& graph) {
  std::vector<bool> found(static_cast<size_t>(graph.num_node_ids()), false);
  std::vector<const tf::Node*> open;
  const auto find = [&](const tf::Node* node) {
    if (found[static_cast<size_t>(node->id())]) return;
    found[static_cast<size_t>(node->id())] = true;
    open.push_back(node);
  };
  for (const tf::Node* node : graph.op_nodes()) {
    if (node->IsControlFlow()) find(node);
  }
  while (!open.empty()) {
    const tf::Node* node = open.back();
    open.pop_back();
    for (const tf::Edge* edge : node->out_edges()) {
      if (edge->dst()->IsOp()) find(edge->dst());
    }
  }
  return found;
}

}  // namespace sok
