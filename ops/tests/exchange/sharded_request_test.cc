// SPDX-License-Identifier: Apache-2.0
// ShardedRequest between ranks: every bag gets its rows, in the fewest bytes.
#include "ops/exchange/payload/sharded_request.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/base/first_appearance.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

using Keys = std::vector<int64_t>;

/// A key, and the factor of its row.
using Term = std::pair<int64_t, float>;
using Terms = std::vector<Term>;

/// One rank's batch. `bags` points into its vectors: it may move, but a copy needs the original.
struct Batch {
  Batch(const std::vector<Keys>& bags_of_keys, Combiner combiner, bool has_weights = false) {
    row_splits.push_back(0);
    for (const Keys& bag : bags_of_keys) {
      keys.insert(keys.end(), bag.begin(), bag.end());
      row_splits.push_back(static_cast<int64_t>(keys.size()));
    }
    distinct_keys.resize(keys.size());
    inverse.resize(keys.size());
    const auto num_keys = static_cast<int64_t>(keys.size());
    bags.num_keys = num_keys;
    bags.num_distinct =
        NumberByFirstAppearance(num_keys, keys.data(), distinct_keys.data(), inverse.data());
    bags.inverse = inverse.data();
    bags.num_bags =
        combiner == Combiner::kNone ? num_keys : static_cast<int64_t>(bags_of_keys.size());
    bags.row_splits = row_splits.data();
    bags.combiner = combiner;
    if (!has_weights) return;
    for (size_t i = 0; i < keys.size(); ++i) weights.push_back(0.5f + static_cast<float>(i % 7));
    bags.weights = weights.data();
  }

  bool by_bag() const { return bags.combiner != Combiner::kNone; }

  Terms TermsOfBag(int64_t bag) const {
    Terms terms;
    const int64_t end = by_bag() ? row_splits[bag + 1] : bag + 1;
    for (int64_t i = by_bag() ? row_splits[bag] : bag; i < end; ++i) {
      terms.emplace_back(keys[i], weights.empty() ? 1.0f : weights[i]);
    }
    return terms;
  }

  Keys keys;
  std::vector<int64_t> row_splits;
  Keys distinct_keys;
  std::vector<int32_t> inverse;
  std::vector<float> weights;
  Bags bags;
};

ShardedRequestOptions Options(int64_t num_ranks, size_t key_bytes, int64_t dim, int64_t num_trips) {
  ShardedRequestOptions options{{}, key_bytes, num_trips * dim * 4, num_trips * dim * 4};
  options.placement.num_ranks = num_ranks;
  return options;
}

ShardedRequest RequestOf(const ShardedRequestOptions& options, const Batch& batch) {
  return MakeRequest(options, batch.bags, batch.distinct_keys.data());
}

std::string MessageTo(size_t owner, const std::vector<ShardedRequest>& group) {
  const Outgoing outgoing = JoinRequests(group);
  std::string message;
  for (const std::string_view piece : outgoing.by_rank[owner]) message += piece;
  return message;
}

/// Requests of all ranks to one, for each lookup of their groups.
std::vector<RequestedSums> RequestedOf(const ShardedRequestOptions& options, size_t owner,
                                       const std::vector<std::vector<ShardedRequest>>& groups) {
  std::vector<std::string> joined;
  for (const std::vector<ShardedRequest>& group : groups) joined.push_back(MessageTo(owner, group));
  const std::vector<std::string_view> messages(joined.begin(), joined.end());
  std::vector<RequestedSums> requested;
  for (const auto& parts : SplitRequests(groups[0].size(), messages)) {
    requested.push_back(ReadRequests(options.key_bytes, parts));
    CHECK_EQ(std::set<int64_t>(requested.back().keys.begin(), requested.back().keys.end()).size(),
             requested.back().keys.size());
    for (const int64_t key : requested.back().keys) {
      CHECK_EQ(options.placement.Owner(key), static_cast<int64_t>(owner));
    }
  }
  return requested;
}

