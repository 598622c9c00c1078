// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/bundle/checkpoint_progress.h"

#include <atomic>

#include "ops/tf/base/exported.h"

namespace sok {
namespace {

std::atomic<int64_t> moved_bytes{0};

}  // namespace

void NoteCheckpointBytes(int64_t num_bytes) { moved_bytes += num_bytes; }

}  // namespace sok

SOK_EXPORT int64_t sok_checkpoint_bytes() { return sok::moved_bytes; }
