// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/exchange_trace.h"

#include <sstream>
#include <utility>

namespace sok {

void ExchangeTrace::Start() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_on_ = true;
  records_.clear();
}

void ExchangeTrace::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++round_;
  if (is_on_) left_ = Clock::now();
}

void ExchangeTrace::Arrive() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_on_) arrived_ = Clock::now();
}

void ExchangeTrace::BeginRequest(Request request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!is_on_) return;
  const Clock::time_point now = Clock::now();
  records_.push_back({std::move(request), round_, left_, arrived_, now, now});
}

void ExchangeTrace::EndRequest() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!records_.empty()) records_.back().ended = Clock::now();
}

std::string ExchangeTrace::Read() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::ostringstream lines;
  for (const Record& record : records_) {
    const Request& request = record.request;
    lines << request.name << '\t' << request.step << '\t' << record.round << '\t'
          << request.sent_bytes;
    for (const Clock::time_point time :
         {request.asked, record.left, record.arrived, record.begun, record.ended}) {
      lines
          << '\t'
          << std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
    }
    lines << '\n';
  }
  return lines.str();
}

}  // namespace sok
