// SPDX-License-Identifier: Apache-2.0
// Ops that create tables and their planes.
#include <string>
#include <vector>

#include "ops/cpu/rows/fetch_rows.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/lookup_checks.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/tables/resource/table_attributes.h"
#include "ops/tf/tables/resource/table_resource.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

using tf::shape_inference::InferenceContext;

REGISTER_OP("SokTableHandle")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Output("table: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("A handle to the table named shared_name.");

REGISTER_OP("SokTableInitialize")
    .Input("table: resource")
    .Input("rows: resource")
    .Input("seed: int64")
    .Input("first_rows: num_first_rows * float")
    .Attr("num_first_rows: int >= 0 = 0")
    .Attr("table_name: string")
    .Attr("raise_capacity: string = 'raise the capacity'")
    .Attr("dim: int >= 1")
    .Attr("capacity: int >= 1")
    .Attr("use_hash_index: bool")
    .Attr("placement_kind: {" + NamesOf(kPlacementKinds) + "}")
    .Attr("num_ranks: int >= 1")
    .Attr("rank: int >= 0")
    .Attr("owner_rank: int >= 0 = 0")
    .Attr("num_keys: int >= 0 = 0")
    .Attr("first_value: {" + NamesOf(kFirstValueKinds) + "}")
    .Attr("low_or_mean: float")
    .Attr("high_or_stddev: float")
    .Attr("first_value_period: int >= 0 = 0")
    .Attr("keeps_history: bool = false")
    .Attr("filter_freq: int >= 0 = 0")
    .Attr("bloom_counters: int >= 0 = 0")
    .Attr("bloom_hashes: int >= 1 = 1")
    .Attr("bloom_counter_bytes: int >= 1 = 8")
    .Attr("value_without_row: float = 0.0")
    .Attr("evicts: bool = false")
    .Attr("max_keys: int >= 0 = 0")
    .Attr("first_value_name: string = ''")
    .Attr("row_dtype: {float, bfloat16, half} = DT_FLOAT")
    .Attr("rounding: {'stochastic', 'nearest'} = 'stochastic'")
    .Attr("storage_path: string = ''")
    .Attr("memory_bytes: int >= 0 = 0")
    .Attr("keep_existing: bool = false")
    .Attr("graph: int = -1")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Creates an empty table whose rows [capacity, dim] are the variable `rows`; with "
        "keep_existing, only if it does not exist yet. A capacity of 2^32 - 1 stands for no "
        "declared capacity: the variable then has as many rows as there is memory for, and grows "
        "with the keys. With a first_value_period, a key has the first value of floormod(key, "
        "first_value_period); with a first_value_name, that of the table of this name. "
        "first_rows: with the first_value 'rows', one matrix [first_value_period, dim]; a table "
        "that exists keeps its own, so that they are drawn once. "
        "keeps_history: SokAdmitKeys records how often each key occurs, and when last. A key "
        "gets its row after filter_freq occurrences, counted exactly or in a counting Bloom "
        "filter; until then it reads value_without_row. evicts: SokEvictKeys may run. max_keys "
        "above 0: lookups that insert record the moment when each key was used last, in "
        "nanoseconds since 1970, and evict the least recently used keys beyond max_keys. "
        "row_dtype: of the numbers in rows, which rules round by `rounding`. storage_path: a "
        "folder "
        "for files of rows, of which at most memory_bytes, with slots, are in memory between "
        "steps; empty: rows are in memory. graph: as for SokBeginCollective, if other ranks share "
        "the table.");

REGISTER_OP("SokTableAttachSlot")
    .Input("table: resource")
    .Input("slot: resource")
    .Attr("slot_name: string")
    .Attr("capacity: int >= 1")
    .Attr("width: int >= 1")
    .Attr("initial_value: float")
    .Attr("rows_fill_in_order: bool")
    .Attr("storage_path: string = ''")
    .Attr("memory_bytes: int >= 0 = 0")
    .Attr("keep_existing: bool = false")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Makes the variable `slot` a plane [capacity, width] of the table; rows start at "
        "initial_value. With keep_existing, only if it is not a plane of the table yet.");

REGISTER_OP("SokTableDetachSlot")
    .Input("table: resource")
    .Input("slot: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Detaches the variable `slot` from the table; no effect if either no longer exists.");

REGISTER_OP("SokTableSize")
    .Input("table: resource")
    .Output("num_keys: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape)
    .Doc("The number of keys in the table.");

REGISTER_OP("SokTableStatistics")
    .Input("table: resource")
    .Output("statistics: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(12));
      return absl::OkStatus();
    })
    .Doc(
        "The numbers of keys in the table, of rows that have memory, of keys evicted since the "
        "table was made, and of keys that a filter counts but that have no row; the capacity; the "
        "bytes of rows, slots and the index, and those of them in memory; of planes in files: "
        "bytes on the disk, rows that lookups requested, those that were not in memory, bytes "
        "read, and bytes written.");

