// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup/packed_rows.h"

#include <atomic>
#include <utility>

#include "ops/tf/base/exported.h"

namespace sok {
namespace {

std::atomic<int64_t> num_saturated{0};

/// Calls use(item, run) for the runs of all items, by item and then by rank.
template <typename Use>
void ForEachRun(const RowLayout& layout, size_t num_items, const Use& use) {
  for (size_t item = 0; item < num_items; ++item) {
    for (const RowRun& run : layout.runs(static_cast<int>(item))) use(item, run);
  }
}

Outgoing InPlace(const RowLayout& layout, const std::vector<const float*>& rows,
                 std::shared_ptr<const void> memory) {
  Outgoing outgoing{std::vector<Pieces>(layout.bytes_of_ranks().size()), std::move(memory)};
  ForEachRun(layout, rows.size(), [&](size_t item, const RowRun& run) {
    if (run.num_floats == 0) return;
    outgoing.by_rank[run.rank].emplace_back(
        reinterpret_cast<const char*>(rows[item] + run.first_float),
        static_cast<size_t>(run.num_floats) * sizeof(float));
  });
  return outgoing;
}

Outgoing Narrowed(OpCall& call, const RowLayout& layout, const std::vector<const float*>& rows) {
  std::vector<std::string> texts;
  for (const int64_t bytes : layout.bytes_of_ranks())
    texts.emplace_back(static_cast<size_t>(bytes), '\0');
  std::vector<float> buffer;
  ForEachRun(layout, rows.size(), [&](size_t item, const RowRun& run) {
    char* to = texts[run.rank].data() + run.first_byte;
    const float* begin = rows[item] + run.first_float;
    if (run.element == Element::kFloat32) {
      call.CopyToHost(reinterpret_cast<float*>(to), begin, run.num_floats);
    } else {
      num_saturated +=
          Narrow(run.element, call.OnHost(begin, run.num_floats, &buffer), run.num_floats, to);
    }
  });
  return TextsByRank(std::move(texts));
}

}  // namespace

Outgoing OutgoingRows(OpCall& call, const RowLayout& layout, const std::vector<const float*>& rows,
                      std::shared_ptr<const void> memory) {
  return layout.is_in_place() ? InPlace(layout, rows, std::move(memory))
                              : Narrowed(call, layout, rows);
}

int64_t FloatsOf(tf::DataType dtype) {
  return tf::DataTypeSize(dtype) / static_cast<int64_t>(sizeof(float));
}

void OutputReceived(tf::OpKernelContext* ctx, const Group& group, const RowLayout& layout,
                    const std::vector<int64_t>& dims, const ExchangeResult& result,
                    const char* list) {
  layout.CheckReceived(result);
  OpCall call(ctx);
  std::vector<float> buffer;
  for (int i = 0; i < group.size(); ++i) {
    const int64_t num_columns = dims[static_cast<size_t>(i)] /
                                FloatsOf(ctx->expected_output_dtype(PlaceOfOutput(ctx, list, i)));
    auto* rows =
        static_cast<float*>(group.Output(list, i, {layout.num_rows(i), num_columns}).data());
    for (const RowRun& run : layout.runs(i)) {
      const char* from = result.parts[run.rank].data() + run.first_byte;
      float* to = rows + run.first_float;
      if (run.element == Element::kFloat32) {
        call.CopyFromHost(to, reinterpret_cast<const float*>(from), run.num_floats);
      } else if (call.engine().IsHostMemory()) {
        Widen(run.element, from, run.num_floats, to);
      } else {
        buffer.resize(static_cast<size_t>(run.num_floats));
        Widen(run.element, from, run.num_floats, buffer.data());
        call.CopyFromHost(to, buffer.data(), run.num_floats);
      }
    }
  }
}

}  // namespace sok

/// Numbers that this process has clamped to the float16 range when sending.
SOK_EXPORT int64_t sok_exchange_num_saturated() { return sok::num_saturated; }
