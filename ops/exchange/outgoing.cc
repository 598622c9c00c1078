// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/outgoing.h"

#include <utility>

namespace sok {

size_t NumBytes(const Pieces& pieces) {
  size_t num_bytes = 0;
  for (const std::string_view piece : pieces) num_bytes += piece.size();
  return num_bytes;
}

Outgoing TextsByRank(std::vector<std::string> texts) {
  const auto memory = std::make_shared<const std::vector<std::string>>(std::move(texts));
  Outgoing outgoing{{}, memory};
  for (const std::string& text : *memory) outgoing.by_rank.push_back({text});
  return outgoing;
}

Outgoing TextToAll(std::string text, size_t num_ranks) {
  const auto memory = std::make_shared<const std::string>(std::move(text));
  return {std::vector<Pieces>(num_ranks, {*memory}), memory};
}

}  // namespace sok
