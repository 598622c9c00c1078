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

Proposal MakeProposal(Message message, const std::vector<const Outgoing*>& outgoing, int num_ranks,
                      int own_rank, int64_t part_bytes) {
  const auto bytes_for = [&](size_t offer, size_t rank) {
    const bool follows =
        message.offers[offer].payload == Payload::kFollows && rank != static_cast<size_t>(own_rank);
    return follows ? outgoing[offer]->send_bytes[rank] : 0;
  };
  std::vector<int64_t> rank_bytes(static_cast<size_t>(num_ranks),
                                  static_cast<int64_t>(message.Serialize().size()));
  for (size_t rank = 0; rank < rank_bytes.size(); ++rank) {
    for (size_t i = 0; i < outgoing.size(); ++i) rank_bytes[rank] += bytes_for(i, rank);
  }
  message.longest_bytes = *std::max_element(rank_bytes.begin(), rank_bytes.end());

  Proposal proposal;
  proposal.part_bytes = part_bytes;
  proposal.pieces.resize(rank_bytes.size());
  auto headers = std::make_shared<std::vector<std::string>>(rank_bytes.size());
  std::vector<size_t> next(outgoing.size());  // piece of each
  for (size_t rank = 0; rank < rank_bytes.size(); ++rank) {
    message.total_bytes = rank_bytes[rank];
    for (size_t i = 0; i < outgoing.size(); ++i) message.offers[i].size_bytes = bytes_for(i, rank);
    (*headers)[rank] = message.Serialize();
    Pieces& pieces = proposal.pieces[rank];
    pieces.push_back((*headers)[rank]);
    for (size_t i = 0; i < outgoing.size(); ++i) {
      const Pieces found = NextPieces(*outgoing[i], outgoing[i]->send_bytes[rank], &next[i]);
      if (message.offers[i].size_bytes > 0) pieces.insert(pieces.end(), found.begin(), found.end());
    }
  }
  for (const Outgoing* one : outgoing) proposal.memory.push_back(one->memory);
  proposal.headers = std::move(headers);
  proposal.send_bytes = std::move(rank_bytes);
  return proposal;
}

}  // namespace sok
