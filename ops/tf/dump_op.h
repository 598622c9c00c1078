// SPDX-License-Identifier: Apache-2.0
// What dumping a table is, wherever the table is.
#ifndef SOK_OPS_TF_DUMP_OP_H_
#define SOK_OPS_TF_DUMP_OP_H_

#include <functional>

#include "ops/tf/table_contents.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// SokDumpTable: rank 0 writes; the others send it their part. Waits for them on a thread of its
/// own.
class DumpOp : public tensorflow::AsyncOpKernel {
 public:
  explicit DumpOp(tensorflow::OpKernelConstruction* ctx);
  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override;

 protected:
  using UseContents =
      std::function<void(const TableOptions& options, const TableContents& contents)>;

  /// Calls `use` with what the table of input 0 holds.
  virtual void WithContents(tensorflow::OpKernelContext* ctx, const UseContents& use) const = 0;

 private:
  void Write(tensorflow::OpKernelContext* ctx, const TableOptions& options,
             const TableContents& contents) const;

  const size_t key_bytes_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_DUMP_OP_H_
