// SPDX-License-Identifier: Apache-2.0
// What the arrival of keys does on every engine: filters, limits, eviction.
#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "ops/history/key_policy.h"
#include "ops/history/step_registry.h"
#include "ops/tests/conformance/engine_fixture.h"

namespace sok {
namespace {

using testing::CallWithArrays;
using testing::Floats;
using testing::Ids;
using testing::Numbers;
using testing::OnAllEngines;
using testing::Options;
using testing::Size;
using testing::TestedEngine;
using testing::TestedTable;
using testing::Words;
using Purpose = Arrival::Purpose;

/// A step that runs while this lives.
class Step {
 public:
  explicit Step(StepRegistry& steps) : steps_(steps), number_(steps.Join(this, nullptr).step) {}
  ~Step() { steps_.Forget(this); }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  int64_t number() const { return number_; }

 private:
  StepRegistry& steps_;
  const int64_t number_;
};

/// A table with a policy; arrays of the host in and out.
struct TableWithPolicy {
  TableWithPolicy(const TestedEngine& engine, const HistoryOptions& history,
                  int64_t capacity = 100'000)
      : tested(engine),
        table(engine, Options(true, capacity)),
        policy(history, steps, this, [this](const Evicted& gone) {
          CHECK_EQ(gone.keys.size(), gone.rows.size());
          num_evicted += Size(gone.keys);
        }) {}

  struct Result {
    Ids row_ids;
    Evicted evicted;
  };
  Result Arrive(const Step& step, Purpose purpose, const Ids& keys, const Floats& rows = {}) {
    Arrival arrival;
    arrival.purpose = purpose;
    return Arrive(step, arrival, keys, rows);
  }
  Result Arrive(const Step& step, Arrival arrival, const Ids& keys, const Floats& rows = {}) {
    CallWithArrays arrays(tested);
    policy.ReturnRows(arrays.call(), table.table());
    arrival.num_keys = Size(keys);
    arrival.keys = arrays.Upload(keys);
    arrival.initial_rows = rows.empty() ? nullptr : arrays.Upload(rows);
    arrival.running_step = step.number();
    policy.Begin(&arrival);
    auto* row_ids = arrays.Empty<int64_t>(Size(keys));
    Result result;
    result.evicted = policy.Arrive(arrays.call(), table.table(), table.planes(), arrival, row_ids);
    result.row_ids = arrays.Download(row_ids, Size(keys));
    return result;
  }
  Ids Train(const Step& step, int64_t training_step, const Ids& keys, const Numbers& counts,
            const Ids& found = {}, const Floats& rows = {}) {
    Arrival arrival;
    arrival.purpose = Purpose::kTrain;
    arrival.training_step = training_step;
    arrival.counts = counts.data();
    if (!found.empty()) arrival.found = found.data();
    return Arrive(step, arrival, keys, rows).row_ids;
  }
  Ids Insert(const Step& step, const Ids& keys) {
    return Arrive(step, Purpose::kInsert, keys).row_ids;
  }
  int64_t Evict(const EvictionRule& rule) {
    return policy.Evict(*tested.NewCall(), table.table(), table.rows(), rule);
  }
  KeySeen SeenOf(int64_t key) {
    return policy.HistoryOf(*tested.NewCall(), table.table(), 1, &key)[0];
  }

  const TestedEngine& tested;
  StepRegistry steps;
  std::atomic<int64_t> num_evicted{0};
  TestedTable table;
  KeyPolicy policy;
};

HistoryOptions Filter(int64_t filter_freq, const BloomOptions& bloom = {}) {
  HistoryOptions options;
  options.is_kept = true;
  options.evicts = true;
  options.filter_freq = filter_freq;
  options.bloom = bloom;
  return options;
}

HistoryOptions Limit(int64_t max_keys) {
  HistoryOptions options;
  options.is_kept = true;
  options.max_keys = max_keys;
  return options;
}

SOK_TEST(WithoutAHistoryAllKeysGetRows) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, {}, 3);
    const Step step(keys.steps);
    CHECK_TRUE(keys.Insert(step, {7, 5, 7}) == (Ids{0, 1, 0}));
    for (const Purpose purpose : {Purpose::kFind, Purpose::kUse, Purpose::kMakeRoom}) {
      CHECK_TRUE(keys.Arrive(step, purpose, {5, 6}).row_ids == (Ids{1, kNoRow}));
    }
    CHECK_THROWS(ErrorCode::kOutOfCapacity, (Words{"2 new"}), keys.Insert(step, {8, 9}));
    CHECK_THROWS(ErrorCode::kFailedPrecondition, (Words{"'users'", "no history"}),
                 keys.Train(step, 1, {5}, {1}));
    CHECK_THROWS(ErrorCode::kFailedPrecondition, (Words{"no history"}), keys.Evict({}));
    CHECK_TRUE(keys.policy.history() == nullptr && !keys.policy.needs_steps());
  });
}

