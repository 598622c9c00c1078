// SPDX-License-Identifier: Apache-2.0
// What a rank asks of the ranks that own its keys, as bytes, and where their answers belong. No
// table, no communication.
#ifndef SOK_OPS_EXCHANGE_QUESTIONS_H_
#define SOK_OPS_EXCHANGE_QUESTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/base/placement.h"
#include "ops/base/unset_vector.h"
#include "ops/engine/bags.h"

namespace sok {

struct QuestionOptions {
  Placement placement;
  size_t key_bytes = 8;     // 8 or 4: the low bytes of a key that travel
  int64_t dim = 1;          // floats of an answer
  int64_t num_trips = 2;    // how often the floats travel: as rows, and as gradients back
  int64_t float_bytes = 4;  // of each, as it travels
};

/// An owner is asked either for the row of each distinct key, or for partial sums: the sum of its
/// rows in each bag, multiplied by their weights. What costs fewer bytes is asked for, of each
/// owner apart.
struct Questions {
  std::vector<char> data;              // by owner
  std::vector<int64_t> send_bytes;     // [num_ranks]
  std::vector<int64_t> answer_counts;  // [num_ranks], of dim floats each, in the order of owners
  UnsetVector<int32_t> answers;        // those that add up to each bag; kNone: of each occurrence
  std::vector<int64_t> answer_splits;  // [num_bags + 1], of `answers` by bag; kNone: empty
  std::vector<float> answer_weights;   // [answers], what each is multiplied by; empty: all ones
  std::vector<float> factors;          // [num_bags] of a mean, what each bag is multiplied by
};

/// The questions for a batch.
Questions AskOwners(const QuestionOptions& options, const Bags& bags,
                    const int64_t* distinct_keys);  // [bags.num_distinct]

/// What all ranks ask of this one: sums of rows, a single row being a sum of one.
struct AskedSums {
  UnsetVector<int64_t> keys;        // distinct, in the order in which they were first asked for
  UnsetVector<int32_t> key_places;  // in `keys`, of each row to be added
  UnsetVector<int64_t> row_splits;  // [number of sums + 1], of key_places by sum; empty: each alone
  std::vector<float> weights;       // [key_places], what each row is multiplied by; empty: all ones
  std::vector<int64_t> counts;      // [num_ranks], sums for each asking rank
};

/// Reads what AskOwners made for this rank, on each rank. Throws kIo for bytes that no AskOwners
/// makes.
AskedSums ReadQuestions(size_t key_bytes, const std::vector<std::string_view>& of_ranks);

/// The questions of a group of lookups, joined to one message for each owner.
struct JoinedQuestions {
  std::vector<char> data;           // by owner
  std::vector<int64_t> send_bytes;  // [num_ranks]
};
JoinedQuestions JoinQuestions(std::vector<Questions>& group);  // moved from, where it is one

/// [lookup][rank]: the parts of messages that JoinQuestions made of as many lookups, by rank.
/// Throws kIo for other bytes.
std::vector<std::vector<std::string_view>> SplitQuestions(
    size_t num_lookups, const std::vector<std::string_view>& messages);

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_QUESTIONS_H_
