// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/bundle/saved_columns.h"

#include <algorithm>
#include <utility>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr int64_t kKeysAtOnce = 1 << 20;

/// Throws kInvalidArgument where DeepRec has left rows of a table with an SSD in other files.
void CheckHasAllRows(const Bundle& saved, const std::string& name_of_keys) {
  const std::string end = "-keys";
  if (name_of_keys.size() < end.size() ||
      name_of_keys.compare(name_of_keys.size() - end.size(), end.size(), end) != 0)
    return;
  std::string records = "-" + name_of_keys.substr(0, name_of_keys.size() - end.size());
  std::replace(records.begin(), records.end(), '/', '_');
  records += "-ssd_record";
  if (!saved.HasBeside(records + ".index")) return;
  if (saved.Beside(records).EntryOf("keys").num_elements() == 0) return;  // all were in memory
  Throw(ErrorCode::kInvalidArgument, "the checkpoint ", saved.prefix(), " has only those rows of ",
        name_of_keys, " that DeepRec had in memory; the others are in ", saved.prefix(), records,
        ". Export all of them (python -m sok_compat.checkpoint export), and load the arrays");
}

}  // namespace

SavedColumns::SavedColumns(Bundle& saved, const WantedKeys& wanted, std::string name_of_keys,
                           std::string starts)
    : saved_(saved), wanted_(wanted), starts_(std::move(starts)), names_{std::move(name_of_keys)} {
  CheckHasAllRows(saved, names_[0]);
  const BundleEntry entry = saved.EntryOf(names_[0]);
  const std::string type = entry.type().name;
  if (entry.shape.size() != 1 || (type != "int64" && type != "int32")) {
    std::string shape;
    for (const int64_t size : entry.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    Throw(ErrorCode::kInvalidArgument, names_[0], " in the checkpoint ", saved.prefix(), " is ",
          type, " [", shape, "]; keys must be int64 or int32 and have one dimension");
  }
  num_saved_ = entry.shape[0];
  are_narrow_ = type == "int32";
  row_bytes_.push_back(entry.type().num_bytes);
}

void SavedColumns::Add(const std::string& name, size_t column) {
  const BundleEntry entry = saved_.EntryOf(name);
  int64_t row_bytes = entry.type().num_bytes;
  for (size_t d = 1; d < entry.shape.size(); ++d) row_bytes *= entry.shape[d];
  names_.push_back(name);
  numbers_.push_back(column);
  row_bytes_.push_back(row_bytes);
}

void SavedColumns::CheckPieces() const {
  for (const std::string& name : names_) saved_.PiecesOf(name);
}

/// Calls use(place, key) for keys of a tensor that are wanted.
template <typename UseKey>
void SavedColumns::ForEachWanted(const char* keys, int64_t count, const UseKey& use) const {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t key = are_narrow_ ? reinterpret_cast<const int32_t*>(keys)[i]
                                    : reinterpret_cast<const int64_t*>(keys)[i];
    if (wanted_.Has(key)) use(i, key);
  }
}

/// Whether the starts of buckets say that no key is wanted.
bool SavedColumns::HasNone() const {
  if (wanted_.num_parts == 1 || starts_.empty() || !saved_.Contains(starts_)) return false;
  const BundleEntry entry = saved_.EntryOf(starts_);
  if (std::string(entry.type().name) != "int32" ||
      entry.shape != std::vector<int64_t>{wanted_.num_buckets + 1})
    return false;
  std::vector<int32_t> starts;
  saved_.ForEachPart(starts_, kKeysAtOnce, [&](int64_t, int64_t count, const char* data) {
    const auto* numbers = reinterpret_cast<const int32_t*>(data);
    starts.insert(starts.end(), numbers, numbers + count);
  });
  if (starts.front() != 0 || starts.back() != num_saved_ ||
      !std::is_sorted(starts.begin(), starts.end()))
    return false;
  for (int64_t bucket = wanted_.part; bucket < wanted_.num_buckets; bucket += wanted_.num_parts) {
    const auto at = static_cast<size_t>(bucket);
    if (starts[at] != starts[at + 1]) return false;
  }
  return true;
}