/// Exact counts; counts in place of a Bloom filter, and a filter's.
SOK_TEST(KeysGetRowsWhenTheyHaveComeOftenEnough) {
  for (const BloomOptions& bloom :
       {BloomOptions{}, BloomOptions{100'000, 3, 4}, BloomOptions{64, 3, 1}}) {
    OnAllEngines([&](const TestedEngine& engine) {
      TableWithPolicy keys(engine, Filter(3, bloom));
      {
        const Step step(keys.steps);
        const Ids rows = keys.Train(step, 4, {10, 11, 12}, {1, 3, 2});
        CHECK_TRUE(rows[1] == 0 && rows[0] < kNoRow && rows[2] == rows[0] - 1);
        keys.table.CheckIsFresh(11, 0);
        CHECK_TRUE(keys.Arrive(step, Purpose::kFind, {11}).row_ids == (Ids{kNoRow}));
        const Step other(keys.steps);
        CHECK_TRUE(keys.Arrive(other, Purpose::kFind, {11, 10}).row_ids == (Ids{0, kNoRow}));
        CHECK_EQ(keys.SeenOf(11).count, 3);
        CHECK_EQ(keys.SeenOf(12).count, 2);
        CHECK_EQ(keys.SeenOf(10).step, bloom.num_counters > 0 ? -1 : 4);
      }
      const Step step(keys.steps);
      CHECK_TRUE(keys.Arrive(step, Purpose::kUse, {11}).row_ids == (Ids{0}));
      const Ids rows = keys.Train(step, 5, {12, 10, 11}, {1, 1, 2});
      CHECK_TRUE(rows[0] == 1 && rows[1] < kNoRow && rows[2] == 0);
      CHECK_EQ(keys.SeenOf(12).count, 3);
      CHECK_EQ(keys.SeenOf(12).step, 5);
      CHECK_EQ(keys.SeenOf(10).count, 2);
      CHECK_EQ(keys.SeenOf(11).count, 5);
      CHECK_EQ(keys.table.num_keys(), 2);
    });
  }
}

SOK_TEST(KeysThatAreGivenRowsWaitNoMore) {
  for (const BloomOptions& bloom :
       {BloomOptions{}, BloomOptions{100'000, 3, 4}, BloomOptions{64, 3, 1}}) {
    OnAllEngines([&](const TestedEngine& engine) {
      TableWithPolicy keys(engine, Filter(3, bloom));
      const Step step(keys.steps);
      keys.Train(step, 4, {10, 11, 12}, {1, 1, 2});
      const int64_t num_waiting = keys.policy.NumWaiting();
      CHECK_TRUE(keys.Insert(step, {10, 13}) == (Ids{0, 1}));
      CHECK_EQ(keys.policy.NumWaiting(), num_waiting == 0 ? 0 : 2);  // a filter has no list
      CHECK_EQ(keys.SeenOf(10).count, 3);
      const Step other(keys.steps);
      CHECK_TRUE(keys.Train(other, 5, {10, 12}, {1, 1}) == (Ids{0, 2}));
      CHECK_EQ(keys.SeenOf(10).count, 4);
    });
  }
}

SOK_TEST(InsertsOnlyKeysThatALookupHasNotFound) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, HistoryOptions());
    const Step step(keys.steps);
    keys.Insert(step, {5});
    const Ids found = {0, -1, -1};
    Arrival arrival;
    arrival.purpose = Purpose::kInsert;
    arrival.found = found.data();
    CHECK_TRUE(keys.Arrive(step, arrival, {5, 6, 7}, {1, 1, 1, 2, 2, 2}).row_ids == (Ids{0, 1, 2}));
    CHECK_TRUE(keys.table.Row(1) == Floats(3, 1.0f) && keys.table.Row(2) == Floats(3, 2.0f));
  });
}

