// SPDX-License-Identifier: Apache-2.0
// Questions between ranks: every bag gets its keys, in the fewest bytes.
#include "ops/lookup/questions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/base/executor.h"
#include "ops/lookup/distinct.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

using Keys = std::vector<int64_t>;

/// One rank's batch. `bags` points into its vectors: it may move, but a copy needs the original.
struct Batch {
  Batch(const std::vector<Keys>& bags_of_keys, Combiner combiner) {
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
        Distinct(SerialExecutor(), num_keys, keys.data(), distinct_keys.data(), inverse.data());
    bags.inverse = inverse.data();
    bags.num_bags =
        combiner == Combiner::kNone ? num_keys : static_cast<int64_t>(bags_of_keys.size());
    bags.row_splits = row_splits.data();
    bags.combiner = combiner;
  }

  Keys KeysOfBag(int64_t bag) const {
    const int64_t begin = bags.combiner == Combiner::kNone ? bag : row_splits[bag];
    const int64_t end = bags.combiner == Combiner::kNone ? bag + 1 : row_splits[bag + 1];
    return Keys(keys.begin() + begin, keys.begin() + end);
  }

  Keys keys;
  std::vector<int64_t> row_splits;
  Keys distinct_keys;
  std::vector<int32_t> inverse;
  Bags bags;
};

int64_t Owner(int64_t key, int64_t num_ranks) {
  return ((key % num_ranks) + num_ranks) % num_ranks;
}

/// What `data` holds for one rank.
std::vector<char> PartFor(const Questions& questions, size_t rank) {
  int64_t begin = 0;
  for (size_t i = 0; i < rank; ++i) begin += questions.send_bytes[i];
  return {questions.data.begin() + begin,
          questions.data.begin() + begin + questions.send_bytes[rank]};
}

/// The keys that all owners' answers to rank `asker` stand for, in the order of answers.
std::vector<Keys> Answers(const QuestionOptions& options, const std::vector<Questions>& of_ranks,
                          size_t asker) {
  std::vector<Keys> answers;
  for (size_t owner = 0; owner < of_ranks.size(); ++owner) {
    std::vector<char> data;
    std::vector<int64_t> received_bytes;
    for (const Questions& questions : of_ranks) {
      const std::vector<char> part = PartFor(questions, owner);
      data.insert(data.end(), part.begin(), part.end());
      received_bytes.push_back(static_cast<int64_t>(part.size()));
    }
    const AskedSums asked = ReadQuestions(options.key_bytes, data.data(), received_bytes);
    for (const int64_t key : asked.keys)
      CHECK_EQ(Owner(key, options.num_ranks), static_cast<int64_t>(owner));
    CHECK_EQ(asked.counts[asker], of_ranks[asker].answer_counts[owner]);
    int64_t sum = 0;
    for (size_t rank = 0; rank < asker; ++rank) sum += asked.counts[rank];
    for (const int64_t end = sum + asked.counts[asker]; sum < end; ++sum) {
      Keys keys;
      for (int64_t i = asked.row_splits[sum]; i < asked.row_splits[sum + 1]; ++i)
        keys.push_back(asked.keys[asked.key_places[i]]);
      answers.push_back(keys);
    }
  }
  return answers;
}

void CheckEveryBagGetsItsKeys(const QuestionOptions& options, const std::vector<Batch>& batches) {
  std::vector<Questions> of_ranks;
  for (const Batch& batch : batches)
    of_ranks.push_back(AskOwners(options, batch.bags, batch.distinct_keys.data()));
  for (size_t rank = 0; rank < batches.size(); ++rank) {
    const Bags& bags = batches[rank].bags;
    const std::vector<Keys> answers = Answers(options, of_ranks, rank);
    const bool by_bag = bags.combiner != Combiner::kNone;
    CHECK_EQ(of_ranks[rank].answer_splits.size(),
             by_bag ? static_cast<size_t>(bags.num_bags) + 1 : 0);
    for (int64_t bag = 0; bag < bags.num_bags; ++bag) {
      Keys keys;
      const int64_t begin = by_bag ? of_ranks[rank].answer_splits[bag] : bag;
      const int64_t end = by_bag ? of_ranks[rank].answer_splits[bag + 1] : bag + 1;
      for (int64_t i = begin; i < end; ++i) {
        const Keys& answer = answers[of_ranks[rank].answers[i]];
        keys.insert(keys.end(), answer.begin(), answer.end());
      }
      Keys expected = batches[rank].KeysOfBag(bag);
      std::sort(keys.begin(), keys.end());
      std::sort(expected.begin(), expected.end());
      CHECK_TRUE(keys == expected);
    }
  }
}

