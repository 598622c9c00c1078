// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/ranks/exchange_service.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "ops/exchange/transport/by_host.h"
#include "ops/exchange/transport/mpi.h"
#include "ops/exchange/transport/shared_memory.h"
#include "ops/tf/base/border.h"
#include "ops/tf/base/exported.h"
#include "ops/tf/base/step_failure.h"

namespace sok {
namespace {

struct Service {
  std::mutex mutex;
  std::shared_ptr<SharedMemoryTransport> memory;  // for the ranks of this host; null: unused
  std::shared_ptr<MpiTransport> mpi;              // null: unused
  std::shared_ptr<AllToAllTransport> all_to_all;  // null if the others reach all ranks
  std::shared_ptr<Transport> transport;           // for all ranks
  std::shared_ptr<Coordinator> coordinator;
};

/// A child of fork() has its own: it lacks the parent's threads, and the parent's locks may have
/// been held at the fork. Never destroyed: threads may outlive static destruction.
std::atomic<Service*>& TheServicePointer() {
  static std::atomic<Service*> service{new Service};
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { TheServicePointer() = new Service; });
  static_cast<void>(registered);
  return service;
}

/// Copies one of the service's pointers.
template <typename T>
std::shared_ptr<T> Current(std::shared_ptr<T> Service::* pointer) {
  Service& service = *TheServicePointer();
  const std::lock_guard<std::mutex> lock(service.mutex);
  return service.*pointer;
}

template <typename T>
void Set(std::shared_ptr<T> Service::* pointer, std::shared_ptr<T> value) {
  Service& service = *TheServicePointer();
  const std::lock_guard<std::mutex> lock(service.mutex);
  service.*pointer = std::move(value);
}

/// Sends the error of an op's context to the other ranks.
void FailStepOnRanks(tf::OpKernelContext* ctx) {
  const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  if (!coordinator) return;  // a child of fork()
  coordinator->FailStep(StepIdOf(ctx), CodeOf(ctx->status()), std::string(ctx->status().message()));
}

void Start(const CoordinatorOptions& options, const AllToAllOptions& of_all_to_all) {
  Service& service = *TheServicePointer();
  const std::lock_guard<std::mutex> lock(service.mutex);
  service.transport = service.memory;
  if (!service.memory || service.memory->ranks().size() < static_cast<size_t>(options.num_ranks)) {
    service.transport = service.mpi;
    if (!service.mpi) {
      service.all_to_all = std::make_shared<AllToAllTransport>(of_all_to_all);
      service.transport = service.all_to_all;
    }
    if (service.memory) {
      service.transport = std::make_shared<ByHostTransport>(service.memory, service.memory->ranks(),
                                                            service.transport);
    }
  }
  service.coordinator = std::make_shared<Coordinator>(options, service.transport);
  on_step_failure = FailStepOnRanks;
}

/// As sok_exchange_strings.
std::vector<std::string> GatherStrings(const LookupName& where, std::string own, bool is_patient,
                                       bool ends_session) {
  static std::atomic<int64_t> next_step_id{int64_t{1} << 62};  // beyond TensorFlow's
  const std::shared_ptr<Coordinator> coordinator = CurrentCoordinator();
  if (!coordinator)
    Throw(ErrorCode::kFailedPrecondition, "this process is not connected to the other ranks");
  ExchangeRequest request;
  request.step_id = next_step_id++;
  request.collective = coordinator->Begin({where, request.step_id});
  request.exchange = "strings";
  request.is_patient = is_patient;
  request.ends_session = ends_session;
  request.outgoing = TextToAll(std::move(own), static_cast<size_t>(coordinator->num_ranks()));
  const Collective collective = request.collective;
  const auto end = absl::MakeCleanup([&] { coordinator->End(collective); });
  return coordinator->Exchange(std::move(request));
}

void CopyText(const std::string& text, char* to, int64_t size) {
  std::strncpy(to, text.c_str(), static_cast<size_t>(size) - 1);
  to[size - 1] = '\0';
}

/// Runs a body for Python. The message of an exception is written to `error`, cut off at `size`; ""
/// if there is none.
template <typename Body>
void SayWhatFails(char* error, int64_t size, Body&& body) {
  error[0] = '\0';
  try {
    body();
  } catch (const std::exception& thrown) {
    CopyText(thrown.what(), error, size);
  }
}

}  // namespace

