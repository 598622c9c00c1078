// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup/packed_rows.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "ops/tf/base/exported.h"

namespace sok {
namespace {

namespace tf = tensorflow;

std::atomic<int64_t> num_saturated{0};

/// A run of an item's rows, on the device.
struct Run {
  int64_t first_byte;
  const float* begin;
  int64_t num_floats;
  Element wire_dtype;
};

/// The runs in the order of the bytes.
std::vector<Run> RunsOf(const RowLayout& layout, const std::vector<const float*>& rows) {
  std::vector<Run> runs;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int item = static_cast<int>(i);
    for (const RowRun& run : layout.runs(item)) {
      runs.push_back({layout.PlaceOf(run), rows[i] + run.first_float, run.num_floats,
                      layout.wire_dtype(item)});
    }
  }
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.first_byte < b.first_byte; });
  return runs;
}

void SendInPlace(const std::vector<Run>& runs, std::shared_ptr<const void> memory,
                 ExchangeRequest* request) {
  for (const Run& run : runs) {
    if (run.num_floats == 0) continue;
    request->pieces.emplace_back(reinterpret_cast<const char*>(run.begin),
                                 static_cast<size_t>(run.num_floats) * sizeof(float));
  }
  request->memory = std::move(memory);
}

void CopyNarrowed(OpCall& call, const RowLayout& layout, const std::vector<Run>& runs,
                  ExchangeRequest* request) {
  request->data.resize(static_cast<size_t>(layout.total_bytes()));
  std::vector<float> room;
  for (const Run& run : runs) {
    char* to = request->data.data() + run.first_byte;
    if (run.wire_dtype == Element::kFloat32) {
      call.CopyToHost(reinterpret_cast<float*>(to), run.begin, run.num_floats);
    } else {
      const float* from = call.OnHost(run.begin, run.num_floats, &room);
      num_saturated += Narrow(run.wire_dtype, from, run.num_floats, to);
    }
  }
}

}  // namespace

void SendRows(OpCall& call, const RowLayout& layout, const std::vector<const float*>& rows,
              std::shared_ptr<const void> memory, ExchangeRequest* request) {
  const std::vector<Run> runs = RunsOf(layout, rows);
  const bool travel_as_they_are = std::all_of(
      runs.begin(), runs.end(), [](const Run& run) { return run.wire_dtype == Element::kFloat32; });
  if (travel_as_they_are && call.engine().IsHostMemory()) {
    SendInPlace(runs, std::move(memory), request);
  } else {
    CopyNarrowed(call, layout, runs, request);
  }
}

int64_t FloatsOf(tf::DataType dtype) {
  return tf::DataTypeSize(dtype) / static_cast<int64_t>(sizeof(float));
}

float* ReceivedRows(tf::OpKernelContext* ctx, const Group& group, const RowLayout& layout,
                    const std::vector<int64_t>& dims, const char* list, int item) {
  const int place = PlaceOfOutput(ctx, list, item);
  tf::Tensor* made = ctx->mutable_output(place);
  if (made == nullptr) {
    const int64_t num_columns =
        dims[static_cast<size_t>(item)] / FloatsOf(ctx->expected_output_dtype(place));
    made = &group.Output(list, item, {layout.num_rows(item), num_columns});
  }
  return static_cast<float*>(made->data());
}

void OutputReceived(tf::OpKernelContext* ctx, const Group& group, const RowLayout& layout,
                    const std::vector<int64_t>& dims, const ExchangeResult& result,
                    const char* list) {
  layout.CheckReceived(result);
  OpCall call(ctx);
  std::vector<float> room;
  for (int i = 0; i < group.size(); ++i) {
    float* rows = ReceivedRows(ctx, group, layout, dims, list, i);
    const Element wire_dtype = layout.wire_dtype(i);
    for (const RowRun& run : layout.runs(i)) {
      const char* from = result.parts[run.rank].data() + run.first_byte;
      float* to = rows + run.first_float;
      if (wire_dtype == Element::kFloat32) {
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

}  // namespace sok

/// Numbers that this process has clamped to the float16 range when sending.
SOK_EXPORT int64_t sok_exchange_num_saturated() { return sok::num_saturated; }