REGISTER_OP("SokLookupTier")
    .Input("table: resource")
    .Input("keys: int64")
    .Output("tiers: int32")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::UnchangedShape)
    .Doc(
        "For each key 0 if its row and slots are in memory, 1 if not, and -1 if it has no row "
        "here.");

REGISTER_OP("SokTablePreset")
    .Input("table: resource")
    .Input("values: float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Writes `values` [capacity, dim] to the rows, as the first values of keys if the table's "
        "first value is 'preset'.");

REGISTER_OP("SokReadFirstRows")
    .Input("table: resource")
    .Output("first_rows: float")
    .SetIsStateful()
    .SetShapeFn(AllMatrices)
    .Doc("The first_rows of a table's first_value 'rows'.");

REGISTER_OP("SokAssignFirstRows")
    .Input("table: resource")
    .Input("first_rows: float")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Replaces the first_rows of a table. Keys that have a row keep it.");

REGISTER_OP("SokReadRows")
    .Input("rows: resource")
    .Input("table: resource")
    .Output("values: float")
    .SetIsStateful()
    .SetShapeFn(AllMatrices)
    .Doc(
        "All rows [capacity, dim] of the variable `rows`, which may be a slot, in the order of "
        "row ids; rows that were never in use are zeros. Without a declared capacity: the rows "
        "that the variable shows.");

class TableInitialize {
 public:
  explicit TableInitialize(tf::OpKernelConstruction* ctx)
      : keep_existing_(Attribute<bool>(ctx, "keep_existing")),
        graph_(Attribute<int64_t>(ctx, "graph")),
        first_value_name_(Attribute<std::string>(ctx, "first_value_name")),
        rounds_stochastically_(Attribute<std::string>(ctx, "rounding") == "stochastic"),
        options_(TableOptionsFrom(ctx)),
        storage_(StorageOptionsFrom(ctx)),
        history_(HistoryOptionsFrom(ctx)) {}

  void operator()(tf::OpKernelContext* ctx) const {
    TableOptions options = options_;
    options.first_value.stream =
        FirstValueStream(Input(ctx, "seed").scalar<int64_t>()(),
                         first_value_name_.empty() ? options.name : first_value_name_);
    if (graph_ >= 0) SessionSteps::Of(ctx)->NumberAmongSessionsOf(graph_);
    OpCall call(ctx);
    const tf::Tensor first_rows = CopyFirstRows(ctx, call, &options);
    LookupOrMakeTable(ctx, "table")
        ->Initialize(call, options, history_, storage_, LookupOrMakeVariable(ctx, "rows"),
                     first_rows, rounds_stochastically_, keep_existing_);
  }

 private:
  /// Makes options->first_value.rows a copy of the input that is the table's own.
  static tf::Tensor CopyFirstRows(tf::OpKernelContext* ctx, OpCall& call, TableOptions* options) {
    tf::Tensor copy;
    if (options->first_value.kind != FirstValue::Kind::kRows) return copy;
    const tf::Tensor& rows = Input(ctx, "first_rows");
    CheckFirstRows(*options, rows);
    ThrowIfError(ctx->allocate_temp(tf::DT_FLOAT, rows.shape(), &copy));
    call.engine().CopyOnDevice(call, copy.data(), rows.data(),
                               static_cast<int64_t>(rows.TotalBytes()));
    options->first_value.rows = Data<float>(copy);
    return copy;
  }

  const bool keep_existing_;
  const int64_t graph_;
  const std::string first_value_name_;
  const bool rounds_stochastically_;
  const TableOptions options_;
  const StorageOptions storage_;
  const HistoryOptions history_;
};

class TableAttachSlot {
 public:
  explicit TableAttachSlot(tf::OpKernelConstruction* ctx)
      : keep_existing_(Attribute<bool>(ctx, "keep_existing")), options_(SlotOptionsFrom(ctx)) {}

  void operator()(tf::OpKernelContext* ctx) const {
    OpCall call(ctx);
    LookupOrMakeTable(ctx, "table")
        ->AttachSlot(call, options_, LookupOrMakeVariable(ctx, "slot"), keep_existing_);
  }

 private:
  const bool keep_existing_;
  const SlotOptions options_;
};

void TableDetachSlot(tf::OpKernelContext* ctx) {
  tf::core::RefCountPtr<TableResource> table;
  tf::core::RefCountPtr<tf::Var> slot;
  if (tf::LookupResource(ctx, HandleIn(ctx, "table"), &table).ok() &&
      tf::LookupResource(ctx, HandleIn(ctx, "slot"), &slot).ok()) {
    table->DetachSlot(slot.get());
  }
}