/// The terms of all sums that one rank requests from an owner.
std::vector<Terms> SumsFor(const RequestedSums& requested, size_t requester) {
  int64_t sum = 0;
  for (size_t rank = 0; rank < requester; ++rank) sum += requested.counts[rank];
  std::vector<Terms> sums;
  for (const int64_t end = sum + requested.counts[requester]; sum < end; ++sum) {
    Terms& terms = sums.emplace_back();
    const bool are_alone = requested.row_splits.empty();
    const int64_t last = are_alone ? sum + 1 : requested.row_splits[sum + 1];
    for (int64_t i = are_alone ? sum : requested.row_splits[sum]; i < last; ++i) {
      terms.emplace_back(requested.keys[requested.key_places[i]],
                         requested.weights.empty() ? 1.0f : requested.weights[i]);
    }
  }
  return sums;
}

void CheckBag(const Batch& batch, int64_t bag, const ShardedRequest& requests,
              const std::vector<Terms>& replies) {
  Terms terms;
  const int64_t end = batch.by_bag() ? requests.reply_splits[bag + 1] : bag + 1;
  for (int64_t i = batch.by_bag() ? requests.reply_splits[bag] : bag; i < end; ++i) {
    const float weight = requests.reply_weights.empty() ? 1.0f : requests.reply_weights[i];
    for (const Term& term : replies[requests.replies[i]]) {
      terms.emplace_back(term.first, term.second * weight);
    }
  }
  Terms expected = batch.TermsOfBag(bag);
  std::sort(terms.begin(), terms.end());
  std::sort(expected.begin(), expected.end());
  CHECK_TRUE(terms == expected);
  if (batch.bags.combiner != Combiner::kMean) {
    CHECK_TRUE(requests.factors.empty());
    return;
  }
  float weight_sum = 0.0f;
  for (const Term& term : batch.TermsOfBag(bag)) weight_sum += term.second;
  CHECK_TRUE(requests.factors[bag] ==
             (batch.weights.empty() && weight_sum == 0.0f ? 1.0f : MeanFactor(weight_sum)));
}

/// groups[rank]: the lookups that each rank makes at once, of one table each.
void CheckEveryBagGetsItsKeys(const ShardedRequestOptions& options,
                              const std::vector<std::vector<Batch>>& groups) {
  std::vector<std::vector<ShardedRequest>> of_ranks;
  for (const std::vector<Batch>& group : groups) {
    of_ranks.emplace_back();
    for (const Batch& batch : group) of_ranks.back().push_back(RequestOf(options, batch));
  }
  std::vector<std::vector<RequestedSums>> requested;
  for (size_t owner = 0; owner < groups.size(); ++owner) {
    requested.push_back(RequestedOf(options, owner, of_ranks));
  }
  for (size_t rank = 0; rank < groups.size(); ++rank) {
    for (size_t i = 0; i < groups[rank].size(); ++i) {
      const Batch& batch = groups[rank][i];
      const ShardedRequest& requests = of_ranks[rank][i];
      std::vector<Terms> replies;
      for (size_t owner = 0; owner < groups.size(); ++owner) {
        CHECK_EQ(requested[owner][i].counts[rank], requests.reply_counts[owner]);
        CHECK_EQ(requested[owner][i].sum_counts[rank], requests.sum_counts[owner]);
        for (const Terms& sum : SumsFor(requested[owner][i], rank)) replies.push_back(sum);
      }
      CHECK_EQ(requests.reply_splits.size(),
               batch.by_bag() ? static_cast<size_t>(batch.bags.num_bags) + 1 : 0);
      for (int64_t bag = 0; bag < batch.bags.num_bags; ++bag) {
        CheckBag(batch, bag, requests, replies);
      }
    }
  }
}

/// The cost of a request and its replies in the cheaper form, computed independently.
int64_t LeastBytes(const ShardedRequestOptions& options, const Batch& batch, int64_t owner) {
  std::set<int64_t> distinct;
  int64_t sums = 0, occurrences = 0, longest = 0;
  for (int64_t bag = 0; bag < batch.bags.num_bags; ++bag) {
    int64_t size = 0;
    for (const Term& term : batch.TermsOfBag(bag)) {
      if (options.placement.Owner(term.first) != owner) continue;
      distinct.insert(term.first);
      ++size;
    }
    sums += size > 0;
    occurrences += size;
    longest = std::max(longest, size);
  }
  if (distinct.empty()) return 0;
  const auto keys = static_cast<int64_t>(distinct.size());
  const int64_t place_bytes = keys > 65536 || longest > 65535 ? 4 : 2;
  const int64_t weight_bytes = batch.weights.empty() ? 0 : 4;
  const int64_t as_rows = options.row_bytes * keys;
  const int64_t as_sums =
      options.sum_bytes * sums + place_bytes * (sums + occurrences) + weight_bytes * occurrences;
  return 12 + keys * static_cast<int64_t>(options.key_bytes) +
         (batch.by_bag() ? std::min(as_rows, as_sums) : as_rows);
}