SOK_TEST(AdmittedKeysStartAtGivenRows) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Filter(2));
    const Step step(keys.steps);
    // Key 5 has lost its row since the lookup, which gave rows to keys 6 and 7.
    const Ids rows = keys.Train(step, 1, {5, 6, 7}, {4, 1, 2}, {0, -1, -1}, {1, 1, 1, 2, 2, 2});
    CHECK_TRUE(rows[0] == kNoRow && rows[1] < kNoRow && rows[2] == 0);
    CHECK_TRUE(keys.table.Row(0) == (Floats{2, 2, 2}));
    CHECK_EQ(keys.SeenOf(5).count, 0);
    CHECK_EQ(keys.SeenOf(6).count, 1);
  });
}

SOK_TEST(AfterAnErrorKeysHaveNotBeenCounted) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Filter(2), 2);
    const Step step(keys.steps);
    CHECK_TRUE(keys.Train(step, 1, {5, 6}, {2, 2}) == (Ids{0, 1}));
    CHECK_THROWS(ErrorCode::kOutOfCapacity, (Words{"1 new"}),
                 keys.Train(step, 2, {5, 7, 8}, {1, 1, 2}));
    CHECK_EQ(keys.SeenOf(5).count, 2);
    CHECK_EQ(keys.SeenOf(7).count, 0);
    CHECK_EQ(keys.SeenOf(8).count, 0);
    CHECK_EQ(keys.policy.NumWaiting(), 0);
  });
}

SOK_TEST(OldKeysLoseTheirRows) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Filter(2));
    {
      const Step step(keys.steps);
      keys.Train(step, 10, {1, 2, 3, 4}, {2, 2, 1, 1});
      keys.Train(step, 20, {2, 4}, {2, 2});
      CHECK_TRUE(keys.Insert(step, {5}) == (Ids{3}));  // has no step yet
      CHECK_EQ(keys.policy.NumWaiting(), 1);
      CHECK_EQ(keys.Evict({25, 20}), 0);
      CHECK_EQ(keys.Evict({25, 6}), 1);
      CHECK_EQ(keys.policy.NumWaiting(), 0);
      CHECK_EQ(keys.SeenOf(5).step, 25);
      CHECK_TRUE(keys.Insert(step, {6, 1}) == (Ids{4, 5}));  // the step may hold row 0
      CHECK_EQ(keys.Evict({-1, 6}), 0);                      // the step after 20
      CHECK_EQ(keys.num_evicted.load(), 1);
    }
    const Step step(keys.steps);
    CHECK_TRUE(keys.Insert(step, {7}) == (Ids{0}));
    keys.table.CheckIsFresh(7, 0);
  });
}

/// A key that is written, not trained, would else be as old as the one whose row it gets.
SOK_TEST(AKeyInheritsNoHistoryWithItsRow) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Filter(0));
    keys.Train(Step(keys.steps), 10, {1}, {7});
    CHECK_EQ(keys.Evict({25, 6}), 1);
    const Step step(keys.steps);
    CHECK_TRUE(keys.Insert(step, {2}) == (Ids{0}));
    CHECK_EQ(keys.SeenOf(2).count, 1);
    CHECK_EQ(keys.SeenOf(2).step, -1);
    CHECK_EQ(keys.Evict({26, 6}), 0);
    CHECK_EQ(keys.SeenOf(2).step, 26);
  });
}

SOK_TEST(ErasedKeysLeaveNoHistory) {
  OnAllEngines([](const TestedEngine& engine) {
    for (const HistoryOptions& history : {HistoryOptions(), Filter(0), Limit(9)}) {
      TableWithPolicy keys(engine, history);
      keys.Insert(Step(keys.steps), {1, 2});
      if (history.evicts) keys.Train(Step(keys.steps), 10, {1}, {7});
      const Evicted gone = keys.policy.Erase(*keys.tested.NewCall(), keys.table.table(), {1, 3});
      CHECK_TRUE(gone.keys == (Ids{1}) && gone.rows == (Ids{0}));
      CHECK_TRUE(keys.table.Find({1, 2}) == (Ids{kNoRow, 1}));
      CHECK_TRUE(keys.Insert(Step(keys.steps), {4}) == (Ids{0}));
      if (history.evicts) CHECK_EQ(keys.SeenOf(4).step, -1);
    }
  });
}

