// SPDX-License-Identifier: Apache-2.0
// A table with the memory of its rows and one slot, for tests.
#ifndef SOK_OPS_TESTS_TABLE_FIXTURE_H_
#define SOK_OPS_TESTS_TABLE_FIXTURE_H_

#include <memory>
#include <vector>

#include "ops/base/reserved_memory.h"
#include "ops/table/table.h"
#include "ops/tests/check.h"

namespace sok::testing {

constexpr float kSlotValue = 0.5f;

inline TableOptions Options(bool use_hash_index, int64_t capacity, int64_t dim = 3) {
  TableOptions options;
  options.name = "users";
  options.dim = dim;
  options.capacity = capacity;
  options.use_hash_index = use_hash_index;
  options.first_value = {FirstValue::Kind::kUniform, 1.0f, 2.0f, FirstValueStream(1, "users")};
  return options;
}

class TableWithRows {
 public:
  explicit TableWithRows(const TableOptions& options)
      : table_(Table::Create(Device::kCpu, options)),
        rows_(Bytes(options.capacity * options.dim), PageSize::kSmall),
        slot_(Bytes(options.capacity * 2), PageSize::kSmall) {}

  Table* operator->() const { return table_.get(); }
  RowPlanes planes() const { return {rows(0), {{slot(0), 2, kSlotValue}}}; }
  float* rows(int64_t row_id) const { return At(rows_, row_id * table_->options().dim); }
  float* slot(int64_t row_id) const { return At(slot_, row_id * 2); }

  std::vector<int64_t> Find(const std::vector<int64_t>& keys) const {
    std::vector<int64_t> row_ids(keys.size(), -7);
    table_->Find(SerialExecutor(), Size(keys), keys.data(), row_ids.data());
    return row_ids;
  }

  std::vector<int64_t> FindOrInsert(const std::vector<int64_t>& keys,
                                    const float* initial_rows = nullptr,
                                    Executor& executor = SerialExecutor()) const {
    return FindOrInsert(keys, /*keys_are_distinct=*/false, initial_rows, executor);
  }

  std::vector<int64_t> FindOrInsertDistinct(const std::vector<int64_t>& keys,
                                            const float* initial_rows = nullptr) const {
    return FindOrInsert(keys, /*keys_are_distinct=*/true, initial_rows, SerialExecutor());
  }

  int64_t Erase(const std::vector<int64_t>& keys) const {
    return table_->Erase(Size(keys), keys.data());
  }

  /// The row and its slot hold what a row holds when it appears.
  void CheckIsFresh(int64_t key, int64_t row_id) const {
    const TableOptions& options = table_->options();
    std::vector<float> expected(static_cast<size_t>(options.dim));
    WriteFirstValue(options.first_value, key, options.dim, expected.data());
    for (int64_t i = 0; i < options.dim; ++i) {
      CHECK_EQ(rows(row_id)[i], expected[static_cast<size_t>(i)]);
    }
    CHECK_EQ(slot(row_id)[0], kSlotValue);
    CHECK_EQ(slot(row_id)[1], kSlotValue);
  }

  static int64_t Size(const std::vector<int64_t>& keys) {
    return static_cast<int64_t>(keys.size());
  }

 private:
  std::vector<int64_t> FindOrInsert(const std::vector<int64_t>& keys, bool keys_are_distinct,
                                    const float* initial_rows, Executor& executor) const {
    std::vector<int64_t> row_ids(keys.size(), -7);
    table_->FindOrInsert(executor, Size(keys), keys.data(), keys_are_distinct, initial_rows,
                         planes(), row_ids.data());
    return row_ids;
  }
  static size_t Bytes(int64_t num_floats) {
    return static_cast<size_t>(num_floats) * sizeof(float);
  }
  static float* At(const ReservedMemory& memory, int64_t offset) {
    return static_cast<float*>(memory.data()) + offset;
  }

  std::unique_ptr<Table> table_;
  ReservedMemory rows_;
  ReservedMemory slot_;
};

}  // namespace sok::testing

#endif  // SOK_OPS_TESTS_TABLE_FIXTURE_H_
