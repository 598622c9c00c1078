// SPDX-License-Identifier: Apache-2.0
// Keys to row ids, on one rank, and the memory that row ids index: what every engine implements and
// one suite tests (ops/tests/conformance). No framework, no CUDA.
#ifndef SOK_OPS_ENGINE_TABLE_H_
#define SOK_OPS_ENGINE_TABLE_H_

#include <cstdint>
#include <vector>

#include "ops/engine/call.h"
#include "ops/engine/rules.h"
#include "ops/engine/table_options.h"

namespace sok {

/// One place of `width` floats for each row id, zeros until written. Memory comes with the rows.
class Plane {
 public:
  virtual ~Plane() = default;
  virtual float* data() const = 0;
  virtual int64_t width() const = 0;
  /// Rows that may be touched at data() now.
  virtual int64_t num_rows() const = 0;
  /// Makes it at least `num_rows`, or its capacity if that is less. Throws kOutOfMemory, and the
  /// plane is then as before. What it makes are zeros on return, for any stream. Where
  /// MovesWhenItGrows, data() changes: nobody else may use the plane
  /// meanwhile.
  virtual void Reserve(int64_t num_rows) = 0;
  virtual bool MovesWhenItGrows() const = 0;
  /// Told before rows up to `num_rows` are written, which is no promise that they will be.
  virtual void ExpectRows(int64_t /*num_rows*/) {}
  /// Gives the memory back; all rows are zeros again. Nobody else may use the plane meanwhile.
  virtual void Release() = 0;
};

/// The planes of a table, all of its engine. The caller owns them and keeps them alive.
struct Planes {
  struct Slot {
    Plane* plane;
    float initial_value;  // what a row holds when it appears
  };
  Plane* rows = nullptr;  // of width dim, or nullptr: the caller fills the rows itself
  std::vector<Slot> slots;
};

/// What a table holds, in the order of row ids, in memory of the call that asked.
struct TableEntries {
  int64_t count = 0;
  const int64_t* keys = nullptr;     // [count]
  const int64_t* row_ids = nullptr;  // [count], ascending
};

/// What Table::Append has done.
struct AppendedKeys {
  int64_t first_row = 0;     // of the first key; the others follow
  int64_t num_repeated = 0;  // keys that were held already, or come twice
};

struct TableSize {
  int64_t num_keys = 0;  // held now
  int64_t num_rows = 0;  // one past the highest row id handed out since the last Clear
};

/// Arrays are in the engine's memory. Calls may come from several threads at once; on a device they
/// take effect in the order in which they were made, and return before their kernels have run,
/// except where it says "waits". Row ids stay valid until the key is erased or the table cleared.
/// All engines give the same row ids, bits and errors. After an error the table is as it was.
class Table {
 public:
  virtual ~Table() = default;
  virtual const TableOptions& options() const = 0;

  virtual TableSize Size(Call& call) = 0;  // waits
  /// Bytes of the index itself, without the planes.
  virtual int64_t index_bytes() const = 0;

  /// row_ids[i] = row of keys[i], or kNoRow. Without a hash index a key that the table cannot hold
  /// throws kInvalidArgument.
  virtual void Find(Call& call, int64_t num_keys,
                    const int64_t* keys,    // [num_keys], repeats allowed
                    int64_t* row_ids) = 0;  // [num_keys]

  /// As Find, for threads that must not wait for other calls: false, and nothing done, where it
  /// would have to.
  virtual bool TryFind(Call& /*call*/, int64_t /*num_keys*/, const int64_t* /*keys*/,
                       int64_t* /*row_ids*/) {
    return false;
  }

  /// out[i] = the row of keys[i] in the plane `rows`, or its first value where it has none; with
  /// FirstValue::Kind::kPreset, what was in `out`. Errors as Find.
  virtual void GatherRows(Call& call, int64_t num_keys,
                          const int64_t* keys,  // [num_keys], repeats allowed
                          const Plane& rows,
                          float* out) = 0;  // [num_keys, dim]

