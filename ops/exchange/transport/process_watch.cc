// SPDX-License-Identifier: Apache-2.0
#include "ops/exchange/transport/process_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace sok {
namespace {

int OpenProcess(int64_t process_id) {
#ifdef SYS_pidfd_open
  return static_cast<int>(syscall(SYS_pidfd_open, process_id, 0));
#else
  static_cast<void>(process_id);
  return -1;
#endif
}

}  // namespace

ProcessWatch::ProcessWatch(int64_t process_id)
    : process_id_(process_id), descriptor_(OpenProcess(process_id)) {}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool ProcessWatch::HasEnded() const {
  if (descriptor_ < 0) return kill(static_cast<pid_t>(process_id_), 0) != 0 && errno == ESRCH;
  pollfd process{descriptor_, POLLIN, 0};
  return poll(&process, 1, 0) > 0;
}

}  // namespace sok
