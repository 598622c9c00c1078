// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/transport/by_host.h"

#include <algorithm>
#include <utility>

namespace sok {

/// Ignores Left for ranks of this host: their own transport reports it, after their messages.
class ByHostTransport::OfOtherHosts : public Receiver {
 public:
  OfOtherHosts(Receiver* receiver, const std::set<int>& ranks_of_host)
      : receiver_(receiver), ranks_of_host_(ranks_of_host) {}

  void Receive(int source, std::string_view message, bool is_cut) override {
    receiver_->Receive(source, message, is_cut);
  }
  void Left(int source) override {
    if (ranks_of_host_.count(source) == 0) receiver_->Left(source);
  }
  bool IsWaiting() const override { return receiver_->IsWaiting(); }

 private:
  Receiver* const receiver_;
  const std::set<int> ranks_of_host_;
};

ByHostTransport::ByHostTransport(std::shared_ptr<Transport> within,
                                 const std::vector<int>& ranks_of_host,
                                 std::shared_ptr<Transport> between)
    : within_(std::move(within)),
      between_(std::move(between)),
      ranks_of_host_(ranks_of_host.begin(), ranks_of_host.end()) {}

void ByHostTransport::Start(Receiver* receiver) {
  of_other_hosts_ = std::make_shared<OfOtherHosts>(receiver, ranks_of_host_);
  within_->Start(receiver);
  between_->Start(of_other_hosts_.get());
}

void ByHostTransport::Send(int destination, Pieces message, std::shared_ptr<const void> memory) {
  Transport& transport = ranks_of_host_.count(destination) != 0 ? *within_ : *between_;
  transport.Send(destination, std::move(message), std::move(memory));
}

void ByHostTransport::Close() {
  within_->Close();
  between_->Close();
}

double ByHostTransport::SilentSeconds() const {
  return std::max(within_->SilentSeconds(), between_->SilentSeconds());
}

std::string ByHostTransport::failure() const {
  const std::string failure = within_->failure();
  return failure.empty() ? between_->failure() : failure;
}

}  // namespace sok