void SizeOfTable(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  LookupTable(ctx, HandleIn(ctx, "table"))->WithTable([&](const TableView& view) {
    Output(ctx, "num_keys", {}).scalar<int64_t>()() = view.table.Size(call).num_keys;
  });
}

void StatisticsOfTable(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  const auto numbers = LookupTable(ctx, HandleIn(ctx, "table"))->Statistics(call).Numbers();
  OutputVector(ctx, "statistics", std::vector<int64_t>(numbers.begin(), numbers.end()));
}

void LookUpTiers(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  const tf::Tensor& keys = Input(ctx, "keys");
  int32_t* const tiers = Data<int32_t>(Output(ctx, "tiers", keys.shape()));
  LookupTable(ctx, HandleIn(ctx, "table"))->WithPlanes(call, [&](const TableView& view) {
    const std::vector<int64_t> row_ids =
        view.table.FindOnHost(call, keys.NumElements(), Data<int64_t>(keys));
    for (size_t i = 0; i < row_ids.size(); ++i) {
      int32_t tier = row_ids[i] < 0 ? -1 : 0;
      view.planes.ForEach([&](const Plane& plane) {
        const RowsView row = plane.data().From(row_ids[i]);
        if (tier == 0 && row.file != nullptr && !row.file->IsResident(row.data, row.row_bytes())) {
          tier = 1;
        }
      });
      tiers[i] = tier;
    }
  });
}

void TablePreset(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  LookupTable(ctx, HandleIn(ctx, "table"))->SetPreset(call, Input(ctx, "values"));
}

/// Of a table whose first values are rows.
int64_t BytesOfFirstRows(const TableOptions& options) {
  const FirstValue& first_value = options.first_value;
  if (first_value.kind == FirstValue::Kind::kRows) {
    return first_value.period * options.dim * static_cast<int64_t>(sizeof(float));
  }
  Throw(ErrorCode::kInvalidArgument, "table '", options.name, "': its first values are not rows");
}

void ReadFirstRows(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  LookupTable(ctx, HandleIn(ctx, "table"))->WithTable([&](const TableView& view) {
    const TableOptions& options = view.options();
    const int64_t bytes = BytesOfFirstRows(options);
    const FirstValue& first_value = options.first_value;
    tf::Tensor& rows = Output(ctx, "first_rows", {first_value.period, options.dim});
    call.engine().CopyOnDevice(call, rows.data(), first_value.rows, bytes);
  });
}

void AssignFirstRows(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  resource->WithAlone(call, {}, [&](const TableView& view) {
    const int64_t bytes = BytesOfFirstRows(view.options());
    const tf::Tensor& rows = Input(ctx, "first_rows");
    CheckFirstRows(view.options(), rows);
    call.engine().CopyOnDevice(call, view.options().first_value.rows, rows.data(), bytes);
  });
}

void ReadRows(tf::OpKernelContext* ctx) {
  OpCall call(ctx);
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  resource->WithRoom(call, 0, [&](const TableView& view) {
    view.table.InsertAll(call, view.planes);
    const Plane& plane = view.PlaneOf(ctx, HandleIn(ctx, "rows"));
    if (&plane == view.planes.rows) resource->generations().NoteDense();
    const int64_t width = plane.width();
    const int64_t num_rows = view.NumWrittenRows(call, plane);
    float* values = Data<float>(Output(ctx, "values", {view.num_rows, width}));
    CopyRowsTo(call, plane.data(), num_rows, values);
    call.engine().Fill(call, values + num_rows * width, (view.num_rows - num_rows) * width, 0.0f);
  });
}

const RegisteredKernel kTableKernels[] = {
    {"SokTableHandle", Make<tf::ResourceHandleOp<TableResource>>, {"table"}},
    {"SokTableInitialize", Make<KernelOf<TableInitialize>>, {"table", "rows", "seed"}},
    {"SokTableAttachSlot", Make<KernelOf<TableAttachSlot>>, {"table", "slot"}},
    {"SokTableDetachSlot", Make<KernelOf<Calls<TableDetachSlot>>>, {"table", "slot"}},
    {"SokTableSize", Make<KernelOf<Calls<SizeOfTable>>>, {"table", "num_keys"}},
    {"SokTableStatistics", Make<KernelOf<Calls<StatisticsOfTable>>>, {"table", "statistics"}},
    {"SokLookupTier", Make<KernelOf<Calls<LookUpTiers>>>, {"table", "keys", "tiers"}},
    {"SokTablePreset", Make<KernelOf<Calls<TablePreset>>>, {"table"}},
    {"SokReadFirstRows", Make<KernelOf<Calls<ReadFirstRows>>>, {"table"}},
    {"SokAssignFirstRows", Make<KernelOf<Calls<AssignFirstRows>>>, {"table"}},
    {"SokReadRows", Make<KernelOf<Calls<ReadRows>>>, {"rows", "table"}},
};

}  // namespace
}  // namespace sok
