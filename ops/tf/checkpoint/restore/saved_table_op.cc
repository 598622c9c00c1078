// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/restore/saved_table_op.h"

#include <algorithm>

#include "ops/history/waiting_keys.h"
#include "ops/tf/base/tf_file_system.h"
#include "ops/tf/tables/contents/plane_checks.h"
#include "ops/tf/tables/contents/row_mover.h"
#include "ops/tf/tables/resource/table_attributes.h"
#include "tensorflow/core/platform/logging.h"

namespace sok {
namespace {

constexpr char kPart[] = "/part_";

bool IsNumber(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// Adds the tensors <begin><number><end> that were saved of each key, from column `first` on.
void AddNumbers(SavedTensors& saved, const std::string& begin, const std::string& end, size_t first,
                SavedColumns* columns) {
  for (size_t i = 0; i < kNumKeyNumbers; ++i) {
    const std::string name = begin + kKeyNumbers[i].name + end;
    if (!saved.Contains(name)) continue;
    const tf::TensorShape shape = saved.ShapeOf(name, tf::DT_INT64);
    const bool fits = shape == tf::TensorShape({columns->num_saved()});
    if (fits) columns->Add(name, first + i);
    if (fits || shape.num_elements() == 0) continue;  // none: it was not recorded
    Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", saved.prefix(), " has ",
          shape.num_elements(), " numbers for ", columns->num_saved(), " keys, in the shape ",
          shape.DebugString(), "; a vector with one for each is needed");
  }
}

}  // namespace

int64_t SavedLink::num_wanted() const {
  int64_t count = 0;
  for (const SavedColumns& columns : rows) count += columns.num_keys();
  return count;
}

SavedTableOp::SavedTableOp(tf::OpKernelConstruction* ctx)
    : WholeTableOp(ctx),
      name_(Attribute<std::string>(ctx, "table_name")),
      titles_(Attribute<std::vector<std::string>>(ctx, "titles")),
      tails_(Attribute<std::vector<std::string>>(ctx, "tails")),
      slot_names_(Attribute<std::vector<std::string>>(ctx, "slot_names")),
      slot_is_required_(Attribute<std::vector<bool>>(ctx, "slot_is_required")),
      num_buckets_(Attribute<int64_t>(ctx, "num_buckets")),
      num_parts_(Attribute<int64_t>(ctx, "num_parts")),
      part_(Attribute<int64_t>(ctx, "part")),
      fits_rows_(Attribute<bool>(ctx, "fits_rows")),
      keys_(KindOfKeys(ctx)) {
  OP_REQUIRES(ctx, titles_.size() == 1 + slot_names_.size(),
              absl::InvalidArgumentError("titles must name the rows and each slot"));
  OP_REQUIRES(ctx,
              !in_buckets() || (tails_.size() == titles_.size() &&
                                slot_is_required_.size() == slot_names_.size()),
              absl::InvalidArgumentError("with num_buckets, tails must have as many values as "
                                         "titles, and slot_is_required as slot_names"));
}

SavedTableOp::Chain SavedTableOp::OpenChain(const std::string& prefix) const {
  Chain chain;
  for (const std::string& each : ChainOf(TfFileSystem(), prefix)) {
    chain.push_back(std::make_unique<SavedLink>(each, chain.empty()));
    SavedLink& link = *chain.back();
    if (!in_buckets()) {
      link.gone = {name_ + kGoneEnding};
      link.seeds = {name_ + "/seed" + link.ending};
      continue;
    }
    link.parts = PartsIn(link.saved, tails_[0] + link.ending);
    for (size_t part = 0; part < link.parts.size(); ++part) {
      link.gone.push_back(Stem(link, part, 0) + kGoneOfBuckets);
      link.seeds.push_back(Stem(link, part, 0) + kSeedOfBuckets);
    }
  }
  return chain;
}

/// A whole table and parts of the same name may stand beside each other; an op for a part takes
/// parts first.
std::vector<std::string> SavedTableOp::PartsIn(Bundle& saved, const std::string& tail) const {
  const bool has_whole = saved.Contains(titles_[0] + tail + "-keys");
  if (has_whole && num_parts_ == 1) return {""};
  const std::string begin = titles_[0] + kPart, end = tail + "-keys";
  std::vector<std::string> parts;
  for (const std::string& key : saved.Names(begin)) {
    if (key.size() < begin.size() + end.size()) continue;
    const size_t end_at = key.size() - end.size();
    const std::string number = key.substr(begin.size(), end_at - begin.size());
    if (key.compare(end_at, end.size(), end) == 0 && IsNumber(number)) parts.push_back(number);
  }
  std::sort(parts.begin(), parts.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  for (std::string& part : parts) part.insert(0, kPart);
  if (!parts.empty()) return parts;
  if (has_whole) return {""};
  Throw(ErrorCode::kNotFound, "the checkpoint ", saved.prefix(), " has neither ", titles_[0] + tail,
        "-keys nor ", titles_[0], "/part_0", tail,
        "-keys, nor another part; tf.train.list_variables lists its tensors");
}

std::optional<SavedStream> SavedTableOp::StreamOf(const Chain& chain) {
  std::optional<SavedStream> last;
  for (const auto& link : chain) {
    for (const std::string& seed : link->seeds) {
      const auto stream = link->saved.StreamIn(seed);
      if (!stream) continue;
      last = stream;
      break;
    }
  }
  return last;
}

tf::TensorShape SavedTableOp::ShapeOfPlane(SavedLink* link, size_t plane, const std::string& name) {
  if (plane > 0) return link->saved.ShapeOf(name, tf::DT_FLOAT);
  const Element element = link->saved.ElementOf(name);
  if (link->element.value_or(element) != element) {
    const auto type = [](Element of) { return kElements[static_cast<int>(of)].name; };
    Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", link->saved.prefix(), " is ",
          type(element), ", but the part before it ", type(*link->element),
          "; all parts must have one dtype");
  }
  link->element = element;
  return link->saved.ShapeOf(name);
}

void SavedTableOp::Open(const TableView& view, SavedLink* link) const {
  link->wanted = {view.options().placement, num_buckets_, num_parts_, part_};
  link->widths = {view.options().dim};
  for (const size_t place : view.places)
    link->widths.push_back(view.planes.slots[place].plane->width());
  link->element.reset();
  link->rows.clear();
  link->waiting.clear();
  return in_buckets() ? OpenParts(view, link) : OpenSlices(view, link);
}

void SavedTableOp::OpenSlices(const TableView& view, SavedLink* link) const {
  SavedColumns& columns =
      link->rows.emplace_back(link->saved, link->wanted, name_ + "/keys" + link->ending);
  columns.LimitRows(RowsOfPart(link->widths[0]));
  for (size_t i = 0; i < titles_.size(); ++i) {
    const std::string title = titles_[i] + link->ending;
    if (i > 0) CheckHasSlot(*link, title);
    CheckPlaneToRestore(view.options(), title, columns.num_saved(), link->widths[i],
                        ShapeOfPlane(link, i, title));
    columns.Add(title, 1 + i);
  }
  if (view.history != nullptr)
    AddNumbers(link->saved, name_ + "/", link->ending, 1 + titles_.size(), &columns);
  columns.CheckPieces();
}

void SavedTableOp::OpenParts(const TableView& view, SavedLink* link) const {
  for (size_t part = 0; part < link->parts.size(); ++part) {
    const std::string stem = Stem(*link, part, 0) + "-";
    link->rows.push_back(OpenPlane(*link, part, 0));
    AddNumbers(link->saved, stem, "", 2 + slot_names_.size(), &link->rows.back());
    if (view.history == nullptr || !link->saved.Contains(stem + "keys_filtered")) continue;
    SavedColumns& waiting = link->waiting.emplace_back(
        link->saved, link->wanted, stem + "keys_filtered", stem + "partition_filter_offset");
    AddNumbers(link->saved, stem, "_filtered", 1, &waiting);
  }
}

SavedColumns SavedTableOp::OpenPlane(SavedLink& link, size_t part, size_t plane) const {
  SavedTensors& saved = link.saved;
  const std::string stem = Stem(link, part, plane) + "-", name = stem + "values";
  SavedColumns columns(saved, link.wanted, stem + "keys",
                       plane == 0 ? stem + "partition_offset" : "");
  const int64_t num_keys = columns.num_saved(), width = link.widths[plane];
  if (num_keys == 0 && (!saved.Contains(name) || saved.ShapeOf(name).num_elements() == 0))
    return columns;
  const tf::TensorShape shape = ShapeOfPlane(&link, plane, name);
  const tf::TensorShape expected({num_keys, width});
  columns.Add(name, 1 + plane);
  columns.LimitRows(RowsOfPart(width));  // also where the saved rows take fewer bytes
  if (shape == expected) return columns;
  if (shape.dims() == 2 && shape.dim_size(0) == num_keys) {
    if (fits_rows_) return columns;
    Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", saved.prefix(), " has rows of ",
          shape.dim_size(1), " floats, but the embedding variable's have ", width,
          " (embedding_dim): create it with the saved dimension, or set "
          "TF_EV_RESTORE_CUSTOM_DIM=True to restore the columns that both have");
  }
  Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", saved.prefix(), " has the shape ",
        shape.DebugString(), ", but ", num_keys, " keys require ", expected.DebugString());
}

