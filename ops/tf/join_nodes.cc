// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/join_nodes.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "ops/exchange/message.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/graph/node_builder.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::AttrValue;
using Nodes = std::vector<tf::Node*>;

constexpr char kNumItems[] = "N";
constexpr char kHyperparameters[] = "hyperparameters";  // the only ones that are of no item

int64_t NumItems(const tf::Node& node) { return node.attrs().Find(kNumItems)->i(); }

bool IsTicket(const std::string& argument) { return argument == "ticket" || argument == "tickets"; }

bool IsOfItems(const std::string& argument) {
  return !IsTicket(argument) && argument != kHyperparameters;
}

/// How many tensors an argument of a node is.
int64_t SizeOf(const tf::Node& node, const tf::OpDef::ArgDef& argument) {
  if (!argument.number_attr().empty()) return node.attrs().Find(argument.number_attr())->i();
  if (!argument.type_list_attr().empty())
    return node.attrs().Find(argument.type_list_attr())->list().type_size();
  return 1;
}

/// Calls use(argument, first, size) for each input or output argument of a node.
template <typename Arguments, typename Use>
void ForEachArgument(const tf::Node& node, const Arguments& arguments, const Use& use) {
  int first = 0;
  for (const tf::OpDef::ArgDef& argument : arguments) {
    const auto size = static_cast<int>(SizeOf(node, argument));
    use(argument, first, size);
    first += size;
  }
}

std::string NameOf(const Source& source) {
  return source.first->name() + ":" + std::to_string(source.second);
}

/// An attribute with a value for each item.
bool IsOfItems(const tf::Node& node, const AttrValue& value) {
  if (value.value_case() != AttrValue::kList) return false;
  const AttrValue::ListValue& list = value.list();
  const int size = list.s_size() + list.i_size() + list.b_size() + list.type_size();
  return size == NumItems(node);
}

/// How many tensors of items there are in an argument.
bool IsNumberOfItems(const tf::Node& node, const std::string& attribute) {
  if (attribute == kNumItems) return true;
  const auto& arguments = node.op_def().input_arg();
  return std::any_of(arguments.begin(), arguments.end(), [&](const tf::OpDef::ArgDef& argument) {
    return argument.number_attr() == attribute && IsOfItems(argument.name());
  });
}

void Append(const AttrValue& from, AttrValue* to) {
  to->mutable_list()->MergeFrom(from.list());  // appends
}

/// The first node's name, how many others there are, and a hash of their names.
std::string JoinedName(const Nodes& nodes) {
  std::string names;
  for (const tf::Node* node : nodes) names += node->name() + "\n";
  std::array<char, 64> others{};
  std::snprintf(others.data(), others.size(), "_and_%zu_%016" PRIx64, nodes.size() - 1,
                NameHash(names));
  return nodes.front()->name() + others.data();
}

Source TicketOf(const tf::Node& node) {
  Source ticket{nullptr, 0};
  ForEachArgument(node, node.op_def().input_arg(), [&](const auto& argument, int first, int size) {
    if (IsTicket(argument.name()) && size > 0) ticket = SourceOf(node, first);
  });
  return ticket;
}

/// Of the node that `nodes` become.
void SetAttributes(const Nodes& nodes, tf::NodeBuilder* builder) {
  const tf::Node& first = *nodes.front();
  for (const auto& [name, value] : first.attrs()) {
    if (name[0] == '_') continue;
    AttrValue joined = value;
    if (IsNumberOfItems(first, name)) {
      for (size_t i = 1; i < nodes.size(); ++i)
        joined.set_i(joined.i() + nodes[i]->attrs().Find(name)->i());
    } else if (IsOfItems(first, value)) {
      for (size_t i = 1; i < nodes.size(); ++i) Append(*nodes[i]->attrs().Find(name), &joined);
    }
    builder->Attr(name, joined);
  }
}

/// The tensors of an argument of the joined node: for each of its lists those of all nodes.
std::vector<tf::NodeBuilder::NodeOut> ItemsOf(const Nodes& nodes, int argument) {
  struct Place {
    int first;
    int size;
  };
  std::vector<Place> places;
  for (const tf::Node* node : nodes) {
    int number = 0;
    ForEachArgument(*node, node->op_def().input_arg(), [&](const auto&, int first, int size) {
      if (number++ == argument) places.push_back({first, size});
    });
  }
  std::vector<tf::NodeBuilder::NodeOut> items;
  const int64_t num_lists = places.front().size / NumItems(*nodes.front());
  for (int64_t list = 0; list < num_lists; ++list) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto num_items = static_cast<int>(NumItems(*nodes[i]));
      const int first = places[i].first + static_cast<int>(list) * num_items;
      for (int item = 0; item < num_items; ++item) {
        const auto [source, output] = SourceOf(*nodes[i], first + item);
        items.emplace_back(source, output);
      }
    }
  }
  return items;
}

}  // namespace

