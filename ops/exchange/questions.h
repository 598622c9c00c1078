// SPDX-License-Identifier: Apache-2.0
// What a rank asks of the ranks that own its keys, as bytes, and where their answers belong. No
// table, no communication.
#ifndef SOK_OPS_EXCHANGE_QUESTIONS_H_
#define SOK_OPS_EXCHANGE_QUESTIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/engine/bags.h"

namespace sok {

struct QuestionOptions {
  int64_t num_ranks = 1;
  size_t key_bytes = 8;   // 8 or 4: the low bytes of a key that travel
  int64_t dim = 1;        // floats of an answer
  int64_t num_trips = 2;  // how often the floats travel: as rows, and as gradients back
};

/// An owner is asked either for the row of each distinct key, or for partial sums: the sum of its
/// rows in each bag. What costs fewer bytes is asked for, of each owner apart.
struct Questions {
  std::vector<char> data;              // by owner
  std::vector<int64_t> send_bytes;     // [num_ranks]
  std::vector<int64_t> answer_counts;  // [num_ranks], of dim floats each, in the order of owners
  std::vector<int32_t> answers;        // those that add up to each bag; kNone: of each occurrence
  std::vector<int64_t> answer_splits;  // [num_bags + 1], of `answers` by bag; kNone: empty
};

/// The questions for a batch. Key k belongs to rank floormod(k, num_ranks).
Questions AskOwners(const QuestionOptions& options, const Bags& bags,
                    const int64_t* distinct_keys);  // [bags.num_distinct]

/// What all ranks ask of this one: sums of rows, a single row being a sum of one.
struct AskedSums {
  std::vector<int64_t> keys;        // distinct for each asking rank only
  std::vector<int32_t> key_places;  // in `keys`, of each row to be added
  std::vector<int64_t> row_splits;  // [number of sums + 1], of key_places by sum
  std::vector<int64_t> counts;      // [num_ranks], sums for each asking rank
};

/// Reads the data that AskOwners made for this rank, joined in the order of ranks. Throws kIo for
/// bytes that no AskOwners makes.
AskedSums ReadQuestions(size_t key_bytes, const char* data,
                        const std::vector<int64_t>& received_bytes);  // [num_ranks]

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_QUESTIONS_H_
