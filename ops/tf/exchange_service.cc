// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/exchange_service.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "ops/exchange/shared_memory_link.h"
#include "ops/exchange/shared_memory_rounds.h"
#include "ops/tf/border.h"
#include "ops/tf/exchange_rounds.h"
#include "ops/tf/packed_rows.h"

#define SOK_EXPORT extern "C" __attribute__((visibility("default")))

namespace sok {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAlignmentBytes = 4096;  // and more, of a tensor

struct Service {
  std::mutex mutex;
  std::shared_ptr<Coordinator> coordinator;
  std::shared_ptr<SharedMemoryLink> link;      // of ranks of this host; null: none
  std::shared_ptr<SharedMemoryRounds> rounds;  // through it, where these are all, once they run

  // Of the one thread that drives the rounds.
  std::shared_ptr<MessageParts> parts;    // null between rounds
  std::atomic<Clock::rep> part_began{0};  // 0: none is on its way
  // For what Horovod asks for when a part comes; it would end all exchanges without. While none is
  // on its way, the memory is kept, untouched, so that others who ask for much are refused first.
  std::unique_ptr<char[]> room;
  size_t room_bytes = 0;
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

std::shared_ptr<SharedMemoryLink> CurrentLink() {
  Service& service = TheService();
  std::lock_guard<std::mutex> lock(service.mutex);
  return service.link;
}

std::shared_ptr<SharedMemoryRounds> CurrentRounds() {
  Service& service = TheService();
  std::lock_guard<std::mutex> lock(service.mutex);
  return service.rounds;
}

std::shared_ptr<SharedMemoryRounds> StartRounds() {
  Service& service = TheService();
  std::lock_guard<std::mutex> lock(service.mutex);
  service.rounds = std::make_shared<SharedMemoryRounds>(service.coordinator, service.link);
  return service.rounds;
}

/// Runs what Python has called. What is thrown ends as its message, cut off at `size`; nothing: "".
template <typename Body>
void SayWhatFails(char* error, int64_t size, Body&& body) {
  error[0] = '\0';
  try {
    body();
  } catch (const std::exception& thrown) {
    std::strncpy(error, thrown.what(), static_cast<size_t>(size) - 1);
    error[size - 1] = '\0';
  }
}

}  // namespace

std::shared_ptr<Coordinator> CurrentCoordinator() {
  Service& service = TheService();
  std::lock_guard<std::mutex> lock(service.mutex);
  return service.coordinator;
}

bool AllRanksShareMemory() {
  const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  const std::shared_ptr<SharedMemoryLink> link = CurrentLink();
  return coordinator && link &&
         link->ranks().size() == static_cast<size_t>(coordinator->num_ranks());
}

std::shared_ptr<const MessageParts> NextPart() {
  Service& service = TheService();
  const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  const auto layout = CurrentLink() ? Coordinator::Layout::kPieces : Coordinator::Layout::kJoined;
  try {
    service.room.reset(new (std::nothrow) char[service.room_bytes]);
    if (!service.parts) {
      service.parts = std::make_shared<MessageParts>(coordinator->Propose(layout));
    }
  } catch (const std::exception& error) {
    coordinator->Abort(error.what());
    throw;
  }
  service.room = nullptr;
  service.part_began = Clock::now().time_since_epoch().count();
  return service.parts;
}

std::vector<Pieces> SendWithinHost(const MessageParts& parts) {
  std::vector<Pieces> messages = parts.pieces();
  if (const auto link = CurrentLink()) {
    std::vector<Pieces> within;
    for (const int rank : link->ranks()) {
      within.push_back(std::exchange(messages[static_cast<size_t>(rank)], {}));
    }
    link->Send(within);
  }
  return messages;
}

void ReceiveWithinHost(std::vector<std::string_view>* part) {
  const auto link = CurrentLink();
  if (!link) return;
  const std::vector<std::string_view> within = *link->Receive();
  for (size_t place = 0; place < within.size(); ++place) {
    (*part)[static_cast<size_t>(link->ranks()[place])] = within[place];
  }
}

bool TakePart(const std::vector<std::string_view>& part) {
  Service& service = TheService();
  const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  service.part_began = 0;
  try {
    if (service.parts->Take(part)) {
      const std::shared_ptr<MessageParts> parts = std::move(service.parts);
      service.parts = nullptr;
      coordinator->Complete(parts->received());
    }
  } catch (const std::exception& error) {
    coordinator->Abort(error.what());
  }
  return !coordinator->is_closed();
}

void SubmitAndRun(Coordinator& coordinator, ExchangeRequest request) {
  if (!coordinator.SubmitQuietly(std::move(request))) return;
  if (const auto rounds = CurrentRounds()) {
    rounds->RunOneHere();
  } else {
    coordinator.Recheck();
  }
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
  options.most_bytes = most_bytes;
  std::lock_guard<std::mutex> lock(TheService().mutex);
  TheService().coordinator = std::make_shared<sok::Coordinator>(options);
  TheService().room_bytes = static_cast<size_t>(most_bytes) + sok::kAlignmentBytes;
}

/// Of the loops of this rank's ops, beside those of other ranks on the same processors.
SOK_EXPORT void sok_exchange_limit_threads(int num_threads) { sok::LimitOpThreads(num_threads); }

SOK_EXPORT int sok_exchange_most_threads() { return sok::MostOpThreads(); }

// Memory that the ranks of one host share, where all of them can: each offers its own, and connects
// to all of them. What ranks of that host send each other then goes through it; where that is all,
// each runs rounds.

/// ranks: those of this host, num_ranks, this one the one at `place`; stays_awake: as of
/// SharedMemoryLink; address: [process id, descriptor, token] of its memory; error: as of
/// SayWhatFails.
SOK_EXPORT void sok_exchange_offer_memory(int place, const int* ranks, int num_ranks,
                                          int64_t most_bytes, int stays_awake, int64_t* address,
                                          char* error, int64_t error_size) {
  sok::SayWhatFails(error, error_size, [&] {
    auto link = std::make_shared<sok::SharedMemoryLink>(
        place, std::vector<int>(ranks, ranks + num_ranks), most_bytes, stays_awake != 0);
    const sok::SharedMemoryAddress own = link->address();
    address[0] = own.process_id;
    address[1] = own.descriptor;
    address[2] = static_cast<int64_t>(own.token);
    std::lock_guard<std::mutex> lock(TheService().mutex);
    TheService().link = std::move(link);
  });
}

/// addresses: of all those ranks, [num_ranks, 3].
SOK_EXPORT void sok_exchange_connect_memory(int num_ranks, const int64_t* addresses, char* error,
                                            int64_t error_size) {
  sok::SayWhatFails(error, error_size, [&] {
    std::vector<sok::SharedMemoryAddress> all;
    for (const int64_t* next = addresses; next != addresses + 3 * num_ranks; next += 3) {
      all.push_back({next[0], next[1], static_cast<uint64_t>(next[2])});
    }
    sok::CurrentLink()->Connect(all);
  });
}

/// Another way is taken.
SOK_EXPORT void sok_exchange_drop_memory() {
  std::lock_guard<std::mutex> lock(TheService().mutex);
  TheService().link = nullptr;
}

/// Where all ranks share memory: until the exchanges end.
SOK_EXPORT void sok_exchange_run_rounds(char* error, int64_t error_size) {
  TheService().room_bytes = 0;  // nobody asks for any
  sok::SayWhatFails(error, error_size, [] { sok::StartRounds()->Run(); });
}

/// For how long the part that is on its way has been; 0 where none is.
SOK_EXPORT double sok_exchange_part_seconds() {
  if (const auto rounds = sok::CurrentRounds()) return rounds->PartSeconds();
  const sok::Clock::rep began = TheService().part_began;
  if (began == 0) return 0.0;
  const sok::Clock::duration passed =
      sok::Clock::now().time_since_epoch() - sok::Clock::duration(began);
  return std::chrono::duration<double>(passed).count();
}

// The rest, in a process that no others are connected to, does nothing.

SOK_EXPORT void sok_exchange_abort(const char* reason) {
  if (const auto coordinator = sok::CurrentCoordinator()) coordinator->Abort(reason);
  if (const auto link = sok::CurrentLink()) link->Close();
}

SOK_EXPORT void sok_exchange_leave() {
  if (const auto coordinator = sok::CurrentCoordinator()) coordinator->Leave();
}

SOK_EXPORT int sok_exchange_is_closed() {
  const auto coordinator = sok::CurrentCoordinator();
  return !coordinator || coordinator->is_closed() ? 1 : 0;
}

/// counters: [exchanges, rounds, payload bytes, negotiation bytes, dense bytes].
SOK_EXPORT void sok_exchange_counters(int64_t* counters) {
  const auto coordinator = sok::CurrentCoordinator();
  const sok::ExchangeCounters current =
      coordinator ? coordinator->counters() : sok::ExchangeCounters();
  const int64_t values[] = {current.exchanges, current.rounds, current.payload_bytes,
                            current.negotiation_bytes, current.dense_bytes};
  std::memcpy(counters, values, sizeof(values));
}

SOK_EXPORT int64_t sok_exchange_num_saturated() { return sok::NumSaturated(); }

SOK_EXPORT void sok_exchange_start_trace() {
  if (const auto coordinator = sok::CurrentCoordinator()) coordinator->trace().Start();
}

/// The lines of ExchangeTrace::Read, as far as they fit, and how many bytes they all have.
SOK_EXPORT int64_t sok_exchange_read_trace(char* text, int64_t size) {
  const auto coordinator = sok::CurrentCoordinator();
  const std::string lines = coordinator ? coordinator->trace().Read() : std::string();
  if (size > 0) std::memcpy(text, lines.data(), std::min(lines.size(), static_cast<size_t>(size)));
  return static_cast<int64_t>(lines.size());
}
