// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/proposal.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

namespace sok {

Proposal PackProposal(Message message, const std::vector<Outgoing>& outgoing, int num_ranks) {
  const auto bytes_for = [&](size_t offer, size_t rank) {
    return message.offers[offer].is_announced ? 0 : (*outgoing[offer].send_bytes)[rank];
  };
  std::vector<int64_t> rank_bytes(static_cast<size_t>(num_ranks),
                                  static_cast<int64_t>(message.Serialize().size()));
  for (size_t rank = 0; rank < rank_bytes.size(); ++rank) {
    for (size_t i = 0; i < outgoing.size(); ++i) rank_bytes[rank] += bytes_for(i, rank);
  }
  message.longest_bytes = *std::max_element(rank_bytes.begin(), rank_bytes.end());

  Proposal proposal;
  proposal.data.reserve(
      static_cast<size_t>(std::accumulate(rank_bytes.begin(), rank_bytes.end(), int64_t{0})));
  std::vector<std::ptrdiff_t> cursors(outgoing.size());  // in the data of each
  for (size_t rank = 0; rank < rank_bytes.size(); ++rank) {
    for (size_t i = 0; i < outgoing.size(); ++i) message.offers[i].size_bytes = bytes_for(i, rank);
    const std::string header = message.Serialize();
    proposal.data.insert(proposal.data.end(), header.begin(), header.end());
    for (size_t i = 0; i < outgoing.size(); ++i) {
      const auto first = outgoing[i].data->begin() + cursors[i];
      proposal.data.insert(proposal.data.end(), first, first + message.offers[i].size_bytes);
      cursors[i] += static_cast<std::ptrdiff_t>(message.offers[i].size_bytes);
    }
  }
  proposal.send_bytes = std::move(rank_bytes);
  return proposal;
}

}  // namespace sok
