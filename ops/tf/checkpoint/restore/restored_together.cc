// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/restore/restored_together.h"

#include <cstdio>
#include <new>
#include <optional>
#include <vector>

#include "ops/base/error.h"
#include "ops/exchange/protocol/descriptions.h"

namespace sok {

void ReadOnAllRanks(RankCommunicator& communicator, const std::string& prefix,
                    const std::function<std::string()>& read) {
  std::optional<Error> error;
  std::string said;
  try {
    said = "read " + read();
  } catch (const Error& raised) {
    error = raised;
  } catch (const std::bad_alloc&) {
    error = Error(ErrorCode::kOutOfMemory, "no memory to restore " + prefix);
  }
  if (error)
    said = "failed " + std::to_string(static_cast<int>(error->code())) + " " + error->what();
  const std::vector<std::string> all = communicator.Share(said);
  if (error) throw *error;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    int code = 0, start = 0;
    if (std::sscanf(all[rank].c_str(), "failed %d %n", &code, &start) != 1) continue;
    Throw(static_cast<ErrorCode>(code), "rank ", rank, ": ",
          all[rank].substr(static_cast<size_t>(start)));
  }
  const std::string difference = DifferenceOf(all);
  if (difference.empty()) return;
  Throw(ErrorCode::kFailedPrecondition, "the ranks have read different checkpoints, ", prefix, ": ",
        difference,
        "; was one written meanwhile, or do the ranks not share the folder? No rank has "
        "restored the table: restore again");
}

}  // namespace sok