std::set<std::string> InputsOf(const tf::Node& node, const std::string& argument) {
  std::set<std::string> names;
  ForEachArgument(node, node.op_def().input_arg(), [&](const auto& any, int first, int size) {
    for (int i = first; any.name() == argument && i < first + size; ++i)
      names.insert(NameOf(SourceOf(node, i)));
  });
  return names;
}

std::string KindOf(const tf::Node& node) {
  std::string kind = node.type_string() + "\n" + node.requested_device() + "\n" +
                     node.assigned_device_name() + "\n";
  std::map<std::string, std::string> attributes;  // in an order
  for (const auto& [name, value] : node.attrs()) {
    if (name[0] == '_' || IsNumberOfItems(node, name)) continue;
    attributes[name] = IsOfItems(node, value) ? "of items" : tf::SummarizeAttrValue(value);
  }
  for (const auto& [name, value] : attributes) kind += name + "=" + value + "\n";
  ForEachArgument(node, node.op_def().input_arg(), [&](const auto& argument, int first, int size) {
    kind += argument.name() + ":";
    if (argument.name() == kHyperparameters) {
      for (int i = first; i < first + size; ++i) kind += NameOf(SourceOf(node, i)) + ",";
    } else if (IsTicket(argument.name())) {
      kind += std::to_string(size);
    } else {
      kind += std::to_string(size / NumItems(node));
    }
    kind += "\n";
  });
  return kind;
}

void SortByTicketAndName(Nodes* nodes) {
  std::vector<std::pair<std::pair<std::string, std::string>, tf::Node*>> named;
  for (tf::Node* node : *nodes) {
    const Source ticket = TicketOf(*node);
    named.push_back({{ticket.first ? NameOf(ticket) : "", node->name()}, node});
  }
  std::sort(named.begin(), named.end());
  for (size_t i = 0; i < named.size(); ++i) (*nodes)[i] = named[i].second;
}

absl::Status NodeJoiner::JoinTickets(const Nodes& nodes, Source* ticket) {
  std::vector<Source> apart;
  Nodes sources;
  for (const tf::Node* node : nodes) {
    const Source of_node = TicketOf(*node);
    if (std::find(apart.begin(), apart.end(), of_node) != apart.end()) continue;
    apart.push_back(of_node);
    sources.push_back(of_node.first);
  }
  const auto known = tickets_.find(apart);
  if (apart.size() == 1 || known != tickets_.end()) {
    *ticket = apart.size() == 1 ? apart.front() : known->second;
    return absl::OkStatus();
  }
  std::vector<tf::NodeBuilder::NodeOut> inputs;
  for (const auto& [source, output] : apart) inputs.emplace_back(source, output);
  tf::Node* joined = nullptr;
  const absl::Status status = tf::NodeBuilder(JoinedName(sources), "SokJoinTickets")
                                  .Input(inputs)
                                  .Device(sources.front()->requested_device())
                                  .AssignedDevice(sources.front()->assigned_device_name())
                                  .Finalize(graph_, &joined);
  *ticket = tickets_[apart] = {joined, 0};
  return status;
}

absl::Status NodeJoiner::MakeJoined(const Nodes& nodes, tf::Node** joined) {
  const tf::Node& first = *nodes.front();
  Source ticket{nullptr, 0};
  if (TicketOf(first).first != nullptr) {
    const absl::Status status = JoinTickets(nodes, &ticket);
    if (!status.ok()) return status;
  }
  tf::NodeBuilder builder(JoinedName(nodes), &first.op_def());
  int number = 0;
  ForEachArgument(
      first, first.op_def().input_arg(), [&](const auto& argument, int begin, int size) {
        std::vector<tf::NodeBuilder::NodeOut> inputs;
        if (IsTicket(argument.name())) {
          if (size > 0) inputs.emplace_back(ticket.first, ticket.second);
        } else if (argument.name() == kHyperparameters) {
          for (int i = begin; i < begin + size; ++i) {
            const auto [source, output] = SourceOf(first, i);
            inputs.emplace_back(source, output);
          }
        } else {
          inputs = ItemsOf(nodes, number);
        }
        ++number;
        const bool is_list = !argument.number_attr().empty() || !argument.type_list_attr().empty();
        if (is_list) {
          builder.Input(inputs);
        } else {
          builder.Input(inputs.front());
        }
      });
  SetAttributes(nodes, &builder);
  return builder.ControlInputs(ControlInputsOf(nodes))
      .Device(first.requested_device())
      .AssignedDevice(first.assigned_device_name())
      .Finalize(graph_, joined);
}

absl::Status NodeJoiner::Join(const Nodes& nodes) {
  tf::Node* joined = nullptr;
  const absl::Status status = MakeJoined(nodes, &joined);
  if (!status.ok()) return status;
  const auto num_items = static_cast<int>(NumItems(*joined));
  int first_item = 0;  // of the node among all
  for (tf::Node* node : nodes) {
    const auto of_node = static_cast<int>(NumItems(*node));
    MoveOutputs(graph_, node, joined, [&](int output) {
      return output / of_node * num_items + first_item + output % of_node;
    });
    graph_->RemoveNode(node);
    first_item += of_node;
  }
  return absl::OkStatus();
}

}  // namespace sok