  /// As Find, but a key that is not held gets the next free row, in the order of `keys`, and the
  /// row its first value in every plane before any other call can see it. Planes that move when
  /// they grow must have room for size + num_keys rows (without a hash index: for the capacity).
  /// Throws kOutOfCapacity when the new keys do not all fit.
  virtual void FindOrInsert(Call& call, int64_t num_keys,
                            const int64_t* keys,        // [num_keys]
                            bool keys_are_distinct,     // the caller knows
                            const float* initial_rows,  // [num_keys, dim], or nullptr: first values
                            const Planes& planes,
                            int64_t* row_ids) = 0;  // [num_keys]

  /// For who fills a table with a hash index that nobody else uses yet, and of which no key was
  /// erased: keys[i] gets the row first_row + i, which the caller then writes, in every plane;
  /// these must have room for it. Looks at each key once, where FindOrInsert looks twice. A table
  /// with repeated keys is good for Clear only. Millions of keys at a time are quicker on the CPU
  /// than many calls. Throws as FindOrInsert. Waits.
  virtual AppendedKeys Append(Call& call, int64_t num_keys,
                              const int64_t* keys,     // [num_keys]
                              int64_t* row_ids_room);  // [num_keys] of room, on a device

  /// Makes memory for `num_keys` keys in all, or for the capacity if that is less, so that calls
  /// need not grow the table up to there. Nobody else may use planes that move meanwhile.
  virtual void Reserve(Call& call, int64_t num_keys, const Planes& planes) = 0;

  /// Forgets the keys that are held, and returns how many were. Their rows may be handed out again.
  /// Waits.
  virtual int64_t Erase(Call& call, int64_t num_keys, const int64_t* keys) = 0;

  /// As Erase, but the rows are kept from new keys until ReturnRows: somebody may still read them.
  /// They count as used in a table that is full.
  virtual int64_t Evict(Call& call, int64_t num_keys, const int64_t* keys) = 0;

  /// Lets new keys have `num_rows` rows of evicted keys, those that were evicted first, or as many
  /// as there are.
  virtual void ReturnRows(Call& call, int64_t num_rows) = 0;

  /// Waits.
  virtual TableEntries Export(Call& call) = 0;

  /// Forgets every key.
  virtual void Clear(Call& call) = 0;

  /// Without a hash index: gives every row its first value, as if all keys had come. With one:
  /// nothing.
  virtual void InsertAll(Call& call, const Planes& planes) = 0;

  /// The position of the first of `row_ids` outside [0, num_rows), or the count. Waits.
  virtual int64_t FirstWithoutRow(Call& call, int64_t count, const int64_t* row_ids) = 0;

  /// Applies a rule to rows by id, which are distinct. Those below 0 are passed over. On the CPU an
  /// id that no row has throws kInvalidArgument, and no lock is taken; on a device, which does not
  /// wait to see it, it is passed over as well.
  virtual void ApplyToRows(Call& call, const Rule& rule, const RulePlanes& planes,
                           int64_t num_gradients,
                           const int64_t* row_ids,       // [num_gradients]
                           const float* gradients) = 0;  // [num_gradients, dim]
  /// As above, but to all rows in use: those that are not in `row_ids` have a gradient of zero.
  virtual void ApplyToRowsInUse(Call& call, const Rule& rule, const RulePlanes& planes,
                                int64_t num_gradients,
                                const int64_t* row_ids,       // [num_gradients]
                                const float* gradients) = 0;  // [num_gradients, dim]

  /// As Export, of the keys of rows [first_row, first_row + num_rows), both multiples of
  /// kRowsAtOnce; returns how many there are. So a table needs no memory for all its keys. Waits.
  static constexpr int64_t kRowsAtOnce = 64;
  virtual int64_t ExportRows(Call& call, int64_t first_row, int64_t num_rows,
                             int64_t* keys,          // [num_rows] of room
                             int64_t* row_ids) = 0;  // [num_rows] of room
};

}  // namespace sok

#endif  // SOK_OPS_ENGINE_TABLE_H_
