// SPDX-License-Identifier: Apache-2.0
// Keys to row ids on one rank, and the memory that row ids index: the interface that every engine
// implements and one suite tests (ops/tests/conformance). No framework, no CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/engine/call.h"
#include "ops/engine/rows_view.h"
#include "ops/engine/rules.h"
#include "ops/engine/table_options.h"

namespace sok {

/// An array with `width` numbers for each row id, zero until written. Memory grows with the rows.
class Plane {
 public:
  virtual ~Plane() = default;
  virtual RowsView data() const = 0;
  int64_t width() const { return data().width; }
  /// Rows that may be accessed at data() now.
  virtual int64_t num_rows() const = 0;
  /// Grows the plane to at least min(`num_rows`, capacity) rows. New memory is zero on return, for
  /// any stream. Throws kOutOfMemory and leaves the plane as it was. If MovesWhenItGrows, data()
  /// changes and nobody else may use the plane meanwhile.
  virtual void Reserve(int64_t num_rows) = 0;
  virtual bool MovesWhenItGrows() const = 0;
  /// Called before rows up to `num_rows` are written. Throws kNoSpace, and leaves the plane as it
  /// was, if they are in a file and the disk is full; else a hint.
  virtual void ExpectRows(int64_t /*num_rows*/) {}
  /// Returns the memory; all rows are zero again. Nobody else may use the plane meanwhile.
  virtual void Release() = 0;
};

/// The planes of a table, all of its engine. Owned and kept alive by the caller.
struct Planes {
  struct Slot {
    Plane* plane;
    float initial_value;  // what a new row holds
  };
  Plane* rows = nullptr;  // of width dim; nullptr: the caller fills the rows
  std::vector<Slot> slots;
  Plane* salts = nullptr;  // bfloat16 of width 1, for stochastic rounding: new rows get SaltOf

  /// Calls visit(plane) for all of them.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    if (rows != nullptr) visit(*rows);
    for (const Slot& slot : slots) visit(*slot.plane);
    if (salts != nullptr) visit(*salts);
  }
};

/// Keys that are to have rows.
struct KeyBatch {
  int64_t num_keys = 0;
  const int64_t* keys = nullptr;        // [num_keys]
  bool keys_are_distinct = false;       // known to the caller
  const float* initial_rows = nullptr;  // [num_keys, dim], or nullptr: first values
};

/// Contents of a table in the order of row ids, in memory of the call.
struct TableEntries {
  int64_t count = 0;
  const int64_t* keys = nullptr;     // [count]
  const int64_t* row_ids = nullptr;  // [count], ascending
};

/// Result of Table::Append.
struct AppendedKeys {
  int64_t first_row = 0;     // of the first key; the others' rows follow
  int64_t num_repeated = 0;  // keys that the table had already, or repeated ones
};

struct TableSize {
  int64_t num_keys = 0;  // now
  int64_t num_rows = 0;  // one past the highest row id assigned since the last Clear
};

/// Arrays are in the engine's memory. Several threads may call at once; on a device, calls take
/// effect in the order in which they were made, and return before their kernels have run, except
/// where it says "waits". Row ids stay valid until the key is erased or the table cleared. All
/// engines give the same row ids, bits and errors. After an error the table is as it was before the
/// call.
class Table {
 public:
  virtual ~Table() = default;
  virtual const TableOptions& options() const = 0;

  virtual TableSize Size(Call& call) = 0;  // waits
  /// Bytes of the index itself, without the planes.
  virtual int64_t index_bytes() const = 0;

  /// row_ids[i] = row of keys[i], or kNoRow. Without a hash index, throws kInvalidArgument for a
  /// key that the table cannot hold.
  virtual void Find(Call& call, int64_t num_keys,
                    const int64_t* keys,    // [num_keys], repeats allowed
                    int64_t* row_ids) = 0;  // [num_keys]

  /// As Find, for keys and row ids on the host.
  std::vector<int64_t> FindOnHost(Call& call, int64_t num_keys, const int64_t* keys);

