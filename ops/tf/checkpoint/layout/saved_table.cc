// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/layout/saved_table.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>

#include "ops/base/error.h"
#include "ops/formats/bundle/series.h"
#include "ops/history/key_history.h"
#include "ops/tf/tables/contents/key_buckets.h"

namespace sok {
namespace {

/// Tensors of a rank's part of a checkpoint, by column.
class BundleSink : public RowsSink {
 public:
  struct ColumnTensor {
    std::string name;
    tf::DataType dtype;
    tf::TensorShape shape;
  };

  /// Writes rows [first, first + count) of each tensor. `table`: for messages.
  BundleSink(const std::string& table, std::vector<ColumnTensor> tensors, int64_t first,
             int64_t count, ShardWriter* writer)
      : table_(table),
        tensors_(std::move(tensors)),
        first_(first),
        count_(count),
        writer_(writer),
        narrow_keys_(tensors_[0].dtype == tf::DT_INT32) {}

  void Begin(size_t column, int64_t /*width*/) override {
    column_ = column;
    const ColumnTensor& tensor = tensors_[column];
    writer_->Begin(tensor.name, tensor.dtype, tensor.shape, first_, count_);
  }
  char* Buffer(size_t num_bytes) override { return buffer_ = writer_->Buffer(num_bytes); }
  void Append(size_t num_bytes) override {
    writer_->AppendBuffer(column_ == 0 && narrow_keys_ ? Narrowed(num_bytes) : num_bytes);
  }
  void End() override { writer_->End(); }

 private:
  /// Makes int32 of the keys in the buffer.
  size_t Narrowed(size_t num_bytes) {
    const size_t count = num_bytes / sizeof(int64_t);
    for (size_t i = 0; i < count; ++i) {
      int64_t key;
      std::memcpy(&key, buffer_ + i * sizeof(key), sizeof(key));
      const auto narrow = static_cast<int32_t>(key);
      if (narrow != key) {
        Throw(ErrorCode::kInvalidArgument, "table '", table_,
              "' has keys that do not fit in int32 and cannot be saved; make the table for keys of "
              "int64");
      }
      std::memcpy(buffer_ + i * sizeof(narrow), &narrow, sizeof(narrow));
    }
    return count * sizeof(int32_t);
  }

  const std::string table_;
  const std::vector<ColumnTensor> tensors_;
  const int64_t first_, count_;
  ShardWriter* const writer_;
  const bool narrow_keys_;
  size_t column_ = 0;
  char* buffer_ = nullptr;
};

/// This rank's part of a tensor over all ranks.
struct Slice {
  int64_t rank;
  int64_t total, first, count;

