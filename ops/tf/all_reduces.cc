// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/all_reduces.h"

#include <map>
#include <string>
#include <vector>

#include "ops/tf/exchange_service.h"
#include "ops/tf/step_graph.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace sok {
namespace {

namespace tf = tensorflow;

// Horovod's numbers of what it can do.
constexpr int64_t kMean = 0;
constexpr int64_t kSum = 1;

bool IsAllReduce(const tf::Node& node) {
  return node.type_string() == "HorovodAllreduce" ||
         node.type_string() == "HorovodGroupedAllreduce";
}

bool IsOnCpu(const tf::Node& node) {
  tf::DeviceNameUtils::ParsedName device;
  return tf::DeviceNameUtils::ParseFullName(node.assigned_device_name(), &device) &&
         device.type == "CPU";
}

bool CanBeTakenOver(const tf::Node& node) {
  const tf::AttrValue* const type = node.attrs().Find("T");
  const tf::AttrValue* const reduction = node.attrs().Find("reduce_op");
  const tf::AttrValue* const ranks = node.attrs().Find("process_set_id");
  return type && reduction && ranks && type->type() == tf::DT_FLOAT && ranks->i() == 0 &&
         (reduction->i() == kMean || reduction->i() == kSum) && IsOnCpu(node);
}

/// What Horovod calls the reduction, the same on all ranks.
std::string NameOf(const tf::Node& node) {
  const tf::AttrValue* const ignores_scope = node.attrs().Find("ignore_name_scope");
  if (ignores_scope == nullptr || !ignores_scope->b()) return node.name();
  return node.name().substr(node.name().rfind('/') + 1);
}

/// One of the lookups that all ranks make in this step; null: there is none.
const tf::Node* FindLookup(const tf::Graph& graph, const std::vector<bool>& may_not_run) {
  for (const tf::Node* node : graph.op_nodes()) {
    if (node->type_string() == "SokBeginLookup" && !may_not_run[static_cast<size_t>(node->id())])
      return node;
  }
  return nullptr;
}

absl::Status TakeOver(tf::Graph* graph, tf::Node* node, const tf::AttrValue& graph_number) {
  tf::Node* ticket = nullptr;
  const std::string name = "hvd.allreduce/" + NameOf(*node);  // by which the ranks meet
  absl::Status status = tf::NodeBuilder(name, "SokBeginLookup")
                            .Attr("lookup", name)
                            .Attr("graph", graph_number)
                            .Device(node->requested_device())
                            .AssignedDevice(node->assigned_device_name())
                            .Finalize(graph, &ticket);
  if (!status.ok()) return status;
  std::vector<tf::NodeBuilder::NodeOut> tensors;
  for (int input = 0; input < node->num_inputs(); ++input) {
    const auto [source, output] = SourceOf(*node, input);
    tensors.emplace_back(source, output);
  }
  tf::Node* sums = nullptr;
  status = tf::NodeBuilder(node->name() + "/of_lookups", "SokAllReduce")
               .Input(tensors)
               .Input(ticket, 0)
               .Attr("is_mean", node->attrs().Find("reduce_op")->i() == kMean)
               .Attr("prescale_factor", *node->attrs().Find("prescale_factor"))
               .Attr("postscale_factor", *node->attrs().Find("postscale_factor"))
               .ControlInputs(ControlInputsOf({node}))
               .Device(node->requested_device())
               .AssignedDevice(node->assigned_device_name())
               .Finalize(graph, &sums);
  if (!status.ok()) return status;
  MoveOutputs(graph, node, sums, [](int output) { return output; });
  graph->RemoveNode(node);
  return absl::OkStatus();
}

}  // namespace

absl::Status TakeOverAllReduces(tf::Graph* graph) {
  std::vector<tf::Node*> nodes;
  for (tf::Node* node : graph->op_nodes()) {
    if (IsAllReduce(*node) && CanBeTakenOver(*node)) nodes.push_back(node);
  }
  if (nodes.empty() || !AllRanksShareMemory() || IsFedInParts(*graph)) return absl::OkStatus();
  const std::vector<bool> may_not_run = NodesOfControlFlow(*graph);
  const tf::Node* const lookup = FindLookup(*graph, may_not_run);
  if (lookup == nullptr) return absl::OkStatus();
  const tf::AttrValue graph_number = *lookup->attrs().Find("graph");
  std::map<std::string, int> counts;  // Horovod says what is wrong with two of one name
  for (const tf::Node* node : nodes) ++counts[NameOf(*node)];
  for (tf::Node* node : nodes) {
    if (may_not_run[static_cast<size_t>(node->id())] || counts[NameOf(*node)] > 1) continue;
    const absl::Status status = TakeOver(graph, node, graph_number);
    if (!status.ok()) return status;
  }
  tf::FixupSourceAndSinkEdges(graph);
  return absl::OkStatus();
}

}  // namespace sok
