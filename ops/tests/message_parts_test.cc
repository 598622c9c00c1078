// SPDX-License-Identifier: Apache-2.0
// Messages that are larger than an all-to-all may be go in several, and arrive whole.
#include "ops/exchange/message_parts.h"

#include <algorithm>
#include <random>
#include <utility>

#include "ops/tests/check.h"

namespace sok {
namespace {

constexpr size_t kRanks = 3;
constexpr int kNoRank = -1;  // whose own bytes stay
using Sizes = std::vector<int64_t>;

/// Bytes that tell all messages apart.
std::vector<char> BodyOf(size_t source, size_t target, int64_t size_bytes) {
  std::vector<char> body;
  std::mt19937 random(static_cast<unsigned>(100 * source + target));
  for (int64_t i = 0; i < size_bytes; ++i) body.push_back(static_cast<char>(random()));
  return body;
}

Message MessageOf(size_t source) {
  Message message;
  message.offers.push_back({{NameHash("layer"), 0}, NameHash("keys"), 0});
  message.waits_for = std::string(source * 17, 'w');  // headers of several lengths
  return message;
}

struct Rank {
  std::vector<std::vector<char>> bodies;  // by target
  MessageParts parts;
};

Rank MakeRank(size_t source, const Sizes& sizes, int64_t most_bytes) {
  std::vector<std::vector<char>> bodies;
  Sizes send_bytes;
  for (size_t target = 0; target < kRanks; ++target) {
    send_bytes.push_back(sizes[(source + target) % kRanks]);
    bodies.push_back(BodyOf(source, target, send_bytes.back()));
  }
  Outgoing outgoing{{}, send_bytes, nullptr};
  for (const std::vector<char>& body : bodies) {
    const size_t half = body.size() / 2;
    if (half > 0) outgoing.pieces.emplace_back(body.data(), half);
    if (half < body.size()) outgoing.pieces.emplace_back(body.data() + half, body.size() - half);
  }
  Proposal proposal = MakeProposal(MessageOf(source), {}, {&outgoing}, kRanks, kNoRank,
                                   most_bytes / int64_t{kRanks});
  proposal.Join();
  return {std::move(bodies), MessageParts(std::move(proposal))};
}

std::string Joined(const Pieces& pieces) {
  std::string joined;
  for (const std::string_view piece : pieces) joined += piece;
  return joined;
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
      CHECK_EQ(Joined(rank.parts.pieces()[target]),
               std::string(part, static_cast<size_t>(sizes[target])));
      received[target].insert(received[target].end(), part, part + sizes[target]);
      received_bytes[target].push_back(sizes[target]);
      part += sizes[target];
    }
  }
  size_t num_complete = 0;
  for (size_t i = 0; i < kRanks; ++i) {
    num_complete += ranks[i].parts.Take(SplitBySource(received[i].data(), received_bytes[i]));
  }
  CHECK_TRUE(num_complete == 0 || num_complete == kRanks);
  return num_complete > 0;
}

void CheckArrived(const std::vector<Rank>& ranks) {
  for (size_t target = 0; target < kRanks; ++target) {
    const Round round = ReadRound(ranks[target].parts.received(), {}, {});
    CHECK_EQ(round.arrivals.size(), 1u);
    for (size_t source = 0; source < kRanks; ++source) {
      const std::vector<char>& body = ranks[source].bodies[target];
      CHECK_EQ(round.messages[source].waits_for, MessageOf(source).waits_for);
      CHECK_TRUE(round.arrivals.begin()->second.parts[source].bytes ==
                 std::string_view(body.data(), body.size()));
    }
  }
}

SOK_TEST(AllArriveWhole) {
  for (const int64_t most_bytes : {72, 90, 1000, 1000000}) {
    for (const Sizes& sizes : {Sizes{0, 0, 0}, {5, 0, 100}, {1000, 1, 333}, {8, 9, 10}}) {
      std::vector<Rank> ranks;
      for (size_t i = 0; i < kRanks; ++i) ranks.push_back(MakeRank(i, sizes, most_bytes));
      int64_t num_parts = 1;
      std::vector<std::vector<char>> received;
      while (!Exchange(ranks, received, most_bytes)) ++num_parts;
      CheckArrived(ranks);
      Message with_most = MessageOf(kRanks - 1);
      with_most.offers[0].size_bytes = *std::max_element(sizes.begin(), sizes.end());
      const auto longest =
          static_cast<int64_t>(with_most.Serialize({}).size()) + with_most.offers[0].size_bytes;
      CHECK_EQ(num_parts, (longest - 1) / (most_bytes / int64_t{kRanks}) + 1);
    }
  }
}

SOK_TEST(CutOff) {
  Rank rank = MakeRank(0, {1, 2, 3}, 1000);
  const char data[72] = {};
  CHECK_THROWS(ErrorCode::kIo, std::vector<std::string>{"cut off"},
               rank.parts.Take(SplitBySource(data, {24, 23, 24})));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
