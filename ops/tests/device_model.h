// SPDX-License-Identifier: Apache-2.0
// The CPU's table as the model of one on a device.
#ifndef SOK_OPS_TESTS_DEVICE_MODEL_H_
#define SOK_OPS_TESTS_DEVICE_MODEL_H_

#include <memory>

#include "ops/tests/device_fixture.h"

namespace sok::testing {

class Model {
 public:
  explicit Model(const TableOptions& options) : table_(Table::Create(Device::kCpu, options)) {}

  Ids FindOrInsert(const Ids& keys) {
    Ids row_ids(keys.size());
    table_->FindOrInsert(SerialExecutor(), Size(keys), keys.data(), false, nullptr, {},
                         row_ids.data());
    return row_ids;
  }
  Ids Find(const Ids& keys) {
    Ids row_ids(keys.size());
    table_->Find(SerialExecutor(), Size(keys), keys.data(), row_ids.data());
    return row_ids;
  }
  Table* operator->() const { return table_.get(); }

 private:
  std::unique_ptr<Table> table_;
};

inline void CheckSame(DeviceTableWithRows& table, const Model& model) {
  const TableCounters counters = table.table.Counters({});
  CHECK_EQ(counters.num_keys, model->size());
  CHECK_EQ(counters.num_rows, model->num_rows());
  const TableEntries actual = table.Export();
  const TableEntries expected = model->Export();
  CHECK_TRUE(actual.keys == expected.keys);
  CHECK_TRUE(actual.row_ids == expected.row_ids);
}

}  // namespace sok::testing

#endif  // SOK_OPS_TESTS_DEVICE_MODEL_H_