std::shared_ptr<Coordinator> CurrentCoordinator() { return Current(&Service::coordinator); }

std::shared_ptr<AllToAllTransport> CurrentAllToAll() { return Current(&Service::all_to_all); }

StepId StepIdOf(tf::OpKernelContext* ctx) {
  return ctx->step_id() == 0 ? StepId() : StepId(ctx->step_id());
}

}  // namespace sok

using sok::Current;
using sok::CurrentCoordinator;
using sok::Service;

/// Limits the threads of this rank's loops, which share processors with other ranks.
SOK_EXPORT void sok_exchange_limit_threads(int num_threads) { sok::LimitOpThreads(num_threads); }

SOK_EXPORT int sok_exchange_most_threads() { return sok::MostOpThreads(); }

// Memory shared by the ranks of a host, if all of them can: each offers its own and connects to all
// others. Then sok_exchange_start, on all ranks.

/// ranks: the num_ranks ranks of this host, this one at `place`; ring_bytes: per rank; address:
/// [process id, descriptor, token] of the memory; error: as for SayWhatFails.
SOK_EXPORT void sok_exchange_offer_memory(int place, const int* ranks, int num_ranks,
                                          int64_t ring_bytes, int64_t* address, char* error,
                                          int64_t error_size) {
  sok::SayWhatFails(error, error_size, [&] {
    auto memory = std::make_shared<sok::SharedMemoryTransport>(
        place, std::vector<int>(ranks, ranks + num_ranks), ring_bytes);
    const sok::SharedMemoryAddress own = memory->address();
    address[0] = own.process_id;
    address[1] = own.descriptor;
    address[2] = static_cast<int64_t>(own.token);
    sok::Set(&Service::memory, std::move(memory));
  });
}

/// addresses: [num_ranks, 3], of all these ranks.
SOK_EXPORT void sok_exchange_connect_memory(int num_ranks, const int64_t* addresses, char* error,
                                            int64_t error_size) {
  sok::SayWhatFails(error, error_size, [&] {
    std::vector<sok::SharedMemoryAddress> all;
    for (const int64_t* next = addresses; next != addresses + 3 * num_ranks; next += 3) {
      all.push_back({next[0], next[1], static_cast<uint64_t>(next[2])});
    }
    Current(&Service::memory)->Connect(all);
  });
}

SOK_EXPORT void sok_exchange_drop_memory() {
  sok::Set<sok::SharedMemoryTransport>(&Service::memory, nullptr);
}

/// Between ranks that share no memory MPI carries messages, from sok_exchange_start on.
/// process_ids: [num_ranks], 0 for ranks on other hosts; error: as for SayWhatFails.
SOK_EXPORT void sok_exchange_use_mpi(const sok::MpiLibrary* library, int rank, int num_ranks,
                                     const int64_t* process_ids, double heartbeat_seconds,
                                     char* error, int64_t error_size) {
  sok::SayWhatFails(error, error_size, [&] {
    sok::MpiOptions options;
    options.rank = rank;
    options.process_ids.assign(process_ids, process_ids + num_ranks);
    options.heartbeat_seconds = heartbeat_seconds;
    sok::Set(&Service::mpi,
             std::make_shared<sok::MpiTransport>(options, sok::MakeMpiPort(*library)));
  });
}

