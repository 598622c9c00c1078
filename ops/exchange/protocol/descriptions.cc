// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/protocol/descriptions.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "ops/exchange/protocol/message.h"

namespace sok {
namespace {

constexpr char kNoLine[] = "nothing more";

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The distinct values, each with its ranks, in the order of the first rank that has it.
std::string JoinValues(const std::vector<std::string>& by_rank) {
  std::string joined;
  for (size_t first = 0; first < by_rank.size(); ++first) {
    const std::string& value = by_rank[first];
    if (std::find(by_rank.begin(), by_rank.begin() + static_cast<std::ptrdiff_t>(first), value) !=
        by_rank.begin() + static_cast<std::ptrdiff_t>(first))
      continue;
    std::vector<int> ranks;
    for (size_t rank = first; rank < by_rank.size(); ++rank) {
      if (by_rank[rank] == value) ranks.push_back(static_cast<int>(rank));
    }
    joined += (joined.empty() ? "" : ", ") + JoinRanks(ranks) +
              (ranks.size() == 1 ? " has '" : " have '") + value + "'";
  }
  return joined;
}

}  // namespace

Description::Description(std::string text) : text(std::move(text)), hash(NameHash(this->text)) {}

std::string JoinRanks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

std::string DifferenceOf(const std::vector<std::string>& texts) {
  std::vector<std::vector<std::string>> lines;
  size_t most_lines = 0;
  for (const std::string& text : texts) {
    lines.push_back(LinesOf(text));
    most_lines = std::max(most_lines, lines.back().size());
  }
  for (size_t line = 0; line < most_lines; ++line) {
    std::vector<std::string> by_rank;
    for (const auto& of_rank : lines)
      by_rank.push_back(line < of_rank.size() ? of_rank[line] : kNoLine);
    if (std::any_of(by_rank.begin(), by_rank.end(),
                    [&](const std::string& text) { return text != by_rank.front(); }))
      return JoinValues(by_rank);
  }
  return "";
}

}  // namespace sok
