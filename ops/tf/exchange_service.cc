// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/exchange_service.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/tf/exchange_rounds.h"

#define SOK_EXPORT extern "C" __attribute__((visibility("default")))

namespace sok {
namespace {

using Clock = std::chrono::steady_clock;

struct Service {
  std::mutex mutex;
  std::shared_ptr<Coordinator> coordinator;
  int64_t most_bytes = 0;  // that a rank sends or receives in one all-to-all

  // Of the one thread that drives the rounds.
  std::shared_ptr<MessageParts> parts;    // null between rounds
  std::atomic<Clock::rep> part_began{0};  // 0: none is on its way
};

/// A child of fork() has one of its own: it has no thread that drives rounds, and locks may have
/// been held when it was made. Never destroyed: threads may outlive static destruction.
std::atomic<Service*>& TheServicePointer() {
  static std::atomic<Service*> service{new Service};
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { TheServicePointer() = new Service; });
  static_cast<void>(registered);
  return service;
}

Service& TheService() { return *TheServicePointer(); }

}  // namespace

std::shared_ptr<Coordinator> CurrentCoordinator() {
  Service& service = TheService();
  std::lock_guard<std::mutex> lock(service.mutex);
  return service.coordinator;
}

std::shared_ptr<const MessageParts> NextPart() {
  Service& service = TheService();
  const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  try {
    if (!service.parts) {
      service.parts = std::make_shared<MessageParts>(coordinator->Propose(), service.most_bytes);
    }
  } catch (const std::exception& error) {
    coordinator->Abort(error.what());
    throw;
  }
  service.part_began = Clock::now().time_since_epoch().count();
  return service.parts;
}

bool TakePart(const char* data, const std::vector<int64_t>& received_bytes) {
  Service& service = TheService();
  const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  service.part_began = 0;
  try {
    if (service.parts->Take(data, received_bytes)) {
      const std::shared_ptr<MessageParts> parts = std::move(service.parts);
      service.parts = nullptr;
      coordinator->Complete(parts->received(), parts->received_bytes());
    }
  } catch (const std::exception& error) {
    coordinator->Abort(error.what());
  }
  return !coordinator->is_closed();
}

StepId StepIdOf(tensorflow::OpKernelContext* ctx) {
  return ctx->step_id() == 0 ? StepId() : StepId(ctx->step_id());
}

bool IsOrdered(tensorflow::OpKernelContext* ctx) { return ctx->step_id() <= 0; }

}  // namespace sok

using sok::TheService;

SOK_EXPORT void sok_exchange_start(int rank, int num_ranks, double stall_seconds,
                                   double heartbeat_seconds, double grouping_seconds,
                                   int64_t most_bytes) {
  sok::CoordinatorOptions options;
  options.rank = rank;
  options.num_ranks = num_ranks;
  options.stall_seconds = stall_seconds;
  options.heartbeat_seconds = heartbeat_seconds;
  options.grouping_seconds = grouping_seconds;
  std::lock_guard<std::mutex> lock(TheService().mutex);
  TheService().coordinator = std::make_shared<sok::Coordinator>(options);
  TheService().most_bytes = most_bytes;
}

/// For how long the part that is on its way has been; 0 where none is.
SOK_EXPORT double sok_exchange_part_seconds() {
  const sok::Clock::rep began = TheService().part_began;
  if (began == 0) return 0.0;
  const sok::Clock::duration passed =
      sok::Clock::now().time_since_epoch() - sok::Clock::duration(began);
  return std::chrono::duration<double>(passed).count();
}

// The rest, in a process that no others are connected to, does nothing.

SOK_EXPORT void sok_exchange_abort(const char* reason) {
  if (const auto coordinator = sok::CurrentCoordinator()) coordinator->Abort(reason);
}

SOK_EXPORT void sok_exchange_leave() {
  if (const auto coordinator = sok::CurrentCoordinator()) coordinator->Leave();
}

SOK_EXPORT int sok_exchange_is_closed() {
  const auto coordinator = sok::CurrentCoordinator();
  return !coordinator || coordinator->is_closed() ? 1 : 0;
}

/// counters: [exchanges, rounds, payload bytes, negotiation bytes].
SOK_EXPORT void sok_exchange_counters(int64_t* counters) {
  const auto coordinator = sok::CurrentCoordinator();
  const sok::ExchangeCounters current =
      coordinator ? coordinator->counters() : sok::ExchangeCounters();
  const int64_t values[] = {current.exchanges, current.rounds, current.payload_bytes,
                            current.negotiation_bytes};
  std::memcpy(counters, values, sizeof(values));
}
