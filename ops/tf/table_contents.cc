// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/table_contents.h"

#include <algorithm>
#include <utility>

#include "ops/tf/border.h"

namespace sok {

TableContents::TableContents(const Table& table, const RowPlanes& planes)
    : options_(table.options()), rows_(planes.rows), held_(table.Export()) {}

TableContents::TableContents(const TableOptions& options, TableEntries held, const float* rows)
    : options_(options), rows_(rows), held_(std::move(held)) {}

int64_t TableContents::size() const {
  return options_.use_hash_index ? static_cast<int64_t>(held_.keys.size()) : options_.capacity;
}

int64_t TableContents::key(int64_t i) const {
  return options_.use_hash_index ? held_.keys[static_cast<size_t>(i)]
                                 : i * options_.world_size + options_.rank;
}

int64_t TableContents::row_id(int64_t i) const {
  return options_.use_hash_index ? held_.row_ids[static_cast<size_t>(i)] : i;
}

void TableContents::CopyRow(int64_t i, float* row) const {
  const int64_t id = row_id(i);
  const bool is_in_plane = options_.use_hash_index ||
                           options_.first_value.kind == FirstValue::Kind::kPreset ||
                           std::binary_search(held_.row_ids.begin(), held_.row_ids.end(), id);
  if (is_in_plane) {
    std::copy_n(rows_ + id * options_.dim, options_.dim, row);
  } else {
    WriteFirstValue(options_.first_value, key(i), options_.dim, row);
  }
}

void OutputContents(tensorflow::OpKernelContext* ctx, const TableContents& contents) {
  int64_t* keys = Data<int64_t>(Output(ctx, 0, {contents.size()}));
  float* rows = Data<float>(Output(ctx, 1, {contents.size(), contents.dim()}));
  for (int64_t i = 0; i < contents.size(); ++i) {
    keys[i] = contents.key(i);
    contents.CopyRow(i, rows + i * contents.dim());
  }
}

}  // namespace sok
