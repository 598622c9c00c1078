// SPDX-License-Identifier: Apache-2.0
// Makes all ranks restore, or none.
#pragma once

#include <functional>
#include <string>

#include "ops/tf/ranks/rank_communicator.h"

namespace sok {

/// Calls read() on all ranks. Returns if it has succeeded on all ranks with the same result, which
/// identifies the contents read of the checkpoint `prefix`. Otherwise throws on all: the error of
/// the rank's own read(); or another rank's error, prefixed by that rank; or kFailedPrecondition if
/// ranks have read different contents.
void ReadOnAllRanks(RankCommunicator& communicator, const std::string& prefix,
                    const std::function<std::string()>& read);

}  // namespace sok
