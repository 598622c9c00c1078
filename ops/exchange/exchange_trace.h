// SPDX-License-Identifier: Apache-2.0
// When the requests of a rank were made, sent and answered.
#ifndef SOK_OPS_EXCHANGE_EXCHANGE_TRACE_H_
#define SOK_OPS_EXCHANGE_EXCHANGE_TRACE_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace sok {

/// Times are those of the host's steady clock, which its processes share.
class ExchangeTrace {
 public:
  using Clock = std::chrono::steady_clock;

  struct Request {
    std::string name;
    int64_t step = 0;  // of this rank
    int64_t sent_bytes = 0;
    Clock::time_point asked;  // submitted
  };

  /// Forgets what there was. Nothing is kept before the first call.
  void Start();

  // By the thread that runs the rounds.
  void Leave();                        // the message of a round is about to be made
  void Arrive();                       // the messages of all ranks are here
  void BeginRequest(Request request);  // what was received is given to whoever waits for it
  void EndRequest();                   // and it has been taken

  /// A line for each request: name, step, round, bytes, then nanoseconds of the clock when it was
  /// asked, left, arrived, began to be taken and had been taken; separated by tabs.
  std::string Read() const;

 private:
  struct Record {
    Request request;
    int64_t round;
    Clock::time_point left;
    Clock::time_point arrived;
    Clock::time_point begun;
    Clock::time_point ended;
  };

  mutable std::mutex mutex_;
  bool is_on_ = false;
  int64_t round_ = 0;
  Clock::time_point left_;
  Clock::time_point arrived_;
  std::vector<Record> records_;
};

}  // namespace sok

#endif  // SOK_OPS_EXCHANGE_EXCHANGE_TRACE_H_