void CheckBytes(const ShardedRequestOptions& options, const Batch& batch) {
  const ShardedRequest requests = RequestOf(options, batch);
  for (size_t owner = 0; owner < requests.send_bytes.size(); ++owner) {
    const int64_t sums = requests.sum_counts[owner];
    CHECK_EQ(sums == 0 || sums == requests.reply_counts[owner], true);
    const int64_t bytes =
        requests.send_bytes[owner] +
        requests.reply_counts[owner] * (sums > 0 ? options.sum_bytes : options.row_bytes);
    CHECK_EQ(bytes, LeastBytes(options, batch, static_cast<int64_t>(owner)));
  }
}

struct RandomBags {
  int64_t num_bags;
  uint64_t longest;       // keys per bag
  uint64_t num_distinct;  // distinct keys
  bool one_owner = false;
};

std::vector<Keys> Draw(const RandomBags& shape, int64_t num_ranks, std::mt19937_64* random) {
  std::vector<Keys> bags(static_cast<size_t>(shape.num_bags));
  for (Keys& bag : bags) {
    bag.resize((*random)() % (shape.longest + 1));
    for (int64_t& key : bag) {
      key = static_cast<int64_t>((*random)() % shape.num_distinct) -
            static_cast<int64_t>(shape.num_distinct / 2);
      if (shape.one_owner) key *= num_ranks;
    }
  }
  return bags;
}

SOK_TEST(RandomGroups) {
  std::mt19937_64 random(1);
  const std::vector<RandomBags> shapes = {{40, 1, 1000}, {40, 30, 100000}, {40, 30, 20},
                                          {0, 1, 1},     {1, 500, 50},     {30, 9, 99, true}};
  for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean}) {
    for (int64_t num_ranks = 1; num_ranks <= 4; ++num_ranks) {
      for (const int64_t dim : {1, 4, 64}) {
        ShardedRequestOptions options = Options(num_ranks, 8, dim, 1 + dim % 2);
        if (dim == 64) options.row_bytes = options.row_bytes * 3 / 4;  // of two bytes a number
        for (size_t i = 0; i < shapes.size(); ++i) {
          std::vector<std::vector<Batch>> groups;  // of different sizes, one empty
          for (int64_t rank = 0; rank < num_ranks; ++rank) {
            groups.emplace_back();
            for (size_t member = 0; member <= i % 3; ++member) {
              RandomBags own = shapes[(i + member) % shapes.size()];
              own.num_bags = rank == 1 ? 0 : own.num_bags / (rank + 1);
              const bool has_weights = combiner != Combiner::kNone && (i + member) % 2 == 0;
              groups.back().emplace_back(Draw(own, num_ranks, &random), combiner, has_weights);
              CheckBytes(options, groups.back().back());
            }
          }
          CheckEveryBagGetsItsKeys(options, groups);
        }
      }
    }
  }
}

SOK_TEST(OtherPlacements) {
  const Batch batch({{0, 7, 7, 3}, {9, 1, 0}, {}, {5}}, Combiner::kMean, /*has_weights=*/true);
  for (const auto kind : {Placement::Kind::kOneRank, Placement::Kind::kRange}) {
    ShardedRequestOptions options = Options(3, 8, 16, 2);
    options.placement.kind = kind;
    options.placement.owner_rank = 2;
    options.placement.num_keys = 10;
    CheckBytes(options, batch);
    CheckEveryBagGetsItsKeys(options, {{batch, batch}, {batch, batch}, {batch, batch}});
  }
}