/// Of a key with a row, and of one that waits for one.
SOK_TEST(GivingAKeyItsFirstStepKeepsItsOtherNumbers) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Filter(1000));
    const Step step(keys.steps);
    keys.Insert(step, {1});
    KeySeen seen;
    int64_t next = 100;
    for (const KeyNumber& number : kKeyNumbers) seen.*number.field = next++;
    seen.step = -1;
    keys.policy.Import(*keys.tested.NewCall(), keys.table.table(), {1, 2}, {seen, seen});
    const auto check = [&](int64_t key, int64_t count, int64_t step_of_key) {
      seen.count = count;
      seen.step = step_of_key;
      const KeySeen kept = keys.SeenOf(key);
      for (const KeyNumber& number : kKeyNumbers) {
        CHECK_EQ(kept.*number.field, seen.*number.field);
      }
    };
    CHECK_EQ(keys.Evict({25, 6}), 0);
    for (const int64_t key : {1, 2}) check(key, 100, 25);
    keys.Train(step, 26, {1, 2}, {3, 4});
    check(1, 103, 26);
    check(2, 104, 26);
    keys.Train(step, 27, {2}, {900});  // gets a row
    check(2, 1004, 27);
  });
}

SOK_TEST(LightRowsGo) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Filter(0));
    const Step step(keys.steps);
    keys.Train(step, 1, {1, 2, 3}, {1, 1, 1});
    keys.table.WriteRow(1, 0.5f);  // half the squared norm: 0.375
    keys.table.WriteRow(2, 1.0f);  // 1.5
    CHECK_EQ(keys.Evict({0, 0, 0.375f}), 0);
    CHECK_EQ(keys.Evict({0, 0, 0.4f}), 1);
    CHECK_TRUE(keys.table.Find({1, 2, 3}) == (Ids{0, kNoRow, 2}));
    CHECK_THROWS(ErrorCode::kFailedPrecondition, (Words{"not made to evict"}),
                 TableWithPolicy(engine, Limit(3)).Evict({}));
  });
}

SOK_TEST(AFullTableChoosesBeforeItInserts) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Limit(3));
    {
      const Step step(keys.steps);
      keys.Insert(step, {5, 6, 7});
      CHECK_THROWS(ErrorCode::kOutOfCapacity, (Words{"holds 3", "1 new", "only 0 keys"}),
                   keys.Insert(step, {8}));
    }
    const Step step(keys.steps);
    CHECK_THROWS(ErrorCode::kOutOfCapacity, (Words{"3 new", "only 2 keys"}),
                 keys.Insert(step, {5, 8, 9, 10}));
    CHECK_TRUE(keys.Arrive(step, Purpose::kUse, {6, 4}).row_ids == (Ids{1, kNoRow}));
    CHECK_TRUE(keys.Arrive(step, Purpose::kFind, {5}).row_ids == (Ids{0}));  // is no use
    const auto made = keys.Arrive(step, Purpose::kMakeRoom, {6, 8});
    CHECK_TRUE(made.evicted.keys == (Ids{5}) && made.evicted.rows == (Ids{0}));
    CHECK_TRUE(made.row_ids == (Ids{1, kNoRow}));
    const auto inserted = keys.Arrive(step, Purpose::kInsert, {6, 8}, Floats(6, 4.0f));
    CHECK_TRUE(inserted.evicted.keys.empty() && inserted.row_ids == (Ids{1, 3}));
    CHECK_TRUE(keys.table.Row(3) == Floats(3, 4.0f));
    CHECK_TRUE(keys.Arrive(step, Purpose::kInsert, {9}).evicted.keys == (Ids{7}));
    CHECK_EQ(keys.num_evicted.load(), 2);
  });
}

/// Who takes evicted rows may have no memory for them.
SOK_TEST(AFullTableEvictsNothingThatIsNotTaken) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Limit(2));
    keys.Insert(Step(keys.steps), {5, 6});
    const Step step(keys.steps);
    for (const Purpose purpose : {Purpose::kMakeRoom, Purpose::kInsert}) {
      Arrival arrival;
      arrival.purpose = purpose;
      arrival.before_eviction = [&](const Evicted& victims) {
        CHECK_TRUE(victims.keys == (Ids{5}) && victims.rows == (Ids{0}));
        CHECK_TRUE(keys.table.Find({5, 6, 7}) == (Ids{0, 1, kNoRow}));
        Throw(ErrorCode::kOutOfMemory, "no memory");
      };
      CHECK_THROWS(ErrorCode::kOutOfMemory, (Words{"no memory"}), keys.Arrive(step, arrival, {7}));
      CHECK_TRUE(keys.table.Find({5, 6, 7}) == (Ids{0, 1, kNoRow}));
    }
    CHECK_EQ(keys.num_evicted.load(), 0);
    CHECK_TRUE(keys.Arrive(step, Purpose::kInsert, {7}).evicted.keys == (Ids{5}));
  });
}

