// SPDX-License-Identifier: Apache-2.0
// Messages that are larger than an all-to-all may be go in several, and arrive whole.
#include "ops/exchange/message_parts.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "ops/tests/check.h"

namespace sok {
namespace {

constexpr size_t kRanks = 3;
using Sizes = std::vector<int64_t>;

/// Bytes that tell all messages apart, behind the length of the longest one of the sender.
std::vector<char> MessageOf(size_t source, size_t target, int64_t body_bytes, int64_t longest) {
  std::vector<char> message(sizeof(longest));
  std::memcpy(message.data(), &longest, sizeof(longest));
  std::mt19937 random(static_cast<unsigned>(100 * source + target));
  for (int64_t i = 0; i < body_bytes; ++i) message.push_back(static_cast<char>(random()));
  return message;
}

struct Rank {
  std::vector<std::vector<char>> messages;  // by target
  MessageParts parts;
};

Rank MakeRank(size_t source, const Sizes& sizes, int64_t most_bytes) {
  const int64_t longest = 8 + *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::vector<char>> messages;
  Proposal proposal;
  for (size_t target = 0; target < kRanks; ++target) {
    messages.push_back(MessageOf(source, target, sizes[(source + target) % kRanks], longest));
    const std::vector<char>& message = messages.back();
    proposal.data.insert(proposal.data.end(), message.begin(), message.end());
    proposal.send_bytes.push_back(static_cast<int64_t>(message.size()));
  }
  return {std::move(messages), MessageParts(std::move(proposal), most_bytes)};
}

/// One all-to-all; whether all ranks have all they get, on which they must agree.
bool Exchange(std::vector<Rank>& ranks, std::vector<std::vector<char>>& received,
              int64_t most_bytes) {
  std::vector<Sizes> received_bytes(kRanks);
  received.assign(kRanks, {});
  for (const Rank& rank : ranks) {
    const Sizes& sizes = rank.parts.send_bytes();
    CHECK_TRUE(rank.parts.num_bytes() <= most_bytes);
    const char* part = rank.parts.data();
    for (size_t target = 0; target < kRanks; ++target) {
      received[target].insert(received[target].end(), part, part + sizes[target]);
      received_bytes[target].push_back(sizes[target]);
      part += sizes[target];
    }
  }
  size_t num_complete = 0;
  for (size_t i = 0; i < kRanks; ++i) {
    num_complete += ranks[i].parts.Take(received[i].data(), received_bytes[i]);
  }
  CHECK_TRUE(num_complete == 0 || num_complete == kRanks);
  return num_complete > 0;
}

void CheckArrived(const std::vector<Rank>& ranks) {
  for (size_t target = 0; target < kRanks; ++target) {
    const MessageParts& parts = ranks[target].parts;
    const char* data = parts.received();
    for (size_t source = 0; source < kRanks; ++source) {
      const std::vector<char>& expected = ranks[source].messages[target];
      CHECK_EQ(parts.received_bytes()[source], static_cast<int64_t>(expected.size()));
      CHECK_TRUE(std::memcmp(data, expected.data(), expected.size()) == 0);
      data += expected.size();
    }
  }
}

SOK_TEST(AllArriveWhole) {
  for (const int64_t most_bytes : {30, 60, 1000, 1000000}) {
    for (const Sizes& sizes : {Sizes{0, 0, 0}, {5, 0, 100}, {1000, 1, 333}, {8, 9, 10}}) {
      std::vector<Rank> ranks;
      for (size_t i = 0; i < kRanks; ++i) ranks.push_back(MakeRank(i, sizes, most_bytes));
      int64_t num_parts = 1;
      std::vector<std::vector<char>> received;
      while (!Exchange(ranks, received, most_bytes)) ++num_parts;
      CheckArrived(ranks);
      const int64_t longest = 8 + *std::max_element(sizes.begin(), sizes.end());
      CHECK_EQ(num_parts, (longest - 1) / (most_bytes / static_cast<int64_t>(kRanks)) + 1);
    }
  }
}

SOK_TEST(CutOff) {
  Rank rank = MakeRank(0, {1, 2, 3}, 1000);
  const char data[24] = {};
  CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"cut off"},
               rank.parts.Take(data, {8, 7, 8}));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
