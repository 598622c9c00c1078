// SPDX-License-Identifier: Apache-2.0
// Lets ops wait without blocking a thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "ops/tf/base/namespace_tf.h"
#include "tensorflow/core/framework/cancellation.h"

namespace sok {

/// Waits until it is woken, once, with results, or until its step is cancelled.
template <typename... Results>
class OpWaiter {
 public:
  using Done = std::function<void(const absl::Status&, Results...)>;

  /// Calls `done` once; with `cancelled` and no results if the step of `manager` (may be null) is
  /// cancelled first.
  static std::shared_ptr<OpWaiter> Make(tf::CancellationManager* manager,
                                        const absl::Status& cancelled, Done done) {
    std::shared_ptr<OpWaiter> waiter(new OpWaiter(manager, std::move(done)));
    if (manager == nullptr) return waiter;
    waiter->token_ = manager->get_cancellation_token();
    const auto cancel = [waiter, cancelled] {
      if (!waiter->is_over_.exchange(true)) waiter->done_(cancelled, Results{}...);
    };
    if (!manager->RegisterCallback(waiter->token_, cancel)) cancel();
    return waiter;
  }

  /// Returns false if it was woken before.
  bool Wake(const absl::Status& status, Results... results) {
    if (is_over_.exchange(true)) return false;
    if (manager_ != nullptr) manager_->DeregisterCallback(token_);
    done_(status, std::move(results)...);
    return true;
  }

 private:
  OpWaiter(tf::CancellationManager* manager, Done done)
      : manager_(manager), done_(std::move(done)) {}

  std::atomic<bool> is_over_{false};
  tf::CancellationManager* const manager_;
  tf::CancellationToken token_ = tf::CancellationManager::kInvalidToken;
  const Done done_;
};

}  // namespace sok