  /// As Find, for threads that must not wait for other calls: returns false, without effect, if it
  /// would have to wait.
  virtual bool TryFind(Call& /*call*/, int64_t /*num_keys*/, const int64_t* /*keys*/,
                       int64_t* /*row_ids*/) {
    return false;
  }

  /// out[i] = the row of keys[i] in the plane `rows`, or its first value if it has none, or, with
  /// FirstValue::Kind::kPreset, out[i] unchanged. Errors as Find.
  virtual void GatherRows(Call& call, int64_t num_keys,
                          const int64_t* keys,  // [num_keys], repeats allowed
                          const Plane& rows,
                          float* out) = 0;  // [num_keys, dim]

  /// As Find, but a missing key gets the next free row, in the order of the keys, and the row gets
  /// its first value in every plane before any other call can see it. Planes that move when they
  /// grow must have memory for size + num_keys rows (without a hash index: for the capacity).
  /// Throws kOutOfCapacity if the new keys do not all fit.
  virtual void FindOrInsert(Call& call, const KeyBatch& batch, const Planes& planes,
                            int64_t* row_ids) = 0;  // [num_keys]

  /// Fills a table that has a hash index, that nobody else uses yet, and of which no key was
  /// erased: keys[i] gets the row first_row + i, which the caller then writes in every plane; the
  /// planes must have memory for it. Looks each key up once, FindOrInsert twice. After repeated
  /// keys, only Clear may be called. On the CPU, calls with millions of keys are faster than many
  /// small ones. Errors as FindOrInsert. Waits.
  virtual AppendedKeys Append(Call& call, int64_t num_keys,
                              const int64_t* keys,     // [num_keys]
                              int64_t* row_ids_room);  // capacity [num_keys], used on a device

  /// Allocates for min(`num_keys`, capacity) keys in all, so that calls need not grow the table
  /// before. Nobody else may use planes that move meanwhile.
  virtual void Reserve(Call& call, int64_t num_keys, const Planes& planes) = 0;

  /// Erases those of the keys that the table holds, and returns their number. Their rows may be
  /// reused. Waits.
  virtual int64_t Erase(Call& call, int64_t num_keys, const int64_t* keys) = 0;

  /// As Erase, but the rows are not reused until ReturnRows: others may still read them. They count
  /// as used when the table is full.
  virtual int64_t Evict(Call& call, int64_t num_keys, const int64_t* keys) = 0;

  /// Releases the rows of the `num_rows` keys evicted first, or of all if there are fewer, for new
  /// keys.
  virtual void ReturnRows(Call& call, int64_t num_rows) = 0;

  /// Waits.
  virtual TableEntries Export(Call& call) = 0;

  /// Erases all keys.
  virtual void Clear(Call& call) = 0;

  /// Without a hash index: gives every row its first value, as if all keys had come. With one: no
  /// effect.
  virtual void InsertAll(Call& call, const Planes& planes) = 0;

  /// The position of the first of `row_ids` outside [0, num_rows), or `count`. Waits.
  virtual int64_t FirstWithoutRow(Call& call, int64_t count, const int64_t* row_ids) = 0;

  /// Applies a rule to rows by id; ids are distinct, and those below 0 are skipped. On the CPU an
  /// id without a row throws kInvalidArgument, and no lock is taken; a device, which would have to
  /// wait to report it, skips it as well.
  virtual void ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes,
                           int64_t num_gradients,
                           const int64_t* row_ids,       // [num_gradients]
                           const float* gradients) = 0;  // [num_gradients, dim]
  /// As above, for all rows in use: rows that are not in `row_ids` have a gradient of zero.
  virtual void ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                                int64_t num_gradients,
                                const int64_t* row_ids,       // [num_gradients]
                                const float* gradients) = 0;  // [num_gradients, dim]

  /// As Export, for rows [first_row, first_row + num_rows), both multiples of kRowsAtOnce; returns
  /// the number of keys. Limits the memory of an export. Waits.
  static constexpr int64_t kRowsAtOnce = 64;
  virtual int64_t ExportRows(Call& call, int64_t first_row, int64_t num_rows,
                             int64_t* keys,          // capacity [num_rows]
                             int64_t* row_ids) = 0;  // capacity [num_rows]
};

}  // namespace sok
