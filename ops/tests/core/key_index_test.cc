// SPDX-License-Identifier: Apache-2.0
// The hash index against std::unordered_map: any int64, growth, erasing, crowded buckets.
#include "ops/engine/key_index.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "ops/base/hash.h"
#include "ops/engine/table_options.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

using Model = std::unordered_map<int64_t, int64_t>;

int64_t FindOne(const KeyIndex& index, int64_t key) {
  int64_t row_id = -7;
  const int64_t num_missing = index.Find(1, &key, &row_id);
  CHECK_EQ(num_missing, int64_t{row_id == kNoRow});
  return row_id;
}

void InsertOne(KeyIndex& index, int64_t key, int64_t row_id) {
  index.Insert(SerialExecutor(), 1, &key, &row_id);
}

void CheckSame(const KeyIndex& index, const Model& model) {
  CHECK_EQ(index.size(), static_cast<int64_t>(model.size()));
  for (const auto& [key, row_id] : model) CHECK_EQ(FindOne(index, key), row_id);
  size_t num_visited = 0;
  index.ForEachIn(0, index.num_buckets(), [&](int64_t key, uint32_t row_id) {
    CHECK_EQ(model.at(key), int64_t{row_id});
    ++num_visited;
  });
  CHECK_EQ(num_visited, model.size());
}

/// `count` keys whose search starts at the same bucket as that of `like`, in the current index.
std::vector<int64_t> KeysOfOneHome(const KeyIndex& index, int64_t like, size_t count) {
  std::vector<int64_t> keys;
  for (int64_t key = 0; keys.size() < count; ++key) {
    if (index.HomeBucket(key) == index.HomeBucket(like)) keys.push_back(key);
  }
  return keys;
}

SOK_TEST(AnyInt64IsAnOrdinaryKey) {
  KeyIndex index;
  Model model;
  const std::vector<int64_t> keys = {0,
                                     -1,
                                     1,
                                     INT64_MIN,
                                     INT64_MAX,
                                     INT64_MIN + 1,
                                     INT64_MAX - 1,
                                     INT32_MIN,
                                     INT32_MAX,
                                     int64_t{1} << 32,
                                     -(int64_t{1} << 32),
                                     UINT32_MAX};
  for (const int64_t key : keys) CHECK_EQ(FindOne(index, key), kNoRow);
  for (const int64_t key : keys) {
    model[key] = kMaxRows - 1 - static_cast<int64_t>(model.size());
    InsertOne(index, key, model[key]);
    CheckSame(index, model);
  }
  for (const int64_t key : keys) {
    CHECK_EQ(index.Erase(key), model[key]);
    CHECK_EQ(index.Erase(key), kNoRow);
    model.erase(key);
    CheckSame(index, model);
  }
}

/// The key whose hash is `hash` in a process whose secret is 0: MixBits and its offset undone.
int64_t KeyOfPublicHash(uint64_t hash) {
  const auto inverse = [](uint64_t odd) {  // Newton's iteration doubles the right bits
    uint64_t found = odd;
    for (int i = 0; i < 5; ++i) found *= 2 - odd * found;
    return found;
  };
  uint64_t value = hash ^ (hash >> 31) ^ (hash >> 62);
  value *= inverse(0x94d049bb133111ebu);
  value ^= (value >> 27) ^ (value >> 54);
  value *= inverse(0xbf58476d1ce4e5b9u);
  value ^= (value >> 30) ^ (value >> 60);
  return static_cast<int64_t>(value - 0x9e3779b97f4a7c15u);
}

SOK_TEST(NobodyCanChooseKeysOfOneBucket) {
  KeyIndex index;
  std::vector<int64_t> row_ids(100'000), keys(row_ids.size());
  std::iota(row_ids.begin(), row_ids.end(), 0);
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = KeyOfPublicHash(i);
    CHECK_EQ(HashKey(keys[i]), i);  // so that all would share bucket 0
  }
  index.Insert(SerialExecutor(), static_cast<int64_t>(keys.size()), keys.data(), row_ids.data());
  std::unordered_set<int64_t> homes;
  for (const int64_t key : keys) homes.insert(index.HomeBucket(key));
  CHECK_TRUE(static_cast<int64_t>(homes.size()) > index.num_buckets() / 2);
}

void CheckGrowsInPlace(int num_threads) {
  const auto executor = MakeThreadExecutor(num_threads);
  KeyIndex index;
  Model model;
  std::mt19937_64 random(1);
  for (int64_t batch = 1; model.size() < 100'000; batch = batch * 3 / 2 + 1) {
    std::vector<int64_t> keys;
    std::vector<int64_t> row_ids;
    for (int64_t i = 0; i < batch; ++i) {
      const auto key = static_cast<int64_t>(random());
      if (!model.emplace(key, static_cast<int64_t>(model.size())).second) continue;
      keys.push_back(key);
      row_ids.push_back(model[key]);
    }
    index.Insert(*executor, static_cast<int64_t>(keys.size()), keys.data(), row_ids.data());
    CheckSame(index, model);
    CHECK_TRUE(index.num_bytes() <= 24 * index.size() + 8192);
  }
  for (int i = 0; i < 30'000; ++i) {
    const auto key = static_cast<int64_t>(random());
    if (model.count(key) == 0) CHECK_EQ(FindOne(index, key), kNoRow);
  }
}

SOK_TEST(GrowsInPlace) {
  for (const int num_threads : {1, 2, 7}) CheckGrowsInPlace(num_threads);
}

