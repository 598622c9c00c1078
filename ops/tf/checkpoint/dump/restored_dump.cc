// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/dump/restored_dump.h"

#include <algorithm>
#include <utility>

#include "ops/base/error.h"
#include "ops/formats/files/checkpoint_progress.h"

namespace sok {
namespace {

constexpr int64_t kBlockBytes = 8 << 20;  // rank 0 has several copies

int64_t RowBytes(const std::vector<int64_t>& widths) {
  int64_t num_bytes = sizeof(int64_t);
  for (const int64_t width : widths) num_bytes += width * static_cast<int64_t>(sizeof(float));
  return num_bytes;
}

/// A block as bytes: all keys, then each plane.
RowsBlock BlockIn(const char* data, int64_t count, const std::vector<int64_t>& widths) {
  RowsBlock block{count, reinterpret_cast<const int64_t*>(data), {}};
  data += count * static_cast<int64_t>(sizeof(int64_t));
  for (const int64_t width : widths) {
    block.planes.push_back(reinterpret_cast<const float*>(data));
    data += count * width * static_cast<int64_t>(sizeof(float));
  }
  return block;
}

/// The rows at `places` of a block, as bytes.
std::string Chosen(const RowsBlock& block, const std::vector<int64_t>& places,
                   const std::vector<int64_t>& widths) {
  std::string bytes;
  const auto append = [&](const void* from, int64_t value_bytes) {
    const auto* values = static_cast<const char*>(from);
    for (const int64_t place : places)
      bytes.append(values + place * value_bytes, static_cast<size_t>(value_bytes));
  };
  append(block.keys, sizeof(int64_t));
  for (size_t i = 0; i < widths.size(); ++i)
    append(block.planes[i], widths[i] * static_cast<int64_t>(sizeof(float)));
  return bytes;
}

/// Sends each rank the rows that it owns, if this process is connected to others, and uses its own.
void Scatter(RankCommunicator& communicator, const Placement& placement,
             const std::vector<int64_t>& widths, const RowsBlock& block, const UseBlock& use) {
  const bool is_replicated = placement.kind == Placement::Kind::kReplicated;
  std::vector<std::vector<int64_t>> places(static_cast<size_t>(communicator.num_ranks()));
  for (int64_t i = 0; i < block.count; ++i) {
    if (is_replicated) {
      for (std::vector<int64_t>& of_rank : places) of_rank.push_back(i);
    } else {
      places[static_cast<size_t>(placement.Owner(block.keys[i]))].push_back(i);
    }
  }
  const auto own = static_cast<size_t>(placement.rank);
  const std::string kept = Chosen(block, places[own], widths);
  if (communicator.is_connected()) {
    std::vector<std::string> texts(places.size());
    for (size_t rank = 0; rank < places.size(); ++rank) {
      if (rank != own) texts[rank] = Chosen(block, places[rank], widths);
    }
    communicator.Exchange(std::move(texts));
  }
  use(BlockIn(kept.data(), static_cast<int64_t>(places[own].size()), widths));
}

}  // namespace

void ForEachOwnedBlock(RankCommunicator& communicator, const Placement& placement,
                       const std::vector<int64_t>& widths, RowsSource* source,
                       const UseBlock& use) {
  const int64_t num_rows = communicator.ShareNumber(source ? source->num_rows() : 0)[0];
  const int64_t row_bytes = RowBytes(widths);
  const int64_t most = std::max<int64_t>(1, kBlockBytes / row_bytes);
  std::vector<char> data;
  for (int64_t first = 0; first == 0 || first < num_rows; first += most) {
    const int64_t count = std::min(most, num_rows - first);
    if (source == nullptr) {
      const std::string received = communicator.Exchange(
          std::vector<std::string>(static_cast<size_t>(communicator.num_ranks())))[0];
      use(BlockIn(received.data(), static_cast<int64_t>(received.size()) / row_bytes, widths));
      continue;
    }
    data.resize(static_cast<size_t>(count * row_bytes));
    const RowsBlock block = BlockIn(data.data(), count, widths);
    source->Read(0, first, count, data.data());
    for (size_t i = 0; i < widths.size(); ++i) {
      const char* plane = reinterpret_cast<const char*>(block.planes[i]);
      source->Read(1 + i, first, count, data.data() + (plane - data.data()));
    }
    NoteCheckpointBytes(count * row_bytes);
    if (communicator.num_ranks() == 1)
      use(block);
    else
      Scatter(communicator, placement, widths, block, use);
  }
}

}  // namespace sok
