// SPDX-License-Identifier: Apache-2.0
// What ranks say of their lookups, and where they differ.
#ifndef SOK_OPS_EXCHANGE_PROTOCOL_DESCRIPTIONS_H_
#define SOK_OPS_EXCHANGE_PROTOCOL_DESCRIPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sok {

/// What a lookup is, in lines, one for each of its tables.
struct Description {
  explicit Description(std::string text);

  const std::string text;
  const uint64_t hash;
};

/// How the texts of the ranks differ, in the first line that does: "ranks 0, 2 have 'x', rank 1 has
/// 'y'"; empty where they are the same.
std::string DifferenceOf(const std::vector<std::string>& texts);

/// "rank 3" or "ranks 0, 2".
std::string JoinRanks(const std::vector<int>& ranks);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_PROTOCOL_DESCRIPTIONS_H_
