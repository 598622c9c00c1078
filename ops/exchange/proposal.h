// SPDX-License-Identifier: Apache-2.0
// What a rank sends to all others in a round, as bytes.
#ifndef SOK_OPS_EXCHANGE_PROPOSAL_H_
#define SOK_OPS_EXCHANGE_PROPOSAL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/exchange/message.h"

namespace sok {

/// Bytes that stand in several places, to be read one after the other; none of the pieces is empty.
using Pieces = std::vector<std::string_view>;

size_t NumBytes(const Pieces& pieces);

/// Bytes for all ranks, one after the other, where they stand.
struct Outgoing {
  Pieces pieces;                       // none has bytes of two ranks
  std::vector<int64_t> send_bytes;     // [num_ranks]
  std::shared_ptr<const void> memory;  // of the pieces

  int64_t total_bytes() const;
};

struct Proposal {
  std::vector<Pieces> pieces;       // by destination rank; valid while this lives
  std::vector<int64_t> send_bytes;  // [num_ranks]
  int64_t part_bytes = 0;           // for one rank: what is longer goes in parts
  /// In parts, one after the other: of each message, the next part_bytes, by destination rank.
  /// Empty before Join.
  std::vector<char> data;

  /// Puts the pieces together, for whoever sends from one place.
  void Join();

  std::shared_ptr<const std::vector<std::string>> headers;  // among the pieces
  std::vector<std::shared_ptr<const void>> memory;          // of the others
};

/// Those of one rank.
Pieces PiecesFor(const Outgoing& outgoing, size_t rank);

/// The first `most_bytes`, or all that is left, taken off.
Pieces TakeBytes(Pieces* pieces, size_t most_bytes);

/// The message to each rank with what follows for the message's offers, `outgoing` of the same
/// number; for own_rank, nothing. known: see Message::Serialize.
Proposal MakeProposal(Message message, const KnownExchanges& known,
                      const std::vector<const Outgoing*>& outgoing, int num_ranks, int own_rank,
                      int64_t part_bytes);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_PROPOSAL_H_
