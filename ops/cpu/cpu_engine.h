// SPDX-License-Identifier: Apache-2.0
// The engine of the host: loops on the threads of a call's executor.
#pragma once

#include "ops/engine/engine.h"

namespace sok {

/// Lives as long as the process.
Engine& CpuEngine();

}  // namespace sok
