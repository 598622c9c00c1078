// SPDX-License-Identifier: Apache-2.0
// Descriptions of lookups, and how those of different ranks differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sok {

/// Describes a lookup in lines, one per table.
struct Description {
  explicit Description(std::string text);

  const std::string text;
  const uint64_t hash;
};

/// The first line in which the ranks' texts differ: "ranks 0, 2 have 'x', rank 1 has 'y'"; empty if
/// they are equal.
std::string DifferenceOf(const std::vector<std::string>& texts);

/// "rank 3" or "ranks 0, 2".
std::string JoinRanks(const std::vector<int>& ranks);

}  // namespace sok
