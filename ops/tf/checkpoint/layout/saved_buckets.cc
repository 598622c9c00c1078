// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/layout/saved_buckets.h"

#include <algorithm>

#include "ops/tf/base/border.h"
#include "ops/tf/tables/key_buckets.h"

namespace sok {
namespace {

namespace tf = tensorflow;

constexpr char kPart[] = "/part_";

bool IsNumber(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

template <typename Key>
void Choose(const tf::Tensor& saved, const WantedKeys& wanted, SavedKeys* found) {
  const Key* keys = Data<Key>(saved);
  const auto likely = static_cast<size_t>(saved.NumElements() / wanted.num_parts);
  found->keys.reserve(likely);
  found->places.reserve(likely);
  for (int64_t i = 0; i < saved.NumElements(); ++i) {
    const auto key = static_cast<int64_t>(keys[i]);
    if (!wanted.Has(key)) continue;
    found->keys.push_back(key);
    found->places.push_back(i);
  }
}

}  // namespace

bool WantedKeys::Has(int64_t key) const {
  const bool is_of_part = num_parts == 1 || BucketOf(key, num_buckets) % num_parts == part;
  return is_of_part && placement.IsOwned(key);
}

std::vector<std::string> SavedBuckets::PartsOf(const PlaneName& name, bool parts_first) {
  const bool has_whole = Contains(name.Of("") + "-keys");
  if (has_whole && !parts_first) return {""};
  std::vector<std::string> parts = NumberedPartsOf(name);
  if (!parts.empty()) return parts;
  if (has_whole) return {""};
  Throw(ErrorCode::kNotFound, "the checkpoint ", prefix(), " has neither ", name.Of(""),
        "-keys nor ", name.Of("/part_0"),
        "-keys, nor another part; tf.train.list_variables lists its tensors");
}

std::vector<std::string> SavedBuckets::NumberedPartsOf(const PlaneName& name) {
  const std::string begin = name.head + kPart;
  const std::string end = name.tail + "-keys";
  std::vector<std::string> numbers;
  for (const std::string& key : Names(begin)) {
    if (key.size() < begin.size() + end.size()) continue;
    const size_t end_at = key.size() - end.size();
    const std::string number = key.substr(begin.size(), end_at - begin.size());
    if (key.compare(end_at, end.size(), end) == 0 && IsNumber(number)) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  for (std::string& number : numbers) number.insert(0, kPart);
  return numbers;
}

/// Decides by the starts of buckets, without reading keys.
bool SavedBuckets::HasNone(const std::string& starts, int64_t num_saved, const WantedKeys& wanted) {
  if (wanted.num_parts == 1 || !Contains(starts)) return false;
  if (DtypeOf(starts) != tf::DT_INT32 ||
      ShapeOf(starts) != tf::TensorShape({wanted.num_buckets + 1}))
    return false;
  const tf::Tensor tensor = Read(starts, tf::DT_INT32);
  const int32_t* start = Data<int32_t>(tensor);
  const int32_t* end = start + wanted.num_buckets;
  if (*start != 0 || *end != num_saved || !std::is_sorted(start, end + 1)) return false;
  for (int64_t bucket = wanted.part; bucket < wanted.num_buckets; bucket += wanted.num_parts) {
    if (start[bucket] != start[bucket + 1]) return false;
  }
  return true;
}

SavedKeys SavedBuckets::Keys(const std::string& plane, const WantedKeys& wanted) {
  return KeysIn(plane, "", "-partition_offset", wanted);
}

SavedKeys SavedBuckets::FilteredKeys(const std::string& plane, const WantedKeys& wanted) {
  if (!Contains(plane + "-keys_filtered")) return {plane, "_filtered", 0, {}, {}};
  return KeysIn(plane, "_filtered", "-partition_filter_offset", wanted);
}

SavedKeys SavedBuckets::KeysIn(const std::string& plane, const char* suffix, const char* starts,
                               const WantedKeys& wanted) {
  SavedKeys found{plane, suffix, 0, {}, {}};
  const std::string name = plane + "-keys" + suffix;
  const tf::TensorShape shape = ShapeOf(name);
  const tf::DataType dtype = DtypeOf(name);
  if (shape.dims() != 1 || (dtype != tf::DT_INT64 && dtype != tf::DT_INT32)) {
    Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix(), " is ",
          tf::DataTypeString(dtype), " ", shape.DebugString(),
          "; keys must be int64 or int32 and have one dimension");
  }
  found.num_saved = shape.num_elements();
  if (found.num_saved == 0 || HasNone(plane + starts, found.num_saved, wanted)) return found;
  if (dtype == tf::DT_INT64) {
    Choose<int64_t>(Read(name, dtype), wanted, &found);
  } else {
    Choose<int32_t>(Read(name, dtype), wanted, &found);
  }
  return found;
}

void SavedBuckets::ForEachChunk(const SavedKeys& saved, int64_t width, const UseRows& use) {
  CheckShape(saved, width);
  ForEachWanted(*this, saved.plane + "-values", width, saved.keys, saved.places, use);
}

void SavedBuckets::CheckShape(const SavedKeys& saved, int64_t width) {
  const std::string name = saved.plane + "-values";
  if (saved.num_saved == 0 && (!Contains(name) || ShapeOf(name).num_elements() == 0)) return;
  const tf::TensorShape shape = ShapeOf(name, tf::DT_FLOAT);
  const tf::TensorShape expected({saved.num_saved, width});
  if (shape == expected) return;
  if (shape.dims() == 2 && shape.dim_size(0) == saved.num_saved) {
    Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix(), " has rows of ",
          shape.dim_size(1), " floats, but the embedding variable's have ", width,
          " (embedding_dim): create it with the saved dimension; TF_EV_RESTORE_CUSTOM_DIM is not "
          "supported");
  }
  Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix(), " has the shape ",
        shape.DebugString(), ", but ", saved.num_saved, " keys require ", expected.DebugString());
}

std::vector<int64_t> SavedBuckets::Numbers(const SavedKeys& saved, const char* number) {
  const std::string name = saved.plane + "-" + number + saved.suffix;
  std::vector<int64_t> numbers(saved.keys.size(), -1);
  if (!Contains(name)) return numbers;
  const int64_t num_there = ShapeOf(name, tf::DT_INT64).num_elements();
  if (num_there == 0) return numbers;
  if (num_there != saved.num_saved) {
    Throw(ErrorCode::kInvalidArgument, name, " in the checkpoint ", prefix(), " has ", num_there,
          " values, expected none or one per key of ", saved.num_saved, " keys");
  }
  if (numbers.empty()) return numbers;
  const tf::Tensor tensor = Read(name, tf::DT_INT64);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = Data<int64_t>(tensor)[saved.places[i]];
  return numbers;
}

}  // namespace sok
