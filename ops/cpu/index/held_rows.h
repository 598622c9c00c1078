// SPDX-License-Identifier: Apache-2.0
// Which rows of a table without an index are held: few, it may be, among very many.
#ifndef SOK_OPS_CPU_INDEX_HELD_ROWS_H_
#define SOK_OPS_CPU_INDEX_HELD_ROWS_H_

#include <cstdint>
#include <vector>

#include "ops/base/memory/reserved_memory.h"

namespace sok {

/// A bit a row; above it levels of a bit for each word below, set where any bit of the word is. So
/// visiting costs the rows that are held, wherever they are. Memory comes with the rows.
class HeldRows {
 public:
  static constexpr int64_t kRowsPerWord = 64;

  explicit HeldRows(int64_t num_rows);

  /// The lowest level, which may be read at any time: a bit that is seen set there, as Bit() has
  /// it, comes after what was written before Add.
  const uint64_t* words() const { return words_[0]; }
  static uint64_t Bit(int64_t row) { return uint64_t{1} << (row % kRowsPerWord); }

  // --- one caller at a time ---

  void Add(int64_t row);
  /// Whether the row was held.
  bool Remove(int64_t row);
  void Clear() { memory_.Release(0, memory_.size_bytes()); }

  /// Calls visit(row) for the rows that are held, in their order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    VisitWord(words_.size() - 1, 0, visit);
  }
  /// As ForEach, of rows [begin, end), of which `begin` is a multiple of kRowsPerWord.
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
  std::vector<uint64_t*> words_;  // of each level, in memory_; the last one has one word
};

}  // namespace sok

#endif  // SOK_OPS_CPU_INDEX_HELD_ROWS_H_
