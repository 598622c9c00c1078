// SPDX-License-Identifier: Apache-2.0
// Steps that begin, wait and end during checkpoints, on their own threads.
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ops/history/step_registry.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong(60'000);
constexpr milliseconds kAtOnce(0);

/// The identity of a step.
struct Run {
  explicit Run(StepRegistry& of) : registry(of) { step = registry.Join(this, &container).step; }
  ~Run() {
    if (!is_forgotten) registry.Forget(this);
  }
  bool Enter(const std::vector<CollectiveId>& collectives = {}) {
    return registry.Enter(step, "lookup", collectives);
  }

  StepRegistry& registry;
  char container = 0;
  int64_t step = 0;
  bool is_forgotten = false;
};

/// Enters, waiting until it may.
void EnterOrWait(StepRegistry& registry, int64_t step) {
  if (registry.Enter(step, "lookup", {})) return;
  const auto may = std::make_shared<std::promise<void>>();
  registry.Await(step, "lookup", {}, [may] { may->set_value(); });
  may->get_future().wait();
}

SOK_TEST(AStepIsKnownByOneObject) {
  StepRegistry registry;
  const char identity = 0, container = 0, of_function = 0;
  const auto first = registry.Join(&identity, &container);
  CHECK_TRUE(first.is_first && !first.is_in_container && first.step != StepRegistry::kUnseen);
  const auto again = registry.Join(&identity, &container);
  CHECK_TRUE(!again.is_first && again.is_in_container);
  const auto called = registry.Join(&identity, &of_function);
  CHECK_TRUE(!called.is_first && !called.is_in_container);
  CHECK_EQ(again.step, first.step);
  CHECK_EQ(called.step, first.step);
  registry.Forget(&identity);
  CHECK_TRUE(registry.Join(&identity, &container).step != first.step);
}

SOK_TEST(AStepWithAReferenceHasNotEnded) {
  StepRegistry registry;
  Run cancelled(registry);
  CHECK_TRUE(cancelled.Enter());
  registry.AddReference(cancelled.step);
  registry.Forget(&cancelled);
  cancelled.is_forgotten = true;
  Run other(registry);
  registry.Close(other.step);
  CHECK_TRUE(!registry.EndCut(kAtOnce));
  registry.Release(cancelled.step);
  CHECK_TRUE(registry.EndCut(kAtOnce));
  registry.Release(cancelled.step);  // it has ended
  registry.Open();
}

SOK_TEST(StepsThatUsedATableHoldRowsEvictedSince) {
  StepRegistry registry;
  const char table = 0, other_table = 0;
  int64_t first = 0, second = 0;
  {
    Run before(registry), elsewhere(registry);
    registry.Use(before.step, &table);
    registry.Use(elsewhere.step, &other_table);
    first = registry.Now();
    Run after(registry);
    registry.Use(after.step, &table);
    registry.Use(elsewhere.step, &table);
    second = registry.Now();
    CHECK_TRUE(registry.IsInUse(&table, first));
    registry.Forget(&before);
    before.is_forgotten = true;
    CHECK_TRUE(!registry.IsInUse(&table, first));
    CHECK_TRUE(registry.IsInUse(&table, second));
  }
  CHECK_TRUE(!registry.IsInUse(&table, second));
  registry.Use(StepRegistry::kUnseen, &table);
  CHECK_TRUE(!registry.IsInUse(&table, second));
  CHECK_TRUE(registry.IsInUse(&table, registry.Now()));
}

SOK_TEST(TensorsThatKeepRowsHoldThoseEvictedSince) {
  StepRegistry registry;
  const char table = 0, other_table = 0;
  const int64_t found = registry.Now();
  const int64_t first = registry.Now();
  const int64_t kept = registry.KeepRows(&table, found);
  const int64_t kept_later = registry.KeepRows(&table, registry.Now());
  registry.KeepRows(&other_table, found);
  CHECK_TRUE(registry.IsInUse(&table, first));
  Run saving(registry);
  registry.Close(saving.step);
  CHECK_TRUE(registry.EndCut(kAtOnce));  // they are no running steps
  registry.Open();
  registry.Release(kept);
  CHECK_TRUE(!registry.IsInUse(&table, first));
  CHECK_TRUE(registry.IsInUse(&table, registry.Now()));
  registry.Release(kept_later);
  CHECK_TRUE(!registry.IsInUse(&table, registry.Now()));
}

SOK_TEST(MomentsAreNanosecondsThatAscend) {
  StepRegistry registry;
  const char table = 0, other_table = 0;
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const int64_t first = registry.Now();
  CHECK_TRUE(first >= std::chrono::nanoseconds(since_1970).count());
  CHECK_TRUE(registry.Now() > first);
  Run step(registry);
  const int64_t began = registry.Use(step.step, &table);
  CHECK_TRUE(began > first && registry.Now() > began);
  CHECK_TRUE(registry.Use(step.step, &other_table) > began);
  CHECK_EQ(registry.Use(step.step, &table), began);
  const int64_t unseen = registry.Use(StepRegistry::kUnseen, &table);
  CHECK_TRUE(unseen > began && registry.Use(StepRegistry::kUnseen, &table) > unseen);
}

SOK_TEST(RowsThatAStepHasGivenAreItsOwnAndOfTheseContents) {
  StepRegistry registry;
  Run step(registry), other(registry);
  registry.Give(step.step, 1, {7, 5});
  registry.Give(step.step, 1, {6});
  registry.Give(StepRegistry::kUnseen, 1, {9});
  CHECK_TRUE((registry.GivenRows(step.step, 1) == std::vector<int64_t>{5, 6, 7}));
  CHECK_TRUE(registry.GivenRows(step.step, 2).empty());
  CHECK_TRUE(registry.GivenRows(other.step, 1).empty());
  CHECK_TRUE(registry.GivenRows(StepRegistry::kUnseen, 1).empty());
}

SOK_TEST(KeysThatWaitHaveIdsInTheirStep) {
  StepRegistry registry;
  Run step(registry), other(registry);
  CHECK_EQ(registry.GiveIds(step.step, 1, {70, 50}), -2);
  CHECK_EQ(registry.GiveIds(other.step, 1, {60}), -4);
  CHECK_EQ(registry.GiveIds(StepRegistry::kUnseen, 1, {80}), -5);
  CHECK_EQ(registry.GiveIds(step.step, 1, {90}), -6);
  const auto waiting = registry.WaitingKeys(step.step, 1);
  CHECK_EQ(waiting.size(), size_t{2});
  CHECK_EQ(waiting[0]->first_id, -2);
  CHECK_TRUE((waiting[0]->keys == std::vector<int64_t>{70, 50}));
  CHECK_EQ(waiting[1]->first_id, -6);
  CHECK_TRUE(registry.WaitingKeys(step.step, 2).empty());
  CHECK_TRUE(registry.WaitingKeys(StepRegistry::kUnseen, 1).empty());
}

/// RowGenerations knows ids from -2^32 + 1 on.
SOK_TEST(IdsOfKeysThatWaitBeginAnew) {
  constexpr int64_t kLast = -((int64_t{1} << 32) - 1);
  StepRegistry registry(kLast + 2);
  CHECK_EQ(registry.GiveIds(StepRegistry::kUnseen, 1, {10, 20}), kLast + 1);
  CHECK_EQ(registry.GiveIds(StepRegistry::kUnseen, 1, {30}), -2);
  CHECK_EQ(registry.GiveIds(StepRegistry::kUnseen, 1, {40}), -3);
  StepRegistry another(kLast + 2);
  CHECK_EQ(another.GiveIds(StepRegistry::kUnseen, 1, {10, 20, 30}), -2);
}

SOK_TEST(StepsThatHaveNotBegunWaitWhileItIsClosed) {
  StepRegistry registry;
  Run begun(registry), saves(registry), waits(registry);
  CHECK_TRUE(begun.Enter());
  CHECK_TRUE(saves.Enter());
  registry.Close(saves.step);
  registry.Close(saves.step);  // another checkpoint
  CHECK_TRUE(begun.Enter());
  CHECK_TRUE(saves.Enter());
  CHECK_TRUE(!waits.Enter());
  int num_woken = 0;
  registry.Await(waits.step, "lookup", {}, [&] { ++num_woken; });
  registry.Await(StepRegistry::kUnseen, "lookup", {}, [&] { ++num_woken; });
  CHECK_EQ(registry.Running().size(), size_t{1});
  CHECK_TRUE(registry.Running()[0].find("'lookup' 0 s ago") != std::string::npos);
  registry.Open();
  CHECK_EQ(num_woken, 0);
  registry.Open();
  CHECK_EQ(num_woken, 2);
  CHECK_EQ(registry.Running().size(), size_t{2});
}

SOK_TEST(StepsUpToTheCutBegin) {
  StepRegistry registry;
  constexpr uint64_t kUsers = 11, kItems = 12;
  Run saves(registry), fourth(registry), fifth(registry), sixth(registry);
  CHECK_TRUE(fourth.Enter({{kUsers, 4}}));
  CHECK_TRUE((registry.Begun() == StepRegistry::Cut{{kUsers, 4}}));
  registry.Close(saves.step);
  int num_woken = 0;
  const auto woken = [&] { ++num_woken; };
  CHECK_TRUE(!fifth.Enter({{kUsers, 5}}));
  registry.Await(fifth.step, "users", {{kUsers, 5}}, woken);
  registry.Await(fifth.step, "items", {{kItems, 5}}, woken);
  registry.Await(sixth.step, "users", {{kUsers, 6}}, woken);
  registry.Raise({{kUsers, 5}, {kItems, 4}});  // another rank has begun the fifth step
  CHECK_EQ(num_woken, 2);                      // its lookup of items, too
  registry.AwaitChange(kLong);                 // beyond the cut: others must learn of it
  CHECK_TRUE((registry.Begun() == StepRegistry::Cut{{kUsers, 5}, {kItems, 5}}));
  registry.Raise(registry.Begun());
  auto ends = std::async(std::launch::async, [&] {
    for (Run* each : {&fourth, &fifth}) {
      registry.Forget(each);
      each->is_forgotten = true;
    }
  });
  registry.AwaitChange(kLong);
  CHECK_TRUE(registry.Running().empty());
  ends.wait();
  CHECK_TRUE(registry.EndCut(kAtOnce));
  CHECK_TRUE(!Run(registry).Enter({{kUsers, 5}}));
  registry.Open();
  CHECK_EQ(num_woken, 3);
}

SOK_TEST(CheckpointsSeeWholeSteps) {
  StepRegistry registry;
  std::array<std::atomic<int64_t>, 2> tables{};
  std::atomic<bool> is_over{false};
  std::vector<std::future<void>> trainers;
  for (int i = 0; i < 3; ++i) {
    trainers.push_back(std::async(std::launch::async, [&] {
      while (!is_over) {
        Run run(registry);
        for (auto& table : tables) {
          EnterOrWait(registry, run.step);
          registry.Use(run.step, &table);
          ++table;
          std::this_thread::yield();
        }
      }
    }));
  }
  std::vector<std::future<void>> savers;
  for (int i = 0; i < 2; ++i) {
    savers.push_back(std::async(std::launch::async, [&] {
      for (int64_t number = 0, before = -1; number < 100; ++number) {
        Run run(registry);
        registry.Close(run.step);
        CHECK_TRUE(registry.EndCut(kLong));
        const int64_t saved = tables[0];
        CHECK_EQ(tables[1], saved);
        registry.Open();
        CHECK_TRUE(saved >= before);
        before = saved;
      }
    }));
  }
  for (auto& saver : savers) saver.get();
  is_over = true;
  for (auto& trainer : trainers) trainer.get();
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
