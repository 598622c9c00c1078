// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/layout/saved_columns.h"

#include <algorithm>
#include <utility>

#include "ops/tf/base/border.h"
#include "ops/tf/tables/contents/key_buckets.h"

namespace sok {
namespace {

namespace tf = tensorflow;

constexpr int64_t kKeysAtOnce = 1 << 20;

/// Calls use(place, key) for keys of a tensor that are wanted.
template <typename Use>
void ForEachWanted(const WantedKeys& wanted, bool are_narrow, const char* keys, int64_t count,
                   const Use& use) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t key = are_narrow ? reinterpret_cast<const int32_t*>(keys)[i]
                                   : reinterpret_cast<const int64_t*>(keys)[i];
    if (wanted.Has(key)) use(i, key);
  }
}

/// Whether the starts of buckets say that no key is wanted.
bool HaveNone(SavedTensors& saved, const std::string& starts, int64_t num_keys,
              const WantedKeys& wanted) {
  if (wanted.num_parts == 1 || !saved.Contains(starts)) return false;
  if (saved.DtypeOf(starts) != tf::DT_INT32 ||
      saved.ShapeOf(starts) != tf::TensorShape({wanted.num_buckets + 1}))
    return false;
  const tf::Tensor tensor = saved.Read(starts, tf::DT_INT32);
  const int32_t* start = Data<int32_t>(tensor);
  const int32_t* end = start + wanted.num_buckets;
  if (*start != 0 || *end != num_keys || !std::is_sorted(start, end + 1)) return false;
  for (int64_t bucket = wanted.part; bucket < wanted.num_buckets; bucket += wanted.num_parts) {
    if (start[bucket] != start[bucket + 1]) return false;
  }
  return true;
}

}  // namespace

bool WantedKeys::Has(int64_t key) const {
  const bool is_of_part = num_parts == 1 || BucketOf(key, num_buckets) % num_parts == part;
  return is_of_part && placement.IsOwned(key);
}

void WantedRows::Choose(const SavedBlock& block) {
  block_ = &block;
  keys_.clear();
  places_.clear();
  if (wanted_.are_all() && !are_narrow_) {
    const auto* keys = reinterpret_cast<const int64_t*>(block.data[0]);
    keys_.assign(keys, keys + block.count);
    return;
  }
  ForEachWanted(wanted_, are_narrow_, block.data[0], block.count, [&](int64_t place, int64_t key) {
    keys_.push_back(key);
    places_.push_back(place);
  });
}

const void* WantedRows::Of(size_t tensor, int64_t row_bytes) {
  const char* rows = block_->data[tensor];
  if (count() == block_->count) return rows;
  chosen_.resize(static_cast<size_t>(count() * row_bytes));
  char* next = chosen_.data();
  for (const int64_t place : places_) next = std::copy_n(rows + place * row_bytes, row_bytes, next);
  return chosen_.data();
}

SavedColumns::SavedColumns(SavedTensors& saved, std::string name_of_keys)
    : keys(std::move(name_of_keys)) {
  const tf::TensorShape shape = saved.ShapeOf(keys);
  const tf::DataType dtype = saved.DtypeOf(keys);
  if (shape.dims() != 1 || (dtype != tf::DT_INT64 && dtype != tf::DT_INT32)) {
    Throw(ErrorCode::kInvalidArgument, keys, " in the checkpoint ", saved.prefix(), " is ",
          tf::DataTypeString(dtype), " ", shape.DebugString(),
          "; keys must be int64 or int32 and have one dimension");
  }
  num_keys = shape.dim_size(0);
  are_narrow = dtype == tf::DT_INT32;
}

void SavedColumns::Count(SavedTensors& saved, const WantedKeys& wanted) {
  if (HaveNone(saved, starts, num_keys, wanted)) return;
  for (const Bundle::Piece& slice : saved.PiecesOf(keys)) {
    int64_t of_slice = wanted.are_all() ? slice.count : 0;
    if (!wanted.are_all()) {
      saved.ForEachPartOf(slice, kKeysAtOnce, [&](int64_t, int64_t count, const char* data) {
        ForEachWanted(wanted, are_narrow, data, count, [&](int64_t, int64_t) { ++of_slice; });
      });
    }
    if (of_slice > 0) slices_.insert(slice.first);
    if (of_slice > 0 && of_slice < slice.count) slices_are_whole_ = false;
    num_wanted += of_slice;
  }
}

void SavedColumns::ForEachBlock(SavedTensors& saved, const WantedKeys& wanted, const Use& use,
                                const SavedStreams::Place& place) const {
  WantedRows rows(wanted, are_narrow);
  SavedStreams(saved, Names(), most_rows)
      .ForEachBlock([&](int64_t first) { return slices_.count(first) > 0; },
                    [&](const SavedBlock& block) {
                      rows.Choose(block);
                      if (rows.count() > 0) use(rows);
                    },
                    place);
}

bool SavedColumns::AreWholeSlices(SavedTensors& saved) const {
  return slices_are_whole_ && SavedStreams(saved, Names()).AreSlicedAlike();
}

std::vector<std::string> SavedColumns::Names() const {
  std::vector<std::string> names{keys};
  for (const Column& column : columns) names.push_back(column.name);
  return names;
}

std::vector<int64_t> ReadWantedKeys(SavedTensors& saved, const std::string& name,
                                    const WantedKeys& wanted) {
  const SavedColumns columns(saved, name);
  std::vector<int64_t> keys;
  saved.ForEachPart(name, kKeysAtOnce, [&](int64_t, int64_t count, const char* data) {
    ForEachWanted(wanted, columns.are_narrow, data, count,
                  [&](int64_t, int64_t key) { keys.push_back(key); });
  });
  return keys;
}

}  // namespace sok
