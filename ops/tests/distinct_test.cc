// SPDX-License-Identifier: Apache-2.0
// Distinct against a plain map, for both key types.
#include "ops/lookup/distinct.h"

#include <random>
#include <unordered_map>
#include <vector>

#include "ops/tests/check.h"

namespace sok {
namespace {

template <typename Key>
void CheckDistinct(const std::vector<Key>& keys) {
  std::vector<int64_t> expected_keys;
  std::vector<int32_t> expected_inverse;
  std::unordered_map<int64_t, int32_t> number_of;
  for (const Key key : keys) {
    const auto [entry, is_first] = number_of.emplace(key, number_of.size());
    if (is_first) expected_keys.push_back(key);
    expected_inverse.push_back(entry->second);
  }
  const auto threads = MakeThreadExecutor(3);
  for (Executor* executor : {&SerialExecutor(), threads.get()}) {
    // Exactly as long as promised, for the address sanitizer.
    std::vector<int64_t> distinct_keys(keys.size());
    std::vector<int32_t> inverse(keys.size());
    const int64_t num_distinct = Distinct(*executor, static_cast<int64_t>(keys.size()), keys.data(),
                                          distinct_keys.data(), inverse.data());
    distinct_keys.resize(static_cast<size_t>(num_distinct));
    CHECK_TRUE(distinct_keys == expected_keys);
    CHECK_TRUE(inverse == expected_inverse);
  }
}

template <typename Key>
std::vector<Key> RandomKeys(size_t count, uint64_t num_values, int shift) {
  std::mt19937_64 random(count);
  std::vector<Key> keys;
  while (keys.size() < count) keys.push_back(static_cast<Key>((random() % num_values) << shift));
  return keys;
}

SOK_TEST(SmallBatches) {
  CheckDistinct<int64_t>({});
  CheckDistinct<int64_t>({5});
  CheckDistinct<int64_t>({-1, INT64_MIN, 0, -1, INT64_MAX, INT64_MIN, 0, -1});
  CheckDistinct<uint32_t>({UINT32_MAX, 0, 1, UINT32_MAX, 1u << 31, 0});
}

SOK_TEST(LargeBatches) {
  for (const size_t count : {100, 10'000, 300'000}) {
    for (const uint64_t num_values :
         {uint64_t{1}, uint64_t{50}, uint64_t{20'000}, uint64_t{1} << 40}) {
      CheckDistinct(RandomKeys<int64_t>(count, num_values, 0));
      CheckDistinct(RandomKeys<int64_t>(count, num_values, 20));
      CheckDistinct(RandomKeys<uint32_t>(count, num_values, 0));
    }
  }
}

SOK_TEST(UnsignedKeysStayPositive) {
  const uint32_t key = UINT32_MAX;
  int64_t distinct_key = 0;
  int32_t inverse = 7;
  CHECK_EQ(Distinct(SerialExecutor(), 1, &key, &distinct_key, &inverse), 1);
  CHECK_EQ(distinct_key, int64_t{4294967295});
  CHECK_EQ(inverse, 0);
}

SOK_TEST(TooLargeABatch) {
  CHECK_THROWS(ErrorCode::kInvalidArgument, (std::vector<std::string>{"2147483648", "2147483647"}),
               Distinct<int64_t>(SerialExecutor(), kMaxBatchKeys + 1, nullptr, nullptr, nullptr));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
