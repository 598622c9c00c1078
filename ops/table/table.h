// SPDX-License-Identifier: Apache-2.0
// Keys to row ids, on one rank: the interface that every back end implements and one suite tests.
#ifndef SOK_OPS_TABLE_TABLE_H_
#define SOK_OPS_TABLE_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/base/executor.h"
#include "ops/table/first_value.h"

namespace sok {

enum class Device { kCpu };

/// Row id of a key that the table does not hold.
constexpr int64_t kNoRow = -1;

struct TableOptions {
  std::string name;      // appears in error messages
  int64_t dim = 1;       // floats in an embedding row
  int64_t capacity = 0;  // rows; a limit, not an allocation
  /// false: row = floor(key / world_size), and keys are in [0, capacity * world_size).
  bool use_hash_index = true;
  /// Ranks that share the keys; this one owns floormod(key, world_size) == rank.
  int64_t world_size = 1;
  int64_t rank = 0;
  FirstValue first_value;
};

/// Throws kInvalidArgument for a dim or capacity below 1 or a rank outside [0, world_size).
void CheckTableOptions(const TableOptions& options);

/// The memory that a table's row ids index. The caller owns it and keeps it alive through the call.
struct RowPlanes {
  struct Slot {
    float* data;          // [capacity, width]
    int64_t width;        // floats
    float initial_value;  // what a row holds when it appears
  };
  float* rows = nullptr;  // [capacity, dim], or nullptr: the caller fills the rows itself
  std::vector<Slot> slots;
};

struct TableEntries {
  std::vector<int64_t> keys;     // [size], in the order of row ids
  std::vector<int64_t> row_ids;  // [size], ascending
};

/// All calls may be made from several threads at once. Row ids stay valid, and rows stay where they
/// are, until the key is erased or the table cleared.
class Table {
 public:
  /// Throws as CheckTableOptions.
  static std::unique_ptr<Table> Create(Device device, const TableOptions& options);
  virtual ~Table() = default;

  virtual const TableOptions& options() const = 0;

  /// Number of keys held.
  virtual int64_t size() const = 0;
  /// One past the highest row id that was ever handed out since the last Clear.
  virtual int64_t num_rows() const = 0;
  /// Bytes of the index itself, without the planes.
  virtual int64_t index_bytes() const = 0;

  /// row_ids[i] = row of keys[i], or kNoRow. Without a hash index a key out of range throws
  /// kInvalidArgument.
  virtual void Find(Executor& executor, int64_t num_keys,
                    const int64_t* keys,    // [num_keys], repeats allowed
                    int64_t* row_ids) = 0;  // [num_keys]

  /// As Find, but a key that is not held gets the next free row, in the order of `keys`, and the
  /// row its first value in every plane before any other call can see it. Throws kOutOfCapacity
  /// when the new keys do not all fit; the table is then as before the call.
  virtual void FindOrInsert(
      Executor& executor, int64_t num_keys,
      const int64_t* keys,        // [num_keys]
      bool keys_are_distinct,     // true: the caller knows that there are no repeats among them
      const float* initial_rows,  // [num_keys, dim] for the new keys, or nullptr: first values
      const RowPlanes& planes,
      int64_t* row_ids) = 0;  // [num_keys]

  /// Forgets the keys that are held, and returns how many were. Their rows may be handed out again.
  virtual int64_t Erase(int64_t num_keys, const int64_t* keys) = 0;

  /// All keys with their rows.
  virtual TableEntries Export() const = 0;

  /// Forgets every key.
  virtual void Clear() = 0;

  /// Without a hash index: gives every row its first value, as if all keys had come. With one:
  /// nothing.
  virtual void InsertAll(Executor& executor, const RowPlanes& planes) = 0;
};

}  // namespace sok

#endif  // SOK_OPS_TABLE_TABLE_H_
