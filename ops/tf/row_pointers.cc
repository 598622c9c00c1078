// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/row_pointers.h"

#include <atomic>

#include "ops/base/first_appearance.h"
#include "ops/tf/border.h"

namespace sok {
namespace {

constexpr int64_t kPointerNanoseconds = 1;

}  // namespace

RowPointers::RowPointers(Executor& executor, const Table& table, const float* rows,
                         const tensorflow::Tensor& keys, const tensorflow::Tensor& row_ids,
                         const tensorflow::Tensor& absent_rows)
    : pointers_(static_cast<size_t>(row_ids.NumElements())) {
  const TableOptions& options = table.options();
  const int64_t* ids = Data<int64_t>(row_ids);
  std::atomic<bool> has_absent{false};
  executor.ParallelFor(row_ids.NumElements(), kPointerNanoseconds, [&](int64_t begin, int64_t end) {
    bool is_absent = false;
    for (int64_t i = begin; i < end; ++i) {
      pointers_[static_cast<size_t>(i)] = rows + ids[i] * options.dim;
      is_absent |= ids[i] == kNoRow;
    }
    if (is_absent) has_absent = true;
  });
  if (!has_absent) return;
  std::vector<size_t> absent;
  for (size_t i = 0; i < pointers_.size(); ++i) {
    if (ids[i] == kNoRow) absent.push_back(i);
  }
  if (absent_rows.dim_size(0) == 0) {
    MakeFirstValues(executor, table, rows, Data<int64_t>(keys), absent);
    return;
  }
  if (absent_rows.dim_size(0) != static_cast<int64_t>(absent.size()) ||
      absent_rows.dim_size(1) != options.dim) {
    Throw(ErrorCode::kInvalidArgument, "table '", options.name,
          "': the initializer gave rows of shape ", absent_rows.shape().DebugString(),
          ", expected [", absent.size(), ", ", options.dim, "]");
  }
  for (size_t j = 0; j < absent.size(); ++j) {
    pointers_[absent[j]] = Data<float>(absent_rows) + static_cast<int64_t>(j) * options.dim;
  }
}

/// One for each distinct key, however often it stands in the batch.
void RowPointers::MakeFirstValues(Executor& executor, const Table& table, const float* rows,
                                  const int64_t* keys, const std::vector<size_t>& absent) {
  const TableOptions& options = table.options();
  const auto dim = static_cast<size_t>(options.dim);
  std::vector<int64_t> absent_keys;
  for (const size_t i : absent) absent_keys.push_back(keys[i]);
  std::vector<int32_t> numbers(absent.size());
  const int64_t num_distinct = NumberByFirstAppearance(
      static_cast<int64_t>(absent.size()), absent_keys.data(), absent_keys.data(), numbers.data());
  first_values_.resize(static_cast<size_t>(num_distinct) * dim);
  executor.ParallelFor(
      num_distinct, options.dim * kFirstValueColumnNanoseconds, [&](int64_t begin, int64_t end) {
        WriteFirstValues(options.first_value, end - begin, absent_keys.data() + begin, nullptr,
                         options.dim, first_values_.data() + begin * options.dim);
      });
  const bool is_preset = options.first_value.kind == FirstValue::Kind::kPreset;
  const int64_t next_row = table.num_rows();
  for (size_t i = 0; i < absent.size(); ++i) {
    const auto number = static_cast<size_t>(numbers[i]);
    const int64_t row_id =
        options.use_hash_index ? next_row + numbers[i] : absent_keys[number] / options.world_size;
    const bool has_preset = is_preset && row_id < options.capacity;
    pointers_[absent[i]] =
        has_preset ? rows + row_id * options.dim : first_values_.data() + number * dim;
  }
}

}  // namespace sok
