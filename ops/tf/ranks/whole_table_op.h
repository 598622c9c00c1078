// SPDX-License-Identifier: Apache-2.0
// Ops that move whole tables to files and from them, in which ranks wait for each other.
#ifndef SOK_OPS_TF_RANKS_WHOLE_TABLE_OP_H_
#define SOK_OPS_TF_RANKS_WHOLE_TABLE_OP_H_

#include <memory>

#include "ops/tf/ranks/rank_communicator.h"
#include "ops/tf/tables/table_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// An op in which ranks wait for each other and for disks, on a thread of its own. Its
/// `collectives` are one, where other ranks take part, or none.
class CommunicatingOp : public tensorflow::AsyncOpKernel {
 public:
  using tensorflow::AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override;

 protected:
  /// `held` is null where no other ranks take part.
  virtual void Run(tensorflow::OpKernelContext* ctx,
                   std::shared_ptr<const CollectiveHandle> held) = 0;
};

/// One whose first input is a table.
class WholeTableOp : public CommunicatingOp {
 public:
  using CommunicatingOp::CommunicatingOp;

 protected:
  /// Has its turn before it takes the table's lock, gives it after, and meets the others last when
  /// it can no more fail.
  virtual void Move(tensorflow::OpKernelContext* ctx, OpCall& call, TableResource& table,
                    RankCommunicator& communicator) = 0;

 private:
  void Run(tensorflow::OpKernelContext* ctx, std::shared_ptr<const CollectiveHandle> held) override;
};

}  // namespace sok

#endif  // SOK_OPS_TF_RANKS_WHOLE_TABLE_OP_H_
