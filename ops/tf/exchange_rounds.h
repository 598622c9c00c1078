// SPDX-License-Identifier: Apache-2.0
// What the one thread that drives the rounds of this process does between two all-to-alls.
#ifndef SOK_OPS_TF_EXCHANGE_ROUNDS_H_
#define SOK_OPS_TF_EXCHANGE_ROUNDS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ops/exchange/message_parts.h"

namespace sok {

/// What this rank sends next: waits until there is a reason for a round, and gives its first part,
/// or the next one.
std::shared_ptr<const MessageParts> NextPart();

/// Sends what of it goes to ranks whose memory this one shares, itself included, through that. The
/// rest, by destination rank, with nothing for those ranks.
std::vector<Pieces> SendWithinHost(const MessageParts& parts);

/// Puts what those ranks have sent, when it is there, into its places by source rank.
void ReceiveWithinHost(std::vector<std::string_view>* part);

/// Takes what came for it, by source rank. False: the exchanges have ended.
bool TakePart(const std::vector<std::string_view>& part);

}  // namespace sok

#endif  // SOK_OPS_TF_EXCHANGE_ROUNDS_H_