/// Against a list of all keys in the order of their last uses.
SOK_TEST(RandomUsesFollowTheModel) {
  constexpr int64_t kMost = 500;
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Limit(kMost));
    std::map<int64_t, std::pair<int64_t, int64_t>> last_use;  // {key: (when, key)}
    std::mt19937_64 random(7);
    for (int64_t round = 0; round < 60; ++round) {
      const Step step(keys.steps);
      Ids batch(1 + random() % 90);
      for (int64_t& key : batch) key = static_cast<int64_t>(random() % 900);
      const Purpose purpose = round % 4 == 3 ? Purpose::kUse : Purpose::kInsert;
      Ids evicted = keys.Arrive(step, purpose, batch).evicted.keys;
      for (const int64_t key : batch) {
        if (purpose == Purpose::kInsert || last_use.count(key) > 0) last_use[key] = {round, key};
      }
      std::set<std::pair<int64_t, int64_t>> order;
      for (const auto& each : last_use) order.insert(each.second);
      for (; static_cast<int64_t>(order.size()) > kMost; order.erase(order.begin())) {
        CHECK_TRUE(!evicted.empty());
        CHECK_EQ(evicted.front(), order.begin()->second);
        last_use.erase(evicted.front());
        evicted.erase(evicted.begin());
      }
      CHECK_TRUE(evicted.empty());
      CHECK_EQ(keys.table.num_keys(), static_cast<int64_t>(last_use.size()));
    }
    CHECK_TRUE(keys.table.num_rows() <= kMost + 90);
  });
}

SOK_TEST(ThreadsLoseNoCount) {
  static constexpr int64_t kKeys = 50, kRounds = 12, kThreads = 3;
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Filter(8));
    std::vector<std::thread> threads;
    for (int64_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        for (int64_t round = 0; round < kRounds; ++round) {
          const Step step(keys.steps);
          Ids batch;
          for (int64_t key = 0; key < kKeys; ++key) batch.push_back(key);
          keys.Train(step, round, batch, Numbers(kKeys, 1));
          keys.Arrive(step, Purpose::kFind, batch);
          keys.Evict({round, kRounds});  // none
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_EQ(keys.table.num_keys(), kKeys);
    for (int64_t key = 0; key < kKeys; key += 7) {
      CHECK_EQ(keys.SeenOf(key).count, kThreads * kRounds);
    }
  });
}

SOK_TEST(LookupsBesideAnAdmissionSeeNoRowsOfTheirStep) {
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy table(engine, Filter(2));
    for (int64_t round = 0; round < 100; ++round) {
      const Step step(table.steps);
      Ids keys(200);
      std::iota(keys.begin(), keys.end(), round * 1000);
      std::atomic<bool> has_trained{false};
      std::thread trains([&] {
        table.Train(step, round, keys, Numbers(keys.size(), 2));
        has_trained = true;
      });
      int64_t num_seen = 0;
      while (!has_trained) {
        const Ids found = table.Arrive(step, Purpose::kFind, keys).row_ids;
        num_seen += Size(found) - std::count(found.begin(), found.end(), kNoRow);
      }
      trains.join();
      CHECK_EQ(num_seen, 0);
    }
  });
}

SOK_TEST(ThreadsKeepToTheLimit) {
  static constexpr int64_t kMost = 550, kBatch = 10;
  OnAllEngines([](const TestedEngine& engine) {
    TableWithPolicy keys(engine, Limit(kMost));
    Ids earlier;
    for (int64_t i = 0; i < kMost; ++i) earlier.push_back(1000 + i);
    keys.Insert(Step(keys.steps), earlier);
    std::vector<std::thread> threads;  // which use fewer keys, so that there are victims
    for (int64_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937_64 random(static_cast<uint64_t>(thread));
        for (int round = 0; round < 25; ++round) {
          const Step step(keys.steps);
          Ids batch(kBatch);
          for (int64_t& key : batch) key = static_cast<int64_t>(random() % 600);
          const Ids row_ids = keys.Insert(step, batch);
          keys.Arrive(step, Purpose::kUse, batch);
          keys.table.CheckIsFresh(batch[0], row_ids[0]);  // later steps may have evicted the key
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_EQ(keys.table.num_keys(), kMost);
    CHECK_EQ(Size(keys.table.Export().keys), kMost);
  });
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
