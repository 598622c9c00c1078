// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/exchange_service.h"

#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#define SOK_EXPORT extern "C" __attribute__((visibility("default")))

namespace sok {
namespace {

struct Service {
  std::mutex mutex;
  std::shared_ptr<Coordinator> coordinator;
  // What the driving thread was given last; it reads it before it calls again.
  Proposal proposal;
};

Service& TheService() {
  static Service* service = new Service;  // never destroyed: threads may outlive static destruction
  return *service;
}

}  // namespace

std::shared_ptr<Coordinator> CurrentCoordinator() {
  Service& service = TheService();
  std::lock_guard<std::mutex> lock(service.mutex);
  return service.coordinator;
}

StepId StepIdOf(tensorflow::OpKernelContext* ctx) {
  return ctx->step_id() == 0 ? StepId() : StepId(ctx->step_id());
}

bool IsOrdered(tensorflow::OpKernelContext* ctx) { return ctx->step_id() <= 0; }

}  // namespace sok

using sok::TheService;

SOK_EXPORT void sok_exchange_start(int rank, int num_ranks, double stall_seconds,
                                   double heartbeat_seconds, double grouping_seconds) {
  sok::CoordinatorOptions options;
  options.rank = rank;
  options.num_ranks = num_ranks;
  options.stall_seconds = stall_seconds;
  options.heartbeat_seconds = heartbeat_seconds;
  options.grouping_seconds = grouping_seconds;
  std::lock_guard<std::mutex> lock(TheService().mutex);
  TheService().coordinator = std::make_shared<sok::Coordinator>(options);
}

/// Waits until there is a reason for a round. `data` holds what to send, by destination rank, and
/// `send_bytes` [num_ranks] the sizes; valid until the next call. Returns 0 where the exchanges
/// have ended instead.
SOK_EXPORT int sok_exchange_propose(const char** data, const int64_t** send_bytes) {
  TheService().proposal = {};  // its memory serves the next one
  try {
    TheService().proposal = sok::CurrentCoordinator()->Propose();
  } catch (const std::exception& error) {
    sok::CurrentCoordinator()->Abort(error.what());
    return 0;
  }
  *data = TheService().proposal.data.data();
  *send_bytes = TheService().proposal.send_bytes.data();
  return 1;
}

/// Takes what the all-to-all brought, by source rank, with the sizes [num_ranks].
SOK_EXPORT void sok_exchange_complete(const char* data, const int64_t* received_bytes) {
  const std::shared_ptr<sok::Coordinator> coordinator = sok::CurrentCoordinator();
  try {
    coordinator->Complete(
        data, std::vector<int64_t>(received_bytes, received_bytes + coordinator->num_ranks()));
  } catch (const std::exception& error) {
    coordinator->Abort(error.what());
  }
}

SOK_EXPORT void sok_exchange_abort(const char* reason) { sok::CurrentCoordinator()->Abort(reason); }

SOK_EXPORT void sok_exchange_leave() { sok::CurrentCoordinator()->Leave(); }

SOK_EXPORT int sok_exchange_is_closed() { return sok::CurrentCoordinator()->is_closed() ? 1 : 0; }

/// counters: [exchanges, rounds, payload bytes, negotiation bytes].
SOK_EXPORT void sok_exchange_counters(int64_t* counters) {
  const sok::ExchangeCounters current = sok::CurrentCoordinator()->counters();
  const int64_t values[] = {current.exchanges, current.rounds, current.payload_bytes,
                            current.negotiation_bytes};
  std::memcpy(counters, values, sizeof(values));
}