  /// An empty tensor needs a writer, too.
  bool is_written() const { return count > 0 || (total == 0 && rank == 0); }
};

/// The slice of this rank's `count` rows; of a replicated table, only rank 0's rows are written.
Slice SliceOf(RankCommunicator& communicator, const Placement& placement, int64_t count) {
  if (placement.kind == Placement::Kind::kReplicated && placement.rank != 0) count = 0;
  const std::vector<int64_t> counts = communicator.ShareNumber(count);
  return {placement.rank, std::accumulate(counts.begin(), counts.end(), int64_t{0}),
          std::accumulate(counts.begin(), counts.begin() + placement.rank, int64_t{0}), count};
}

/// `ending`: appended to all names.
void WriteColumns(const Slice& slice, const std::string& title, const std::string& ending,
                  TableToSave& table, ShardWriter* writer) {
  std::vector<BundleSink::ColumnTensor> tensors{
      {title + "/keys" + ending, tf::DT_INT64, tf::TensorShape({slice.total})}};
  for (const Column& column : table.columns)
    tensors.push_back({column.title + ending, column.dtype, column.ShapeOf(slice.total)});
  BundleSink sink(title, std::move(tensors), slice.first, slice.count, writer);
  if (slice.count > 0) return MoveRows(table.live, table.columns, sink);
  Entries none(table.call, TableEntries{});
  MoveRows(none, table.columns, sink);
}

}  // namespace

void WriteSeed(const TableView& view, const std::string& name, ShardWriter* writer) {
  using Kind = FirstValue::Kind;
  const FirstValue& first = view.options().first_value;
  const auto seed = static_cast<int64_t>(first.stream);
  if (first.element != Element::kFloat32)
    return WriteNumbers(name, {seed, view.num_updates}, writer);
  if (first.kind == Kind::kConstant || first.kind == Kind::kPreset || first.kind == Kind::kRows)
    return;
  writer->BeginWhole(name, tf::DT_INT64, tf::TensorShape({}));
  writer->Append(&seed, sizeof(seed));
  writer->End();
}

void WriteRowsOfRanks(RankCommunicator& communicator, const std::string& title, TableToSave& table,
                      ShardWriter* writer) {
  const TableOptions& options = table.view.options();
  const Slice slice = SliceOf(communicator, options.placement, table.live.count());
  if (options.placement.rank == 0) WriteSeed(table.view, title + "/seed", writer);
  if (slice.is_written()) WriteColumns(slice, title, "", table, writer);
}

void WriteIncrementOfRanks(RankCommunicator& communicator, const std::string& title,
                           TableToSave& table, ShardWriter* writer) {
  const Placement& placement = table.view.options().placement;
  // Before anything is written, as writing may use the same communicator.
  const Slice slice = SliceOf(communicator, placement, table.live.count());
  const Slice gone = SliceOf(communicator, placement, static_cast<int64_t>(table.gone_keys.size()));
  if (placement.rank == 0 && table.view.options().first_value.element != Element::kFloat32)
    WriteSeed(table.view, title + "/seed" + kIncrementEnding, writer);
  if (slice.is_written()) WriteColumns(slice, title, kIncrementEnding, table, writer);
  if (!gone.is_written()) return;
  writer->Begin(title + kGoneEnding, tf::DT_INT64, tf::TensorShape({gone.total}), gone.first,
                gone.count);
  writer->Append(table.gone_keys.data(), table.gone_keys.size() * sizeof(int64_t));
  writer->End();
}

std::vector<int64_t> KeysWithoutRows(OpCall& call, Table& table, std::vector<int64_t> keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const auto count = static_cast<int64_t>(keys.size());
  if (count == 0) return keys;
  auto* found = call.Temporary<int64_t>(count);
  table.Find(call, count, call.OnDevice(keys.data(), count), found);
  std::vector<int64_t> buffer, without;
  const int64_t* row_ids = call.OnHost(found, count, &buffer);
  for (int64_t i = 0; i < count; ++i) {
    if (row_ids[i] == kNoRow) without.push_back(keys[static_cast<size_t>(i)]);
  }
  return without;
}

namespace {

/// Keys without a row, by bucket, and their histories.
struct WaitingInBuckets {
  std::vector<int64_t> keys;
  std::vector<KeySeen> seen;
};

WaitingInBuckets Waiting(const BucketOptions& options, KeyHistory* history) {
  std::vector<int64_t> keys;
  std::vector<KeySeen> seen;
  if (history != nullptr && options.saves_waiting_keys) {
    const std::lock_guard<FairSharedMutex> lock(history->mutex());
    history->waiting().Export(0, history->waiting().num_places(), &keys, &seen);
  }
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int64_t bucket_a = BucketOf(keys[a], options.count);
    const int64_t bucket_b = BucketOf(keys[b], options.count);
    return bucket_a != bucket_b ? bucket_a < bucket_b : keys[a] < keys[b];
  });
  WaitingInBuckets sorted;
  for (const size_t i : order) {
    sorted.keys.push_back(keys[i]);
    sorted.seen.push_back(seen[i]);
  }
  return sorted;
}

