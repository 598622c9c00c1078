// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/index/row_set.h"

namespace sok {
namespace {

/// The number of words of each level, from the rows up.
std::vector<int64_t> WordsOfLevels(int64_t num_rows) {
  std::vector<int64_t> counts;
  int64_t count = num_rows;
  do {
    count = (count - 1) / RowSet::kRowsPerWord + 1;
    counts.push_back(count);
  } while (count > 1);
  return counts;
}

size_t BytesOf(const std::vector<int64_t>& counts) {
  size_t bytes = 0;
  for (const int64_t count : counts) bytes += static_cast<size_t>(count) * sizeof(uint64_t);
  return bytes;
}

}  // namespace

RowSet::RowSet(int64_t num_rows) : memory_(BytesOf(WordsOfLevels(num_rows)), PageSize::kSmall) {
  auto* words = static_cast<uint64_t*>(memory_.data());
  for (const int64_t count : WordsOfLevels(num_rows)) {
    words_.push_back(words);
    words += count;
  }
}

void RowSet::Add(int64_t row) {
  for (uint64_t* level : words_) {
    const uint64_t bit = Bit(row);
    row /= kRowsPerWord;
    if (__atomic_fetch_or(level + row, bit, __ATOMIC_RELEASE) != 0)
      return;  // the levels above are set
  }
}

bool RowSet::Remove(int64_t row) {
  bool was_present = true;
  for (uint64_t* level : words_) {
    const uint64_t bit = Bit(row);
    row /= kRowsPerWord;
    const uint64_t before = __atomic_fetch_and(level + row, ~bit, __ATOMIC_ACQ_REL);
    if (level == words_[0]) was_present = (before & bit) != 0;
    if (before != bit) break;  // the word has other bits left, or the bit was not set
  }
  return was_present;
}

}  // namespace sok
