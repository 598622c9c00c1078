// SPDX-License-Identifier: Apache-2.0
// Base classes of ops that move whole tables to and from files, together with other ranks.
#pragma once

#include "ops/tf/ranks/rank_communicator.h"
#include "ops/tf/tables/resource/table_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// An op that waits for other ranks and for disks, on a thread of its own. `collectives` has one
/// element if other ranks take part, else none.
class CommunicatingOp : public tf::AsyncOpKernel {
 public:
  using tf::AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) override;

 protected:
  virtual void Run(tf::OpKernelContext* ctx, RankCommunicator& communicator) = 0;
};

/// A CommunicatingOp whose first input is a table.
class WholeTableOp : public CommunicatingOp {
 public:
  using CommunicatingOp::CommunicatingOp;

 protected:
  /// Must await its turn before locking the table and pass it on afterwards, and synchronize with
  /// other ranks last, when it can no longer fail.
  virtual void Move(tf::OpKernelContext* ctx, OpCall& call, TableResource& table,
                    RankCommunicator& communicator) = 0;

 private:
  void Run(tf::OpKernelContext* ctx, RankCommunicator& communicator) override;
};

}  // namespace sok
