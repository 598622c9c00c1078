// SPDX-License-Identifier: Apache-2.0
// What a rank sends to all others in a round, as bytes.
#ifndef SOK_OPS_EXCHANGE_PROPOSAL_H_
#define SOK_OPS_EXCHANGE_PROPOSAL_H_

#include <cstdint>
#include <vector>

#include "ops/exchange/message.h"

namespace sok {

/// In parts, one after the other: of each message, the next part_bytes.
struct Proposal {
  std::vector<char> data;           // of each part by destination rank
  std::vector<int64_t> send_bytes;  // [num_ranks], of all parts
  int64_t part_bytes = 0;           // for one rank
};

/// Bytes for all ranks, one after the other.
struct Outgoing {
  const std::vector<char>* data;
  const std::vector<int64_t>* send_bytes;  // [num_ranks]
};

/// The message to each rank with what follows for the message's offers, `outgoing` of the same
/// number; of those that are announced, and for own_rank, nothing.
Proposal PackProposal(Message message, const std::vector<Outgoing>& outgoing, int num_ranks,
                      int own_rank, int64_t part_bytes);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_PROPOSAL_H_
