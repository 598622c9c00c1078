// SPDX-License-Identifier: Apache-2.0
// A table resource that several ops use at once: inserts that make it grow, updates, saves,
// replaced contents, slots that come and go, and stock ops that assign to its variables.
#include <atomic>
#include <thread>
#include <vector>

#include "ops/tests/check.h"
#include "ops/tests/tf/with_tensorflow/op_context.h"
#include "ops/tf/tables/resource/table_resource.h"

namespace sok::testing {
namespace {

namespace tf = tensorflow;

constexpr int64_t kDim = 4;
constexpr int64_t kKeysOfThread = 600;
constexpr int kThreads = 4;

VariablePtr MakeVariable() { return VariablePtr(new tf::Var(tf::DT_FLOAT)); }

/// One op after the other of one thread.
class Op {
 public:
  OpCall& call() {
    call_.emplace(context_.get(), SerialExecutor());
    return *call_;
  }
  tf::OpKernelContext* context() { return context_.get(); }

 private:
  OpContext context_;
  std::optional<OpCall> call_;
};

/// A table with one slot; rows and slot are equal except during an update of both.
class SharedTable {
 public:
  explicit SharedTable(bool evicts) {
    auto* steps = new SessionSteps;
    resource_.reset(new TableResource("t", tf::core::RefCountPtr<SessionSteps>(steps)));
    Op op;
    TableOptions options;
    options.name = "t";
    options.dim = kDim;
    options.capacity = kMaxRows;
    HistoryOptions history;
    history.is_kept = history.evicts = evicts;
    resource_->Initialize(op.call(), options, history, {}, MakeRowsVariable(), {}, true, false);
    resource_->AttachSlot(op.call(), SlotOptions{"m", {kMaxRows, kDim, true}, 0.0f, {}},
                          MakeVariable(), false);
  }

  TableResource* operator->() { return resource_.get(); }
  tf::Var* rows_variable() { return rows_variable_; }

  /// Adds 1 to the rows and slots of `count` keys from `first` on, new or not.
  void Train(Op& op, int64_t first, int64_t count) {
    std::vector<int64_t> keys, row_ids(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) keys.push_back(first + i);
    OpCall& call = op.call();
    resource_->WithRoom(call, count, [&](const TableView& view) {
      view.table.FindOrInsert(call, {count, keys.data(), true}, view.planes, row_ids.data());
    });
    resource_->WithSlots(call, {"m"}, [&](const TableView& view) {
      const std::vector<float> ones(static_cast<size_t>(count * kDim), 1.0f);
      // Rows of keys lost to replaced contents can still be written.
      view.table.Find(call, count, keys.data(), row_ids.data());
      std::vector<int64_t> rows;
      for (const int64_t row : row_ids) {
        if (row != kNoRow) rows.push_back(row);
      }
      const auto num_rows = static_cast<int64_t>(rows.size());
      call.engine().AddToRows(call, num_rows, rows.data(), ones.data(), view.planes.rows->data());
      call.engine().AddToRows(call, num_rows, rows.data(), ones.data(),
                              view.planes.slots[view.places[0]].plane->data());
    });
  }

  /// Sum of the first column, as a save sees it: rows and slot are equal.
  double Save(Op& op) {
    double sum = 0.0;
    OpCall& call = op.call();
    resource_->WithAlone(call, {"m"}, [&](const TableView& view) {
      const TableEntries entries = view.table.Export(call);
      const auto* rows = view.planes.rows->data().As<const float>();
      const auto* slot = view.planes.slots[view.places[0]].plane->data().As<const float>();
      for (int64_t i = 0; i < entries.count; ++i) {
        const int64_t at = entries.row_ids[i] * kDim;
        CHECK_EQ(rows[at], slot[at]);
        sum += rows[at];
      }
    });
    return sum;
  }

 private:
  VariablePtr MakeRowsVariable() {
    VariablePtr variable = MakeVariable();
    rows_variable_ = variable.get();
    return variable;
  }

