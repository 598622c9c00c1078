// SPDX-License-Identifier: Apache-2.0
// Bytes that a rank sends to all ranks, by reference.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sok {

/// Bytes in several places, to be read in order.
using Pieces = std::vector<std::string_view>;

size_t NumBytes(const Pieces& pieces);

struct Outgoing {
  std::vector<Pieces> by_rank;         // [num_ranks]
  std::shared_ptr<const void> memory;  // of the pieces
};

Outgoing TextsByRank(std::vector<std::string> texts);  // [num_ranks]
Outgoing TextToAll(std::string text, size_t num_ranks);

}  // namespace sok