/// What a question and its answers cost, asked in the cheaper way, from scratch.
int64_t LeastBytes(const QuestionOptions& options, const Batch& batch, int64_t owner) {
  std::set<int64_t> distinct;
  int64_t sums = 0, occurrences = 0, longest = 0;
  for (int64_t bag = 0; bag < batch.bags.num_bags; ++bag) {
    int64_t size = 0;
    for (const int64_t key : batch.KeysOfBag(bag)) {
      if (Owner(key, options.num_ranks) != owner) continue;
      distinct.insert(key);
      ++size;
    }
    sums += size > 0;
    occurrences += size;
    longest = std::max(longest, size);
  }
  if (distinct.empty()) return 0;
  const auto keys = static_cast<int64_t>(distinct.size());
  const int64_t answer_bytes = options.num_trips * options.dim * 4;
  const int64_t place_bytes = keys > 65536 || longest > 65535 ? 4 : 2;
  const int64_t as_rows = answer_bytes * keys;
  const int64_t as_sums = answer_bytes * sums + place_bytes * (sums + occurrences);
  return 12 + keys * static_cast<int64_t>(options.key_bytes) +
         (batch.bags.combiner == Combiner::kNone ? as_rows : std::min(as_rows, as_sums));
}

void CheckBytes(const QuestionOptions& options, const Batch& batch) {
  const Questions questions = AskOwners(options, batch.bags, batch.distinct_keys.data());
  for (size_t owner = 0; owner < questions.send_bytes.size(); ++owner) {
    const int64_t bytes = questions.send_bytes[owner] +
                          questions.answer_counts[owner] * options.num_trips * options.dim * 4;
    CHECK_EQ(bytes, LeastBytes(options, batch, static_cast<int64_t>(owner)));
  }
}

struct RandomBags {
  int64_t num_bags;
  uint64_t longest;       // keys of a bag
  uint64_t num_distinct;  // keys there are
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

SOK_TEST(RandomBatches) {
  std::mt19937_64 random(1);
  const std::vector<RandomBags> shapes = {{40, 1, 1000}, {40, 30, 100000}, {40, 30, 20},
                                          {0, 1, 1},     {1, 500, 50},     {30, 9, 99, true}};
  for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean}) {
    for (int64_t num_ranks = 1; num_ranks <= 4; ++num_ranks) {
      for (const int64_t dim : {1, 4, 64}) {
        const QuestionOptions options{num_ranks, 8, dim, 1 + dim % 2};
        for (const RandomBags& shape : shapes) {
          std::vector<Batch> batches;  // of different sizes, one of them empty
          for (int64_t rank = 0; rank < num_ranks; ++rank) {
            RandomBags own = shape;
            own.num_bags = rank == 1 ? 0 : shape.num_bags / (rank + 1);
            batches.emplace_back(Draw(own, num_ranks, &random), combiner);
            CheckBytes(options, batches.back());
          }
          CheckEveryBagGetsItsKeys(options, batches);
        }
      }
    }
  }
}

SOK_TEST(Uint32KeysTravelAsFourBytes) {
  const Batch batch({{4294967295, 0}, {4294967294}}, Combiner::kSum);
  const QuestionOptions options{2, 4, 8, 2};
  CheckEveryBagGetsItsKeys(options, {batch, batch});
  CheckBytes(options, batch);
}

/// Hot keys in many bags are cheaper as rows, keys of one bag as a sum: each owner gets what is
/// cheaper for its keys.
SOK_TEST(OwnersAreAskedApart) {
  std::vector<Keys> bags(8, Keys{0, 2, 4});
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) bags[static_cast<size_t>(i)].push_back(16 * i + 2 * j + 1);
  }
  const Batch batch(bags, Combiner::kMean);
  const Questions questions = AskOwners({2, 8, 16, 2}, batch.bags, batch.distinct_keys.data());
  CHECK_EQ(questions.answer_counts[0], 3);  // the rows of 0, 2 and 4
  CHECK_EQ(questions.answer_counts[1], 8);  // one sum for each bag
  CheckEveryBagGetsItsKeys({2, 8, 16, 2}, {batch, batch});
}

/// More rows in a sum, or more keys, than two bytes can say.
SOK_TEST(LongSums) {
  Keys repeated(70000, 7);
  repeated.push_back(9);
  Keys many(70000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i) * 5 + 3;
  for (const Keys& keys : {repeated, many}) {
    const Batch batch({keys, {3}}, Combiner::kSum);
    for (const int64_t num_ranks : {1, 2}) {
      const QuestionOptions options{num_ranks, 8, 4096, 2};
      CheckBytes(options, batch);
      CheckEveryBagGetsItsKeys(options, std::vector<Batch>(static_cast<size_t>(num_ranks), batch));
    }
  }
}

SOK_TEST(BytesThatAreNoQuestion) {
  const Batch batch({{1, 2, 3, 1}, {4, 5, 6}}, Combiner::kSum);
  const Questions questions = AskOwners({1, 8, 64, 2}, batch.bags, batch.distinct_keys.data());
  CHECK_EQ(questions.answer_counts[0], 2);
  for (size_t size = 1; size < questions.data.size(); ++size) {
    CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"question"},
                 ReadQuestions(8, questions.data.data(), {static_cast<int64_t>(size)}));
  }
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    std::vector<char> changed = questions.data;
    changed[random() % changed.size()] = static_cast<char>(random());
    try {
      const AskedSums asked =
          ReadQuestions(8, changed.data(), {static_cast<int64_t>(changed.size())});
      for (const int32_t place : asked.key_places) {
        CHECK_TRUE(place >= 0 && static_cast<size_t>(place) < asked.keys.size());
      }
    } catch (const Error& error) {
      CHECK_TRUE(error.code() == ErrorCode::kIo);
    }
  }
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
