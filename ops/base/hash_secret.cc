// SPDX-License-Identifier: Apache-2.0
#include "ops/base/hash_secret.h"

#include <sys/random.h>

namespace sok {

uint64_t HashSecret() {
  static const uint64_t secret = [] {
    uint64_t bits = 0;
    // Without entropy it stays 0: tables work, and are as fast for keys that nobody chose.
    if (getrandom(&bits, sizeof(bits), GRND_NONBLOCK) != sizeof(bits)) bits = 0;
    return bits;
  }();
  return secret;
}

}  // namespace sok
