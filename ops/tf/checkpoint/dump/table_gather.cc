// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/dump/table_gather.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "ops/base/error.h"

namespace sok {
namespace {

constexpr int64_t kPartBytes = 64 << 20;  // from each rank; an exchange is limited to 2 GiB

}  // namespace

TableGather::TableGather(RankCommunicator& communicator, const TableOptions& options)
    : communicator_(communicator),
      is_replicated_(options.placement.kind == Placement::Kind::kReplicated),
      entry_bytes_(sizeof(int64_t) + static_cast<size_t>(options.dim) * sizeof(float)) {}

void TableGather::Send(TableContents& contents) {
  if (is_replicated_) return;
  const int64_t num_parts = NumParts(contents.size());
  for (int64_t part = 0; part < num_parts; ++part) {
    std::vector<char> data = Part(contents, part);
    std::vector<int64_t> send_bytes(static_cast<size_t>(communicator_.num_ranks()), 0);
    send_bytes[0] = static_cast<int64_t>(data.size());
    communicator_.Exchange(std::move(data), std::move(send_bytes));
  }
}

void TableGather::Receive(TableContents& contents, const Use& use) {
  ForEach(contents, 0, contents.size(), use);
  if (communicator_.num_ranks() == 1 || is_replicated_) return;
  const int64_t num_parts = NumParts(0);
  for (int64_t part = 0; part < num_parts; ++part) {
    const std::vector<std::string> received = communicator_.Exchange(
        {}, std::vector<int64_t>(static_cast<size_t>(communicator_.num_ranks()), 0));
    for (const std::string& entries : received) {
      if (entries.size() % entry_bytes_ != 0)
        Throw(ErrorCode::kAborted,
              "another rank sent an incomplete entry: its table has a different dim");
      for (size_t begin = 0; begin < entries.size(); begin += entry_bytes_) {
        int64_t key = 0;
        std::memcpy(&key, entries.data() + begin, sizeof(key));
        use(key, entries.data() + begin + sizeof(key));
      }
    }
  }
}

/// The number of parts that the rank with the most keys needs; rank 0 sends none.
int64_t TableGather::NumParts(int64_t num_keys) {
  const int64_t keys_per_part =
      std::max<int64_t>(1, kPartBytes / static_cast<int64_t>(entry_bytes_));
  const int64_t num_parts = (num_keys + keys_per_part - 1) / keys_per_part;
  std::vector<char> data;
  for (int64_t rank = 0; rank < communicator_.num_ranks(); ++rank) {
    const char* bytes = reinterpret_cast<const char*>(&num_parts);
    data.insert(data.end(), bytes, bytes + sizeof(num_parts));
  }
  int64_t most = 0;
  for (const std::string& part : communicator_.Exchange(
           std::move(data), std::vector<int64_t>(static_cast<size_t>(communicator_.num_ranks()),
                                                 sizeof(num_parts)))) {
    int64_t of_rank = 0;
    std::memcpy(&of_rank, part.data(), std::min(part.size(), sizeof(of_rank)));
    most = std::max(most, of_rank);
  }
  return most;
}

std::vector<char> TableGather::Part(TableContents& contents, int64_t part) const {
  const int64_t keys_per_part =
      std::max<int64_t>(1, kPartBytes / static_cast<int64_t>(entry_bytes_));
  const int64_t begin = std::min(contents.size(), part * keys_per_part);
  const int64_t end = std::min(contents.size(), begin + keys_per_part);
  std::vector<char> data(static_cast<size_t>(end - begin) * entry_bytes_);
  char* entry = data.data();
  ForEach(contents, begin, end, [&](int64_t key, const char* row) {
    std::memcpy(entry, &key, sizeof(key));
    std::memcpy(entry + sizeof(key), row, entry_bytes_ - sizeof(key));
    entry += entry_bytes_;
  });
  return data;
}

void TableGather::ForEach(TableContents& contents, int64_t begin, int64_t end, const Use& use) {
  const int64_t dim = contents.options().dim;
  const int64_t most = std::min(end - begin, RowsOfPart(dim));
  std::vector<int64_t> keys(static_cast<size_t>(most));
  std::vector<float> rows(static_cast<size_t>(most * dim));
  for (int64_t first = begin; first < end; first += most) {
    const int64_t count = std::min(most, end - first);
    contents.Read(first, count, keys.data(), rows.data());
    for (int64_t i = 0; i < count; ++i) {
      use(keys[static_cast<size_t>(i)], reinterpret_cast<const char*>(rows.data() + i * dim));
    }
  }
}

}  // namespace sok