void SavedTableOp::Count(SavedLink* link) {
  for (SavedColumns& columns : link->rows) columns.Count();
  for (SavedColumns& columns : link->waiting) columns.Count();
}

std::vector<int64_t> SavedTableOp::GoneKeys(SavedLink& link) {
  std::vector<int64_t> gone;
  for (const std::string& name : link.gone) {
    const std::vector<int64_t> keys = SavedColumns(link.saved, link.wanted, name).Keys();
    gone.insert(gone.end(), keys.begin(), keys.end());
  }
  std::sort(gone.begin(), gone.end());
  return gone;
}

void SavedTableOp::ForEachPartOfSlot(SavedLink& link, size_t i, const UseColumns& use) const {
  if (!in_buckets() || LacksSlot(link, i)) return;
  for (size_t part = 0; part < link.parts.size(); ++part) {
    if (link.rows[part].num_keys() == 0) continue;  // the slot may be missing
    SavedColumns columns = OpenPlane(link, part, 1 + i);
    columns.Count();
    if (columns.num_keys() > 0) use(columns);
  }
}

bool SavedTableOp::LacksSlot(SavedLink& link, size_t i) const {
  if (slot_is_required_[i]) return false;
  for (size_t part = 0; part < link.parts.size(); ++part) {
    const std::string stem = Stem(link, part, 1 + i);
    if (link.saved.Contains(stem + "-keys") || link.saved.Contains(stem + "-values")) return false;
  }
  LOG(WARNING) << "the checkpoint " << link.saved.prefix() << " has no slot "
               << Stem(link, 0, 1 + i) << ": the slot keeps its initial value";
  return true;
}

void SavedTableOp::CheckHasSlot(SavedLink& link, const std::string& title) const {
  if (link.saved.Contains(title)) return;
  Throw(
      ErrorCode::kNotFound, "the checkpoint ", link.saved.prefix(), " has no tensor ", title,
      "; was it saved with another optimizer? tf.train.list_variables lists its tensors. To start "
      "slots afresh, restore only keys and rows, with "
      "sok_compat.checkpoint.assign_from(table, path, '",
      name_, "'), and the rest with a tf.train.Saver of the other variables");
}

std::string SavedTableOp::SignatureOf(const Chain& chain) {
  std::string text;
  for (const auto& link : chain) {
    for (const SavedColumns& columns : link->rows) text += columns.Signature();
  }
  return text;
}

}  // namespace sok