/// A number of each key.
std::vector<int64_t> NumbersOf(KeysInOrder& keys, Column& column) {
  std::vector<int64_t> numbers(static_cast<size_t>(keys.count()));
  int64_t* next = numbers.data();
  keys.ForEachRowIds(column.RowsAtOnce(), [&](int64_t count, const int64_t* row_ids) {
    column.source->ToHost(count, row_ids, next);
    next += count;
  });
  return numbers;
}

/// Writes the start of each bucket, followed by the total.
void WriteStarts(const std::string& name, const BucketOptions& options, KeysInOrder& keys,
                 ShardWriter* writer) {
  std::vector<int32_t> starts(static_cast<size_t>(options.count + 1));
  keys.ForEachKeys([&](int64_t count, const int64_t* of_part) {
    for (int64_t i = 0; i < count; ++i)
      ++starts[static_cast<size_t>(BucketOf(of_part[i], options.count) + 1)];
  });
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  writer->BeginWhole(name, tf::DT_INT32, tf::TensorShape({options.count + 1}));
  writer->Append(starts.data(), starts.size() * sizeof(int32_t));
  writer->End();
}

}  // namespace

void WriteNumbers(const std::string& name, const std::vector<int64_t>& numbers,
                  ShardWriter* writer) {
  writer->BeginWhole(name, tf::DT_INT64, tf::TensorShape({static_cast<int64_t>(numbers.size())}));
  writer->Append(numbers.data(), numbers.size() * sizeof(int64_t));
  writer->End();
}

void WriteBuckets(const BucketOptions& options, TableToSave& table, size_t num_planes,
                  ShardWriter* writer) {
  using Tensors = std::vector<BundleSink::ColumnTensor>;
  using Numbers = std::vector<std::vector<int64_t>>;
  const std::string& name = table.view.options().name;
  const tf::DataType key_dtype = options.narrow_keys ? tf::DT_INT32 : tf::DT_INT64;
  Entries keys(table.call, InBuckets(table.call, table.live, options.count));
  const int64_t count = keys.count();
  const WaitingInBuckets waiting = Waiting(options, table.view.history);
  const auto num_waiting = static_cast<int64_t>(waiting.keys.size());
  Entries filtered(table.call,
                   {num_waiting, table.call.OnDevice(waiting.keys.data(), num_waiting)});
  // Once for all planes: keys of a bucket are anywhere in the history.
  Numbers numbers(kNumKeyNumbers), numbers_of_waiting(kNumKeyNumbers);
  for (size_t i = 0; i < kNumKeyNumbers; ++i) {
    if (table.view.history != nullptr) numbers[i] = NumbersOf(keys, table.columns[num_planes + i]);
    for (const KeySeen& each : waiting.seen)
      numbers_of_waiting[i].push_back(each.*kKeyNumbers[i].field);
  }
  for (size_t plane = 0; plane < num_planes; ++plane) {
    Column& rows = table.columns[plane];
    const std::string stem = rows.title + "-";
    Tensors tensors{{stem + "keys", key_dtype, tf::TensorShape({count})},
                    {stem + "values", rows.dtype, rows.ShapeOf(count)}};
    BundleSink sink(name, std::move(tensors), 0, count, writer);
    MoveKeys(keys, sink);
    MoveColumn(keys, rows, 1, sink);
    BundleSink filtered_sink(
        name, Tensors{{stem + "keys_filtered", key_dtype, tf::TensorShape({num_waiting})}}, 0,
        num_waiting, writer);
    MoveKeys(filtered, filtered_sink);
    for (size_t i = 0; i < kNumKeyNumbers; ++i) {
      WriteNumbers(stem + kKeyNumbers[i].name, numbers[i], writer);
      WriteNumbers(stem + kKeyNumbers[i].name + "_filtered", numbers_of_waiting[i], writer);
    }
    WriteStarts(stem + "partition_offset", options, keys, writer);
    WriteStarts(stem + "partition_filter_offset", options, filtered, writer);
  }
}

}  // namespace sok
