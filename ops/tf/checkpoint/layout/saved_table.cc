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

namespace tf = tensorflow;

/// Appends rows of a column, at most as many as are moved at a time.
void AppendPart(Column& column, int64_t count, const int64_t* row_ids, ShardWriter* writer) {
  const auto num_bytes = static_cast<size_t>(count * column.row_bytes());
  column.source->ToHost(count, row_ids, writer->Buffer(num_bytes));
  writer->AppendBuffer(num_bytes);
}

void AppendKeys(LiveKeys& held, ShardWriter* writer) {
  const int64_t most = RowsOfPart(sizeof(int64_t) / sizeof(float));
  held.ForEachKeys([&](int64_t num_keys, const int64_t* keys) {
    for (int64_t first = 0; first < num_keys; first += most) {
      const auto num_bytes =
          static_cast<size_t>(std::min(most, num_keys - first)) * sizeof(int64_t);
      std::memcpy(writer->Buffer(num_bytes), keys + first, num_bytes);
      writer->AppendBuffer(num_bytes);
    }
  });
}

/// The entries with these rows; nullptr: all.
TableEntries OnlyRows(OpCall& call, const TableEntries& held, const RowBits* rows) {
  if (rows == nullptr) return held;
  std::vector<int64_t> room_of_keys, room_of_ids, keys, row_ids;
  const int64_t* held_keys = call.OnHost(held.keys, held.count, &room_of_keys);
  const int64_t* held_ids = call.OnHost(held.row_ids, held.count, &room_of_ids);
  for (int64_t i = 0; i < held.count; ++i) {
    const int64_t row = held_ids[i];
    if ((((*rows)[static_cast<size_t>(row / 64)] >> (row % 64)) & 1) == 0) continue;
    keys.push_back(held_keys[i]);
    row_ids.push_back(row);
  }
  const auto count = static_cast<int64_t>(keys.size());
  auto* chosen_keys = call.Temporary<int64_t>(count);
  auto* chosen_ids = call.Temporary<int64_t>(count);
  call.CopyFromHost(chosen_keys, keys.data(), count);
  call.CopyFromHost(chosen_ids, row_ids.data(), count);
  return {count, chosen_keys, chosen_ids};
}

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
  writer->Begin(title + "/keys" + ending, tf::DT_INT64, tf::TensorShape({slice.total}), slice.first,
                slice.count);
  if (slice.count > 0) AppendKeys(table.held, writer);
  writer->End();
  for (Column& column : table.columns) {
    writer->Begin(column.title + ending, column.dtype, column.ShapeOf(slice.total), slice.first,
                  slice.count);
    if (slice.count > 0) {
      table.held.ForEachRowIds(column.RowsAtOnce(), [&](int64_t count, const int64_t* row_ids) {
        AppendPart(column, count, row_ids, writer);
      });
    }
    writer->End();
  }
}

}  // namespace

void WriteSeed(const TableOptions& options, const std::string& name, ShardWriter* writer) {
  using Kind = FirstValue::Kind;
  const Kind kind = options.first_value.kind;
  if (kind == Kind::kConstant || kind == Kind::kPreset || kind == Kind::kRows) return;
  const auto seed = static_cast<int64_t>(options.first_value.stream);
  writer->BeginWhole(name, tf::DT_INT64, tf::TensorShape({}));
  writer->Append(&seed, sizeof(seed));
  writer->End();
}

void WriteRowsOfRanks(RankCommunicator& communicator, const std::string& title, TableToSave& table,
                      ShardWriter* writer) {
  const TableOptions& options = table.view.options();
  const Slice slice = SliceOf(communicator, options.placement, table.held.count());
  if (options.placement.rank == 0) WriteSeed(options, title + "/seed", writer);
  if (slice.is_written()) WriteColumns(slice, title, "", table, writer);
}

void WriteIncrementOfRanks(RankCommunicator& communicator, const std::string& title,
                           TableToSave& table, ShardWriter* writer) {
  const Placement& placement = table.view.options().placement;
  // Before anything is written, as writing may use the same communicator.
  const Slice slice = SliceOf(communicator, placement, table.held.count());
  const Slice gone = SliceOf(communicator, placement, static_cast<int64_t>(table.gone_keys.size()));
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
  std::vector<int64_t> room, without;
  const int64_t* row_ids = call.OnHost(found, count, &room);
  for (int64_t i = 0; i < count; ++i) {
    if (row_ids[i] == kNoRow) without.push_back(keys[static_cast<size_t>(i)]);
  }
  return without;
}