  tf::core::RefCountPtr<TableResource> resource_;
  tf::Var* rows_variable_ = nullptr;
};

/// Each thread trains its own keys, in parts that make the planes grow, while another thread runs
/// `beside` repeatedly.
template <typename Beside>
void TrainBeside(SharedTable& table, const Beside& beside) {
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    Op op;
    while (!is_over) beside(op);
  });
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&table, thread] {
      Op op;
      for (int64_t key = 0; key < kKeysOfThread; key += 20)
        table.Train(op, thread * kKeysOfThread + key, 20);
    });
  }
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  other.join();
}

void CheckAllAreTrained(SharedTable& table) {
  Op op;
  CHECK_EQ(table.Save(op), static_cast<double>(kThreads * kKeysOfThread));
}

SOK_TEST(SavesSeeNoUpdateByHalf) {
  SharedTable table(false);
  double before = 0.0;
  TrainBeside(table, [&](Op& op) {
    const double sum = table.Save(op);
    CHECK_TRUE(sum >= before);
    before = sum;
  });
  CheckAllAreTrained(table);
}

SOK_TEST(OtherContentsWhileStepsRun) {
  SharedTable table(false);
  const int64_t key = -1;
  int64_t row_id = kNoRow;
  TrainBeside(table, [&](Op& op) {
    OpCall& call = op.call();
    table->Replace(call, {"m"}, [&](const TableView&, const TableView& fresh) {
      fresh.planes.rows->Reserve(1);
      for (const auto& slot : fresh.planes.slots) slot.plane->Reserve(1);
      fresh.table.FindOrInsert(call, {1, &key, true}, fresh.planes, &row_id);
    });
    table.Save(op);
  });
  Op op;
  OpCall& call = op.call();
  table->WithTable([&](const TableView& restored) { restored.table.Find(call, 1, &key, &row_id); });
  CHECK_EQ(row_id, 0);
}

SOK_TEST(SlotsComeAndGo) {
  SharedTable table(false);
  TrainBeside(table, [&](Op& op) {
    VariablePtr variable = MakeVariable();
    const VariablePtr kept = tsl::core::GetNewRef(variable.get());
    table->AttachSlot(op.call(), SlotOptions{"v", {kMaxRows, kDim, true}, 0.5f, {}},
                      std::move(variable), false);
    OpCall& call = op.call();
    table->WithSlots(call, {"v"}, [&](const TableView& view) {
      const TableEntries entries = view.table.Export(call);
      const auto* slot = view.planes.slots[view.places[0]].plane->data().As<const float>();
      for (int64_t i = 0; i < entries.count; ++i) CHECK_EQ(slot[entries.row_ids[i] * kDim], 0.5f);
    });
    table->DetachSlot(kept.get());
  });
  CheckAllAreTrained(table);
}

/// As AssignVariableOp does: the value becomes the table's on its next use.
SOK_TEST(StockOpsAssign) {
  SharedTable table(false);
  TrainBeside(table, [&](Op&) {
    const VariableLocks lock({table.rows_variable()}, VariableLocks::Mode::kAlone);
    tf::Tensor* const value = table.rows_variable()->tensor();
    tf::Tensor copy(tf::DT_FLOAT, value->shape());
    std::copy_n(value->flat<float>().data(), value->NumElements(), copy.flat<float>().data());
    *value = copy;
  });
  CheckAllAreTrained(table);
}

SOK_TEST(KeysAreEvictedWhileStepsRun) {
  SharedTable table(true);
  int64_t num_evicted = 0;
  TrainBeside(table, [&](Op& op) {
    OpCall& call = op.call();
    table->WithAlone(call, {"m"}, [&](const TableView& view) {
      num_evicted += view.policy.Evict(call, view.table, *view.planes.rows, {0, 0, 3.0f});
    });
  });
  Op op;
  OpCall& call = op.call();
  CHECK_EQ(table->Statistics(call).num_evicted, num_evicted);
  table->WithTable([&](const TableView& used) {
    CHECK_EQ(used.table.Size(call).num_keys, kThreads * kKeysOfThread - num_evicted);
    const TableEntries entries = used.table.Export(call);
    for (int64_t i = 1; i < entries.count; ++i)
      CHECK_TRUE(entries.row_ids[i - 1] < entries.row_ids[i]);
  });
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
