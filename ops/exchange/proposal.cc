// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/proposal.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace sok {
namespace {

/// Those with the next num_bytes; *next: which is the first.
Pieces NextPieces(const Outgoing& outgoing, int64_t num_bytes, size_t* next) {
  Pieces pieces;
  while (num_bytes > 0) {
    pieces.push_back(outgoing.pieces[(*next)++]);
    num_bytes -= static_cast<int64_t>(pieces.back().size());
  }
  return pieces;
}

}  // namespace

int64_t Outgoing::total_bytes() const {
  return std::accumulate(send_bytes.begin(), send_bytes.end(), int64_t{0});
}

size_t NumBytes(const Pieces& pieces) {
  size_t num_bytes = 0;
  for (const std::string_view piece : pieces) num_bytes += piece.size();
  return num_bytes;
}

Pieces PiecesFor(const Outgoing& outgoing, size_t rank) {
  Pieces pieces;
  size_t next = 0;
  for (size_t i = 0; i <= rank; ++i) pieces = NextPieces(outgoing, outgoing.send_bytes[i], &next);
  return pieces;
}

Pieces TakeBytes(Pieces* pieces, size_t most_bytes) {
  Pieces taken;
  size_t num_whole = 0;
  while (num_whole < pieces->size() && (*pieces)[num_whole].size() <= most_bytes) {
    most_bytes -= (*pieces)[num_whole].size();
    taken.push_back((*pieces)[num_whole++]);
  }
  pieces->erase(pieces->begin(), pieces->begin() + static_cast<std::ptrdiff_t>(num_whole));
  if (most_bytes > 0 && !pieces->empty()) {
    taken.push_back(pieces->front().substr(0, most_bytes));
    pieces->front().remove_prefix(most_bytes);
  }
  return taken;
}

void Proposal::Join() {
  const int64_t num_bytes = std::accumulate(send_bytes.begin(), send_bytes.end(), int64_t{0});
  data.reserve(static_cast<size_t>(num_bytes));
  std::vector<Pieces> left = pieces;
  while (static_cast<int64_t>(data.size()) < num_bytes) {
    for (Pieces& of_rank : left) {
      for (const std::string_view piece : TakeBytes(&of_rank, static_cast<size_t>(part_bytes)))
        data.insert(data.end(), piece.begin(), piece.end());
    }
  }
}

Proposal MakeProposal(Message message, const KnownExchanges& known,
                      const std::vector<const Outgoing*>& outgoing, int num_ranks, int own_rank,
                      int64_t part_bytes) {
  Proposal proposal;
  proposal.part_bytes = part_bytes;
  proposal.pieces.resize(static_cast<size_t>(num_ranks));
  auto headers = std::make_shared<std::vector<std::string>>(static_cast<size_t>(num_ranks));
  std::vector<size_t> next(outgoing.size());  // piece of each
  for (size_t rank = 0; rank < proposal.pieces.size(); ++rank) {
    Pieces pieces(1);  // the header's place
    for (size_t i = 0; i < outgoing.size(); ++i) {
      Offer& offer = message.offers[i];
      const bool follows =
          offer.payload == Payload::kFollows && rank != static_cast<size_t>(own_rank);
      offer.size_bytes = follows ? outgoing[i]->send_bytes[rank] : 0;
      const Pieces found = NextPieces(*outgoing[i], outgoing[i]->send_bytes[rank], &next[i]);
      if (follows) pieces.insert(pieces.end(), found.begin(), found.end());
    }
    std::string& header = (*headers)[rank] = message.Serialize(known);
    pieces.front() = header;
    proposal.send_bytes.push_back(static_cast<int64_t>(NumBytes(pieces)));
    proposal.pieces[rank] = std::move(pieces);
  }
  const int64_t longest = *std::max_element(proposal.send_bytes.begin(), proposal.send_bytes.end());
  for (size_t rank = 0; rank < headers->size(); ++rank) {
    SetSizes(longest, proposal.send_bytes[rank], &(*headers)[rank]);
  }
  for (const Outgoing* one : outgoing) proposal.memory.push_back(one->memory);
  proposal.headers = std::move(headers);
  return proposal;
}

}  // namespace sok
