// SPDX-License-Identifier: Apache-2.0
// The slots of a table resource, by name and by variable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/tf/tables/resource/plane_variable.h"

namespace sok {

/// Where planes are.
struct StorageOptions {
  std::string path;  // a folder; "": in memory
  int64_t memory_bytes = 0;
};

struct SlotOptions {
  std::string name;
  PlaneOptions plane;          // capacity: the table's
  float initial_value = 0.0f;  // what a new row holds
  StorageOptions storage;      // makes plane.storage
};

struct TableSlot {
  SlotOptions options;
  PlaneVariable plane;
};

/// Writes the initial value of a slot to the rows of all keys in the table.
void FillRowsInUse(OpCall& call, Table& table, const SlotOptions& options, Plane& plane);

class TableSlots {
 public:
  const std::vector<TableSlot>& all() const { return slots_; }
  std::vector<TableSlot>& all() { return slots_; }

  /// Whether the slot called `name` is stored in `variable`.
  bool Has(const std::string& name, const tf::Var* variable) const;
  /// Replaces earlier slots of the same name or variable.
  void Put(TableSlot slot);
  /// No effect if `variable` is not a slot's.
  void Remove(const tf::Var* variable);
  /// Removes slots of an earlier table of this name, left by a graph that is gone.
  void RemoveOtherCapacities(int64_t capacity);

  /// all()[places[i]] is the slot called names[i]. kFailedPrecondition, naming `table_name`, if
  /// there is no such slot.
  std::vector<size_t> PlacesOf(const std::vector<std::string>& names,
                               const std::string& table_name) const;

 private:
  template <typename Predicate>
  void RemoveIf(const Predicate& predicate);

  std::vector<TableSlot> slots_;
};

/// For tables and slots: names the initializer to run.
[[noreturn]] void ThrowNotInitialized(const std::string& table_name);

}  // namespace sok