/// Starts the exchange between ranks: through shared memory if all of them have it, else by MPI if
/// it is used, else by rounds that each rank drives with SokNextPart and SokTakePart. most_bytes:
/// per round.
SOK_EXPORT void sok_exchange_start(int rank, int num_ranks, double stall_seconds,
                                   double heartbeat_seconds, int64_t most_bytes) {
  sok::CoordinatorOptions options;
  options.rank = rank;
  options.num_ranks = num_ranks;
  options.stall_seconds = stall_seconds;
  sok::AllToAllOptions of_all_to_all;
  of_all_to_all.rank = rank;
  of_all_to_all.num_ranks = num_ranks;
  of_all_to_all.heartbeat_seconds = heartbeat_seconds;
  of_all_to_all.most_bytes = most_bytes;
  sok::Start(options, of_all_to_all);
}

// Before sok_exchange_start, and in a process that is not connected to others, the functions below
// do nothing.

/// Seconds since the last sign of life of other ranks.
SOK_EXPORT double sok_exchange_silent_seconds() {
  const auto transport = Current(&Service::transport);
  return transport ? transport->SilentSeconds() : 0.0;
}

/// Ranks without a sign of life over MPI for longer than this: how many, and which in
/// ranks[num_ranks].
SOK_EXPORT int sok_exchange_silent_ranks(double seconds, int* ranks) {
  const auto mpi = Current(&Service::mpi);
  const std::vector<int> silent = mpi ? mpi->RanksSilentFor(seconds) : std::vector<int>();
  std::copy(silent.begin(), silent.end(), ranks);
  return static_cast<int>(silent.size());
}

/// Why the ranks can no longer exchange; empty otherwise.
SOK_EXPORT void sok_exchange_failure(char* text, int64_t size) {
  const auto transport = Current(&Service::transport);
  sok::CopyText(transport ? transport->failure() : "", text, size);
}

/// Records that a graph of this process has a lookup of this name; graph: its number.
SOK_EXPORT void sok_exchange_note_lookup(const char* name, int64_t graph) {
  if (const auto coordinator = CurrentCoordinator()) coordinator->NoteLookup({name, graph});
}

/// Gathers a string from each rank; all ranks wait for one another here.
/// where: name of the collective; graph: number of the graph that it is about, or -1; take: called
/// with the string of each rank, by rank; error: as for SayWhatFails.
/// Returns the code of the error, as in tf.errors.
SOK_EXPORT int sok_exchange_strings(const char* where, int64_t graph, const char* data,
                                    int64_t size, int is_patient, int ends_session,
                                    void (*take)(const char* data, int64_t size), char* error,
                                    int64_t error_size) {
  int code = static_cast<int>(absl::StatusCode::kUnknown);
  sok::SayWhatFails(error, error_size, [&] {
    try {
      for (const std::string& text :
           sok::GatherStrings({where, graph}, {data, static_cast<size_t>(size)}, is_patient != 0,
                              ends_session != 0))
        take(text.data(), static_cast<int64_t>(text.size()));
      code = 0;
    } catch (const sok::Error& failed) {
      code = static_cast<int>(sok::ToStatus(failed).code());
      throw;
    }
  });
  return code;
}

SOK_EXPORT void sok_exchange_abort(const char* reason) {
  if (const auto coordinator = CurrentCoordinator()) coordinator->Abort(reason);
}

SOK_EXPORT void sok_exchange_leave() {
  if (const auto coordinator = CurrentCoordinator()) coordinator->Leave();
}

SOK_EXPORT int sok_exchange_is_closed() {
  const auto coordinator = CurrentCoordinator();
  return coordinator && coordinator->is_closed() ? 1 : 0;
}

/// counters: [exchanges, rounds, payload bytes, negotiation bytes].
SOK_EXPORT void sok_exchange_counters(int64_t* counters) {
  const auto coordinator = CurrentCoordinator();
  const auto all_to_all = sok::CurrentAllToAll();
  const sok::ExchangeCounters current =
      coordinator ? coordinator->counters() : sok::ExchangeCounters();
  const int64_t values[] = {current.exchanges, all_to_all ? all_to_all->num_rounds() : 0,
                            current.payload_bytes, current.negotiation_bytes};
  std::memcpy(counters, values, sizeof(values));
}
