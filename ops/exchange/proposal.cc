// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/proposal.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

namespace sok {

namespace {

/// A message with what follows it, or what is left of that.
using Pieces = std::deque<std::string_view>;

/// Moves the first `most_bytes`, or all that is left, to the end of `data`.
void MoveBytes(Pieces* pieces, size_t most_bytes, std::vector<char>* data) {
  while (!pieces->empty() && most_bytes > 0) {
    std::string_view& first = pieces->front();
    const std::string_view taken = first.substr(0, most_bytes);
    data->insert(data->end(), taken.begin(), taken.end());
    most_bytes -= taken.size();
    first.remove_prefix(taken.size());
    if (first.empty()) pieces->pop_front();
  }
}

}  // namespace

Proposal PackProposal(Message message, const std::vector<Outgoing>& outgoing, int num_ranks,
                      int own_rank, int64_t part_bytes) {
  const auto bytes_for = [&](size_t offer, size_t rank) {
    const bool follows =
        !message.offers[offer].is_announced && rank != static_cast<size_t>(own_rank);
    return follows ? (*outgoing[offer].send_bytes)[rank] : 0;
  };
  std::vector<int64_t> rank_bytes(static_cast<size_t>(num_ranks),
                                  static_cast<int64_t>(message.Serialize().size()));
  for (size_t rank = 0; rank < rank_bytes.size(); ++rank) {
    for (size_t i = 0; i < outgoing.size(); ++i) rank_bytes[rank] += bytes_for(i, rank);
  }
  message.longest_bytes = *std::max_element(rank_bytes.begin(), rank_bytes.end());

  std::vector<std::string> headers(rank_bytes.size());
  std::vector<Pieces> pieces(rank_bytes.size());
  std::vector<int64_t> cursors(outgoing.size());  // in the data of each
  for (size_t rank = 0; rank < rank_bytes.size(); ++rank) {
    message.total_bytes = rank_bytes[rank];
    for (size_t i = 0; i < outgoing.size(); ++i) message.offers[i].size_bytes = bytes_for(i, rank);
    headers[rank] = message.Serialize();
    pieces[rank].push_back(headers[rank]);
    for (size_t i = 0; i < outgoing.size(); ++i) {
      const auto size_bytes = static_cast<size_t>(message.offers[i].size_bytes);
      pieces[rank].emplace_back(outgoing[i].data->data() + cursors[i], size_bytes);
      cursors[i] += (*outgoing[i].send_bytes)[rank];
    }
  }
  Proposal proposal;
  proposal.part_bytes = part_bytes;
  proposal.data.reserve(
      static_cast<size_t>(std::accumulate(rank_bytes.begin(), rank_bytes.end(), int64_t{0})));
  for (int64_t begin = 0; begin < message.longest_bytes; begin += part_bytes) {
    for (Pieces& left : pieces) MoveBytes(&left, static_cast<size_t>(part_bytes), &proposal.data);
  }
  proposal.send_bytes = std::move(rank_bytes);
  return proposal;
}

}  // namespace sok
