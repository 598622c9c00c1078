// SPDX-License-Identifier: Apache-2.0
// Fingerprints of saved rows, while keys go, contents are replaced, and saves fail.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "ops/base/threads/executor.h"
#include "ops/tests/check.h"
#include "ops/tests/tf/with_tensorflow/op_context.h"
#include "ops/tf/tables/resource/row_fingerprints.h"

namespace sok::testing {
namespace {

constexpr int64_t kRows = 1000;
constexpr int64_t kDim = 3;

std::vector<int64_t> RowsIn(const RowBits& bits) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < kRows; ++row) {
    if ((bits[static_cast<size_t>(row / 64)] >> (row % 64) & 1) != 0) rows.push_back(row);
  }
  return rows;
}

/// Compares with loops on three threads.
class Saver {
 public:
  std::unique_ptr<RowChanges> Compare(RowFingerprints& saved, const std::vector<float>& rows) {
    call_.emplace(context_.get(), *executor_);
    return saved.Compare(*call_, kRows, nullptr, {FloatRows(rows.data(), kDim)}, nullptr);
  }

 private:
  const std::shared_ptr<Executor> executor_ = SharedThreadExecutor(3);
  OpContext context_;
  std::optional<OpCall> call_;
};

SOK_TEST(OnlyWhatChangedSinceTheLastSave) {
  const auto saved = std::make_shared<RowFingerprints>();
  Saver saver;
  std::vector<float> rows(kRows * kDim, 1.0f);
  auto changes = saver.Compare(*saved, rows);
  CHECK_EQ(RowsIn(changes->rows()).size(), size_t{kRows});
  changes->Commit("a");
  CHECK_EQ(saved->base(), "a");
  rows[5 * kDim + 1] = 2.0f;
  rows[999 * kDim] = -1.0f;
  changes = saver.Compare(*saved, rows);
  CHECK_TRUE(RowsIn(changes->rows()) == (std::vector<int64_t>{5, 999}));
  changes.reset();  // the save fails: its rows count as changed again
  saved->Gone({77}, {8});
  changes = saver.Compare(*saved, rows);
  CHECK_TRUE(RowsIn(changes->rows()) == (std::vector<int64_t>{5, 8, 999}));
  CHECK_TRUE(changes->gone_keys() == std::vector<int64_t>{77});
}

/// A save that ends after the table's contents were replaced does not count them as saved.
SOK_TEST(OtherContentsWhileASaveIsWritten) {
  const auto saved = std::make_shared<RowFingerprints>();
  Saver saver;
  const std::vector<float> rows(kRows * kDim, 1.0f);
  for (int repeat = 0; repeat < 200; ++repeat) {
    auto changes = saver.Compare(*saved, rows);
    std::thread restorer([&] { saved->Forget(); });
    std::thread writer([&] {
      changes->Commit("a");
      changes.reset();
    });
    restorer.join();
    writer.join();
    CHECK_EQ(saved->base(), "");
    CHECK_EQ(RowsIn(saver.Compare(*saved, rows)->rows()).size(), size_t{kRows});
  }
}

/// Fails at one of its loops.
class FailingExecutor : public Executor {
 public:
  explicit FailingExecutor(int loops_before) : loops_left_(loops_before) {}
  int num_threads() const override { return 1; }
  void ParallelFor(int64_t count, int64_t nanoseconds,
                   const std::function<void(int64_t begin, int64_t end)>& body) override {
    if (loops_left_-- == 0) Throw(ErrorCode::kOutOfMemory, "no memory");
    SerialExecutor().ParallelFor(count, nanoseconds, body);
  }

 private:
  int loops_left_;
};

/// Wherever a save fails, the one before it, which is still written, takes none of its rows for
/// saved.
SOK_TEST(ASaveFailsWhileAnotherIsWritten) {
  const RowBits live = {1, 0, 1};  // two runs
  OpContext context;
  for (int num_loops = 0, has_failed = 1; has_failed != 0; ++num_loops) {
    const auto saved = std::make_shared<RowFingerprints>();
    Saver saver;
    std::vector<float> rows(kRows * kDim, 1.0f);
    const auto written = saver.Compare(*saved, rows);
    rows[0] = 2.0f;
    FailingExecutor executor(num_loops);
    OpCall call(context.get(), executor);
    try {
      saved->Compare(call, 192, &live, {FloatRows(rows.data(), kDim)}, nullptr);
      has_failed = 0;
    } catch (const Error&) {
    }
    written->Commit("a");
    CHECK_TRUE((saver.Compare(*saved, rows)->rows()[0] & 1) != 0);
  }
}

/// Keys that come and go between saves, in rows of keys that the last save has, or of none.
SOK_TEST(OnlyKeysThatWereSavedAreGone) {
  const auto saved = std::make_shared<RowFingerprints>();
  Saver saver;
  std::vector<float> rows(kRows * kDim, 1.0f);
  saved->Gone({3}, {3});
  saver.Compare(*saved, rows)->Commit("a");
  for (int64_t key = 2000; key < 3000; ++key)
    saved->Gone({key, key + 5000}, {7, kRows + (1 << 20)});
  auto changes = saver.Compare(*saved, rows);
  CHECK_TRUE(changes->gone_keys() == std::vector<int64_t>{2000});
  CHECK_TRUE(RowsIn(changes->rows()) == std::vector<int64_t>{7});
  changes.reset();  // the save fails: the key of row 9 is still in the one before
  rows[9 * kDim] = 2.0f;
  saver.Compare(*saved, rows).reset();
  saved->Gone({4000}, {9});
  changes = saver.Compare(*saved, rows);
  CHECK_TRUE(changes->gone_keys() == (std::vector<int64_t>{2000, 4000}));
}

/// No key that goes during a save is lost: a later save reports it.
SOK_TEST(KeysGoWhileSavesAreWritten) {
  const auto saved = std::make_shared<RowFingerprints>();
  Saver saver;
  const std::vector<float> rows(kRows * kDim, 1.0f);
  saver.Compare(*saved, rows)->Commit("first");
  constexpr int64_t kKeysOfThread = 500;
  std::vector<std::thread> evictors;
  std::atomic<int> num_over{0};
  for (int64_t thread = 0; thread < 2; ++thread) {
    evictors.emplace_back([&, thread] {
      for (int64_t i = 0; i < kKeysOfThread; ++i) {
        const int64_t key = thread * kKeysOfThread + i;
        saved->Gone({key}, {key});
      }
      ++num_over;
    });
  }
  std::vector<int64_t> gone;
  for (int64_t number = 0;; ++number) {
    const bool is_last = num_over == 2;
    auto changes = saver.Compare(*saved, rows);
    if (number % 3 != 0 || is_last) {
      gone.insert(gone.end(), changes->gone_keys().begin(), changes->gone_keys().end());
      changes->Commit("next");
    }
    if (is_last) break;
  }
  for (std::thread& evictor : evictors) evictor.join();
  CHECK_EQ(gone.size(), size_t{2 * kKeysOfThread});
  std::sort(gone.begin(), gone.end());
  for (int64_t i = 0; i < 2 * kKeysOfThread; ++i) CHECK_EQ(gone[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
