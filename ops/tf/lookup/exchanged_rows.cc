// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup/exchanged_rows.h"

#include <numeric>
#include <string_view>

#include "ops/tf/ranks/collective_handle.h"

namespace sok {

namespace {

/// An attribute with the name of an element for each item of a group; if empty, all are float32.
std::vector<Element> ElementsIn(tf::OpKernelConstruction* ctx, const char* attribute) {
  const auto num_items = static_cast<size_t>(Attribute<int64_t>(ctx, "N"));
  const auto names = Attribute<std::vector<std::string>>(ctx, attribute);
  if (names.empty()) return std::vector<Element>(num_items, Element::kFloat32);
  std::vector<Element> elements;
  for (const std::string& name : ItemAttributes<std::string>(ctx, attribute))
    elements.push_back(ItemNamed(kElements, attribute, name).value);
  return elements;
}

}  // namespace

WireDtypes::WireDtypes(tf::OpKernelConstruction* ctx)
    : sums(ElementsIn(ctx, "wire_dtypes")), rows(sums.size(), Element::kFloat32) {}

WireDtypes WireDtypes::WithRows(tf::OpKernelConstruction* ctx) {
  WireDtypes dtypes(ctx);
  dtypes.rows = ElementsIn(ctx, "row_dtypes");
  return dtypes;
}

RowLayout::RowLayout(tf::OpKernelContext* ctx, const OpCall& call, const Group& group,
                     const char* counts_list, const std::vector<int64_t>& dims,
                     const WireDtypes& wire_dtypes)
    : op_name_(group.name()),
      is_in_place_(call.engine().IsHostMemory()),
      num_rows_(dims.size(), 0),
      runs_(dims.size()) {
  const auto& coordinator = CollectiveHandleIn(Input(ctx, "collective"))->coordinator();
  const int64_t num_ranks = coordinator.num_ranks();
  const auto number = [&](int item, int64_t place) {
    const auto& counts = group.Vector(counts_list, item);
    return place < counts.NumElements() ? Data<int64_t>(counts)[place] : 0;
  };
  const auto element = [&](int item, int64_t rank) {
    return wire_dtypes.Of(static_cast<size_t>(item), number(item, num_ranks + rank) > 0);
  };
  for (size_t item = 0; item < dims.size(); ++item) {
    for (const bool are_sums : {false, true})
      is_in_place_ = is_in_place_ && wire_dtypes.Of(item, are_sums) == Element::kFloat32;
  }
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    int64_t num_bytes = 0;
    for (int item = 0; item < group.size(); ++item) {
      const auto& counts = group.Vector(counts_list, item);
      const int64_t count = number(item, rank);
      if (counts.NumElements() % num_ranks != 0 || counts.NumElements() == 0 || count < 0) {
        Throw(ErrorCode::kInvalidArgument, op_name_, ": expected one count for each of ", num_ranks,
              " ranks, got ", counts.SummarizeValue(8));
      }
      const auto i = static_cast<size_t>(item);
      const int64_t num_floats = count * dims[i];
      const RowRun run{num_rows_[i] * dims[i], static_cast<size_t>(rank), num_bytes, num_floats,
                       element(item, rank)};
      num_rows_[i] += count;
      if (count > 0) runs_[i].push_back(run);
      num_bytes += num_floats * ElementBytes(run.element);
    }
    bytes_of_ranks_.push_back(num_bytes);
  }
}

size_t RowLayout::num_floats() const {
  int64_t total = 0;
  for (const std::vector<RowRun>& runs : runs_) {
    for (const RowRun& run : runs) total += run.num_floats;
  }
  return static_cast<size_t>(total);
}

void RowLayout::CheckNumRows(int item, int64_t num_rows) const {
  if (num_rows == this->num_rows(item)) return;
  Throw(ErrorCode::kInvalidArgument, op_name_, ": ", num_rows, " rows for ", this->num_rows(item),
        " replies; the batch of a table's owner must divide equally among the ranks");
}

void RowLayout::CheckReceived(const ExchangeResult& result) const {
  const auto sum = [](const std::vector<int64_t>& of_ranks) {
    return std::accumulate(of_ranks.begin(), of_ranks.end(), int64_t{0});
  };
  std::vector<int64_t> received_bytes;
  for (const std::string_view part : result.parts)
    received_bytes.push_back(static_cast<int64_t>(part.size()));
  if (received_bytes == bytes_of_ranks_) return;
  Throw(ErrorCode::kInvalidArgument, op_name_, ": expected ", sum(bytes_of_ranks_),
        " bytes of rows, got ", sum(received_bytes),
        "; do all ranks run the same layers, on batches of the same size?");
}

}  // namespace sok
