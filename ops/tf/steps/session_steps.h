// SPDX-License-Identifier: Apache-2.0
// The step of an op, and the detection of its end: the registry of steps for TensorFlow.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ops/history/step_registry.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace sok {

/// The steps of a session, or of eager code. A step is everything under one cancellation manager: a
/// run of a session; a function called outside of sessions, with the functions that it calls; a
/// function of tf.data; or an op outside of functions. It ends when the manager is destroyed or
/// cancelled and TensorFlow has emptied the step's containers.
class SessionSteps : public tf::ResourceBase {
 public:
  static tf::core::RefCountPtr<SessionSteps> Of(tf::OpKernelContext* ctx);

  StepRegistry& registry() { return registry_; }
  /// The number of this session, from 0, among those of the process that have called this for the
  /// graph, in the order of their first calls. Ranks count alike: all make the sessions of a graph.
  int64_t NumberAmongSessionsOf(int64_t graph);
  /// Notes that this rank has initialized a table again, after lookups of several ranks.
  void NoteInitializedAgain(const std::string& table);
  /// Notes that a table has been restored, which all ranks do together.
  void NoteRestored(const std::string& table);
  /// A line for each of these tables that was initialized again since it was restored last.
  std::string InitializedAgain(const std::vector<std::string>& tables);
  /// Throws kCancelled if the step has been cancelled.
  int64_t StepOf(tf::OpKernelContext* ctx);

  /// Called before an op finds rows. Returns true if its step may proceed. Otherwise calls `go_on`
  /// once, when it may or with an error; the op may have ended when this returns. `collectives`:
  /// those of its lookup, if other ranks take part. Throws as StepOf.
  using GoOn = std::function<void(const absl::Status&)>;
  bool Enter(tf::OpKernelContext* ctx, const std::vector<CollectiveId>& collectives, GoOn go_on);

  std::string DebugString() const override { return "the steps that use tables"; }

 private:
  class Witness;

  StepRegistry registry_;
  std::map<int64_t, int64_t> numbers_;  // by graph
  std::mutex initialized_again_mutex_;
  std::map<std::string, int64_t> initialized_again_;  // how often, by table
};

}  // namespace sok