SOK_TEST(Uint32KeysTravelAsFourBytes) {
  const Batch batch({{4294967295, 0}, {4294967294}}, Combiner::kSum);
  const ShardedRequestOptions options = Options(2, 4, 8, 2);
  CheckEveryBagGetsItsKeys(options, {{batch}, {batch}});
  CheckBytes(options, batch);
}

/// Hot keys in many bags are cheaper as rows, keys of one bag as a sum: each owner gets the cheaper
/// form.
SOK_TEST(OwnersAreRequestedApart) {
  std::vector<Keys> bags(8, Keys{0, 2, 4});
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) bags[static_cast<size_t>(i)].push_back(16 * i + 2 * j + 1);
  }
  for (const bool has_weights : {false, true}) {
    const Batch batch(bags, Combiner::kMean, has_weights);
    const ShardedRequest requests = RequestOf(Options(2, 8, 16, 2), batch);
    CHECK_EQ(requests.reply_counts[0], 3);  // the rows of 0, 2 and 4
    CHECK_EQ(requests.reply_counts[1], 8);  // one sum for each bag
    CheckEveryBagGetsItsKeys(Options(2, 8, 16, 2), {{batch}, {batch}});
  }
}

/// A rank that requests rows sends no weights; another that requests sums does.
SOK_TEST(WeightsOfSomeRanks) {
  const Batch rows({{1}, {1}, {1}}, Combiner::kSum, /*has_weights=*/true);
  const Batch sums({{1, 3, 5, 7, 9}}, Combiner::kSum, /*has_weights=*/true);
  for (const auto& order : {std::vector<const Batch*>{&rows, &sums}, {&sums, &rows}}) {
    CheckEveryBagGetsItsKeys(Options(2, 8, 16, 2), {{*order[0]}, {*order[1]}});
  }
}

/// More rows in a sum, or more keys, than two bytes can express.
SOK_TEST(LongSums) {
  Keys repeated(70000, 7);
  repeated.push_back(9);
  Keys many(70000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i) * 5 + 3;
  for (const Keys& keys : {repeated, many}) {
    const Batch batch({keys, {3}}, Combiner::kSum);
    for (const size_t num_ranks : {1, 2}) {
      const ShardedRequestOptions options = Options(static_cast<int64_t>(num_ranks), 8, 4096, 2);
      CheckBytes(options, batch);
      CheckEveryBagGetsItsKeys(
          options, std::vector<std::vector<Batch>>(num_ranks, std::vector<Batch>(1, batch)));
    }
  }
}

SOK_TEST(BytesThatAreNoRequest) {
  const Batch batch({{1, 2, 3, 1}, {4, 5, 6}}, Combiner::kSum, /*has_weights=*/true);
  const ShardedRequest requests = RequestOf(Options(1, 8, 64, 2), batch);
  CHECK_EQ(requests.reply_counts[0], 2);
  const auto read = [](const std::vector<char>& data, size_t size) {
    return ReadRequests(8, {std::string_view(data.data(), size)});
  };
  for (size_t size = 1; size < requests.data.size(); ++size) {
    CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"request"}, read(requests.data, size));
  }
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    std::vector<char> changed = requests.data;
    changed[random() % changed.size()] = static_cast<char>(random());
    try {
      const RequestedSums requested = read(changed, changed.size());
      for (const int32_t place : requested.key_places) {
        CHECK_TRUE(place >= 0 && static_cast<size_t>(place) < requested.keys.size());
      }
      CHECK_TRUE(requested.weights.empty() ||
                 requested.weights.size() == requested.key_places.size());
    } catch (const Error& error) {
      CHECK_TRUE(error.code() == ErrorCode::kIo);
    }
  }
}

SOK_TEST(MessagesThatAreNoGroup) {
  const Batch batch({{1, 2}}, Combiner::kSum);
  std::vector<ShardedRequest> group(2, RequestOf(Options(1, 8, 4, 2), batch));
  const std::string joined = MessageTo(0, group);
  const std::string_view message(joined);
  for (size_t size = 0; size < message.size(); ++size) {
    CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"request"},
                 SplitRequests(2, {message.substr(0, size)}));
  }
  CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"request"}, SplitRequests(3, {message}));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
