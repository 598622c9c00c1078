// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/rendezvous/coordinator.h"

#include <algorithm>
#include <exception>
#include <future>
#include <new>
#include <utility>

namespace sok {
namespace {

using Entry = ReceiveBuffer::Entry;

constexpr size_t kLongestError = 2000;  // bytes of an error that other ranks are told

const std::shared_ptr<const Description>& NoDescription() {
  static const auto none = std::make_shared<const Description>("");
  return none;
}

RequestHeader HeaderOf(const Collective& collective, const ExchangePlace& place) {
  return {place.first, collective.lookup, place.second,
          collective.description ? collective.description : NoDescription()};
}

std::string NameOf(const Entry& entry) { return "exchange " + ExchangeName(*entry.request); }

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, std::shared_ptr<Transport> transport)
    : options_(options),
      transport_(std::move(transport)),
      buffer_(static_cast<size_t>(options.num_ranks)),
      statuses_(static_cast<size_t>(options.num_ranks)),
      last_errors_(static_cast<size_t>(options.num_ranks)),
      readers_(static_cast<size_t>(options.num_ranks)) {
  transport_->Start(this);
  thread_ = std::thread([this] { Run(); });
}

Coordinator::~Coordinator() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
  transport_ = nullptr;
}

Collective Coordinator::Begin(const LookupCall& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Collective collective = registry_.Begin(call);
  if (registry_.has_news()) changed_.notify_all();
  return collective;
}

void Coordinator::End(const Collective& collective) {
  const std::lock_guard<std::mutex> lock(mutex_);
  registry_.End(collective);
  if (!buffer_.HasAny(collective.id) && !registry_.FailureOf(collective.id)) return;
  registry_.FailIfOver(collective.id);
  changed_.notify_all();
}

void Coordinator::NoteLookup(const LookupName& lookup) {
  const std::lock_guard<std::mutex> lock(mutex_);
  registry_.Note(lookup);
}

std::vector<std::string> Coordinator::Exchange(ExchangeRequest request) {
  std::promise<std::vector<std::string>> promise;
  request.done = [&promise](const ExchangeResult& result) {
    try {  // an exception would end the thread of the exchanges
      if (!result.error.empty()) Throw(result.code, result.error);
      promise.set_value({result.parts.begin(), result.parts.end()});
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  };
  Submit(std::move(request));
  return promise.get_future().get();
}

void Coordinator::Submit(ExchangeRequest request) {
  Outgoing outgoing = request.outgoing;  // the request's owner may take it while this sends
  const size_t num_ranks = outgoing.by_rank.size();
  const auto own = static_cast<size_t>(options_.rank);
  ExchangePlace place{request.collective.id, NameHash(request.exchange)};
  auto written = std::make_shared<HeaderWriter::Header>();
  std::optional<Entry> complete;
  ErrorCode code = ErrorCode::kAborted;
  std::string failure;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto num_uses = registry_.Use(request.step_id, request.collective, request.exchange);
    place.second += static_cast<uint64_t>(num_uses.value_or(0));
    const CollectiveFailure* failed = registry_.FailureOf(place.first);
    if (!closed_reason_.empty()) {
      failure = closed_reason_;
      registry_.Fail(place.first, {code, failure});  // tells ranks that have not seen why yet
      registry_.FailStep(request.step_id, {code, failure});
    } else if (failed) {
      code = failed->code;
      failure = failed->message;
      registry_.Fail(place.first, {code, failure});
    } else if (!num_uses) {
      failure =
          "was requested twice in one step: a lookup cannot be in a loop of control flow v1, nor "
          "can a function take two gradients through one branch or nested function";
    } else {
      const RequestHeader header = HeaderOf(request.collective, place);
      *written = headers_.Write(header);
      Entry& entry = buffer_.At(place, header.lookup);
      entry.request = std::move(request);
      entry.since = Clock::now();
      entry.parts[own].description = header.description;
      for (size_t rank = 0; rank < num_ranks; ++rank)
        entry.sent_bytes +=
            rank == own ? 0 : static_cast<int64_t>(NumBytes(outgoing.by_rank[rank]));
      gave_up_on_.clear();
    }
    if (registry_.has_news()) changed_.notify_all();
  }
  if (!failure.empty()) return FailRequest(request, code, failure);
  const auto memory = std::make_shared<std::pair<decltype(written), std::shared_ptr<const void>>>(
      written, outgoing.memory);
  for (size_t step = 1; step < num_ranks; ++step) {  // ranks start with different destinations
    const size_t rank = (own + step) % num_ranks;
    Pieces message = std::move(outgoing.by_rank[rank]);
    message.insert(message.begin(), written->bytes);
    transport_->Send(static_cast<int>(rank), std::move(message), memory);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    counters_.negotiation_bytes += static_cast<int64_t>(written->bytes.size() * (num_ranks - 1));
    headers_.MarkSent(*written);
    complete = buffer_.Sent(place);
  }
  if (complete) Finish(std::move(*complete));
}

void Coordinator::FailRequest(const ExchangeRequest& request, ErrorCode code,
                              const std::string& message) {
  const std::string error = "exchange " + ExchangeName(request) + ": " + message;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_error_ = error;
  }
  request.done(FailedExchange(code, error));
}

void Coordinator::FailStep(StepId step_id, ErrorCode code, const std::string& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_reason_.empty()) return;
  registry_.FailStep(step_id, {code, message});
  if (code != ErrorCode::kCancelled) last_error_ = message;
  changed_.notify_all();
}

void Coordinator::FailLookup(const Collective& collective, ErrorCode code,
                             const std::string& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_reason_.empty()) return;
  registry_.Fail(collective.id, {code, message});
  changed_.notify_all();
}

