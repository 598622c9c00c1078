// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/layout/wanted_rows.h"

#include <algorithm>
#include <cstring>

namespace sok {

void ForEachWanted(SavedTensors& saved, const std::string& name, int64_t width,
                   const std::vector<int64_t>& keys, const std::vector<int64_t>& places,
                   const UseRows& use) {
  if (keys.empty()) return;
  const auto row_bytes = static_cast<size_t>(width) * sizeof(float);
  std::vector<float> rows;
  size_t next = 0;
  saved.ForEachPart(name, RowsOfPart(width), [&](int64_t first, int64_t count, const char* data) {
    const auto end = static_cast<size_t>(
        std::lower_bound(places.begin() + static_cast<int64_t>(next), places.end(), first + count) -
        places.begin());
    rows.resize((end - next) * static_cast<size_t>(width));
    for (size_t i = next; i < end; ++i) {
      std::memcpy(rows.data() + (i - next) * static_cast<size_t>(width),
                  data + static_cast<size_t>(places[i] - first) * row_bytes, row_bytes);
    }
    if (end > next) use(static_cast<int64_t>(end - next), keys.data() + next, rows.data());
    next = end;
  });
}

SlotFiller::SlotFiller(OpCall& call, const TableView& fresh, Plane& plane, int64_t most_keys)
    : call_(call),
      fresh_(fresh),
      width_(plane.width()),
      mover_(call, plane, most_keys),
      keys_(call.Temporary<int64_t>(most_keys)),
      row_ids_(call.Temporary<int64_t>(most_keys)) {}

void SlotFiller::Write(int64_t count, const int64_t* keys, float* values) {
  call_.CopyFromHost(keys_, keys, count);
  fresh_.table.Find(call_, count, keys_, row_ids_);
  std::vector<int64_t> found(static_cast<size_t>(count));
  call_.CopyToHost(found.data(), row_ids_, count);
  int64_t num_held = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (found[static_cast<size_t>(i)] < 0) continue;
    found[static_cast<size_t>(num_held)] = found[static_cast<size_t>(i)];
    if (num_held < i) std::copy_n(values + i * width_, width_, values + num_held * width_);
    ++num_held;
  }
  call_.CopyFromHost(row_ids_, found.data(), num_held);
  mover_.FromHost(num_held, row_ids_, values);
}

}  // namespace sok
