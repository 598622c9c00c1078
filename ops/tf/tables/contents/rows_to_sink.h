// SPDX-License-Identifier: Apache-2.0
// Moves a table's columns into a sink.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/formats/rows.h"
#include "ops/tf/tables/contents/columns.h"

namespace sok {

/// Keys of a table and their row ids, in some order.
class KeysInOrder {
 public:
  virtual ~KeysInOrder() = default;
  virtual int64_t count() const = 0;

  using Use = std::function<void(int64_t count, const int64_t* ids)>;
  /// Calls use(count, keys), with keys on the host, for all keys. Must precede ForEachRowIds.
  virtual void ForEachKeys(const Use& use) = 0;
  /// Calls use(count, row_ids), with at most `most` row ids on the device, for all keys.
  virtual void ForEachRowIds(int64_t most, const Use& use) = 0;
};

/// Moves the keys, and then each column.
void MoveRows(KeysInOrder& keys, std::vector<Column>& columns, RowsSink& sink);
/// The parts of it.
void MoveKeys(KeysInOrder& keys, RowsSink& sink);
void MoveColumn(KeysInOrder& keys, Column& column, size_t number, RowsSink& sink);

/// Entries of a table, as they are, in memory of the call.
class Entries : public KeysInOrder {
 public:
  Entries(OpCall& call, const TableEntries& entries) : call_(call), entries_(entries) {}

  int64_t count() const override { return entries_.count; }
  void ForEachKeys(const Use& use) override;
  void ForEachRowIds(int64_t most, const Use& use) override;

 private:
  OpCall& call_;
  const TableEntries entries_;
};

/// Every key of this rank in a table without a hash index, ascending.
class KeyRange : public KeysInOrder {
 public:
  /// Only keys below `end`. Columns of `view` then give rows that were never used their first
  /// values.
  KeyRange(OpCall& call, const TableView& view, int64_t end, std::vector<Column>* columns);

  int64_t count() const override { return count_; }
  void ForEachKeys(const Use& use) override;
  void ForEachRowIds(int64_t most, const Use& use) override;

 private:
  std::vector<int64_t> Keys(int64_t first, int64_t count) const;
  void FillRows(int64_t first, int64_t count, float* to);

  OpCall& call_;
  const TableView& view_;
  int64_t count_;
  // The part that is read, on the device.
  int64_t first_ = 0;
  int64_t *keys_ = nullptr, *row_ids_ = nullptr;
};

}  // namespace sok