void SavedColumns::Count() {
  if (HasNone()) return;
  for (const Bundle::Piece& slice : saved_.PiecesOf(names_[0])) {
    int64_t of_slice = wanted_.are_all() ? slice.count : 0;
    if (!wanted_.are_all()) {
      saved_.ForEachPartOf(slice, kKeysAtOnce, [&](int64_t, int64_t count, const char* data) {
        ForEachWanted(data, count, [&](int64_t, int64_t) { ++of_slice; });
      });
    }
    if (of_slice > 0) slices_.insert(slice.first);
    if (of_slice > 0 && of_slice < slice.count) slices_are_whole_ = false;
    num_wanted_ += of_slice;
  }
}

std::vector<int64_t> SavedColumns::Keys() const {
  std::vector<int64_t> keys;
  saved_.ForEachPart(names_[0], kKeysAtOnce, [&](int64_t, int64_t count, const char* data) {
    ForEachWanted(data, count, [&](int64_t, int64_t key) { keys.push_back(key); });
  });
  return keys;
}

void SavedColumns::ForEachBlock(const Use& use, const Place& place) {
  SavedStreams streams(saved_, names_, most_rows_);
  SavedStreams::Place of_tensor;
  if (place && slices_are_whole_ && streams.AreSlicedAlike()) {
    of_tensor = [&](size_t tensor, int64_t n) {
      return tensor == 0 ? nullptr : place(numbers_[tensor], n);
    };
  }
  RowsBlock block;
  const size_t num_columns = 1 + *std::max_element(numbers_.begin(), numbers_.end());
  block.data.resize(num_columns);
  block.row_bytes.resize(num_columns);
  int64_t num_left = num_wanted_;  // callers have memory for as many
  streams.ForEachBlock([&](int64_t first) { return slices_.count(first) > 0; },
                       [&](const SavedBlock& read) {
                         Choose(read, &block);
                         num_left -= block.count;
                         if (num_left < 0)
                           Throw(ErrorCode::kDataLoss, names_[0], " in the checkpoint ",
                                 saved_.prefix(), " has changed while it was read");
                         if (block.count > 0) use(block);
                       },
                       of_tensor);
}

/// Sets the block to the rows of wanted keys.
void SavedColumns::Choose(const SavedBlock& read, RowsBlock* block) {
  keys_.clear();
  places_.clear();
  const bool are_all = wanted_.are_all() && !are_narrow_;
  if (!are_all) {
    ForEachWanted(read.data[0], read.count, [&](int64_t place, int64_t key) {
      keys_.push_back(key);
      places_.push_back(place);
    });
  }
  block->count = are_all ? read.count : static_cast<int64_t>(keys_.size());
  block->data[0] = are_all ? static_cast<const void*>(read.data[0]) : keys_.data();
  block->row_bytes[0] = sizeof(int64_t);
  chosen_.resize(names_.size());
  for (size_t i = 1; i < names_.size(); ++i) {
    const int64_t row_bytes = row_bytes_[i];
    const char* rows = read.data[i];
    if (block->count < read.count) {
      chosen_[i].resize(static_cast<size_t>(block->count * row_bytes));
      char* next = chosen_[i].data();
      for (const int64_t at : places_) next = std::copy_n(rows + at * row_bytes, row_bytes, next);
      rows = chosen_[i].data();
    }
    block->data[numbers_[i]] = rows;
    block->row_bytes[numbers_[i]] = row_bytes;
  }
}

std::string SavedColumns::Signature() const {
  std::string text = saved_.SignatureOf(names_[0]);
  if (names_.size() > 1) text += saved_.SignatureOf(names_[1]);
  return text;
}

}  // namespace sok
