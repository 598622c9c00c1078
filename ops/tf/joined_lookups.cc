// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/joined_lookups.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/all_reduces.h"
#include "ops/tf/join_nodes.h"
#include "ops/tf/step_graph.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/graph/algorithm.h"

namespace sok {
namespace {

namespace tf = tensorflow;

using Types = std::set<std::string, std::less<>>;

const Types& Exchanges() {
  static const auto* const types =
      new Types{"SokExchangeKeys", "SokExchangeRows", "SokExchangeGradients", "SokAllReduce"};
  return *types;
}

bool IsJoinable(const tf::Node& node) {
  static const auto* const others =
      new Types{"SokDistinctKeys",     "SokFindRows",       "SokInsertAbsent",
                "SokPoolReceivedRows", "SokMergeGradients", "SokApplyRule"};
  return Exchanges().count(node.type_string()) != 0 || others->count(node.type_string()) != 0;
}

bool HasSeveralExchanges(const tf::Graph& graph) {
  std::map<std::string, int> counts;
  for (const tf::Node* node : graph.op_nodes()) {
    if (Exchanges().count(node->type_string()) != 0 && ++counts[node->type_string()] == 2)
      return true;
  }
  return false;
}

/// The nodes that may be joined, with how many of them stand before each on the longest way to it.
/// Two of one depth do not wait for each other, also when others of one depth have been joined.
std::vector<std::pair<tf::Node*, int>> DepthsOfJoinable(const tf::Graph& graph) {
  const std::vector<bool> is_apart = NodesOfControlFlow(graph);
  std::vector<tf::Node*> order;
  tf::GetReversePostOrder(graph, &order, tf::NodeComparatorName());
  std::vector<int> depths(static_cast<size_t>(graph.num_node_ids()), 0);  // behind each node
  std::vector<std::pair<tf::Node*, int>> joinable;
  for (tf::Node* node : order) {
    if (!node->IsOp() || is_apart[static_cast<size_t>(node->id())]) continue;
    int depth = 0;
    for (const tf::Edge* edge : node->in_edges()) {
      depth = std::max(depth, depths[static_cast<size_t>(edge->src()->id())]);
    }
    if (IsJoinable(*node)) joinable.emplace_back(node, depth++);
    depths[static_cast<size_t>(node->id())] = depth;
  }
  return joinable;
}

/// What nodes must have in common: all but their items.
using Kind = std::pair<int, std::string>;  // depth, and what KindOf says

/// In lists whose items are of different tables, since an op may change what it has an item of.
std::vector<std::vector<tf::Node*>> WithoutRepeatedTables(const std::vector<tf::Node*>& nodes) {
  std::vector<std::vector<tf::Node*>> lists;
  std::vector<std::set<std::string>> tables;  // of each list
  for (tf::Node* node : nodes) {
    const std::set<std::string> of_node = InputsOf(*node, "tables");
    size_t place = 0;
    const auto has = [&](const std::string& table) { return tables[place].count(table) != 0; };
    while (place < lists.size() && std::any_of(of_node.begin(), of_node.end(), has)) ++place;
    if (place == lists.size()) {
      lists.emplace_back();
      tables.emplace_back();
    }
    lists[place].push_back(node);
    tables[place].insert(of_node.begin(), of_node.end());
  }
  return lists;
}

/// Unless the environment says 0.
bool IsWanted(const char* variable) {
  const char* wanted = std::getenv(variable);
  return wanted == nullptr || std::string(wanted) != "0";
}

class JoinLookupsPass : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr) return absl::OkStatus();
    tf::Graph* const graph = options.graph->get();
    if (IsWanted("SOK_ALLREDUCE")) {
      const absl::Status status = TakeOverAllReduces(graph);
      if (!status.ok()) return status;
    }
    return IsWanted("SOK_JOIN_LOOKUPS") ? JoinLookups(graph) : absl::OkStatus();
  }
};

REGISTER_OPTIMIZATION(tf::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 1, JoinLookupsPass);

}  // namespace

absl::Status JoinLookups(tf::Graph* graph) {
  if (!HasSeveralExchanges(*graph) || IsFedInParts(*graph)) return absl::OkStatus();
  std::map<Kind, std::vector<tf::Node*>> by_kind;
  for (const auto& [node, depth] : DepthsOfJoinable(*graph)) {
    by_kind[{depth, KindOf(*node)}].push_back(node);
  }
  NodeJoiner joiner(graph);
  for (auto& [kind, nodes] : by_kind) {
    SortByTicketAndName(&nodes);
    const bool is_update = nodes.front()->type_string() == "SokApplyRule";
    const std::vector<std::vector<tf::Node*>> lists =
        is_update ? WithoutRepeatedTables(nodes) : std::vector<std::vector<tf::Node*>>{nodes};
    for (const std::vector<tf::Node*>& list : lists) {
      if (list.size() < 2) continue;
      const absl::Status status = joiner.Join(list);
      if (!status.ok()) return status;
    }
  }
  tf::FixupSourceAndSinkEdges(graph);
  return absl::OkStatus();
}

}  // namespace sok