BucketWriter::BucketWriter(OpCall& call, const TableView& view, const BucketOptions& options,
                           const RowBits* rows, ShardWriter* writer)
    : call_(call),
      view_(view),
      options_(options),
      writer_(writer),
      held_(InBuckets(call, OnlyRows(call, view.table.Export(call), rows), options.count)),
      keys_(static_cast<size_t>(held_.count)) {
  call.CopyToHost(keys_.data(), held_.keys, held_.count);
  if (view.history != nullptr) ReadHistory();
}

void BucketWriter::ReadHistory() {
  std::vector<int64_t> room, waiting_keys;
  std::vector<KeySeen> waiting;
  const int64_t* row_ids = call_.OnHost(held_.row_ids, held_.count, &room);
  const std::lock_guard<FairSharedMutex> lock(view_.history->mutex());
  for (size_t i = 0; i < keys_.size(); ++i) seen_.push_back(view_.history->OfRow(row_ids[i]));
  if (!options_.saves_waiting_keys) return;
  const WaitingKeys& all_waiting = view_.history->waiting();
  all_waiting.Export(0, all_waiting.num_places(), &waiting_keys, &waiting);
  SortWaiting(waiting_keys, waiting);
}

void BucketWriter::SortWaiting(const std::vector<int64_t>& keys, const std::vector<KeySeen>& seen) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int64_t bucket_a = BucketOf(keys[a], options_.count);
    const int64_t bucket_b = BucketOf(keys[b], options_.count);
    return bucket_a != bucket_b ? bucket_a < bucket_b : keys[a] < keys[b];
  });
  for (const size_t i : order) {
    filtered_.push_back(keys[i]);
    filtered_seen_.push_back(seen[i]);
  }
}

void BucketWriter::Write(Column& plane) {
  WriteKeys(plane.title + "-keys", keys_);
  writer_->BeginWhole(plane.title + "-values", plane.dtype, plane.ShapeOf(held_.count));
  const int64_t most = plane.RowsAtOnce();
  for (int64_t row = 0; row < held_.count; row += most)
    AppendPart(plane, std::min(most, held_.count - row), held_.row_ids + row, writer_);
  writer_->End();
  WriteHistory(plane, "", seen_);
  WriteKeys(plane.title + "-keys_filtered", filtered_);
  WriteHistory(plane, "_filtered", filtered_seen_);
  WriteStarts(plane.title + "-partition_offset", keys_);
  WriteStarts(plane.title + "-partition_filter_offset", filtered_);
}

void BucketWriter::WriteHistory(const Column& plane, const char* ending,
                                const std::vector<KeySeen>& seen) {
  for (const KeyNumber& number : kKeyNumbers) {
    std::vector<int64_t> numbers;
    for (const KeySeen& each : seen) numbers.push_back(each.*number.field);
    WriteNumbers(plane.title + "-" + number.name + ending, numbers);
  }
}

void BucketWriter::WriteKeys(const std::string& name, const std::vector<int64_t>& keys) {
  if (!options_.narrow_keys) return WriteNumbers(name, keys);
  std::vector<int32_t> narrow(keys.begin(), keys.end());
  if (!std::equal(keys.begin(), keys.end(), narrow.begin())) {
    Throw(ErrorCode::kInvalidArgument, "table '", view_.options().name,
          "' has keys that do not fit in int32, its key_dtype, and cannot be saved; use "
          "key_dtype=tf.int64");
  }
  writer_->BeginWhole(name, tf::DT_INT32, tf::TensorShape({static_cast<int64_t>(keys.size())}));
  writer_->Append(narrow.data(), narrow.size() * sizeof(int32_t));
  writer_->End();
}

void BucketWriter::WriteNumbers(const std::string& name, const std::vector<int64_t>& numbers) {
  writer_->BeginWhole(name, tf::DT_INT64, tf::TensorShape({static_cast<int64_t>(numbers.size())}));
  writer_->Append(numbers.data(), numbers.size() * sizeof(int64_t));
  writer_->End();
}

/// Writes the start of each bucket, followed by the total.
void BucketWriter::WriteStarts(const std::string& name, const std::vector<int64_t>& keys) {
  std::vector<int32_t> starts(static_cast<size_t>(options_.count + 1));
  for (const int64_t key : keys) ++starts[static_cast<size_t>(BucketOf(key, options_.count) + 1)];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  writer_->BeginWhole(name, tf::DT_INT32, tf::TensorShape({options_.count + 1}));
  writer_->Append(starts.data(), starts.size() * sizeof(int32_t));
  writer_->End();
}

}  // namespace sok
