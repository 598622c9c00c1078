// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/row_pointers.h"

#include "ops/tf/border.h"

namespace sok {

RowPointers::RowPointers(const Table& table, const float* rows, const tensorflow::Tensor& keys,
                         const tensorflow::Tensor& row_ids, const tensorflow::Tensor& absent_rows)
    : pointers_(static_cast<size_t>(row_ids.NumElements())) {
  const TableOptions& options = table.options();
  const int64_t* ids = Data<int64_t>(row_ids);
  std::vector<size_t> absent;
  for (size_t i = 0; i < pointers_.size(); ++i) {
    if (ids[i] == kNoRow) {
      absent.push_back(i);
    } else {
      pointers_[i] = rows + ids[i] * options.dim;
    }
  }
  if (absent_rows.dim_size(0) == 0) {
    MakeFirstValues(table, rows, Data<int64_t>(keys), absent);
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

void RowPointers::MakeFirstValues(const Table& table, const float* rows, const int64_t* keys,
                                  const std::vector<size_t>& absent) {
  const TableOptions& options = table.options();
  first_values_.resize(absent.size() * static_cast<size_t>(options.dim));
  const bool is_preset = options.first_value.kind == FirstValue::Kind::kPreset;
  int64_t next_row = table.num_rows();
  for (size_t j = 0; j < absent.size(); ++j, ++next_row) {
    const int64_t key = keys[absent[j]];
    float* row = first_values_.data() + j * static_cast<size_t>(options.dim);
    WriteFirstValue(options.first_value, key, options.dim, row);
    const int64_t row_id = options.use_hash_index ? next_row : key / options.world_size;
    const bool has_preset = is_preset && row_id < options.capacity;
    pointers_[absent[j]] = has_preset ? rows + row_id * options.dim : row;
  }
}

}  // namespace sok
