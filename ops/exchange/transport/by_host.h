// SPDX-License-Identifier: Apache-2.0
// The transport of a job on several hosts: one transport within this host, another between hosts.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ops/exchange/transport/transport.h"

namespace sok {

class ByHostTransport : public Transport {
 public:
  /// within: for `ranks_of_host`, which include this one; between: for all ranks.
  ByHostTransport(std::shared_ptr<Transport> within, const std::vector<int>& ranks_of_host,
                  std::shared_ptr<Transport> between);

  void Start(Receiver* receiver) override;
  void Send(int destination, Pieces message, std::shared_ptr<const void> memory) override;
  void Close() override;
  double SilentSeconds() const override;
  std::string failure() const override;

 private:
  class OfOtherHosts;

  std::shared_ptr<Receiver> of_other_hosts_;  // outlives the transport between hosts
  const std::shared_ptr<Transport> within_;
  const std::shared_ptr<Transport> between_;
  const std::set<int> ranks_of_host_;
};

}  // namespace sok
