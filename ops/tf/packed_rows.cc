// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/packed_rows.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

namespace sok {
namespace {

namespace tf = tensorflow;

std::atomic<int64_t> num_saturated{0};

/// A run of an item's rows, which are on the host.
struct Piece {
  int64_t first_byte;
  const float* begin;
  int64_t num_floats;
  WireDtype wire_dtype;
};

void Append(const Piece& piece, std::vector<char>* data) {
  if (piece.wire_dtype == WireDtype::kFloat32) {
    data->insert(data->end(), reinterpret_cast<const char*>(piece.begin),
                 reinterpret_cast<const char*>(piece.begin + piece.num_floats));
    return;
  }
  const size_t begin = data->size();
  data->resize(begin + static_cast<size_t>(piece.num_floats * WireBytes(piece.wire_dtype)));
  num_saturated += Narrow(piece.wire_dtype, piece.begin, piece.num_floats, data->data() + begin);
}

/// Appends run after run, in the order of the bytes: of float32, nothing is zeroed before it is
/// written.
void PackOnHost(const RowLayout& layout, const std::vector<const float*>& rows,
                ExchangeRequest* request) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int item = static_cast<int>(i);
    for (const RowRun& run : layout.runs(item)) {
      pieces.push_back({layout.PlaceOf(run), rows[i] + run.first_float, run.num_floats,
                        layout.wire_dtype(item)});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.first_byte < b.first_byte; });
  request->data.reserve(static_cast<size_t>(layout.total_bytes()));
  for (const Piece& piece : pieces) Append(piece, &request->data);
}

}  // namespace

void Pack(OpCall& call, const RowLayout& layout, const std::vector<const float*>& rows,
          ExchangeRequest* request) {
  if (call.engine().IsHostMemory()) return PackOnHost(layout, rows, request);
  request->data.resize(static_cast<size_t>(layout.total_bytes()));
  std::vector<float> room;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int item = static_cast<int>(i);
    for (const RowRun& run : layout.runs(item)) {
      char* to = request->data.data() + layout.PlaceOf(run);
      const float* from = rows[i] + run.first_float;
      if (layout.wire_dtype(item) == WireDtype::kFloat32) {
        call.CopyToHost(reinterpret_cast<float*>(to), from, run.num_floats);
      } else {
        from = call.OnHost(from, run.num_floats, &room);
        num_saturated += Narrow(layout.wire_dtype(item), from, run.num_floats, to);
      }
    }
  }
}

void SendInPlace(const RowLayout& layout, const std::vector<const float*>& rows,
                 std::shared_ptr<const void> memory, ExchangeRequest* request) {
  std::vector<std::pair<int64_t, std::string_view>> pieces;  // by place
  for (size_t item = 0; item < rows.size(); ++item) {
    for (const RowRun& run : layout.runs(static_cast<int>(item))) {
      const auto num_bytes = static_cast<size_t>(run.num_floats) * sizeof(float);
      if (num_bytes == 0) continue;
      const auto* begin = reinterpret_cast<const char*>(rows[item] + run.first_float);
      pieces.emplace_back(layout.PlaceOf(run), std::string_view(begin, num_bytes));
    }
  }
  std::sort(pieces.begin(), pieces.end());
  for (const auto& [place, piece] : pieces) request->pieces.push_back(piece);
  request->memory = std::move(memory);
}

void OutputReceived(tf::OpKernelContext* ctx, const Group& group, const RowLayout& layout,
                    const std::vector<int64_t>& dims, const ExchangeResult& result) {
  layout.CheckReceived(result);
  OpCall call(ctx);
  std::vector<float> room;
  for (int i = 0; i < group.size(); ++i) {
    float* rows =
        Data<float>(group.Output(0, i, {layout.num_rows(i), dims[static_cast<size_t>(i)]}));
    const WireDtype wire_dtype = layout.wire_dtype(i);
    for (const RowRun& run : layout.runs(i)) {
      const char* from = result.parts[run.rank].data() + run.first_byte;
      float* to = rows + run.first_float;
      if (wire_dtype == WireDtype::kFloat32) {
        call.CopyFromHost(to, reinterpret_cast<const float*>(from), run.num_floats);
      } else if (call.engine().IsHostMemory()) {
        Widen(wire_dtype, from, run.num_floats, to);
      } else {
        room.resize(static_cast<size_t>(run.num_floats));
        Widen(wire_dtype, from, run.num_floats, room.data());
        call.CopyFromHost(to, room.data(), run.num_floats);
      }
    }
  }
}

int64_t NumSaturated() { return num_saturated; }

}  // namespace sok
