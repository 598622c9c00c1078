// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/step_graph.h"

#include <set>

namespace sok {

namespace tf = tensorflow;

Source SourceOf(const tf::Node& node, int input) {
  const tf::Edge* edge = nullptr;
  TF_CHECK_OK(node.input_edge(input, &edge));
  return {edge->src(), edge->src_output()};
}

std::vector<tf::Node*> ControlInputsOf(const std::vector<tf::Node*>& nodes) {
  std::set<tf::Node*> before;
  for (const tf::Node* node : nodes) {
    for (const tf::Edge* edge : node->in_edges()) {
      if (edge->IsControlEdge() && edge->src()->IsOp()) before.insert(edge->src());
    }
  }
  return {before.begin(), before.end()};
}

void MoveOutputs(tf::Graph* graph, tf::Node* from, tf::Node* to,
                 const std::function<int(int output)>& place_of) {
  const std::vector<const tf::Edge*> edges(from->out_edges().begin(), from->out_edges().end());
  for (const tf::Edge* edge : edges) {
    tf::Node* const reader = edge->dst();
    if (edge->IsControlEdge()) {
      if (reader->IsOp()) graph->AddControlEdge(to, reader);
      continue;
    }
    const int place = place_of(edge->src_output());
    const int input = edge->dst_input();
    graph->RemoveEdge(edge);
    graph->AddEdge(to, place, reader, input);
  }
}

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