SOK_TEST(CrowdedBuckets) {
  KeyIndex index;
  Model model;
  index.Reserve(SerialExecutor(), 2000);
  std::vector<int64_t> candidates = {0};
  while (index.HomeBucket(candidates[0]) != index.num_buckets() - 1) ++candidates[0];
  candidates.push_back(candidates[0] + 1);
  for (const int64_t like : candidates) {  // the first group wraps around after the last bucket
    for (const int64_t key : KeysOfOneHome(index, like, 100)) {
      model[key] = static_cast<int64_t>(model.size());
      InsertOne(index, key, model[key]);
    }
    CheckSame(index, model);
  }
  for (int64_t key = -1; key > -1000; --key) CHECK_EQ(FindOne(index, key), kNoRow);
  index.Reserve(SerialExecutor(), 20'000);  // groups move in place, too
  CheckSame(index, model);
}

SOK_TEST(CrowdsAtTheEndOfAThreadsPart) {
  const auto executor = MakeThreadExecutor(2);
  KeyIndex index;
  Model model;
  index.Reserve(*executor, 12'000);
  std::vector<int64_t> keys;
  for (const int64_t home : {index.num_buckets() / 2 - 1, index.num_buckets() - 1}) {
    int64_t like = 0;
    while (index.HomeBucket(like) != home) ++like;
    for (const int64_t key : KeysOfOneHome(index, like, 100)) keys.push_back(key);
  }
  for (int64_t key = -1; keys.size() < 10'000; --key) keys.push_back(key);
  std::vector<int64_t> row_ids;
  for (const int64_t key : keys) {
    row_ids.push_back(static_cast<int64_t>(row_ids.size()));
    model[key] = row_ids.back();
  }
  index.Insert(*executor, static_cast<int64_t>(keys.size()), keys.data(), row_ids.data());
  CheckSame(index, model);
  index.Reserve(*executor, 200'000);
  CheckSame(index, model);
}

SOK_TEST(ErasingLeavesTheOthersReachable) {
  KeyIndex index;
  Model model;
  const std::vector<int64_t> crowd = KeysOfOneHome(index, 5, 40);
  for (const int64_t key : crowd) {
    model[key] = key;
    InsertOne(index, key, key);
  }
  for (size_t i = 0; i < crowd.size(); i += 2) {
    CHECK_EQ(index.Erase(crowd[i]), crowd[i]);
    model.erase(crowd[i]);
    CheckSame(index, model);
  }
}

SOK_TEST(SearchEndsWhenEveryBucketWasPassed) {
  // A small index in which keys come and go around the same buckets, always at its maximum load.
  KeyIndex index;
  Model model;
  std::mt19937_64 random(2);
  const auto max_keys = static_cast<size_t>(index.num_buckets() * 5 * 8 / 10 - 5);
  std::vector<int64_t> live;
  for (int step = 0; step < 20'000; ++step) {
    if (model.size() == max_keys) {
      const size_t victim = random() % live.size();
      CHECK_EQ(index.Erase(live[victim]), model[live[victim]]);
      model.erase(live[victim]);
      std::swap(live[victim], live.back());
      live.pop_back();
    }
    const auto key = static_cast<int64_t>(random());
    CHECK_EQ(FindOne(index, key), kNoRow);
    CHECK_EQ(index.Erase(key), kNoRow);
    model[key] = step;
    live.push_back(key);
    InsertOne(index, key, step);
  }
  CHECK_EQ(index.num_buckets(), 64);
  CheckSame(index, model);
}

SOK_TEST(RandomChangesMatchTheModel) {
  KeyIndex index;
  Model model;
  std::mt19937_64 random(3);
  for (int step = 0; step < 200'000; ++step) {
    const auto key = static_cast<int64_t>(random() % 20'000) - 10'000;
    const auto found = model.find(key);
    CHECK_EQ(FindOne(index, key), found == model.end() ? kNoRow : found->second);
    if (found == model.end()) {
      InsertOne(index, key, step);
      model[key] = step;
    } else if (random() % 2 == 0) {
      CHECK_EQ(index.Erase(key), found->second);
      model.erase(found);
    }
  }
  CheckSame(index, model);
  index.Clear();
  CheckSame(index, {});
}

/// Keys of full buckets at the ends of partitions (and thus of threads' parts) and of the index,
/// and others; each comes once, or twice.
void CheckAppends(int num_threads, bool repeats) {
  constexpr int64_t kPartition = 1 << 14;
  const auto executor = MakeThreadExecutor(num_threads);
  KeyIndex index;
  Model model;
  index.Reserve(*executor, 4 * 3 * kPartition);
  std::vector<int64_t> keys;
  for (const int64_t end : {kPartition, 2 * kPartition, index.num_buckets()}) {
    int64_t like = 0;
    while (index.HomeBucket(like) != end - 1) ++like;
    for (const int64_t key : KeysOfOneHome(index, like, 40)) keys.push_back(key);
  }
  for (int64_t key = -1; keys.size() < 40'000; --key) keys.push_back(key);
  const auto count = static_cast<int64_t>(keys.size());
  if (repeats) keys.insert(keys.end(), keys.begin(), keys.begin() + count);
  const int64_t num_repeated =
      index.Append(*executor, static_cast<int64_t>(keys.size()), keys.data(), 5);
  CHECK_EQ(num_repeated, repeats ? count : 0);
  CHECK_EQ(index.size(), count);
  CHECK_EQ(index.Append(*executor, count, keys.data(), 100'000), count);
  if (repeats) return;
  for (const int64_t key : keys) model[key] = 5 + static_cast<int64_t>(model.size());
  CheckSame(index, model);
}

SOK_TEST(AppendsAndCountsRepeats) {
  for (const int num_threads : {1, 2, 3}) {
    for (const bool repeats : {false, true}) CheckAppends(num_threads, repeats);
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
