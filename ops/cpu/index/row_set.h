// SPDX-License-Identifier: Apache-2.0
// The set of rows in use in a table without a hash index: possibly few among very many.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/base/memory/reserved_memory.h"

namespace sok {

/// One bit per row, and levels above with one bit per word below, set if any bit of that word is.
/// Visiting thus costs time in proportion to the rows in use, wherever they are. Memory grows with
/// the rows.
class RowSet {
 public:
  static constexpr int64_t kRowsPerWord = 64;

  explicit RowSet(int64_t num_rows);

  /// The lowest level, which may be read at any time by acquire loads: a reader that sees Bit(row)
  /// set also sees everything that was written before Add.
  const uint64_t* words() const { return words_[0]; }
  static uint64_t Bit(int64_t row) { return uint64_t{1} << (row % kRowsPerWord); }

  // --- calls below: one caller at a time ---

  void Add(int64_t row);
  /// Returns whether the row was in use.
  bool Remove(int64_t row);
  void Clear() { memory_.Release(0, memory_.size_bytes()); }

  /// Calls visit(row) for the rows in use, ascending.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    VisitWord(words_.size() - 1, 0, visit);
  }
  /// As ForEach, for rows [begin, end); `begin` must be a multiple of kRowsPerWord.
  template <typename Visit>
  void ForEachIn(int64_t begin, int64_t end, const Visit& visit) const {
    for (int64_t word = begin / kRowsPerWord; word * kRowsPerWord < end; ++word)
      VisitWord(0, word, visit);
  }

 private:
  template <typename Visit>
  void VisitWord(size_t level, int64_t word, const Visit& visit) const {
    uint64_t bits = __atomic_load_n(words_[level] + word, __ATOMIC_RELAXED);
    for (; bits != 0; bits &= bits - 1) {
      const int64_t below = word * kRowsPerWord + __builtin_ctzll(bits);
      if (level == 0) {
        visit(below);
      } else {
        VisitWord(level - 1, below, visit);
      }
    }
  }

  ReservedMemory memory_;
  std::vector<uint64_t*> words_;  // per level, in memory_; the last level has one word
};

}  // namespace sok
