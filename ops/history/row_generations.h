// SPDX-License-Identifier: Apache-2.0
// Row ids that outlive a step: generational indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace sok {

/// A row id with its generation in the upper 32 bits, as gradients outside of sessions carry it: a
/// number that only this function makes, and that arithmetic does not turn into one of another row.
/// Ids below 0 name no row and stay as they are. `generation`: 0 for none.
int64_t WithGeneration(int64_t row_id, int64_t generation);
/// The row id alone.
int64_t WithoutGeneration(int64_t id);

/// The generations of a table's row ids. A new one begins when row ids may come to mean other keys:
/// when the contents are replaced, and when keys lose their rows. A generation belongs to one table
/// of the process. A dense gradient has no ids: once one was made, those of a table that has lost
/// rows since may be of other keys. Thread-safe.
class RowGenerations {
 public:
  RowGenerations();
  ~RowGenerations();
  RowGenerations(const RowGenerations&) = delete;
  RowGenerations& operator=(const RowGenerations&) = delete;

  enum class Meaning {
    kRow,         // the row of its key, or below 0
    kEvicted,     // the key has lost its row
    kReplaced,    // of other contents, another table, or too old to tell
    kNoRowOfAny,  // made by no lookup
  };

  /// That of row ids found from now on; 0 without a hash index, where a row always has the same
  /// key. A step reads it after it has noted its use of the table: rows of keys that are evicted
  /// later are then not reused by its own keys.
  int64_t Current();
  /// The contents have been replaced.
  void Replace(bool use_hash_index);
  /// Keys have lost these rows.
  void Evict(const std::vector<int64_t>& rows);
  /// Of ids with their generations.
  std::vector<Meaning> MeaningsOf(int64_t count, const int64_t* ids);

  /// As MeaningsOf, but of the table whose generations they are, and the rows become a dense
  /// gradient of it. Ids without a generation mean kRow.
  static std::vector<Meaning> MakeDense(int64_t count, const int64_t* ids);
  /// All rows have been read, by whose order a dense gradient may be made.
  void NoteDense();
  /// Whether keys have lost rows, or all contents were replaced, since the first dense gradient.
  bool MayDenseBeStale();

 private:
  /// Older generations count as replaced: each eviction may begin one.
  static constexpr size_t kMostGenerations = 1 << 16;

  // The calls below need the mutex of all generations.
  bool IsOne(int64_t generation) const;
  int64_t CurrentOne();
  int64_t GenerationOf(int64_t id) const;
  Meaning MeaningOf(int64_t id) const;

  bool are_used_ = false;
  bool is_over_ = true;                 // the last generation, since an eviction
  std::deque<int64_t> generations_;     // of these contents, ascending
  std::vector<int64_t> evicted_until_;  // by row: the last generation in which it was evicted; 0
  bool has_dense_ = false;
  bool may_dense_be_stale_ = false;
};

}  // namespace sok