ExchangeCounters Coordinator::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

void Coordinator::Receive(int source, std::string_view message, bool is_cut) {
  switch (KindOf(message)) {
    case MessageKind::kRequest:
      return ReceiveRequest(source, message, is_cut);
    case MessageKind::kFailure: {
      const LookupFailure failure = LookupFailure::Parse(message);
      const std::lock_guard<std::mutex> lock(mutex_);
      registry_.Take(source, failure);
      return changed_.notify_all();
    }
    case MessageKind::kStatus: {
      const std::lock_guard<std::mutex> lock(mutex_);
      statuses_[static_cast<size_t>(source)] = RankStatus::Parse(message);
      return;
    }
    case MessageKind::kLastError: {
      const std::lock_guard<std::mutex> lock(mutex_);
      last_errors_[static_cast<size_t>(source)] = LastError::Parse(message).message;
    }
  }
}

void Coordinator::ReceiveRequest(int source, std::string_view message, bool is_cut) {
  const RequestHeader header = readers_[static_cast<size_t>(source)].Read(&message);
  const ExchangePlace place{header.collective, header.exchange};
  std::optional<Entry> complete;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (registry_.FailureOf(place.first) && !buffer_.HasRequest(place)) {
      registry_.FailIfOver(place.first);
      if (registry_.has_news()) changed_.notify_all();
      return;
    }
    Entry& entry = buffer_.At(place, header.lookup);
    ReceiveBuffer::Part& part = entry.parts[static_cast<size_t>(source)];
    if (part.description) {
      Throw(ErrorCode::kIo, "rank ", source, " has sent ", header.lookup.Text(), " twice");
    }
    part.bytes = message;
    part.is_cut = is_cut;
    part.description = header.description;
    --entry.num_missing;
    if (entry.is_complete()) {
      complete = buffer_.Take(place);
    } else {
      part.Keep();
      if (!entry.request) registry_.FailIfOver(place.first);
      if (registry_.has_news()) changed_.notify_all();
    }
  }
  if (complete) Finish(std::move(*complete));
}

void Coordinator::Left(int source) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string& last_error = last_errors_[static_cast<size_t>(source)];
  const std::string why =
      "has left: its script ended or raised an exception. All ranks must run the same number of "
      "steps" +
      (last_error.empty() ? "" : ". Its last error: " + last_error);
  if (closed_reason_.empty()) closed_reason_ = "rank " + std::to_string(source) + " " + why;
  for (const auto& [place, entry] : buffer_.entries()) {
    const bool has_come = entry.parts[static_cast<size_t>(source)].description != nullptr;
    if (entry.request && !has_come) registry_.Take(source, {place.first, why});
  }
  changed_.notify_all();
}

bool Coordinator::IsWaiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(
      buffer_.entries().begin(), buffer_.entries().end(),
      [](const auto& place_and_entry) { return place_and_entry.second.request.has_value(); });
}

/// Describes how the ranks' descriptions of the lookup differ; empty if they do not.
std::string Coordinator::WhyNotTogether(const Entry& entry) const {
  const uint64_t own = entry.parts[static_cast<size_t>(options_.rank)].description->hash;
  const bool are_same = std::all_of(entry.parts.begin(), entry.parts.end(), [&](const auto& part) {
    return part.description->hash == own;
  });
  if (are_same) return "";
  std::vector<std::string> texts;
  for (const ReceiveBuffer::Part& part : entry.parts) texts.push_back(part.description->text);
  const std::string difference = DifferenceOf(texts);
  return difference.empty()
             ? ""
             : "the ranks disagree: " + difference +
                   "; a lookup must use the same tables in the same way on all ranks";
}

ExchangeResult Coordinator::ResultOf(const Entry& entry) {
  const std::string difference = WhyNotTogether(entry);
  if (!difference.empty()) {
    FailLookup(entry.request->collective, ErrorCode::kInvalidArgument, difference);
    return FailedExchange(ErrorCode::kInvalidArgument, NameOf(entry) + ": " + difference);
  }
  ExchangeResult result;
  bool is_refused = false;
  for (const ReceiveBuffer::Part& part : entry.parts) {
    is_refused = is_refused || part.is_cut;
    result.parts.push_back(part.bytes);
  }
  try {
    SetOwnPart(entry.request->outgoing, static_cast<size_t>(options_.rank), &result);
  } catch (const std::bad_alloc&) {
    is_refused = true;
  }
  if (!is_refused) return result;
  const std::string reason = "out of memory for messages of other ranks";
  FailLookup(entry.request->collective, ErrorCode::kOutOfMemory, reason);
  return FailedExchange(ErrorCode::kOutOfMemory, NameOf(entry) + ": " + reason);
}

void Coordinator::Finish(Entry entry) {
  ExchangeResult result = ResultOf(entry);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (result.error.empty()) {
      last_error_.clear();
      ++counters_.exchanges;
      counters_.payload_bytes += entry.sent_bytes;
    } else {
      counters_.negotiation_bytes += entry.sent_bytes;
    }
  }
  entry.request->done(std::move(result));
}

void Coordinator::Abort(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_reason_.empty()) closed_reason_ = reason;
  for (const auto& [place, entry] : buffer_.entries()) {
    if (entry.request) registry_.Fail(place.first, {ErrorCode::kAborted, reason});
  }
  registry_.TakeToTell();
  changed_.notify_all();
}

void Coordinator::Leave() {
  LastError last_error;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_error.message = std::exchange(last_error_, {}).substr(0, kLongestError);
  }
  if (!last_error.message.empty()) SendToAll(last_error.Serialize());
  transport_->Close();
}

bool Coordinator::is_closed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !closed_reason_.empty();
}

}  // namespace sok
