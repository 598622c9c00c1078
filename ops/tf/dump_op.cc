// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/dump_op.h"

#include <string>

#include "ops/tf/border.h"
#include "ops/tf/exchange_service.h"
#include "ops/tf/key_file.h"
#include "ops/tf/table_gather.h"

namespace sok {

namespace tf = tensorflow;

DumpOp::DumpOp(tf::OpKernelConstruction* ctx)
    : tf::AsyncOpKernel(ctx), key_bytes_(tf::DataTypeSize(Attribute<tf::DataType>(ctx, "Tkey"))) {}

void DumpOp::ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) {
  ctx->env()->SchedClosure([this, ctx, done] {
    FailStepOnThrow(ctx, [&] {
      WithContents(ctx, [&](const TableOptions& options, const TableContents& contents) {
        Write(ctx, options, contents);
      });
    });
    done();
  });
}

void DumpOp::Write(tf::OpKernelContext* ctx, const TableOptions& options,
                   const TableContents& contents) const {
  TableGather gather(ctx, options);
  if (options.rank != 0) {
    gather.Send(contents);
    return;
  }
  const auto row_bytes = static_cast<size_t>(options.dim) * sizeof(float);
  ReplacedFile keys_file(ctx->env(), ctx->input(1).scalar<tf::tstring>()());
  ReplacedFile values_file(ctx->env(), ctx->input(2).scalar<tf::tstring>()());
  gather.Receive(contents, [&](int64_t key, const char* row) {
    keys_file.Append(&key, key_bytes_);  // little-endian: the low bytes
    values_file.Append(row, row_bytes);
  });
  keys_file.Finish();
  values_file.Finish();
  keys_file.Commit();
  values_file.Commit();
}

}  // namespace sok
