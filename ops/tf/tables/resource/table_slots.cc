// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/tables/resource/table_slots.h"

#include <algorithm>
#include <utility>

#include "ops/tf/base/border.h"

namespace sok {

namespace {

constexpr int64_t kFillBytes = 4 << 20;

}  // namespace

void FillRowsInUse(OpCall& call, Table& table, const SlotOptions& options, Plane& plane) {
  const int64_t width = options.plane.width;
  const TableEntries entries = table.Export(call);
  plane.Reserve(table.Size(call).num_rows);
  plane.ExpectRows(table.Size(call).num_rows);
  if (options.initial_value == 0.0f && !std::signbit(options.initial_value)) return;
  const int64_t row_bytes = width * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::min(entries.count, std::max<int64_t>(1, kFillBytes / row_bytes));
  auto* chunk = call.Temporary<float>(most * width);
  call.engine().Fill(call, chunk, most * width, options.initial_value);
  for (int64_t first = 0; first < entries.count; first += most) {
    call.engine().ScatterRows(call, std::min(most, entries.count - first), entries.row_ids + first,
                              chunk, plane.data());
  }
}

template <typename Predicate>
void TableSlots::RemoveIf(const Predicate& predicate) {
  slots_.erase(std::remove_if(slots_.begin(), slots_.end(), predicate), slots_.end());
}

bool TableSlots::Has(const std::string& name, const tf::Var* variable) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const TableSlot& slot) {
    return slot.options.name == name && slot.plane.variable() == variable;
  });
}

void TableSlots::Put(TableSlot slot) {
  RemoveIf([&](const TableSlot& other) {
    return other.options.name == slot.options.name ||
           other.plane.variable() == slot.plane.variable();
  });
  slots_.push_back(std::move(slot));
}

void TableSlots::Remove(const tf::Var* variable) {
  RemoveIf([&](const TableSlot& slot) { return slot.plane.variable() == variable; });
}

void TableSlots::RemoveOtherCapacities(int64_t capacity) {
  RemoveIf([&](const TableSlot& slot) { return slot.options.plane.capacity != capacity; });
}

std::vector<size_t> TableSlots::PlacesOf(const std::vector<std::string>& names,
                                         const std::string& table_name) const {
  std::vector<size_t> places;
  for (const std::string& name : names) {
    const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const TableSlot& other) {
      return other.options.name == name;
    });
    if (slot == slots_.end()) {
      Throw(ErrorCode::kFailedPrecondition, "slot '", name, "' of table '", table_name,
            "' has not been initialized: run its initializer (tf.global_variables_initializer()) "
            "in this session first");
    }
    places.push_back(static_cast<size_t>(slot - slots_.begin()));
  }
  return places;
}

void ThrowNotInitialized(const std::string& table_name) {
  Throw(ErrorCode::kFailedPrecondition, "table '", table_name,
        "' has not been initialized: run its initializer (tf.global_variables_initializer()) in "
        "this session first");
}

}  // namespace sok
