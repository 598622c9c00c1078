// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/restore/rows_op.h"

#include <algorithm>

#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/tables/plane_checks.h"

namespace sok {

namespace tf = tensorflow;

RowsOp::RowsOp(tf::OpKernelConstruction* ctx)
    : WholeTableOp(ctx),
      name_(Attribute<std::string>(ctx, "table_name")),
      titles_(Attribute<std::vector<std::string>>(ctx, "titles")),
      slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
      widths_(Attribute<std::vector<int64_t>>(ctx, "widths")),
      keys_(Attribute<tf::DataType>(ctx, "Tkey") == tf::DT_UINT32 ? KeysOf::kUint32
                                                                  : KeysOf::kInt64) {
  OP_REQUIRES(ctx, titles_.size() == 1 + slot_names_.size() + widths_.size(),
              absl::InvalidArgumentError("titles must name the rows, each slot and each variable"));
}

RowsOp::Chain RowsOp::OpenChain(const std::string& prefix) {
  Chain chain;
  for (const std::string& each : ChainOf(TfFileSystem(), prefix))
    chain.push_back(std::make_unique<Link>(each, chain.empty()));
  return chain;
}

std::vector<std::string> RowsOp::NamesIn(const Link& link) const {
  std::vector<std::string> names{KeysIn(link)};
  for (const std::string& title : titles_) names.push_back(title + link.ending);
  for (const size_t number : link.numbers) names.push_back(NameOf(kKeyNumbers[number], link));
  return names;
}

size_t RowsOp::TensorOfColumn(const Link& link, size_t column) const {
  const size_t num_planes = 1 + slot_names_.size();
  if (column < num_planes) return 1 + column;
  const auto found = std::find(link.numbers.begin(), link.numbers.end(), column - num_planes);
  if (found == link.numbers.end()) return 0;
  return 1 + titles_.size() + static_cast<size_t>(found - link.numbers.begin());
}

void RowsOp::CheckShapes(const TableView& view, Link& link) const {
  link.numbers.clear();
  const std::vector<std::string> names = NamesIn(link);
  const int64_t num_keys = NumKeysIn(link.saved, names[0]);
  std::vector<int64_t> widths{view.options().dim};
  for (const size_t place : view.places) widths.push_back(view.planes.slots[place].plane->width());
  widths.insert(widths.end(), widths_.begin(), widths_.end());
  for (size_t i = 0; i < titles_.size(); ++i) {
    const std::string& title = names[1 + i];
    if (i > 0) CheckHasSlot(link, title);
    CheckPlaneToRestore(view.options(), title, num_keys, widths[i],
                        link.saved.ShapeOf(title, tf::DT_FLOAT));
  }
  for (size_t i = 0; view.limits_keys() && i < kNumKeyNumbers; ++i) {
    if (link.saved.Contains(NameOf(kKeyNumbers[i], link))) link.numbers.push_back(i);
  }
  const std::vector<std::string> all_names = NamesIn(link);
  for (size_t i = names.size(); i < all_names.size(); ++i) {
    const int64_t count = NumKeysIn(link.saved, all_names[i]);
    if (count == num_keys) continue;
    Throw(ErrorCode::kInvalidArgument, all_names[i], " in the checkpoint ", link.saved.prefix(),
          " has ", count, " numbers for ", num_keys, " keys");
  }
  for (const std::string& name : all_names) link.saved.PiecesOf(name);
}

void RowsOp::CheckHasSlot(Link& link, const std::string& title) const {
  if (link.saved.Contains(title)) return;
  Throw(
      ErrorCode::kNotFound, "the checkpoint ", link.saved.prefix(), " has no tensor ", title,
      "; was it saved with another optimizer? tf.train.list_variables lists its tensors. To start "
      "slots afresh, restore only keys and rows, with "
      "sok_compat.checkpoint.assign_from(table, path, '",
      name_, "'), and the rest with a tf.train.Saver of the other variables");
}

std::string RowsOp::SignatureOf(const Chain& chain) const {
  std::string text;
  for (const auto& link : chain) {
    text +=
        link->saved.SignatureOf(KeysIn(*link)) + link->saved.SignatureOf(titles_[0] + link->ending);
  }
  return text;
}

}  // namespace sok
